"""Single axes that a run did not train again are those of a run that only observed otherwise."""

import copy
import importlib
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCALES = {"depth": [0.5, 1, 1], "width": [1, 0.7, 1], "resolution": [1, 1, 0.7]}


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("paper_beside")


def row(name, scale):
    cost = {"macs": 60, "params": 50, "latency_ms": 2.5}
    return {"name": name, "scale": scale, "accuracies": [0.9]} | cost


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


def study(**otherwise):
    """Return a study that trained half of the depth, by the recipe of a run, with two seeds."""
    kept = dict(zip(("depth", "width", "resolution"), SCALES["depth"], strict=True))
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
        "cuts": {"half": {"realised": kept, "macs": 60, "params": 50}},
        "rows": rows,
    } | otherwise


def longer(**kept):
    """Return a run of the joint model alone, by longer final fine-tunings than another's."""
    settings = {"controls": False}
    return run("longer", settings=settings, controls=False) | {"final_epochs": 80} | kept


def test_a_study_by_the_same_recipe_lends_the_single_axes_that_it_trained(script):
    first = run("first", recipe={"final_epochs": 40})
    found = script.beside_studies([first, longer()], [study()])
    assert found[0] == first
    assert names(found[1]) == ["original", "joint", "depth"]
    (at,) = found[1]["budgets"]
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
        {"rows": []},
        {"rows": [{"what": "half", "seed": 0, "accuracy": [0.9]}]},  # not tested
    ],
)
def test_a_study_of_anything_else_lends_nothing(script, otherwise):
    given = [run("first", recipe={"final_epochs": 40}), longer()]
    assert script.beside_studies(given, [study(**otherwise)]) == given


def test_only_studies_of_cuts_that_opened_the_test_are_read(script, tmp_path):
    for name, found in {
        "b": study() | {"kind": script.STUDY, "test": {"original": 0.93}},
        "a": study() | {"kind": script.STUDY, "test": {"original": 0.94}},
        "closed": study() | {"kind": script.STUDY, "test": None},
        "other": {"kind": "fine-tuning", "test": {}},
    }.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(found))
    assert [each["name"] for each in script.read_studies(tmp_path)] == ["a", "b"]
    assert script.read_studies(tmp_path / "none") == []
