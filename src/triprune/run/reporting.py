"""Owns gathering a report from a run folder, finished or not; reads, and never writes there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from triprune.core.choice import Quote
from triprune.core.fitting import fit_predictor
from triprune.core.observation import Observation
from triprune.core.predictor import Predictor
from triprune.core.scale import AXES, Scale
from triprune.errors import InputError
from triprune.places import Place
from triprune.report.amounts import Spending
from triprune.report.contents import (
    Comparison,
    Gallery,
    Layer,
    LearningCurve,
    Report,
    SpeedTest,
    Surgery,
)
from triprune.run.artifacts import Bench, Chosen, Fitted, Outcome, Survey, TrainedModel
from triprune.run.collected import read_collected
from triprune.run.feature_maps import FeatureMaps
from triprune.run.file_report import made_now
from triprune.run.finished import default_budget
from triprune.run.keys import BENCHES, PREDICTOR, SURVEY, Home, finals, homes, rounds
from triprune.run.origin import Origin
from triprune.run.progress import Status, status
from triprune.run.shown import comparison, learning_curve, speed_test
from triprune.run.store import Store


def report_on_run(folder: str | Place, budget: float | None = None) -> Report:
    """Return what is known of a run so far.

    A run can have finished several budgets; the report is about its own, or about ``budget``.
    """
    return _Folder.open(folder, budget).report()


def forecasts_of_run(folder: str | Place) -> Report:
    """Return what a run forecasts from, and its choices: no final model is looked at for that.

    Refuses a run whose chains are not finished.
    """
    known, fitted, observations = read_collected(folder)
    store = Store(folder)
    return Report(
        "",
        "",
        predictor=fitted.predictor,
        observations=observations,
        cost=known.cost,
        lattice=known.lattice,
        spending=_spending(store, known, None),
        chosen=_chosen(store, known),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Folder:
    """A run folder that is being read, for one budget."""

    store: Store
    facts: dict[str, Any]
    status: Status
    budget: float

    @classmethod
    def open(cls, path: str | Place, budget: float | None) -> _Folder:
        store = Store(path)
        facts = store.facts()
        found = status(path)
        known = sorted({outcome.budget for outcome in found.outcomes})
        if budget is not None and budget not in known:
            raise InputError(
                f"a report on {100 * budget:g} % of {path}",
                f"finished budgets are {', '.join(f'{100 * b:g} %' for b in known) or 'none'}",
                "run triprune finish first, or name one of them",
            )
        about = default_budget(facts, known) if budget is None else budget
        return cls(store, facts, found, about)

    @property
    def home(self) -> Home:
        """Where the budget's artifacts are."""
        return Home.of(self.budget)

    def report(self) -> Report:
        """Gather everything that is there."""
        blank = Report(self._subject(), self._state(), facts=self._facts(), notes=self._notes())
        if not self.store.has(SURVEY):
            return blank
        known = self.store.read(SURVEY, Survey)
        rounds = self._rounds()
        original = Observation(Scale(), known.accuracy, known.macs, known.params)
        observations = (original, *(each.observation for _, _, each in rounds))
        return replace(
            blank,
            predictor=self._predictor(observations),
            observations=observations,
            cost=known.cost,
            lattice=known.lattice,
            spending=_spending(self.store, known, self._latency_ms()),
            chosen=_chosen(self.store, known),
            finished=self._finished(),
            speed=self._speed(),
            curves=self._curves(rounds),
            surgery=self._surgery(known),
            gallery=self._gallery(),
        )

    def _latency_ms(self) -> float | None:
        """Return the original's time, where an outcome tells it."""
        timed = (outcome.row("original").latency_ms for outcome in self.status.outcomes)
        return next(timed, None)

    def _rounds(self) -> list[tuple[str, int, TrainedModel]]:
        return [
            (axis, number, self._trained(key))
            for axis in AXES
            for number, key in enumerate(rounds(self.store, axis), 1)
        ]

    def _trained(self, key: str) -> TrainedModel:
        return self.store.read(key, TrainedModel, with_tensors=False)

    def _predictor(self, observations: tuple[Observation, ...]) -> Predictor:
        """Return the run's predictor; before it has one, a fit to what is there so far."""
        if self.store.has(PREDICTOR):
            return self.store.read(PREDICTOR, Fitted).predictor
        return fit_predictor(observations)

    def _finished(self) -> tuple[Comparison, ...]:
        """Return the fullest comparison of each budget, the report's own first."""
        best: dict[float, Outcome] = {}
        for outcome in self.status.outcomes:
            before = best.get(outcome.budget)
            if before is None or outcome.models > before.models:
                best[outcome.budget] = outcome
        ordered = sorted(best, key=lambda budget: (budget != self.budget, -budget))
        return tuple(comparison(best[budget]) for budget in ordered)

    def _speed(self) -> tuple[SpeedTest, ...]:
        return tuple(speed_test(self.store.read(k, Bench)) for k in self.store.keys(BENCHES))

    def _curves(self, rounds: list[tuple[str, int, TrainedModel]]) -> tuple[LearningCurve, ...]:
        found = [
            learning_curve(
                f"{axis}, round {number}: {getattr(each.plan.realised, axis):.2f}", axis, each
            )
            for axis, number, each in rounds
        ]
        for spends in ("joint", *AXES):
            for seed, key in finals(self.store, self.home, spends).items():
                found.append(learning_curve(f"{spends}, seed {seed}", "final", self._trained(key)))
        return tuple(curve for curve in found if curve.losses)

    def _surgery(self, known: Survey) -> Surgery:
        keys = [*finals(self.store, self.home, "joint").values()]
        if not keys:
            return Surgery()
        trained = self.store.read(keys[0], TrainedModel)
        weights = {name: trained.tensors.get(f"{name}.weight") for name in known.layers}
        kept = {name: 0 if found is None else found.shape[0] for name, found in weights.items()}
        return Surgery(
            tuple(Layer(name, whole, kept[name]) for name, whole in known.layers.items()),
            tuple(known.block_scores.items()),
            frozenset(trained.plan.removed_blocks),
        )

    def _gallery(self) -> Gallery | None:
        keys = self.store.keys(self.home.feature_maps("*"))
        found = self.store.read(keys[-1], FeatureMaps) if keys else FeatureMaps()
        if not found.labels:
            return None
        maps = {name: each.numpy().astype(np.float32) for name, each in found.maps.items()}
        images = found.images.permute(0, 2, 3, 1).numpy()
        return Gallery(images, found.labels, maps, found.likeness, found.compared)

    def _subject(self) -> str:
        spec = self.facts.get("spec")
        if spec is None:
            return f"the run in {self.store.folder.absolute().name}"
        return f"{Path(spec['model']).name} on {Path(spec['data']).name}"

    def _state(self) -> str:
        if self.status.state == "finished":
            return "finished"
        expected = 3 * self.facts["settings"]["rounds"]
        done = sum(self.status.rounds.values())
        return f"{self.status.state}, not finished: {done} of at most {expected} rounds so far"

    def _notes(self) -> tuple[str, ...]:
        told = [n for o in self.status.outcomes if o.budget == self.budget for n in o.notes]
        told += [f"under way: {name}" for name in self.status.under_way]
        return tuple(dict.fromkeys(told))

    def _facts(self) -> tuple[tuple[str, str], ...]:
        settings, spec = self.facts["settings"], self.facts.get("spec")
        recipe = settings["recipe"]
        pairs = [("folder", str(self.store.folder))]
        if spec is not None:
            pairs += [(n, str(spec[n])) for n in ("model", "weights", "data") if spec.get(n)]
            pairs.append(("seeds of the final fine-tunings", str(spec["settings"]["seeds"])))
        pairs += [
            ("budget", f"{100 * self.budget:g} %"),
            ("rounds of each chain", str(settings["rounds"])),
            (
                "epochs of a round / of the end",
                f"{recipe['round_epochs']} / {recipe['final_epochs']}",
            ),
            ("cost", settings["cost"]),
            ("first seed", str(settings["seed"])),
        ]
        if self.store.has(self.home.origin):
            origin = self.store.read(self.home.origin, Origin)
            versions = ", ".join(f"{name} {found}" for name, found in origin.versions.items())
            machine = ", ".join(f"{name} {found}" for name, found in origin.hardware.items())
            pairs = [("command", origin.command), ("begun", origin.begun), *pairs]
            pairs += [("versions", versions), ("machine", machine)]
        return (*pairs, *made_now())


def _spending(store: Store, known: Survey, latency_ms: float | None) -> Spending:
    """Return what the run's budgets are a part of."""
    by = store.facts()["settings"]["cost"]
    whole = {"macs": known.macs, "params": known.params, "latency": latency_ms}
    return Spending(by, whole.get(by))


def _chosen(store: Store, known: Survey) -> tuple[Quote, ...]:
    """Return the joint choice of each budget, at the cost that was measured."""
    counted = store.facts()["settings"]["cost"] == "macs"
    found: list[Quote] = []
    for home in homes(store, "joint"):
        chosen = store.read(home.choice("joint"), Chosen)
        if chosen.choice is not None:
            measured = {"cost": chosen.macs / known.macs} if counted else {}
            found.append(Quote(home.budget, replace(chosen.choice, **measured)))
    return tuple(found)
