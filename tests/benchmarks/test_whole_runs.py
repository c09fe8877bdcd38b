"""The whole job drawn anew: on a handful of images, and its page on runs with known answers."""

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from triprune.core.scale import Scale
from triprune.errors import InputError

ROOT = Path(__file__).parents[2]
SPENDS = ("joint", "depth", "width", "resolution")


@pytest.fixture
def script(monkeypatch):
    """Return a function that imports a script of the benchmarks."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module


@pytest.fixture
def rehearse(script, cifar10, tmp_path, monkeypatch, capsys):
    """Return a function that does the small job in this process; returns what it says."""

    def go(*arguments: object, name: str = "whole_runs") -> str:
        words = ["--data", cifar10, "--work", tmp_path / "work", "--rehearse", *arguments]
        monkeypatch.setattr("sys.argv", [f"{name}.py", *map(str, words)])
        script(name).main()
        return capsys.readouterr().out

    return go


def test_a_seed_does_the_whole_job_and_goes_on_where_it_stopped(rehearse, script, tmp_path):
    out = tmp_path / "results" / "seed-3.json"
    told = rehearse("--seed", 3, "--out", out)
    found = json.loads(out.read_text())
    assert "seed 3: the original has" in told
    assert (found["seed"], found["images"]) == (3, [128, 64, 64])
    usual, deeper, like_finals = found["runs"].values()
    assert [*usual["test"]] == ["original", *SPENDS]
    assert [*deeper["test"]] == [*like_finals["test"]] == ["original", "joint"]
    for run in (usual, deeper, like_finals):
        assert len(run["observations"]) == 1 + 3 * 2
        assert all(macs <= 0.5 * run["macs"]["original"] for macs in [*run["macs"].values()][1:])
        assert run["test"]["original"] == usual["test"]["original"]
        for final in run["finals"].values():
            assert Scale(*final["scale"]) != Scale()
            assert 0 <= final["validation"] <= 1
    least_depth = [min(row[0] for row in run["observations"]) for run in found["runs"].values()]
    assert least_depth[1] < least_depth[0] == least_depth[2]
    # The same cuts, trained otherwise.
    scales, accuracies = zip(
        *(
            ([row[:3] for row in run["observations"]], [row[3] for row in run["observations"]])
            for run in (usual, like_finals)
        ),
        strict=True,
    )
    assert scales[0][:2] == scales[1][:2]
    assert accuracies[0] != accuracies[1]
    again = tmp_path / "again.json"
    store = tmp_path / "work" / "rehearsal-3" / "chains-to-0.5"
    before = {path: path.stat().st_mtime_ns for path in store.rglob("*.json")}
    rehearse("--seed", 3, "--out", again)
    assert {path: path.stat().st_mtime_ns for path in store.rglob("*.json")} == before
    told = json.loads(again.read_text())
    assert told | {"circumstances": 0} == found | {"circumstances": 0}
    with pytest.raises(SystemExit, match="it is there already"):
        rehearse("--seed", 3, "--out", out)


def test_an_original_is_trained_on_and_its_width_cut_by_other_recipes(rehearse, tmp_path):
    out, beside = tmp_path / "further-3.json", tmp_path / "seed-3.json"
    told = rehearse("--seed", 3, "--out", out, name="whole_runs_further")
    found = json.loads(out.read_text())
    whole, *cuts = found["trainings"].values()
    assert whole["scale"] == [1.0, 1.0, 1.0]
    assert "seed 3, original trained on:" in told
    assert len({json.dumps(each["scale"]) for each in cuts}) == 1
    assert all(0.45 * whole["macs"] < each["macs"] <= 0.5 * whole["macs"] for each in cuts)
    assert len({each["validation"] for each in cuts} | {each["test"] for each in cuts}) > 2
    with pytest.raises(SystemExit, match="it is there already"):
        rehearse("--seed", 3, "--out", out, name="whole_runs_further")
    beside.write_text(json.dumps({"original": found["original"] + 0.01}))
    again = "--beside", beside, "--out", tmp_path / "again.json"
    with pytest.raises(SystemExit, match="train on the kind of processor that made the record"):
        rehearse("--seed", 3, *again, name="whole_runs_further")


def test_every_seed_draws_other_images_and_none_twice(script, cifar10):
    whole_runs = script("whole_runs")
    images = script("cifar10_files").read_train(cifar10)
    procedure = whole_runs.REHEARSAL
    drawn = {}
    for seed in (1, 2):
        splits = procedure.draw(images, seed)
        parts = splits.train, splits.validation, splits.test.open_once_for(lambda test: test)
        rows = [tuple(row.flatten().tolist()) for part in parts for row in part.images]
        assert len(rows) == len({*rows}) == 256
        drawn[seed] = [*rows]
    assert drawn[1] != drawn[2]
    with pytest.raises(InputError, match="10 are there"):
        procedure.draw(images.take(torch.arange(10)), 1)


USUAL, DEEPER, LIKE_FINALS = (
    "as in the paper",
    "to half of the budget",
    "from the rate of the finals",
)
SINGLE = {"depth": (0.5, 1.0, 1.0), "width": (1.0, 0.7, 1.0), "resolution": (1.0, 1.0, 0.7)}


def a_seed(seed, *, test, dear=0.02, later=(0.86, 0.86), blind=0.1):
    """Return what a seed found where gentle rounds see depth dearer by ``blind`` than it is.

    ``test`` are the accuracies of joint and single axes, ``later`` of the other joint models.
    """

    def accuracy(d, w, r, *, unseen=0.0):
        return 0.9 - (dear + unseen) * (1 - d) - 0.06 * (1 - w) - 0.1 * (1 - r) + seed / 1000

    def run(unseen, tested, **kept):
        steps = (1.0, 0.8, 0.6, 0.4)
        scales = {(*[1.0] * axis, each, *[1.0] * (2 - axis)) for axis in range(3) for each in steps}
        return {
            "observations": [[*at, accuracy(*at, unseen=unseen)] for at in sorted(scales)],
            "finals": {
                name: {"scale": at, "validation": accuracy(*at)} for name, at in kept.items()
            },
            "test": dict(zip(("original", *kept), tested, strict=True)),
        }

    return {
        "kind": "the whole job, drawn anew",
        "model": "resnet20",
        "seed": seed,
        "original": 0.72,
        "budget": 0.5,
        "images": [10_000, 5_000, 35_000],
        "recipe": {"epochs": 20, "round_epochs": 2, "final_epochs": 8},
        "runs": {
            USUAL: run(blind, [0.9, *test], joint=(0.8, 0.79, 1.0), **SINGLE),
            DEEPER: run(blind, [0.9, later[0]], joint=(1.0, 0.7, 1.0)),
            LIKE_FINALS: run(0.0, [0.9, later[1]], joint=(0.5, 1.0, 1.0)),
        },
        "circumstances": {
            **{"cpu": "c", "threads": 1, "torch": "2.13", "triprune": "0.1.0"},
            "date": f"2026-01-0{seed}T03:04:05",
        },
    }


def write(folder, seeds):
    """Write the records of seeds."""
    for found in seeds:
        (folder / f"seed-{found['seed']}.json").write_text(json.dumps(found))


def luck(seed):
    """Return what all models of a seed share on the test: three points up or down."""
    return (-1) ** seed * 0.03


@pytest.fixture
def six():
    """Return six seeds: joint is 0.5 points before depth, and before width in two of three."""
    return [
        a_seed(
            seed,
            test=[each + luck(seed) for each in (0.85, 0.845 + seed / 5e3, 0.849 + step, 0.83)],
            later=(0.856 + luck(seed), 0.86 + luck(seed) + (0.01 if seed < 4 else 0.0)),
        )
        for seed, step in enumerate((0.0, 0.0, 0.002, 0.0, 0.0, 0.002), start=1)
    ]


def test_the_page_tells_leads_seed_by_seed(script, tmp_path, six):
    report = script("whole_runs_report")
    write(tmp_path, six)
    text = report.page(tmp_path)
    assert "2026-01-01 to 2026-01-06" in " ".join(text.split())
    assert "| mean | 90.00 ± 0.00 | 85.00 ± 1.34 | 84.57 ± 1.35 | 84.97 ± 1.34 |" in text
    # Depth is 0.5 points behind less 0.02 a seed; what a seed has in common does not count.
    assert "| depth alone | +0.43 ± 0.02 | 6 of 6 | leads |" in text
    assert "| width alone | +0.03 ± 0.04 | 4 of 6 | not decided |" in text
    assert (
        "Without them joint stands +0.41 ± 0.01 points beside depth, +0.00 ± 0.06 beside width and "
        "+2.00 ± 0.00 beside resolution alone." in " ".join(text.split())
    )
    # The best axis of each seed is width but where it is behind; never depth here.
    assert "| the best axis of each seed | +0.03 ± 0.04 | 4 of 6 | – |" in text
    six[0]["runs"][USUAL]["test"]["depth"] = 0.9
    write(tmp_path, six)
    assert "| the best axis of each seed | -1.32 ± 1.34 | 3 of 6 | – |" in report.page(tmp_path)


def test_a_joint_model_that_is_an_axis_alone_is_told(script, tmp_path, six):
    six[1]["runs"][USUAL]["finals"]["joint"]["scale"] = SINGLE["width"]
    write(tmp_path, six)
    text = script("whole_runs_report").page(tmp_path)
    assert "| width alone | +0.03 ± 0.04 | 4 of 6, the same model in 1 | not decided |" in text


@pytest.mark.parametrize(
    ("mean", "word"),
    [(1.9, "not decided"), (2.1, "up"), (-1.9, "not decided"), (-2.1, "down"), (0, "not decided")],
)
def test_the_rule_is_two_standard_errors(script, mean, word):
    one_standard_error = [-(2.5**0.5), 0.0, 0.0, 0.0, 2.5**0.5]
    scale = script("whole_runs_report").standard_error(one_standard_error)
    values = [each / scale + mean for each in one_standard_error]
    assert script("whole_runs_report").by_the_rule(values, above="up", below="down") == word


def test_a_choice_is_judged_by_what_the_other_seeds_observed(script, six):
    """Five seeds see depth at 0.12 a cut, where width alone is best; one at 0.52."""
    found = script("whole_runs_found")
    six[0] = a_seed(1, test=[0.85, 0.84, 0.85, 0.83], dear=0.42)
    gentle = (USUAL, DEEPER)
    usual, deeper = found.regrets(six, gentle)
    # Width alone loses 1.8 points, joint 2.4 + 1.26 by the others and 10.4 + 1.26 by the first.
    assert usual[0] == pytest.approx(1.86, abs=0.1)
    assert all(regret == pytest.approx(1.86 + 0.2 * 8, abs=0.5) for regret in usual[1:])
    assert deeper == pytest.approx([0.0] * 6, abs=1e-9)
    # By rounds that see what depth really costs, depth alone is best: 1.0 points.
    usual, deeper = found.regrets(six, (LIKE_FINALS,))
    assert usual[0] == pytest.approx(0.4 + 1.26 - 1.0, abs=0.1)
    assert deeper[0] == pytest.approx(1.8 - 1.0, abs=0.1)
    # Either kind of gentle chains counts.
    for each in six[1:]:
        for row in each["runs"][DEEPER]["observations"]:
            row[3] += 0.4 * (1 - row[0])
    assert found.regrets(six, gentle)[0][0] != pytest.approx(1.86, abs=0.5)


def test_the_page_tells_what_other_chains_gain(script, tmp_path, six):
    report, found = script("whole_runs_report"), script("whole_runs_found")
    write(tmp_path, six)
    text = " ".join(report.page(tmp_path).split())
    assert "gain +0.60 ± 0.00 on the test. By the rule, which is of the regret's fall:" in text
    assert "fall: deeper chains help." in text
    assert "| the budget | 1.83 ± 0.00 | 0.65 ± 0.00 | 85.00 ± 1.34 |" in text
    assert "| half of it | 0.00 ± 0.00 | 0.80 ± 0.00 | 85.60 ± 1.34 |" in text
    assert "gain +1.50 ± 0.22 points on the test. By the rule: such rounds choose better." in text
    assert "without them the gain is +1.25 ± 0.25." in text
    gentle, like_finals = (found.above_forecast(six[0], kind) for kind in (USUAL, LIKE_FINALS))
    assert gentle == pytest.approx([5.0, 0.0, 0.0], abs=0.1)
    assert like_finals == pytest.approx([0.0, 0.0, 0.0], abs=0.1)


def test_nothing_is_told_of_fewer_seeds_than_were_asked_for(script, tmp_path, six):
    report = script("whole_runs_report")
    assert "0 are there" in report.page(tmp_path)
    write(tmp_path, six[:5])
    assert report.page(tmp_path).endswith("without a gap; 5 are there.\n")
    write(tmp_path, [six[5] | {"seed": 7}])
    assert report.page(tmp_path).endswith("without a gap; 6 are there.\n")


def test_seeds_that_did_something_else_are_refused(script, tmp_path, six):
    six[2]["images"] = [128, 64, 64]
    write(tmp_path, six)
    with pytest.raises(InputError, match="its seeds differ in images"):
        script("whole_runs_report").page(tmp_path)


def test_the_page_tells_what_training_on_brings(script, tmp_path, six):
    report, divided = script("whole_runs_report"), script("whole_runs_divided")
    write(tmp_path, six)
    assert "The originals trained on" not in report.page(tmp_path)
    for found in six[:2]:  # joint has 82 and 88 on the test, width alone 81.9 and 87.9
        tests = (0.91, 0.80, 0.76, 0.75) if found["seed"] == 1 else (0.93, 0.86, 0.84, 0.80)
        trainings = {
            name: {"test": each} for name, each in zip(divided.TRAINED, tests, strict=True)
        }
        further = {name: found[name] for name in ("model", "seed", "recipe", "original")}
        path = tmp_path / f"further-{found['seed']}.json"
        path.write_text(json.dumps(further | {"trainings": trainings}))
    text = " ".join(report.page(tmp_path).split())
    assert "of the first 2 seeds" in text
    assert "| 1 | 90.00 | 91.00 | 82.00 | 81.90 | 80.00 | 76.00 | 75.00 |" in text
    assert "the original gains +2.00 ± 1.00 points" in text
    assert "the joint models stand at -7.00 ± 2.00, width alone at -7.10 ± 2.00" in text
    assert "width alone +4.90 ± 1.00 points beside the teacher and +5.50 ± 0.50 without" in text
    assert "the teacher +1.90 ± 0.00 at the large rate and +2.50 ± 1.50 at the small one" in text
    path.write_text(path.read_text().replace('"original": 0.72', '"original": 0.71'))
    with pytest.raises(InputError, match="another original than the whole job's"):
        report.page(tmp_path)


def test_the_page_in_the_repository_is_what_the_results_say():
    command = [sys.executable, str(ROOT / "benchmarks" / "whole_runs_report.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_decision_and_the_readme_tell_the_leads_of_the_page(prose):
    page = prose("docs/results/whole_runs.md")
    told = page.partition("Rounds that begin")[0]
    signs = {"+": "before", "-": "behind"}
    leads = re.findall(r"\| (\w+) alone \| ([+-])(\d\.\d\d ± \d\.\d\d) \|", told)
    assert len(leads) == 3
    for path in ("README.md", "docs/adr/0109-the-whole-job-drawn-anew.md"):
        text = prose(path).replace(" points before", " before")
        for axis, sign, points in leads:
            assert f"{points} {signs[sign]} {axis} alone" in text
    told = page.partition("The originals trained on")[2]
    (gain,) = re.findall(r"the original gains (\+\d\.\d\d ± \d\.\d\d) points", told)
    joint, width = re.findall(r"(?:stand|width alone) at -(\d\.\d\d ± \d\.\d\d)", told)
    rates = re.findall(r"\+(\d\.\d\d ± \d\.\d\d) (?:points beside|without)", told)
    (harm,) = re.findall(r"the teacher -(\d\.\d\d ± \d\.\d\d) at the large rate", told)
    decision = prose("docs/adr/0111-the-originals-trained-on.md")
    for each in (gain, joint, width, *rates, harm):
        assert each in decision
    assert f"gain {gain} by that, and half their macs then cost {joint}." in prose("README.md")
    assert f"`distillation` cost {harm} points" in prose("docs/running.md")
