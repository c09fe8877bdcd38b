"""Single axes that a run did not train again are those of a run that only observed otherwise."""

import copy
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCALES = {"depth": [0.5, 1, 1], "width": [1, 0.7, 1], "resolution": [1, 1, 0.7]}


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("paper_beside")


def row(name, scale):
    return {"name": name, "scale": scale, "accuracies": [0.9], "latency_ms": 2.5}


def observed(scale, macs=60):
    return {"scale": scale, "macs": macs, "params": 50}


def run(name, *, settings=None, recipe=None, controls=True):
    """Return a record of a run at half its macs, with what is set otherwise than usual."""
    joint = [row("original", [1, 1, 1]), row("joint", [0.8, 0.8, 1])]
    alone = [row(axis, scale) for axis, scale in SCALES.items()] if controls else []
    finals = {each["name"]: [{"seed": 0, "accuracy": 0.91}] for each in alone}
    recipe = {"round_epochs": 40, "final_epochs": 80, "round_rate": None} | (recipe or {})
    usual = {"rounds": 4, "controls": controls, "chains_to": None, "recipe": recipe}
    at = {"budget": 0.5, "finals": {"joint": [{"seed": 0}]} | finals}
    return {
        "name": name,
        "model": "resnet56",
        "validation": "train:5000",
        "original": {"accuracy": 0.93},
        "observations": [observed([1, 1, 1]), observed([0.6, 1, 1]), observed([1, 0.7, 1])],
        "settings": usual | (settings or {}),
        "budgets": [at | {"test": {"rows": [*joint, *alone]}}],
    }


def names(found):
    (at,) = found["budgets"]
    return [each["name"] for each in at["test"]["rows"]]


def observed_otherwise(name="deeper", **kept):
    settings = {"rounds": 3, "chains_to": 0.25} | kept.pop("settings", {})
    recipe = {"round_epochs": 20, "round_rate": 0.1} | kept.pop("recipe", {})
    return run(name, settings=settings, recipe=recipe, controls=False) | kept


def test_a_run_that_observed_otherwise_is_lent_the_single_axes_without_their_latency(script):
    first, deeper = run("first"), observed_otherwise()
    kept = copy.deepcopy((first, deeper))
    found = script.beside_others([first, deeper])
    assert (first, deeper) == kept
    assert found[0] == first
    assert names(found[1]) == ["original", "joint", "depth", "width", "resolution"]
    (at,) = found[1]["budgets"]
    assert [each["latency_ms"] for each in at["test"]["rows"]] == [2.5, 2.5, None, None, None]
    assert at["finals"]["depth"] == first["budgets"][0]["finals"]["depth"]
    assert at["finals"]["joint"] == [{"seed": 0}]


@pytest.mark.parametrize(
    "otherwise",
    [
        {"recipe": {"final_epochs": 160}},
        {"settings": {"block_importance": "probe_per_cost"}},
        {"model": "resnet32"},
        {"validation": "test:5000"},
        {"original": {"accuracy": 0.94}},
    ],
)
def test_other_networks_judges_or_final_epochs_lend_nothing(script, otherwise):
    other = observed_otherwise(**otherwise)
    assert script.beside_others([run("first"), other])[1] == other


@pytest.mark.parametrize(
    "observations",
    [
        [],
        [observed([1, 0.7, 1])],  # no cut in depth that both have seen
        [observed([0.6, 1, 1], macs=61)],  # other blocks were left there
        [observed([0.6, 1, 1]), observed([1, 0.7, 1], macs=61)],
    ],
)
def test_runs_that_cut_otherwise_or_perhaps_so_lend_nothing(script, observations):
    other = observed_otherwise(observations=observations)
    assert script.beside_others([run("first"), other])[1] == other


def test_own_axes_an_unopened_test_and_another_budget_stay_as_they_are(script):
    own = run("own", settings={"chains_to": 0.25})
    untested = observed_otherwise()
    untested["budgets"][0]["test"] = None
    cheaper = observed_otherwise("cheaper")
    cheaper["budgets"][0]["budget"] = 0.35
    given = [run("first"), own, untested, cheaper]
    assert script.beside_others(given) == given
    assert script.beside_others([observed_otherwise(), run("later")])[0] == observed_otherwise()
