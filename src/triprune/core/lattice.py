"""Owns a model's integers: how many blocks, channels and pixels a scale really means."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from triprune.core.link import Array
from triprune.core.scale import AXES, Axis, Scale, is_count
from triprune.errors import InputError


@dataclass(frozen=True, slots=True)
class Lattice:
    """The scales that a model can really take.

    ``blocks`` counts all blocks, of which ``fixed_blocks`` cannot go; ``channels`` is the number
    of steps in which width is cut (the channels of the layer that should follow exactly);
    ``resolution_px`` is the full side of the image, cut in steps of ``pixel_step``, down to
    ``least_px``.
    """

    blocks: int
    channels: int
    resolution_px: int
    fixed_blocks: int = 0
    pixel_step: int = 1
    least_px: int = 1

    def __post_init__(self) -> None:
        for name in ("blocks", "channels", "resolution_px", "pixel_step", "least_px"):
            _check_count(getattr(self, name), name, least=1)
        _check_count(self.fixed_blocks, "fixed_blocks", least=0)
        if self.fixed_blocks > self.blocks or self.least_px > self.resolution_px:
            raise InputError(
                f"{self}", "it keeps more than the model has", "check fixed_blocks and least_px"
            )

    def counts(self, axis: Axis) -> list[int]:
        """Return the blocks, channels or pixels that an axis can take, ascending."""
        if axis == "depth":
            return list(range(max(self.fixed_blocks, 1), self.blocks + 1))
        if axis == "width":
            return list(range(1, self.channels + 1))
        return list(range(self.resolution_px, self.least_px - 1, -self.pixel_step))[::-1]

    def whole_along(self, axis: Axis) -> Lattice:
        """Return the lattice on which nothing of ``axis`` can go."""
        changes: dict[Axis, dict[str, int]] = {
            "depth": {"fixed_blocks": self.blocks},
            "width": {"channels": 1},
            "resolution": {"least_px": self.resolution_px},
        }
        return replace(self, **changes[axis])

    def fractions(self, axis: Axis) -> Array:
        """Return the kept fractions that an axis can take, ascending."""
        return np.array(self.counts(axis), dtype=float) / self._whole(axis)

    def within(self, axis: Axis, low: float, high: float) -> Array:
        """Return the fractions of an axis that lie between two bounds, rounding allowed for."""
        fractions = self.fractions(axis)
        return fractions[(fractions >= low - 1e-12) & (fractions <= high + 1e-12)]

    def snap(self, scale: Scale) -> Scale:
        """Return the nearest scale that the model can take."""
        nearest: dict[str, float] = {}
        for axis, kept in zip(AXES, scale, strict=True):
            fractions = self.fractions(axis)
            nearest[axis] = float(fractions[np.argmin(np.abs(fractions - kept))])
        return Scale(**nearest)

    def _whole(self, axis: Axis) -> int:
        return {"depth": self.blocks, "width": self.channels, "resolution": self.resolution_px}[
            axis
        ]


def _check_count(value: object, name: str, *, least: int) -> None:
    if not is_count(value, least=least):
        raise InputError(
            f"{name} = {value!r}", f"it is not an integer from {least} up", "count again"
        )
