"""Owns running a module without parameters at its original width inside a narrower network."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional


class FullWidth(nn.Module):
    """``inner`` at the width it was written for: missing channels come in as zeros, unseen ones go.

    A zero-padded shortcut adds a fixed number of channels, a channel shuffle counts on all of
    them. Here input channel ``i`` still lands where it did, if both ends survive.
    """

    inner: nn.Module

    def __init__(
        self, inner: nn.Module, *, width: int, kept_in: Sequence[int], kept_out: Sequence[int]
    ) -> None:
        super().__init__()
        self.inner = inner
        source = torch.full((width,), len(kept_in), dtype=torch.long)
        source[torch.tensor(kept_in, dtype=torch.long)] = torch.arange(len(kept_in))
        # Not persistent: the plan holds them, and the state dict keeps the original names.
        self.register_buffer("source", source, persistent=False)
        self.register_buffer("kept", torch.tensor(kept_out, dtype=torch.long), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map the surviving input channels to the surviving output channels."""
        margin = (0, 0) * (x.dim() - 2) + (0, 1)
        full = functional.pad(x, margin).index_select(1, self.get_buffer("source"))
        return self.inner(full).index_select(1, self.get_buffer("kept"))
