"""Owns layers that compute by kernels of our own where they are active and the kernels suit.

Each holds the model's own layers with their parameters. Elsewhere, and for gradients of a norm in
evaluation, it does as PyTorch does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class OwnLayer(nn.Module):
    """What kernels compute once it is active."""

    active = False


class OwnNorm(OwnLayer):
    """A batch norm, plus a residual if one is given, behind a ReLU if so asked."""

    def __init__(self, norm: nn.BatchNorm2d, *, rectified: bool) -> None:
        super().__init__()
        self.norm = norm
        self.rectified = rectified

    def forward(self, x: Tensor, residual: Any = None) -> Tensor:
        """Compute both in as few kernels as can be, or as PyTorch does."""
        if self.active and self.usable and _norm_kernels().suits(x, residual):
            return self.by_kernels(x, residual)
        y = self.norm(x)
        y = y if residual is None else y + residual
        return functional.relu(y) if self.rectified else y

    def by_kernels(self, x: Tensor, residual: Tensor | None) -> Tensor:
        """Compute both by the kernels, which suit these tensors."""
        kernels, affine = _norm_kernels(), (self.norm.weight, self.norm.bias)
        compute = kernels.normalise if self.norm.training else kernels.scaled
        return compute(x, residual, affine, self.numbers(), rectified=self.rectified)

    @property
    def usable(self) -> bool:
        """Whether the kernels are for the mode that the norm is in."""
        return self.norm.training or not torch.is_grad_enabled()

    def numbers(self) -> Any:
        """Count a batch of training; return what kernels take of a norm beside its parameters."""
        norm = self.norm
        assert norm.running_mean is not None
        assert norm.running_var is not None
        assert norm.momentum is not None
        if norm.training and norm.num_batches_tracked is not None:  # off where a step is captured
            norm.num_batches_tracked.add_(1)
        return _norm_kernels().Norm(norm.running_mean, norm.running_var, norm.momentum, norm.eps)


class OwnConv(OwnLayer):
    """A convolution, by the kernels where it is one of those that they are for."""

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        self.conv = conv

    def forward(self, x: Tensor) -> Tensor:
        """Convolve by the kernels, or as PyTorch does."""
        if self.active and self.plain and _conv_kernels().suits(self.conv, x):
            return self.by_kernels(x)
        return self.conv(x)

    @property
    def plain(self) -> bool:
        """Whether nothing but the convolution happens: a hook of ours widens what comes out."""
        return not self.conv._forward_hooks

    def by_kernels(self, x: Tensor) -> Tensor:
        """Convolve by the kernels, which suit ``x``."""
        return _conv_kernels().convolve(x, self.conv.weight)


class OwnPool(OwnLayer):
    """The mean of every 2×2 pixels."""

    def __init__(self, pool: nn.AvgPool2d) -> None:
        super().__init__()
        self.pool = pool

    def forward(self, x: Tensor) -> Tensor:
        """Take the means by the kernels, or as PyTorch does."""
        if self.active and _halves(self.pool) and _pool_kernels().suits(x):
            return self.by_kernels(x)
        return self.pool(x)

    def by_kernels(self, x: Tensor) -> Tensor:
        """Take the means by the kernels, which suit ``x``."""
        return _pool_kernels().halve(x)


def _halves(pool: nn.AvgPool2d) -> bool:
    sides = (pool.kernel_size, pool.stride)
    return (
        all(each in (2, (2, 2)) for each in sides)
        and pool.padding in (0, (0, 0))
        and not pool.ceil_mode
        and pool.divisor_override is None
    )


class OwnDense(OwnLayer):
    """Densely connected layers: each sets its convolution of all channels so far behind them."""

    def __init__(self, layers: Sequence[tuple[OwnNorm, OwnConv]]) -> None:
        super().__init__()
        self.norms = nn.ModuleList([norm for norm, _ in layers])
        self.convs = nn.ModuleList([conv for _, conv in layers])

    def forward(self, x: Tensor) -> Tensor:
        """Compute the block in one tensor, or as PyTorch does."""
        if self.active and self._suits(x):
            return self.by_kernels(x)
        for norm, conv in self._layers():
            x = torch.cat([x, conv(norm(x))], 1)
        return x

    def by_kernels(self, x: Tensor) -> Tensor:
        """Compute the block by the kernels, which suit ``x``."""
        kernels = _dense_kernels()
        layers = [
            kernels.Layer(norm.numbers(), norm.norm.weight, norm.norm.bias, conv.conv.weight)
            for norm, conv in self._layers()
        ]
        learning = self._layers()[0][0].norm.training
        compute = kernels.dense_block if learning else kernels.dense_block_as_learned
        return compute(x, layers)

    def _suits(self, x: Tensor) -> bool:
        layers = self._layers()
        convs = [conv.conv for _, conv in layers]
        modes = {norm.norm.training for norm, _ in layers}
        return (
            len(modes) == 1
            and all(norm.usable and conv.plain for norm, conv in layers)
            and all(map(_conv_kernels().suited, convs))
            and _dense_kernels().suits(x, [conv.weight for conv in convs])
        )

    def _layers(self) -> list[tuple[OwnNorm, OwnConv]]:
        return list(zip(self.norms, self.convs, strict=True))  # pyright: ignore[reportReturnType]


def _norm_kernels() -> Any:
    from triprune.learning.kernels import norm

    return norm


def _conv_kernels() -> Any:
    from triprune.learning.kernels import conv

    return conv


def _pool_kernels() -> Any:
    from triprune.learning.kernels import pool

    return pool


def _dense_kernels() -> Any:
    from triprune.learning.kernels import dense

    return dense
