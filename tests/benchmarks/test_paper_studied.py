"""Single axes that a study trained by a run's very recipe stand beside that run's joint model."""

import importlib
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
JUDGES = {"importance": "bn_scale", "block_importance": "probe"}


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("paper_studied")


def study(**otherwise):
    """Return a study that trained half of the depth, by the recipe of a run, with two seeds."""
    kept = {"depth": 0.5, "width": 1, "resolution": 1}
    recipe = {"round_epochs": 40, "final_epochs": 80, "round_rate": None}
    rows = [
        {"what": "half", "seed": seed, "accuracy": [0.5, (93 + seed) / 100], "test_accuracy": 0.92}
        for seed in (0, 1)
    ]
    return {
        "name": "single_axes",
        "original": {"accuracy": 0.93},
        "epochs": 80,
        "recipe": recipe,
        "cuts": {"half": {"realised": kept, "macs": 60, "params": 50, "recipe": {}, **JUDGES}},
        "rows": rows,
    } | otherwise


def run(*, controls):
    """Return a run at half its macs; without ``controls`` of the joint model alone."""

    def row(name, scale):
        cost = {"macs": 60, "params": 50, "latency_ms": 2.5}
        return {"name": name, "scale": scale, "accuracies": [0.9]} | cost

    alone = [row("depth", [0.5, 1, 1]), row("width", [1, 0.7, 1])] if controls else []
    finals = 40 if controls else 80
    recipe = {"round_epochs": 40, "final_epochs": finals, "round_rate": None}
    rows = [row("original", [1, 1, 1]), row("joint", [0.8, 0.8, 1]), *alone]
    return {
        "model": "resnet56",
        "original": {"accuracy": 0.93},
        "final_epochs": finals,
        "settings": {"recipe": recipe} | JUDGES,
        "budgets": [{"budget": 0.5, "finals": {}, "test": {"rows": rows}}],
    }


def test_a_study_by_the_same_recipe_lends_the_single_axes_that_it_trained(script):
    first = run(controls=True)
    found = script.beside_studies([first, run(controls=False)], [study()])
    assert found[0] == first
    (at,) = found[1]["budgets"]
    assert [each["name"] for each in at["test"]["rows"]] == ["original", "joint", "depth"]
    assert at["study"] == "single_axes"
    depth = at["test"]["rows"][-1]
    assert (depth["accuracies"], depth["latency_ms"], depth["macs"]) == ([0.92, 0.92], None, 60)
    assert [each["accuracy"] for each in at["finals"]["depth"]] == [0.93, 0.94]
    assert [each["seed"] for each in at["finals"]["depth"]] == [0, 1]


@pytest.mark.parametrize(
    "otherwise",
    [
        {"original": {"accuracy": 0.94}},
        {"epochs": 160},
        {"recipe": {"round_epochs": 40, "final_epochs": 80, "round_rate": 0.1}},
        {"cuts": {"half": study()["cuts"]["half"] | {"macs": 61}}},
        {"cuts": {"half": study()["cuts"]["half"] | {"params": 51}}},
        {"cuts": {"half": study()["cuts"]["half"] | {"block_importance": "output"}}},
        {"cuts": {"half": study()["cuts"]["half"] | {"importance": "random"}}},
        {"cuts": {"half": study()["cuts"]["half"] | {"recipe": {"distillation": 0.0}}}},
        {"rows": []},
        {"rows": [{"what": "half", "seed": 0, "accuracy": [0.9]}]},  # not tested
    ],
)
def test_a_study_of_anything_else_lends_nothing(script, otherwise):
    given = [run(controls=True), run(controls=False)]
    assert script.beside_studies(given, [study(**otherwise)]) == given


def test_only_studies_of_cuts_that_opened_the_test_are_read(script, tmp_path):
    for name, found in {
        "b": study() | {"kind": script.KIND, "test": {"original": 0.93}},
        "a": study() | {"kind": script.KIND, "test": {"original": 0.94}},
        "closed": study() | {"kind": script.KIND, "test": None},
        "other": {"kind": "fine-tuning", "test": {}},
    }.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(found))
    assert [each["name"] for each in script.read_studies(tmp_path)] == ["a", "b"]
    assert script.read_studies(tmp_path / "none") == []
