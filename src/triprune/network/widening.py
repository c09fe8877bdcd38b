"""Owns training a pruned model at widths that suit a device; refuses what it cannot prove equal.

Channels that a plan cut come back as zeros, lowest index first, until their group counts a
multiple. A filter of zeros writes zeros and nobody reads them, so its gradient is zero, and SGD
with momentum and weight decay leaves it at zero: the wider model trains as the narrow one would.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from triprune.network.channels.coupling import Coupling, Mask, couple
from triprune.network.channels.flow import ChannelFlow
from triprune.network.channels.following import follow_channels
from triprune.network.channels.layers import LAYERS
from triprune.network.channels.ledger import FREE, Labels
from triprune.network.checking import TOLERANCE, largest_difference
from triprune.network.plan import Plan
from triprune.network.profile import example_input
from triprune.network.regrowing import regrow
from triprune.network.running import output_tensors, run_example, working_copy
from triprune.network.slicing import Cuts, Index
from triprune.network.width import cuts_of, sides


@dataclass(frozen=True, slots=True, eq=False)
class Widening:
    """The way from a model of ``plan`` to one of ``wide``, which keeps more channels, and back."""

    original: nn.Module
    plan: Plan
    wide: Plan

    def widened(self, tensors: Mapping[str, Tensor]) -> nn.Module:
        """Return the wide model with the narrow one's tensors; all else in it is zero."""
        return self.wide.apply(regrow(self.original, self.plan, tensors))

    def narrowed(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the narrow model's part of the wide one's tensors."""
        return self.plan.cut_view(regrow(self.original, self.wide, tensors)).state_dict()


def widening_of(original: nn.Module, plan: Plan, multiple: int) -> Widening | None:
    """Return how to train at multiples of channels; None where none is needed or none is proven."""
    if multiple == 1 or not plan.cuts.layers:
        return None
    try:
        model = working_copy(original).cpu().float().eval().requires_grad_(False)
        narrow = plan.apply(model)
        example = example_input(model, plan.input_size)
        wide = _wide_plan(model, example, plan, multiple)
        if wide is None or not _trains_alike(narrow, Widening(model, plan, wide), example):
            return None
        return Widening(original, plan, wide)
    except Exception:  # a speed-up is never the end of a run: the narrow model trains as well
        return None


def _wide_plan(model: nn.Module, example: Tensor, plan: Plan, multiple: int) -> Plan | None:
    flow = follow_channels(model, example)
    coupling = couple(flow, model)
    shallow = replace(plan, cuts=Cuts()).cut_view(model)
    stay = _kept_classes(flow, coupling, shallow, plan)
    if cuts_of(flow, shallow, stay) != plan.cuts:
        return None  # shuffled channels have found other places
    more = _grown(coupling, stay, multiple)
    if (more == stay).all():
        return None
    return replace(plan, cuts=cuts_of(flow, shallow, more))


def _kept_classes(flow: ChannelFlow, coupling: Coupling, model: nn.Module, plan: Plan) -> Mask:
    stay = np.ones(len(coupling.group_of), bool)

    def leave_out(labels: Labels | None, kept: Index | None) -> None:
        if labels is not None and kept is not None:
            gone = np.delete(labels, kept)
            stay[coupling.classes[gone[gone != FREE]]] = False

    modules = dict(model.named_modules())
    for name, cut in plan.cuts.layers.items():
        if isinstance(modules.get(name), LAYERS):
            out, into = sides(flow, name, modules[name])
            leave_out(out, cut.out)
            leave_out(into, cut.into)
    for name, dims in plan.cuts.tensors.items():
        for dim, kept in dims.items():
            leave_out(flow.tensors[name][dim], kept)
    return stay


def _grown(coupling: Coupling, stay: Mask, multiple: int) -> Mask:
    """Add to every group that reaches a multiple so, or half of it, but none of grouped operations.

    Ten of twelve channels cannot become 16, but twelve: four at a time are read as one. A group
    without any channel belongs to a removed dense layer: it stays away.
    """
    bundled = {group for bundle in coupling.bundles for group in bundle.groups}
    more = stay.copy()
    for number in set(range(len(coupling.groups))) - bundled:
        own = np.flatnonzero(coupling.group_of == number)
        gone = own[~stay[own]]
        kept = int(stay[own].sum())
        missing = (-kept % size for size in (multiple, multiple // 2))
        within_reach = next((count for count in missing if count <= len(gone)), 0)
        more[gone[:within_reach]] = True
    return more


def _trains_alike(narrow: nn.Module, found: Widening, example: Tensor) -> bool:
    """Tell whether both answer the same, and whether what was added is left out of a step.

    Asked again with every parameter negated: a shift that ReLU hides now may turn in training.
    """
    tensors = narrow.state_dict()
    wide = found.widened(tensors)
    back = found.narrowed(wide.state_dict())
    if not all(torch.equal(back[name], tensor) for name, tensor in tensors.items()):
        return False
    ones = {name: torch.ones_like(tensor) for name, tensor in tensors.items()}
    added = {name: tensor == 0 for name, tensor in found.widened(ones).state_dict().items()}
    for models in ((narrow, wide), (_negated(narrow), _negated(wide))):
        if largest_difference(*(run_example(each, example) for each in models)) > TOLERANCE:
            return False
        gradients = _gradients(models[1], example)
        if any(bool(gradient[added[name]].any()) for name, gradient in gradients.items()):
            return False
    return True


@torch.no_grad()
def _negated(model: nn.Module) -> nn.Module:
    turned = copy.deepcopy(model)
    for parameter in turned.parameters():
        parameter.neg_()
    return turned


def _gradients(model: nn.Module, example: Tensor) -> dict[str, Tensor]:
    """Return the gradients of a training step, by name."""
    parameters = dict(model.requires_grad_().train().named_parameters())
    pair = torch.cat([example, example.flip(-1)])  # batch norm wants more than one
    with torch.random.fork_rng(devices=[]):
        loss = torch.stack([t.square().sum() for t in output_tensors(model(pair))]).sum()
    found = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
    named = zip(parameters, found, strict=True)
    return {name: gradient for name, gradient in named if gradient is not None}
