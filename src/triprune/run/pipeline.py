"""Owns the story of a run, from a trained model to a smaller one; every arrow is a stored artifact.

survey the original → three chains, each round cut from the round before → predictor → choice →
cut the original → fine-tune at the new resolution → open the test split. What is already in the
store is not made again: a killed run that is started again goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from triprune.core.doubting import doubts
from triprune.core.scale import AXES
from triprune.learning.deadline import Deadline
from triprune.run import steps
from triprune.run.about import About, making_of
from triprune.run.artifacts import Chosen, Fitted, Outcome, Spends, Survey, TrainedModel
from triprune.run.asked import Asked
from triprune.run.case import Case
from triprune.run.due import Left, left_to_train, models_due
from triprune.run.executors.inline import Executor, Piece
from triprune.run.executors.opening import open_executor
from triprune.run.finished import fullest_outcome
from triprune.run.keys import PREDICTOR, SAMPLE, SURVEY, Home
from triprune.run.origin import Origin
from triprune.run.pieces import Pieces
from triprune.run.result import Result
from triprune.run.rounding import choose
from triprune.run.sample import Sample, sample
from triprune.run.store import Store


@dataclass(frozen=True, slots=True, eq=False)
class Pipeline:
    """A case and the store that holds all that is known of it."""

    case: Case
    store: Store
    announce: Callable[[Case, Survey, Left], None] | None = None
    """Called with what is known before the first training, and what is left to train."""

    def run(self, budget: float | None = None) -> Result:
        """Do the whole job, or what is left of it; another ``budget`` uses the same rounds."""
        with self.store.locked():
            self.store.begin(self.case.facts())
            remaining = budget or self.case.settings.budget
            self.ask(remaining)
            with open_executor(self.case.settings, self.pieces) as executor:
                known, fitted = self.collect(executor, remaining)
                return self.finish(executor, known, fitted, budget=remaining)

    @property
    def pieces(self) -> Pieces:
        """What an executor runs pieces of work on."""
        return Pieces(self.case, self.store)

    def ask(self, budget: float) -> None:
        """Write down what is asked for at ``budget``, and where that began."""
        asked = self.asked(budget)
        self.store.once(asked.key, Asked, lambda: asked)
        self.store.once(Home.of(budget).origin, Origin, Origin.here)

    def survey(self, executor: Executor[Pieces]) -> Survey:
        """Measure the original: what it scores, what it costs, what can go."""
        with self._in_time("measuring the original", SURVEY):
            (known,) = executor.run([Pieces.survey])
        return known

    def collect(
        self, executor: Executor[Pieces], budget: float | None = None
    ) -> tuple[Survey, Fitted]:
        """Survey the original, announce what is left, run the three chains, fit the predictor."""
        known = self.survey(executor)
        if self.announce is not None:
            left = self.left(known, budget or self.case.settings.budget)
            self.announce(self.case, known, left)
        if self.store.has(PREDICTOR):
            self._verify_rounds(known)
            return known, self.store.read(PREDICTOR, Fitted)
        with self._in_time("the three chains", PREDICTOR):
            chains = executor.run(self.chains(known), training=True)
            rounds = [each for chain in chains for each in chain]
            fitted = self.store.once(
                PREDICTOR, Fitted, partial(steps.fit, self.case, known, rounds)
            )
        return known, fitted

    def chains(self, known: Survey) -> list[Piece[Pieces, list[TrainedModel]]]:
        """Return the three chains as pieces of work: several runs' can be driven together."""
        return [partial(Pieces.chain, axis=axis, known=known) for axis in AXES]

    def finish(
        self, executor: Executor[Pieces], known: Survey, fitted: Fitted, *, budget: float
    ) -> Result:
        """Choose, cut the original, fine-tune it and measure it."""
        chosen = self.choose_all(known, fitted, budget)
        pieces = self.finals(known, chosen, budget)
        with self._in_time("the final fine-tunings", *pieces):
            joint = executor.run(list(pieces.values()), training=True)[0]
        self._lend(chosen, budget)
        asked, notes = self.asked(budget), _notes(fitted, chosen)
        measure = partial(Pieces.measure, known=known, chosen=chosen, asked=asked, notes=notes)
        with self._in_time("measuring on the test images", asked.outcome):
            (outcome,) = executor.run([measure])
        return self._result(chosen["joint"], joint, outcome)

    def finals(
        self, known: Survey, chosen: Mapping[Spends, Chosen], budget: float
    ) -> dict[str, Piece[Pieces, TrainedModel]]:
        """Return the final fine-tunings as pieces of work by key, the joint choice's first.

        An axis alone that is the joint choice is trained as that.
        """
        lent, home, seeds = _same_as_joint(chosen), Home.of(budget), self.asked(budget).each_seed
        return {
            home.final(spends, seed): partial(
                Pieces.final, known=known, chosen=each, budget=budget, seed=seed
            )
            for spends, each in chosen.items()
            if each.choice is not None and spends not in lent
            for seed in seeds
        }

    def _lend(self, chosen: Mapping[Spends, Chosen], budget: float) -> None:
        """Store the joint choice's final models as those of an axis that is the same."""
        home = Home.of(budget)
        for axis in _same_as_joint(chosen):
            for seed in self.asked(budget).each_seed:
                final = partial(self.store.read, home.final("joint", seed), TrainedModel)
                self.store.once(home.final(axis, seed), TrainedModel, final)

    def stored_result(self, budget: float) -> Result:
        """Return what the store holds of a finished budget; of the weights, only the joint's."""
        home = Home.of(budget)
        chosen = self.store.read(home.choice("joint"), Chosen)
        joint = self.store.read(home.final("joint", self.case.settings.seed), TrainedModel)
        return self._result(chosen, joint, fullest_outcome(self.store, home))

    def choose_all(self, known: Survey, fitted: Fitted, budget: float) -> dict[Spends, Chosen]:
        """Choose jointly and, where controls are asked for, on each axis alone."""
        return {
            each: self.choose(known, fitted, budget, each) for each in self.asked(budget).spends
        }

    def choose(self, known: Survey, fitted: Fitted, budget: float, spends: Spends) -> Chosen:
        """Choose for a budget, spent jointly or on one axis."""
        make = partial(choose, self.case, known, fitted, budget=budget, spends=spends)
        key = Home.of(budget).choice(spends)
        with self._in_time(f"choosing for {budget:.4g}, {spends}", key):
            return self.store.once(key, Chosen, make)

    def chosen(self, budget: float) -> bool:
        """Whether every choice for ``budget`` is stored."""
        home = Home.of(budget)
        return all(self.store.has(home.choice(each)) for each in self.asked(budget).spends)

    def asked(self, budget: float) -> Asked:
        """Return what the settings ask for at a budget."""
        settings = self.case.settings
        spends = ("joint", *AXES) if settings.controls else ("joint",)
        return Asked(budget, spends, settings.seeds, settings.seed)

    def finished(self, budget: float) -> bool:
        """Whether what the settings ask for at ``budget`` is stored, with its final models."""
        asked = self.asked(budget)
        return all(map(self.store.has, (PREDICTOR, asked.outcome, *models_due(self.store, asked))))

    def left(self, known: Survey, budget: float) -> Left:
        """Return what is still to be trained for ``budget``."""
        targets = steps.targets_of(self.case.settings, known)
        return left_to_train(self.store, self.asked(budget), targets)

    def _verify_rounds(self, known: Survey) -> None:
        """Refuse a round with a changed bit; one that was taken away is not needed any more."""
        keys = (key for axis in AXES for key in self.pieces.round_keys(axis, known))
        for key in filter(self.store.has, keys):
            self.store.verify(key, spent=True)

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
        kept = self.store.once(SAMPLE, Sample, partial(sample, self.case.trainer))
        making = making_of(self.store.facts(), outcome, type(subject.model).__name__)
        return About.of(making, kept, outcome, input_size=subject.input_size)


def _same_as_joint(chosen: Mapping[Spends, Chosen]) -> list[Spends]:
    """Return the axis that the joint choice spends all of the budget on, if that is one of them."""
    joint = chosen["joint"].choice
    assert joint is not None
    return [
        spends
        for spends, each in chosen.items()
        if spends != "joint" and each.choice is not None and each.choice.scale == joint.scale
    ]


def _notes(fitted: Fitted, chosen: Mapping[Spends, Chosen]) -> list[str]:
    """Return what is said of the choices: what supports the joint one little, if it is one axis."""
    joint = chosen["joint"].choice
    assert joint is not None
    told = [each.note for each in chosen.values() if each.note]
    told += [f"the joint choice: {doubt}" for doubt in doubts(fitted.predictor, joint)]
    cut = joint.scale.cut_axes()
    if len(cut) == 1:
        told.append(f"the joint choice is {cut[0]} alone")
    return told
