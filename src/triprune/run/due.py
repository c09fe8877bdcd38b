"""Owns what a run owes for what it was asked: which models and which artifacts; makes none."""

from __future__ import annotations

from dataclasses import dataclass

from triprune.core.scale import AXES, Scale
from triprune.core.schedule import Schedule
from triprune.errors import ArtifactError
from triprune.run.artifacts import Chosen, Spends
from triprune.run.asked import Asked
from triprune.run.keys import PREDICTOR, SAMPLE, SURVEY, Home, round_key
from triprune.run.store import Store


@dataclass(frozen=True, slots=True)
class Left:
    """What is still to be trained: the scales of rounds, and how many final models of a budget."""

    rounds: tuple[Scale, ...]
    finals: int
    budget: float


def left_to_train(store: Store, asked: Asked, targets: Schedule) -> Left:
    """Return what the store lacks; rounds that a predictor was fitted to are not trained again."""
    rounds = [
        scale
        for axis in AXES
        for number, scale in enumerate(targets.targets(axis), 1)
        if not store.has(PREDICTOR) and not store.has(round_key(axis, number))
    ]
    finals = [key for key in models_due(store, asked) if not store.has(key)]
    return Left(tuple(rounds), len(finals), asked.budget)


def models_due(store: Store, asked: Asked) -> list[str]:
    """Return where the final models are or will be; none for an axis that cannot do it."""
    home = Home.of(asked.budget)
    return [home.final(each, n) for each in _able(store, asked) for n in asked.each_seed]


def artifacts_due(store: Store, asked: Asked) -> list[str]:
    """Return what the answer to ``asked`` stands on, beside the rounds of the chains."""
    home = Home.of(asked.budget)
    choices = [home.choice(each) for each in asked.spends]
    maps = home.feature_maps(len(_able(store, asked)))
    return [SURVEY, PREDICTOR, SAMPLE, *choices, *models_due(store, asked), maps]


def _able(store: Store, asked: Asked) -> list[Spends]:
    """Return what the budget can be spent on, as far as that is known."""
    home = Home.of(asked.budget)
    return [each for each in asked.spends if not _is_refused(store, home.choice(each))]


def _is_refused(store: Store, choice: str) -> bool:
    try:
        return store.has(choice) and store.read(choice, Chosen).choice is None
    except ArtifactError:  # a damaged choice is named elsewhere
        return False
