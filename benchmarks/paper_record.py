"""Owns what is kept of a run folder: every observation, choice and score; no weights, no paths."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from triprune.core.scale import AXES
from triprune.errors import RunError
from triprune.learning.weights import weights_card
from triprune.run.artifacts import Chosen, Fitted, Outcome, Survey, TrainedModel
from triprune.run.finished import fullest_outcome
from triprune.run.keys import PREDICTOR, SURVEY, Home, finals, homes, rounds
from triprune.run.spec import RunSpec
from triprune.run.store import Store

KIND = "triprune run on CIFAR-10"


def record(folder: Path) -> dict[str, Any]:
    """Return all that a run has found so far, fit for JSON."""
    store = Store(folder)
    spec = RunSpec.from_mapping(store.facts()["spec"])
    if not store.has(SURVEY):
        raise RunError(f"recording {folder}", "nothing is finished in it", "let it run first")
    known = store.read(SURVEY, Survey)
    return {
        "kind": KIND,
        "name": folder.name,
        "model": spec.model,
        "validation": spec.validation,
        "settings": spec.settings.to_mapping(),
        "round_epochs": spec.settings.spent_recipe.round_epochs,
        "final_epochs": spec.settings.spent_recipe.final_epochs,
        "baseline": baseline_of(spec),
        "original": {"accuracy": known.accuracy, "macs": known.macs, "params": known.params},
        "observations": observations_of(store),
        "predictor": predictor_of(store),
        "budgets": [budget_of(store, home) for home in homes(store)],
        "calls": calls_of(folder),
    }


def baseline_of(spec: RunSpec) -> dict[str, Any] | None:
    """Return how the original was trained, if we trained it."""
    if spec.weights is None or not Path(spec.weights).exists():
        return None
    card = weights_card(spec.weights)
    kept = ("images", "validation_images", "validation_accuracy", "recipe", "seed", "engine")
    return None if card is None else {name: card[name] for name in kept}


def observations_of(store: Store) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for axis in AXES:
        for number, key in enumerate(rounds(store, axis), 1):
            each = store.read(key, TrainedModel, with_tensors=False)
            scale = list(each.plan.realised)
            found.append({"axis": axis, "round": number, "scale": scale, **scores(each)})
    return found


def predictor_of(store: Store) -> dict[str, Any] | None:
    if not store.has(PREDICTOR):
        return None
    return store.read(PREDICTOR, Fitted).predictor.to_dict()


def budget_of(store: Store, home: Home) -> dict[str, Any]:
    """Return the choices, the final fine-tunings and the test scores at one budget."""
    choices: dict[str, Any] = {}
    trained: dict[str, list[dict[str, Any]]] = {}
    for spends in ("joint", *AXES):
        if not store.has(home.choice(spends)):
            continue
        chosen = store.read(home.choice(spends), Chosen)
        told = None if chosen.choice is None else asdict(chosen.choice)
        if told is not None:
            told["scale"] = list(told["scale"].values())
        choices[spends] = {"choice": told, "macs": chosen.macs, "note": chosen.note}
        trained[spends] = [
            {"seed": seed, **scores(store.read(key, TrainedModel, with_tensors=False))}
            for seed, key in finals(store, home, spends).items()
        ]
    tested = bool(store.keys(home.outcome("*")))
    return {
        "budget": home.budget,
        "choices": choices,
        "finals": trained,
        "test": test_of(fullest_outcome(store, home)) if tested else None,
    }


def test_of(outcome: Outcome) -> dict[str, Any]:
    rows = [
        {**asdict(row), "scale": list(row.scale), "accuracies": list(row.accuracies)}
        for row in outcome.rows
    ]
    kept = {"latency_device": outcome.latency_device, "notes": list(outcome.notes)}
    return {"rows": rows, **kept}


def scores(trained: TrainedModel) -> dict[str, Any]:
    return {
        "accuracy": trained.accuracy,
        "macs": trained.macs,
        "params": trained.params,
        "epochs": trained.epochs,
    }


def calls_of(folder: Path) -> list[dict[str, Any]]:
    """Return each call of the driver: command, date, hardware, versions, seconds and epochs."""
    return [json.loads(path.read_text()) for path in sorted((folder / "calls").glob("*.json"))]
