"""Owns what stands before an exported network: cutting, resizing and normalising in the graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from triprune.errors import InputError

Pixels = Literal["uint8", "float"]


@dataclass(frozen=True, slots=True)
class Front:
    """What the graph does with its input before the network sees it.

    With ``resize_px`` it takes images of any size, cuts their centred square and resizes it,
    bilinear and antialiased: to ``stored_px``, the side of the images that training begins with,
    and from there to ``resize_px``. With ``mean`` and ``std`` it takes pixels: uint8 from 0 to 255,
    or ``pixels="float"`` from 0 to 1. Without them its input is normalised already.
    """

    resize_px: int | None = None
    stored_px: int | None = None
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    pixels: Pixels = "uint8"

    def __post_init__(self) -> None:
        if self.pixels not in ("uint8", "float"):
            raise InputError(f"pixels {self.pixels!r}", "there is no such kind", "uint8 or float")
        if len(self.mean) != len(self.std) or min(self.std, default=1.0) <= 0:
            raise InputError(
                f"mean {self.mean} and std {self.std}",
                "they do not fit each other",
                "give one mean and one positive std per channel",
            )

    @property
    def takes(self) -> str:
        """What callers must send, in words."""
        side = self.resize_px
        size = "the network's own size"
        if side is not None:
            size = f"any size (the centred square is cut out and made {side}×{side})"
        if not self.mean:
            return f"normalised float32 of {size}"
        levels = "uint8 pixels, 0 to 255," if self.pixels == "uint8" else "float32 pixels, 0 to 1,"
        return f"{levels} of {size}"

    def input_of(self, images: Tensor, normalisation: tuple[Tensor, Tensor] | None) -> Tensor:
        """Return uint8 images as this graph takes them; ``normalisation`` is (scale, shift)."""
        if self.mean:
            return images if self.pixels == "uint8" else images.float() / 255
        if normalisation is None:
            return images.float() / 255
        return images.float() * normalisation[0] + normalisation[1]


class Fronted(nn.Module):
    """A network with its front; the pixels stay unrounded between resizing and normalising."""

    scale: Tensor
    shift: Tensor

    def __init__(self, network: nn.Module, front: Front) -> None:
        super().__init__()
        self.network = network
        self._front = front
        if front.mean:
            whole = 255.0 if front.pixels == "uint8" else 1.0
            mean, std = (torch.tensor(x).view(1, -1, 1, 1) for x in (front.mean, front.std))
            self.register_buffer("scale", 1 / (whole * std), persistent=False)
            self.register_buffer("shift", -mean / std, persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Cut, resize, normalise, answer."""
        front = self._front
        images = images.float()
        if front.resize_px is not None:
            images = _centred_square(images)
            for side in dict.fromkeys((front.stored_px or front.resize_px, front.resize_px)):
                images = functional.interpolate(
                    images, size=(side, side), mode="bilinear", antialias=True, align_corners=False
                )
        if front.mean:
            images = images * self.scale + self.shift
        return self.network(images)


def _centred_square(images: Tensor) -> Tensor:
    """Return the largest centred square; rows are gathered, for slices would fix which is longer.

    The exporters specialise a slice of free sides to the example's order of height and width.
    """
    height, width = images.shape[-2:]
    side = torch.sym_min(height, width)
    steps = torch.arange(side, device=images.device)
    rows, columns = steps + (height - side) // 2, steps + (width - side) // 2
    return images.index_select(2, rows).index_select(3, columns)
