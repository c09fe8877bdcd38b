"""What ``make demo`` runs: its weights are what they say they are, and its path works."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from triprune.core.scale import AXES
from triprune.learning.images import Splits
from triprune.run.opening import open_case
from triprune.run.pipeline import Pipeline
from triprune.run.spec import RunSpec
from triprune.run.store import Store
from triprune.run.trainer import Task

ROOT = Path(__file__).parents[2]


@pytest.fixture
def case(monkeypatch):
    monkeypatch.chdir(ROOT)
    return open_case(RunSpec.from_toml("examples/demo.toml"))


def test_the_weights_never_saw_the_images_that_the_demo_judges_by(case):
    told = json.loads((ROOT / "examples/resnet14_fashion_mnist.json").read_text())
    assert told["images"]["fingerprint"] == case.trainer.facts()["data"]
    original = Task("original", case.subject.model, 28)
    assert case.trainer.validate(original) == pytest.approx(told["validation_accuracy"], abs=2e-3)
    assert told["validation_accuracy"] > 0.88


@pytest.mark.slow
def test_the_demo_on_fewer_images(case, tmp_path):
    whole = case.trainer.splits
    few = Splits(
        whole.train.take(torch.arange(512)), whole.validation.take(torch.arange(200)), whole.test
    )
    settings = replace(
        case.settings, rounds=1, recipe=replace(case.settings.recipe, final_epochs=1)
    )
    trainer = replace(case.trainer, splits=few, recipe=settings.spent_recipe)
    smaller = replace(case, trainer=trainer, settings=settings)
    result = Pipeline(smaller, Store(tmp_path)).run()
    assert [row.name for row in result.outcome.rows] == ["original", "joint", *AXES]
    original, *others = result.outcome.rows
    assert original.accuracy > 0.85
    assert all(row.accuracy > 0.3 for row in others)
    assert 0.97 * 0.5 <= result.macs / original.macs <= 0.5
