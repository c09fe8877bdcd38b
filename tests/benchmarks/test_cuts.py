"""The study of cuts: scales and judges side by side by one recipe, and what it refuses."""

import importlib
import json
import re
import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from triprune.learning.progress import EpochRecord
from triprune.learning.recipe import Recipe
from triprune.run.artifacts import Survey
from triprune.run.store import Store

ROOT = Path(__file__).parents[2]
CONFIG = f"""
model = "{ROOT / "tests" / "run" / "small_case.py"}:make"
data = "{{data}}"
[settings]
budget = "50%"
device = "cpu"
block_importance = "output"
[settings.recipe]
preset = "demo"
warmup_epochs = 0.0
batch_size = 32
precision = "fp32"
final_rate = 0.05
distillation = 0.5
"""


@pytest.fixture
def study(cifar10, tmp_path, monkeypatch, capsys):
    """Return a function that runs a study in this process; returns what it says and writes."""
    (tmp_path / "small.toml").write_text(CONFIG.format(data=cifar10))
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.chdir(tmp_path)
    script = importlib.import_module("cuts")

    def go(*arguments: object) -> tuple[str, dict]:
        words = ["small.toml", "--out", "found.json", *arguments]
        monkeypatch.setattr("sys.argv", ["cuts.py", *map(str, words)])
        script.main()
        return capsys.readouterr().out, json.loads(Path("found.json").read_text())

    return go


def test_cuts_and_seeds_side_by_side(study):
    told, found = study(
        *("--cut", "0.75,1,1", "0.75,1,1@/probe", "1,0.5,0.8@random", "1,0.5,0.8"),
        *("--epochs", 2, "--seeds", 3, 4, "--test", "--answers", "answers"),
    )
    assert [row["what"] for row in found["rows"][::2]] == [*found["cuts"]]
    assert [row["seed"] for row in found["rows"]] == 4 * [3, 4]
    for row in found["rows"]:
        assert len(row["accuracy"]) == 2
        assert 0 <= row["test_accuracy"] <= 1
        assert not row["stopped"]
    own, probed, random, narrow = found["cuts"].values()
    assert (own["importance"], own["block_importance"]) == ("bn_scale", "output")
    assert (probed["importance"], probed["block_importance"]) == ("bn_scale", "probe")
    assert len(own["removed_blocks"]) == len(probed["removed_blocks"]) == 1
    assert found["blocks_of"] is None
    assert random["importance"] == "random"
    assert random["macs"] == narrow["macs"] < own["macs"]
    # Other channels, same widths and same draws: only the judge can have made the difference.
    assert found["rows"][4]["accuracy"] != found["rows"][6]["accuracy"]
    assert (found["recipe"]["epochs"], found["recipe"]["rate"]) == (2, 0.05)
    assert "1,0.5,0.8@random seed 4: 2 of 2 epochs" in told


def test_a_cut_may_have_settings_of_its_own(study):
    told, found = study(
        *(
            "--cut",
            "1,0.5,1",
            "1,0.5,1+schedule=multi-step+kernels=torch",
            "1,0.5,1+final_rate=0.01",
        ),
        *("--epochs", 3, "--seeds", 0, "--validate-every", 2),
    )
    assert [cut["recipe"] for cut in found["cuts"].values()] == [
        {},
        {"schedule": "multi-step", "kernels": "torch"},
        {"final_rate": 0.01},
    ]
    assert (found["recipe"]["schedule"], found["recipe"]["rate"]) == ("cosine", 0.05)
    assert "1,0.5,1+final_rate=0.01 seed 0: 3 of 3 epochs, mean of the last 2 judged" in told
    for row in found["rows"]:  # judged after every second epoch and the last
        assert [each is None for each in row["accuracy"]] == [True, False, False]
    assert len({row["train_accuracy"] for row in found["rows"]}) == 3


def test_blocks_go_as_a_run_of_the_same_original_found(study, run, tmp_path):
    run("paper_run.py", "run", "small.toml", "--until", "survey", cwd=tmp_path)
    store = Store(tmp_path / "runs" / "small")
    known = store.read("survey", Survey)
    turned = {name: -score for name, score in known.block_scores.items()}
    store.write("survey", replace(known, block_scores=turned))
    cuts = "0.5,1,1", "0.5,1,1@/probe"
    asked = "--epochs", 1, "--seeds", 0, "--run", "runs/small", "--cut", cuts[0]
    _, found = study(*asked, cuts[1])
    lowest = sorted(turned, key=turned.__getitem__)[:2]
    own, probed = (found["cuts"][cut]["removed_blocks"] for cut in cuts)
    assert sorted(own) == sorted(lowest)
    assert probed != own  # what the run found is of its own judge alone
    assert found["blocks_of"] == "small"
    Path("found.json").unlink()
    text = Path("small.toml").read_text()
    for setting, message in {
        'block_importance = "probe"': "it judged them by block_importance = output",
        'block_importance = "output"\nseed = 1': "it began with other data",
        'block_importance = "output"\ncost = "params"': "it judged them by cost = macs",
    }.items():
        Path("small.toml").write_text(text.replace('block_importance = "output"', setting))
        with pytest.raises(SystemExit, match=message):
            study(*asked)
    assert not Path("found.json").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"--cut": ["0.5,0.7"]}, "it is no three numbers"),
        ({"--cut": ["0.5,0.7,1@taste"]}, "importance 'taste'"),
        ({"--cut": ["0.5,0.7,1@l1/taste"]}, "block_importance 'taste'"),
        ({"--cut": ["0.5,0.7,1", "0.50,0.7,1"]}, "would be the same"),
        ({"--cut": ["0.5,1,1", "0.5,1,1@random"]}, "would be the same"),
        ({"--cut": ["1,0.5,1", "1,0.5,1@/probe"]}, "would be the same"),
        ({"--cut": ["1,0.5,1", "1,0.5,1+kernels=own"]}, "would be the same"),
        ({"--cut": ["1,0.5,1+schedule"]}, "schedule has no value"),
        ({"--cut": ["1,0.5,1+schedule=taste"]}, "schedule = 'taste'"),
        ({"--cut": ["1,0.5,1", "1,0.5,1+rate=0.5"]}, "does not follow rate"),
        ({"--cut": ["1,0.5,1+precision=fp16"]}, "fp16"),
        ({"--cut": ["1,0.5,1+milestones=0.5"]}, "milestones = 0.5: it is no list"),
        ({"--cut": ["1,0.5,1+taste=0.5"]}, "a recipe with taste"),
        ({"--seeds": [1, 1]}, "would be the same"),
        ({"--epochs": [0]}, "final_epochs = 0"),
        ({"--out": ["small.toml"]}, "it is there already"),
        ({"--run": ["none"]}, "there is none"),
    ],
)
def test_what_cannot_be_done_is_named_before_any_training(study, changes, message):
    given = {"--cut": ["0.5,0.7,1"], "--epochs": [1], **changes}
    with pytest.raises(SystemExit, match=re.escape(message)):
        study(*(word for name, values in given.items() for word in (name, *values)))
    assert not Path("found.json").exists()


def test_a_study_that_judges_never_is_refused(study, capsys):
    with pytest.raises(SystemExit):
        study("--cut", "1,0.5,1", "--epochs", 1, "--validate-every", 0)
    assert "0 is no count of epochs: give 1 or more" in capsys.readouterr().err


def test_a_row_without_a_judged_epoch_says_so(study):
    rows = importlib.import_module("study_rows")
    row = rows.Row("1,0.5,1", 0, Recipe())
    assert row.line() == "1,0.5,1 seed 0: no epoch was begun"
    row.history.append(EpochRecord(1, 80, 0.1, 2.0, 0.3, None, 1.0, 100.0))
    assert row.line() == "1,0.5,1 seed 0: 1 of 80 epochs, none of them judged"


def test_the_decision_tells_what_was_measured():
    text = (ROOT / "docs" / "adr" / "0102-flat-along-the-budget.md").read_text()
    text = " ".join(text.split())
    kept = ROOT / "results" / "fine_tuning"
    for name in ("public_resnet56_judges_h200", "resnet56_gentle_joint_h200"):
        rows = json.loads((kept / f"{name}.json").read_text())["rows"]
        for one, other in zip(rows[::2], rows[1::2], strict=True):
            assert one["what"] == other["what"]
            scores = [f"{100 * row['test_accuracy']:.2f}" for row in (one, other)]
            assert " and ".join(scores) in text
            judged = statistics.fmean(row["accuracy"][-1] for row in (one, other))
            assert f"{100 * judged:.2f} on validation" in text
    rows = json.loads((kept / "public_resnet56_160_epochs_h200.json").read_text())["rows"]
    for alone in (rows[:3], rows[3:]):
        scores = [100 * row["test_accuracy"] for row in alone]
        told = f"{statistics.fmean(scores):.2f} ± {statistics.stdev(scores):.2f}"
        assert told in text
