"""Owns what a scale of this model really costs: cut untrained, then counted or timed; no formula.

Macs and params are counted. Latency is timed on one device, in turns with the original, and the
ratio of the two medians counts; every scale is timed once, so that a choice cannot waver.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product

from triprune.core.cost import CalibratedCost, paper_cost
from triprune.core.scale import AXES, Scale
from triprune.core.schedule import Schedule
from triprune.network.latency import measure_latency
from triprune.run.spec import CostName
from triprune.run.subject import Subject

_ROUNDS = 40
_ROUNDS_OF_A_SKETCH = 12


@dataclass(frozen=True, slots=True, eq=False)
class Meter:
    """The relative cost of a scale, ``by`` macs, params, latency or the paper's formula."""

    subject: Subject
    block_scores: Mapping[str, float]
    by: CostName = "macs"
    device: str = "cpu"
    rounds: int = _ROUNDS
    _measured: dict[Scale, float] = field(default_factory=dict[Scale, float])

    @property
    def noun(self) -> str:
        """What is spent, in words."""
        return "compute by d·w²·r²" if self.by == "paper" else self.by

    def __call__(self, scale: Scale) -> float:
        """Return the cost of ``scale`` over the original's."""
        if self.by == "paper":
            return paper_cost(scale)
        if scale not in self._measured:
            measure = self._timed if self.by == "latency" else self._counted
            self._measured[scale] = measure(scale)
        return self._measured[scale]

    def calibrated(self, targets: Schedule) -> CalibratedCost:
        """Fit a smooth cost to untrained models over the scheduled range."""
        if self.by == "paper":
            return paper_cost
        sides = [sorted({1.0, *(getattr(t, axis) for t in targets.targets(axis))}) for axis in AXES]
        # Timings are slow and scatter more than a cost bends: the corners are enough for them.
        middles = [] if self.by == "latency" else [0.5]
        thinned = [[side[int(q * (len(side) - 1))] for q in (0.0, *middles, 1.0)] for side in sides]
        scales = list(dict.fromkeys(Scale(*point) for point in product(*thinned)))
        sketch = Meter(
            self.subject, self.block_scores, self.by, self.device, rounds=_ROUNDS_OF_A_SKETCH
        )
        return CalibratedCost.fit(scales, list(map(sketch, scales)))

    def _counted(self, scale: Scale) -> float:
        subject = self.subject
        cut = subject.cost_of(*subject.model_at(scale, self.block_scores))
        place = 0 if self.by == "macs" else 1
        return cut[place] / subject.whole_cost[place]

    def _timed(self, scale: Scale) -> float:
        subject = self.subject
        model, pixels = subject.model_at(scale, self.block_scores)
        sides = {"original": subject.resolution_px, "cut": pixels}
        timed = measure_latency(
            {"original": subject.model, "cut": model},
            {name: (subject.input_size[0], side, side) for name, side in sides.items()},
            device=self.device,
            rounds=self.rounds,
        )
        return timed["cut"].median_ms / timed["original"].median_ms
