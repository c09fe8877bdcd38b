"""Owns the story of a run, from a trained model to a smaller one; every arrow is a stored artifact.

survey the original → three chains, each round cut from the round before → predictor → choice →
cut the original → fine-tune at the new resolution → open the test split. What is already in the
store is not made again: a killed run that is started again goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from triprune.core.doubting import doubts
from triprune.core.scale import AXES, Axis
from triprune.learning.deadline import Deadline
from triprune.learning.progress import Watcher
from triprune.learning.ranks import current_ranks
from triprune.run import steps
from triprune.run.about import About, making_of
from triprune.run.artifacts import Chosen, Fitted, Outcome, Spends, Survey, TrainedModel
from triprune.run.asked import Asked
from triprune.run.case import Case
from triprune.run.executors.opening import open_executor
from triprune.run.executors.turns import Executor, Piece, Work
from triprune.run.feature_maps import FeatureMaps
from triprune.run.finished import fullest_outcome
from triprune.run.origin import Origin
from triprune.run.result import Result
from triprune.run.rounding import choose
from triprune.run.sample import Sample, sample
from triprune.run.store import Store
from triprune.run.trainer import device_kind, on_worker

if TYPE_CHECKING:
    from typing_extensions import Self


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
            self.ask(remaining)
            with open_executor(self.case.settings, self) as executor:
                known, fitted = self.collect(executor)
                return self.finish(executor, known, fitted, budget=remaining)

    def ask(self, budget: float) -> None:
        """Write down what is asked for at ``budget``, and where that began."""
        asked = self.asked(budget)
        self.store.once(asked.key, Asked, lambda: asked)
        self.store.once(f"{_home(budget)}/origin", Origin, Origin.here)

    def survey(self, executor: Executor[Pipeline]) -> Survey:
        """Measure the original: what it scores, what it costs, what can go."""
        with self._in_time("measuring the original", "survey"):
            (known,) = executor.run([Pipeline._survey])
        return known

    def collect(self, executor: Executor[Pipeline]) -> tuple[Survey, Fitted]:
        """Survey the original, run the three chains, fit the predictor."""
        known = self.survey(executor)
        if self.announce is not None:
            self.announce(self.case, known)
        if self.store.has("predictor"):
            for key in filter(self.store.has, self._round_keys(known)):
                self.store.verify(key)
            return known, self.store.read("predictor", Fitted)
        with self._in_time("the three chains", "predictor"):
            chains = executor.run(self.chains(known), training=True)
            rounds = [each for chain in chains for each in chain]
            fitted = self.store.once(
                "predictor", Fitted, partial(steps.fit, self.case, known, rounds)
            )
        return known, fitted

    def chains(self, known: Survey) -> list[Piece[Pipeline, list[TrainedModel]]]:
        """Return the three chains as pieces of work: several runs' can be driven together."""
        return [partial(Pipeline._chain, axis=axis, known=known) for axis in AXES]

    def finish(
        self, executor: Executor[Pipeline], known: Survey, fitted: Fitted, *, budget: float
    ) -> Result:
        """Choose, cut the original, fine-tune it and measure it."""
        chosen = self.choose_all(known, fitted, budget)
        pieces = self.finals(known, chosen, budget)
        with self._in_time("the final fine-tunings", *pieces):
            joint = executor.run(list(pieces.values()), training=True)[0]
        self._lend(chosen, budget)
        with self._in_time("measuring on the test images", self.asked(budget).outcome):
            (outcome,) = executor.run(
                [partial(Pipeline._measure, known=known, chosen=chosen, budget=budget)]
            )
        return self._result(chosen["joint"], joint, outcome)

    def finals(
        self, known: Survey, chosen: Mapping[Spends, Chosen], budget: float
    ) -> dict[str, Piece[Pipeline, TrainedModel]]:
        """Return the final fine-tunings as pieces of work by key, the joint choice's first.

        An axis alone that is the joint choice is trained as that.
        """
        lent = _spent_alone(chosen)
        return {
            _final_key(budget, each, seed): partial(
                Pipeline._final, known=known, chosen=each, budget=budget, seed=seed
            )
            for each in chosen.values()
            if each.spends not in lent
            for seed in self._seeds(each)
        }

    def _lend(self, chosen: Mapping[Spends, Chosen], budget: float) -> None:
        """Store the joint choice's final models as those of an axis that is the same."""
        for axis in _spent_alone(chosen):
            for seed in self._seeds(chosen[axis]):
                theirs = _final_key(budget, chosen["joint"], seed)
                final = partial(self.store.read, theirs, TrainedModel)
                self.store.once(_final_key(budget, chosen[axis], seed), TrainedModel, final)

    def stored_result(self, budget: float) -> Result:
        """Return what the store holds of a finished budget; of the weights, only the joint's."""
        chosen = self.store.read(f"{_home(budget)}/joint", Chosen)
        key = _final_key(budget, chosen, self.case.settings.seed)
        outcome = fullest_outcome(self.store, _home(budget))
        return self._result(chosen, self.store.read(key, TrainedModel), outcome)

    def choose_all(self, known: Survey, fitted: Fitted, budget: float) -> dict[Spends, Chosen]:
        """Choose jointly and, where controls are asked for, on each axis alone."""
        return {each: self.choose(known, fitted, budget, each) for each in self._spends()}

    def choose(self, known: Survey, fitted: Fitted, budget: float, spends: Spends) -> Chosen:
        """Choose for a budget, spent jointly or on one axis."""
        make = partial(choose, self.case, known, fitted, budget=budget, spends=spends)
        key = f"{_home(budget)}/{spends}"
        with self._in_time(f"choosing for {budget:.4g}, {spends}", key):
            return self.store.once(key, Chosen, make)

    def chosen(self, budget: float) -> bool:
        """Whether every choice for ``budget`` is stored."""
        return all(self.store.has(f"{_home(budget)}/{each}") for each in self._spends())

    def finished(self, budget: float) -> bool:
        """Whether the answer to what the settings ask for at ``budget`` is stored."""
        return self.store.has(self.asked(budget).outcome)

    @contextmanager
    def _in_time(self, step: str, *keys: str) -> Generator[None, None, None]:
        """Begin a step only while there is time; one whose artifacts are stored takes none."""
        deadline: Deadline | None = getattr(self.case.trainer, "deadline", None)
        if deadline is None or all(map(self.store.has, keys)):
            yield
            return
        deadline.require_time(step)
        yield
        deadline.moved()

    def _result(self, chosen: Chosen, joint: TrainedModel, outcome: Outcome) -> Result:
        about = self._about(outcome)
        return Result.of(
            self.case.subject.model, chosen, trained=joint, outcome=outcome, about=about
        )

    def _about(self, outcome: Outcome) -> About:
        subject = self.case.subject
        kept = self.store.once("sample", Sample, partial(sample, self.case.trainer))
        making = making_of(self.store.facts(), outcome, type(subject.model).__name__)
        return About.of(making, kept, outcome, input_size=subject.input_size)

    @property
    def watchers(self) -> Sequence[Watcher]:
        """Who watches the trainings."""
        return getattr(self.case.trainer, "watchers", ())

    def on_worker(self, store: Store, watchers: Sequence[Watcher], cores: int) -> Self:
        """Return the pipeline as a worker of a cluster runs it, on ``cores`` cores."""
        settings = replace(self.case.settings, device=device_kind(self.case.settings.device))
        trainer = on_worker(self.case.trainer, watchers, cores)
        case = replace(self.case, trainer=trainer, settings=settings)
        return replace(self, case=case, store=store, announce=None)

    def asked(self, budget: float) -> Asked:
        """Return what the settings ask for at a budget."""
        return Asked(budget, self._spends(), self.case.settings.seeds, self.case.settings.seed)

    def _spends(self) -> tuple[Spends, ...]:
        return ("joint", *AXES) if self.case.settings.controls else ("joint",)

    def _seeds(self, chosen: Chosen) -> range:
        """Return the seeds of a choice's final fine-tunings; none where there is no choice."""
        settings = self.case.settings
        return range(settings.seed, settings.seed + (settings.seeds if chosen.choice else 0))

    def _survey(self) -> Work[Survey]:
        """Survey the original."""
        if not self.store.has("survey"):
            yield
        return self.store.once("survey", Survey, partial(steps.survey, self.case))

    def _round_keys(self, known: Survey) -> list[str]:
        targets = steps.targets_of(self.case.settings, known)
        return [key for axis in AXES for key in _chain_keys(axis, len(targets.targets(axis)))]

    def _chain(self, *, axis: Axis, known: Survey) -> Work[list[TrainedModel]]:
        """Go down one axis; the chains do not know each other."""
        rounds: list[TrainedModel] = []
        targets = steps.targets_of(self.case.settings, known).targets(axis)
        keys = _chain_keys(axis, len(targets))
        if current_ranks().as_lead_says(all(map(self.store.has, keys))):
            return [self._finished_round(key) for key in keys]
        for key, target in zip(keys, targets, strict=True):
            previous = rounds[-1] if rounds else None
            work = partial(steps.chain_round, self.case, known, target, previous)
            rounds.append((yield from self._once(key, work)))
        return rounds

    def _finished_round(self, key: str) -> TrainedModel:
        """Return a round that nothing is cut from any more, without its weights."""
        trained = self.store.read(key, TrainedModel, with_tensors=False)
        trained.plan.require_made_for(self.case.subject.model)
        return trained

    def _final(
        self, *, known: Survey, chosen: Chosen, budget: float, seed: int
    ) -> Work[TrainedModel]:
        """Fine-tune the cut original from one seed."""
        work = partial(steps.finish, self.case, known, chosen, seed)
        return (yield from self._once(_final_key(budget, chosen, seed), work))

    def _measure(
        self, *, known: Survey, chosen: Mapping[Spends, Chosen], budget: float
    ) -> Work[Outcome]:
        """Measure the original and every final model on the test split."""
        finals = {
            spends: [
                self.store.read(_final_key(budget, each, seed), TrainedModel)
                for seed in self._seeds(each)
            ]
            for spends, each in chosen.items()
            if each.choice
        }
        result = self.asked(budget).outcome
        pictures = f"{_home(budget)}/feature-maps-{len(finals)}"
        if not (self.store.has(result) and self.store.has(pictures)):
            yield
        notes = [each.note for each in chosen.values() if each.note] + self._doubts(chosen)
        make = partial(steps.measure, self.case, known, finals, budget=budget, notes=notes)
        outcome = self.store.once(result, Outcome, make)
        self.store.once(pictures, FeatureMaps, partial(steps.illustrate, self.case, finals))
        return outcome

    def _doubts(self, chosen: Mapping[Spends, Chosen]) -> list[str]:
        """Say of the joint choice what the observations hardly support, and if it is one axis."""
        choice = chosen["joint"].choice
        assert choice is not None
        predictor = self.store.read("predictor", Fitted).predictor
        told = [f"the joint choice: {doubt}" for doubt in doubts(predictor, choice)]
        cut = choice.scale.cut_axes()
        if len(cut) == 1:
            told.append(f"the joint choice is {cut[0]} alone")
        return told

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


def _spent_alone(chosen: Mapping[Spends, Chosen]) -> list[Spends]:
    """Return the axis that the joint choice spends all of the budget on, if that is one of them."""
    joint = chosen["joint"].choice
    assert joint is not None
    return [
        each.spends
        for each in chosen.values()
        if each.spends != "joint" and each.choice is not None and each.choice.scale == joint.scale
    ]


def _chain_keys(axis: Axis, rounds: int) -> list[str]:
    return [f"chains/{axis}-{number}" for number in range(1, rounds + 1)]


def _home(budget: float) -> str:
    return f"budget-{100 * budget:g}"


def _final_key(budget: float, chosen: Chosen, seed: int) -> str:
    return f"{_home(budget)}/{chosen.spends}-seed-{seed}"
