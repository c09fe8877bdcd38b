"""The whole job drawn anew: on a handful of images, and its page on runs with known answers."""

import importlib
import json
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
    whole_runs = script("whole_runs")

    def go(*arguments: object) -> str:
        words = ["--data", cifar10, "--work", tmp_path / "work", "--rehearse", *arguments]
        monkeypatch.setattr("sys.argv", ["whole_runs.py", *map(str, words)])
        whole_runs.main()
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
    store = tmp_path / "work" / "seed-3" / "chains-to-0.5"
    before = {path: path.stat().st_mtime_ns for path in store.rglob("*.json")}
    rehearse("--seed", 3, "--out", again)
    assert {path: path.stat().st_mtime_ns for path in store.rglob("*.json")} == before
    told = json.loads(again.read_text())
    assert told | {"circumstances": 0} == found | {"circumstances": 0}
    with pytest.raises(SystemExit, match="it is there already"):
        rehearse("--seed", 3, "--out", out)


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


def seed_file(folder: Path, seed: int, *, joint: float) -> None:
    """Write a seed whose gentle rounds see depth five points too dear, by known accuracies."""

    def accuracy(d: float, w: float, r: float, *, blind: float = 0.0) -> float:
        lost = (0.02 + blind) * (1 - d) + 0.06 * (1 - w) + 0.1 * (1 - r)
        return 0.9 - lost + seed / 100

    def observed(blind: float) -> list[list[float]]:
        steps = (1.0, 0.8, 0.6, 0.4)
        scales = {(*[1.0] * axis, kept, *[1.0] * (2 - axis)) for axis in range(3) for kept in steps}
        return [[*kept, accuracy(*kept, blind=blind)] for kept in sorted(scales)]

    def run(blind: float, test: list[float], **kept: tuple[float, float, float]) -> dict:
        finals = {name: {"scale": at, "validation": accuracy(*at)} for name, at in kept.items()}
        named = dict(zip(("original", *kept), test, strict=True))
        return {"observations": observed(blind), "finals": finals, "test": named}

    single = {"depth": (0.5, 1.0, 1.0), "width": (1.0, 0.7, 1.0), "resolution": (1.0, 1.0, 0.7)}
    usual = [0.9, 0.85 + joint / 100, 0.84, 0.85, 0.83]
    found = {
        "model": "resnet20",
        "seed": seed,
        "budget": 0.5,
        "images": [10_000, 5_000, 35_000],
        "recipe": {"epochs": 20, "round_epochs": 2, "final_epochs": 8},
        "runs": {
            "as in the paper": run(0.1, usual, joint=(0.8, 0.79, 1.0), **single),
            "to half of the budget": run(0.1, [0.9, 0.86], joint=(1.0, 0.7, 1.0)),
            "from the rate of the finals": run(0.0, [0.9, 0.865], joint=(0.5, 1.0, 1.0)),
        },
        "circumstances": {
            **{"cpu": "c", "threads": 1, "torch": "2.13", "triprune": "0.1.0"},
            "date": f"2026-01-0{seed}T03:04:05",
        },
    }
    (folder / f"seed-{seed}.json").write_text(json.dumps(found))


def test_the_page_tells_leads_and_regrets(script, tmp_path):
    report = script("whole_runs_report")
    for seed, joint in enumerate((0.5, 0.6, 0.7, -0.2), start=1):
        seed_file(tmp_path, seed, joint=joint)
    text, seeds = report.page(tmp_path), report.read(tmp_path)
    assert "2026-01-01 to 2026-01-04" in text
    assert "| mean | 90.00 ± 0.00 | 85.40 ± 0.20 | 84.00 ± 0.00 | 85.00 ± 0.00 |" in text
    assert "| depth alone | +1.40 ± 0.20 | 4 of 4 | yes |" in text
    assert "| width alone | +0.40 ± 0.20 | 3 of 4 | no |" in text
    assert "| the best axis of each seed | +0.40 ± 0.20 | 3 of 4 | no |" in text
    # By gentle rounds width is best, by rounds like finals depth, which is as bad on the test.
    assert "| the axis of the best forecast | +0.40 ± 0.20 | 3 of 4 | no |" in text
    assert "| the axis of the best forecast | +2.50 ± 0.00 | 4 of 4 | yes |" in text
    # Gentle rounds put width alone, which loses 1.8 points, before joint, 2.4 + 1.26.
    usual, deeper = report.regrets(seeds)
    assert deeper == pytest.approx([0.0] * 4, abs=1e-9)
    assert usual == pytest.approx([1.86] * 4, abs=0.1)
    assert "gain\n+0.60 ± 0.20 on the test" in text
    assert "deeper chains help." in text
    assert "gain +1.10 ± 0.20 points on the test" in text
    assert "such rounds choose better." in text
    gentle, like_finals = (
        report.above_forecast(seeds[0], kind) for kind in report.CHAINS if kind != report.DEEPER
    )
    assert gentle == pytest.approx([5.0, 0.0, 0.0], abs=0.1)
    assert like_finals == pytest.approx([0.0, 0.0, 0.0], abs=0.1)


def test_too_few_seeds_are_no_page(script, tmp_path):
    assert "Fewer than three seeds" in script("whole_runs_report").page(tmp_path)


def test_the_page_in_the_repository_is_what_the_results_say():
    command = [sys.executable, str(ROOT / "benchmarks" / "whole_runs_report.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
