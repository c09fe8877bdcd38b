"""Owns how much each axis can give: what is left of the macs when one axis alone is cut far."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from triprune.core.scale import Axis
from triprune.errors import TripruneError
from triprune.network.blocks import BlockList, removable_blocks
from triprune.network.profile import InputSize, Profile, example_input, profile

_HALF = 0.5


@dataclass(frozen=True, slots=True)
class AxisRoom:
    """``macs_kept`` of the macs are left when ``keep`` of one axis is; ``note`` says how so."""

    axis: Axis
    keep: float
    macs_kept: float
    note: str


@dataclass(frozen=True, slots=True)
class Room:
    """The blocks that can go, and what each axis can give."""

    blocks: BlockList
    axes: tuple[AxisRoom, ...]


def room(model: nn.Module, measured: Profile) -> Room:
    """Return what depth gives at its least, and what width and resolution give at one half.

    Depth and resolution are counted. Width is estimated from the layers' shapes: the image's
    channels and the classes stay, everything else is half as wide.
    """
    blocks = removable_blocks(model, example_input(model, measured.input_shape))
    axes = (_depth(blocks, measured), _width(model, measured), _resolution(model, measured))
    return Room(blocks, axes)


def _depth(blocks: BlockList, measured: Profile) -> AxisRoom:
    if not len(blocks):
        return AxisRoom("depth", 1.0, 1.0, "no block can go")
    gone = sum(block.macs for block in blocks)
    note = f"{len(blocks)} of {blocks.total} blocks can go"
    if len(blocks) == blocks.total:
        gone -= min(block.macs for block in blocks)
        note = f"all but one of {blocks.total} blocks can go"
    return AxisRoom(
        "depth", blocks.fewest / blocks.total, _part(measured.macs - gone, measured), note
    )


def _width(model: nn.Module, measured: Profile) -> AxisRoom:
    counted = [layer for layer in measured.layers if layer.macs]
    left = 0.0
    for layer in counted:
        module = model.get_submodule(layer.name)
        depthwise = getattr(module, "groups", 1) > 1
        fixed_end = layer is counted[0] or layer is counted[-1]
        left += layer.macs * (_HALF if depthwise or fixed_end else _HALF**2)
    return AxisRoom("width", _HALF, _part(left, measured), "estimated: every layer half as wide")


def _resolution(model: nn.Module, measured: Profile) -> AxisRoom:
    channels, *sides = measured.input_shape
    half: InputSize = (channels, *(max(1, round(_HALF * side)) for side in sides))
    pixels = "×".join(str(side) for side in half[1:])
    try:
        return AxisRoom(
            "resolution", _HALF, _part(profile(model, half).macs, measured), f"{pixels} px"
        )
    except TripruneError:
        return AxisRoom("resolution", 1.0, 1.0, f"the model does not run at {pixels} px")


def _part(macs: float, measured: Profile) -> float:
    return macs / measured.macs if measured.macs else 1.0
