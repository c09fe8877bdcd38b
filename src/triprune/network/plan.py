"""Owns the plan: the exact surgery as plain JSON, and its replay; refuses a foreign model.

A plan lists blocks by name and kept channels by index, always against the original model, so that
replaying it is pure removal and indexing: no example input, no analysis, the same bits.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from torch import nn

from triprune.core.scale import Scale
from triprune.errors import ArchitectureError
from triprune.network.depth import remove_blocks
from triprune.network.fingerprint import fingerprint
from triprune.network.reading import VERSION, read_plan
from triprune.network.slicing import (
    Cuts,
    LayerCut,
    PlacedCut,
    check_places,
    sharing_copy,
    slice_model,
)


@dataclass(frozen=True, slots=True)
class Plan:
    """Which blocks go, which channels stay, and the resolution that the network is meant for.

    ``asked`` is the scale that was requested, ``realised`` what whole blocks, channels and pixels
    allow. ``notes`` name everything that was asked to shrink and did not.
    """

    fingerprint: str = field(repr=False)
    input_size: tuple[int, ...]
    resolution_px: int
    asked: Scale
    realised: Scale
    removed_blocks: tuple[str, ...] = field(default=(), repr=False)
    cuts: Cuts = field(default_factory=Cuts, repr=False)
    notes: tuple[str, ...] = ()
    version: int = VERSION

    def apply(self, model: nn.Module) -> nn.Module:
        """Return a new, cut model; ``model`` is the original, or a fresh one of its kind."""
        self.require_made_for(model)
        check_places(model, self.cuts)
        return copy.deepcopy(self.cut_view(model))

    def require_made_for(self, model: nn.Module) -> None:
        """Refuse a model of another architecture."""
        found = fingerprint(model)
        if found != self.fingerprint:
            raise ArchitectureError(
                f"applying a plan to a {type(model).__name__}",
                "the plan was made for another architecture "
                f"({self.fingerprint[:15]}…, this one is {found[:15]}…)",
                "build the model exactly as it was when it was pruned",
            )

    def cut_view(self, model: nn.Module) -> nn.Module:
        """Return the cut model, to be read only: what no cut touches is ``model``'s own."""
        cut = sharing_copy(model)
        if self.removed_blocks:
            remove_blocks(cut, self.removed_blocks)
        slice_model(cut, self.cuts)
        return cut

    def to_json(self) -> str:
        """Return the plan as JSON; ``Plan.schema()`` describes it."""
        cuts = self.cuts
        document: dict[str, Any] = {
            "version": self.version,
            "fingerprint": self.fingerprint,
            "input_size": list(self.input_size),
            "resolution_px": self.resolution_px,
            "asked": list(self.asked),
            "realised": list(self.realised),
            "removed_blocks": list(self.removed_blocks),
            "layers": {
                name: _without_none({"out": cut.out, "in": cut.into})
                for name, cut in cuts.layers.items()
            },
            "tensors": {
                name: {str(dim): list(index) for dim, index in dims.items()}
                for name, dims in cuts.tensors.items()
            },
            "placed": {
                name: {"width": cut.width, "out": list(cut.out), "in": list(cut.into)}
                for name, cut in cuts.placed.items()
            },
            "notes": list(self.notes),
        }
        return json.dumps(document, separators=(",", ":")) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Read a plan, or say what is wrong with it; nothing in it is ever executed."""
        document = read_plan(text)
        cuts = Cuts(
            layers={
                name: LayerCut(_index(cut.get("out")), _index(cut.get("in")))
                for name, cut in document["layers"].items()
            },
            tensors={
                name: {int(dim): tuple(index) for dim, index in dims.items()}
                for name, dims in document["tensors"].items()
            },
            placed={
                name: PlacedCut(cut["width"], tuple(cut["out"]), tuple(cut["in"]))
                for name, cut in document["placed"].items()
            },
        )
        return cls(
            fingerprint=document["fingerprint"],
            input_size=tuple(document["input_size"]),
            resolution_px=document["resolution_px"],
            asked=Scale(*document["asked"]),
            realised=Scale(*document["realised"]),
            removed_blocks=tuple(document["removed_blocks"]),
            cuts=cuts,
            notes=tuple(document["notes"]),
            version=document["version"],
        )

    @staticmethod
    def schema() -> dict[str, Any]:
        """Return the JSON schema of a plan."""
        text = resources.files("triprune.network").joinpath("plan.schema.json").read_text()
        return json.loads(text)


def _index(values: list[int] | None) -> tuple[int, ...] | None:
    return None if values is None else tuple(values)


def _without_none(sides: dict[str, tuple[int, ...] | None]) -> dict[str, list[int]]:
    return {side: list(index) for side, index in sides.items() if index is not None}
