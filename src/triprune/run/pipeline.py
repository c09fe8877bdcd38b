"""Owns the story of a run, from a trained model to a smaller one; every arrow is a stored artifact.

survey the original → three chains, each round cut from the round before → predictor → choice →
cut the original → fine-tune at the new resolution → open the test split. What is already in the
store is not made again: a killed run that is started again goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from triprune.core.scale import AXES, Axis
from triprune.run import steps
from triprune.run.about import About, making_of
from triprune.run.artifacts import Chosen, Fitted, Outcome, Spends, Survey, TrainedModel
from triprune.run.executor import Work, execute
from triprune.run.feature_maps import FeatureMaps
from triprune.run.origin import Origin
from triprune.run.result import Result
from triprune.run.sample import Sample, sample
from triprune.run.steps import Case
from triprune.run.store import Store


@dataclass(frozen=True, slots=True, eq=False)
class Pipeline:
    """A case and the store that holds all that is known of it."""

    case: Case
    store: Store
    announce: Callable[[Case, Survey], None] | None = None
    """Called with what is known before the first training."""

    def run(self, budget: float | None = None) -> Result:
        """Do the whole job, or what is left of it; another ``budget`` uses the same rounds."""
        with self.store.locked():
            self.store.begin(self.case.facts())
            remaining = budget or self.case.settings.budget
            self.store.once(f"{_home(remaining)}/origin", Origin, Origin.here)
            known, fitted = self.collect()
            return self.finish(known, fitted, remaining)

    def collect(self) -> tuple[Survey, Fitted]:
        """Survey the original, run the three chains, fit the predictor."""
        known = self.store.once("survey", Survey, partial(steps.survey, self.case))
        if self.announce is not None:
            self.announce(self.case, known)
        if self.store.has("predictor"):
            return known, self.store.read("predictor", Fitted)
        chains = execute(self.case.settings.executor, [self._chain(a, known) for a in AXES])
        rounds = [each for chain in chains for each in chain]
        return known, self.store.once("predictor", Fitted, partial(steps.fit, known, rounds))

    def finish(self, known: Survey, fitted: Fitted, budget: float) -> Result:
        """Choose, cut the original, fine-tune it and measure it."""
        chosen = self.choose_all(known, fitted, budget)
        finals = {spends: self._finals(known, each, budget) for spends, each in chosen.items()}
        works = [work for each in finals.values() for work in each]
        trained = iter(execute(self.case.settings.executor, works))
        models = {spends: [next(trained) for _ in each] for spends, each in finals.items() if each}
        outcome = self.store.once(
            f"{_home(budget)}/outcome-{len(models)}x{self.case.settings.seeds}",
            Outcome,
            partial(
                steps.measure,
                self.case,
                known,
                models,
                budget=budget,
                notes=[each.note for each in chosen.values() if each.note],
            ),
        )
        pictures = partial(steps.illustrate, self.case, models)
        self.store.once(f"{_home(budget)}/feature-maps-{len(models)}", FeatureMaps, pictures)
        return Result.of(
            self.case.subject.model,
            chosen["joint"],
            trained=models["joint"][0],
            outcome=outcome,
            about=self._about(outcome),
        )

    def choose_all(self, known: Survey, fitted: Fitted, budget: float) -> dict[Spends, Chosen]:
        """Choose jointly and, where controls are asked for, on each axis alone."""
        return {each: self.choose(known, fitted, budget, each) for each in self._spends()}

    def choose(self, known: Survey, fitted: Fitted, budget: float, spends: Spends) -> Chosen:
        """Choose for a budget, spent jointly or on one axis."""
        make = partial(steps.choose, self.case, known, fitted, budget=budget, spends=spends)
        return self.store.once(f"{_home(budget)}/{spends}", Chosen, make)

    def chosen(self, budget: float) -> bool:
        """Whether every choice for ``budget`` is stored."""
        return all(self.store.has(f"{_home(budget)}/{each}") for each in self._spends())

    def _about(self, outcome: Outcome) -> About:
        subject = self.case.subject
        kept = self.store.once("sample", Sample, partial(sample, self.case.trainer))
        making = making_of(self.store.facts(), outcome, type(subject.model).__name__)
        return About.of(making, kept, outcome, input_size=subject.input_size)

    def _spends(self) -> tuple[Spends, ...]:
        return ("joint", *AXES) if self.case.settings.controls else ("joint",)

    def _chain(self, axis: Axis, known: Survey) -> Work[list[TrainedModel]]:
        """Go down one axis; the chains do not know each other."""
        rounds: list[TrainedModel] = []
        targets = steps.targets_of(self.case.settings, known).targets(axis)
        for number, target in enumerate(targets, start=1):
            previous = rounds[-1] if rounds else None
            work = partial(steps.chain_round, self.case, known, target, previous)
            rounds.append((yield from self._once(f"chains/{axis}-{number}", work)))
        return rounds

    def _finals(self, known: Survey, chosen: Chosen, budget: float) -> list[Work[TrainedModel]]:
        """Return the final fine-tunings of a choice, one a seed; none where there is no choice."""
        settings = self.case.settings
        seeds = range(settings.seed, settings.seed + settings.seeds) if chosen.choice else ()
        return [
            self._once(
                f"{_home(budget)}/{chosen.spends}-seed-{seed}",
                partial(steps.finish, self.case, known, chosen, seed),
            )
            for seed in seeds
        ]

    def _once(self, key: str, work: Callable[..., Work[TrainedModel]]) -> Work[TrainedModel]:
        """Return the stored model, or train and store it."""
        if not self.store.has(key):
            trained = yield from work(checkpoint=self.store.checkpoint(key))
            self.store.write(key, trained)
        return self.store.read(key, TrainedModel)


def _home(budget: float) -> str:
    return f"budget-{100 * budget:g}"
