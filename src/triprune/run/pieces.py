"""Owns a run's pieces of work, for an executor to run here or elsewhere; decides on no order.

Each piece makes one artifact, or a chain of them, and gives way while it trains. What is already in
the store is not made again: a piece whose artifacts are all there ends before it gives way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from triprune.core.scale import AXES, Axis
from triprune.learning.progress import Watcher
from triprune.learning.ranks import current_ranks
from triprune.learning.turns import Work
from triprune.run import steps
from triprune.run.artifacts import Chosen, Outcome, Spends, Survey, TrainedModel
from triprune.run.asked import Asked
from triprune.run.case import Case
from triprune.run.feature_maps import FeatureMaps
from triprune.run.keys import SURVEY, Home, round_key
from triprune.run.store import Store
from triprune.run.trainer import device_kind, on_worker

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """What all pieces share: a case, and the store that holds all that is known of it."""

    case: Case
    store: Store

    @property
    def watchers(self) -> Sequence[Watcher]:
        """Who watches the trainings."""
        return getattr(self.case.trainer, "watchers", ())

    def on_worker(self, store: Store, watchers: Sequence[Watcher], cores: int) -> Self:
        """Return the pieces as a worker of a cluster runs them, on ``cores`` cores."""
        settings = replace(self.case.settings, device=device_kind(self.case.settings.device))
        trainer = on_worker(self.case.trainer, watchers, cores)
        return replace(
            self, case=replace(self.case, trainer=trainer, settings=settings), store=store
        )

    def survey(self) -> Work[Survey]:
        """Survey the original."""
        if not self.store.has(SURVEY):
            yield
        return self.store.once(SURVEY, Survey, partial(steps.survey, self.case))

    def round_keys(self, axis: Axis, known: Survey) -> list[str]:
        """Return where the rounds of a chain are, or will be."""
        targets = steps.targets_of(self.case.settings, known).targets(axis)
        return [round_key(axis, number) for number, _ in enumerate(targets, 1)]

    def chain(self, *, axis: Axis, known: Survey) -> Work[list[TrainedModel]]:
        """Go down one axis; the chains do not know each other."""
        keys = self.round_keys(axis, known)
        if current_ranks().as_lead_says(all(map(self.store.has, keys))):
            return [self._finished_round(key) for key in keys]
        rounds: list[TrainedModel] = []
        targets = steps.targets_of(self.case.settings, known).targets(axis)
        for key, target in zip(keys, targets, strict=True):
            previous = rounds[-1] if rounds else None
            work = partial(steps.chain_round, self.case, known, target, previous)
            rounds.append((yield from self._once(key, work)))
        return rounds

    def final(
        self, *, known: Survey, chosen: Chosen, budget: float, seed: int
    ) -> Work[TrainedModel]:
        """Fine-tune the cut original from one seed."""
        work = partial(steps.finish, self.case, known, chosen, seed)
        return (yield from self._once(Home.of(budget).final(chosen.spends, seed), work))

    def measure(
        self, *, known: Survey, chosen: Mapping[Spends, Chosen], asked: Asked, notes: Sequence[str]
    ) -> Work[Outcome]:
        """Measure the original and every final model on the test split, and say what is noted."""
        home = Home.of(asked.budget)
        finals = {
            spends: [
                self.store.read(home.final(spends, seed), TrainedModel) for seed in asked.each_seed
            ]
            for spends, each in chosen.items()
            if each.choice
        }
        pictures = home.feature_maps(len(finals))
        if not (self.store.has(asked.outcome) and self.store.has(pictures)):
            yield

        def make() -> Outcome:
            told = [*notes, *self._notes_of_rounds(known)]
            return steps.measure(self.case, known, finals, budget=asked.budget, notes=told)

        outcome = self.store.once(asked.outcome, Outcome, make)
        self.store.once(pictures, FeatureMaps, partial(steps.illustrate, self.case, finals))
        return outcome

    def _notes_of_rounds(self, known: Survey) -> list[str]:
        """Return what is to be said of the rounds that are there."""
        keys = [key for axis in AXES for key in self.round_keys(axis, known)]
        there = filter(self.store.has, keys)
        read = (self.store.read(key, TrainedModel, with_tensors=False) for key in there)
        return [note for trained in read for note in trained.notes]

    def _finished_round(self, key: str) -> TrainedModel:
        """Return a round that nothing is cut from any more, without its weights."""
        trained = self.store.read(key, TrainedModel, with_tensors=False)
        trained.plan.require_made_for(self.case.subject.model)
        return trained

    def _once(self, key: str, work: Callable[..., Work[TrainedModel]]) -> Work[TrainedModel]:
        """Return the stored model, or train and store it."""
        ranks = current_ranks()
        if not ranks.as_lead_says(self.store.has(key)):
            yield
            trained = yield from work(checkpoint=self.store.checkpoint(key))
            if ranks.leads:
                self.store.write(key, trained)
            ranks.wait()
        return self.store.read(key, TrainedModel)
