"""Owns putting a pruned model's tensors back where they came from; refuses to guess their places.

Pruning round after round would round each layer's channels again and again. A round therefore
starts from the previous round's tensors in the *original's* shape: what is gone is zero, scores
lowest and goes first, and every count is a fraction of the original's.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from triprune.network.plan import Plan
from triprune.network.running import deep_copy


def regrow(original: nn.Module, plan: Plan, tensors: Mapping[str, Tensor]) -> nn.Module:
    """Return a model shaped as ``original`` with ``tensors`` of the plan's model, else zeros."""
    asked = f"regrowing a {type(original).__name__}"
    places = plan.cut_view(_numbered(deep_copy(original, asked))).state_dict()
    grown = deep_copy(original, asked)
    with torch.no_grad():
        for name, tensor in grown.state_dict().items():
            flat = torch.zeros(tensor.numel(), dtype=tensor.dtype)
            if name in places:
                flat[places[name].long().reshape(-1)] = tensors[name].to("cpu").reshape(-1)
            tensor.copy_(flat.view(tensor.shape))
    return grown


def _numbered(model: nn.Module) -> nn.Module:
    """Replace every tensor's values by their places in it; the cuts then show where each went."""
    model.requires_grad_(False)
    for tensor in model.state_dict(keep_vars=True).values():
        kind = torch.float64 if tensor.is_floating_point() else torch.int64
        tensor.data = torch.arange(tensor.numel(), dtype=kind).view(tensor.shape)
    return model
