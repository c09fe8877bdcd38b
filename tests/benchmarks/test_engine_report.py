import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "engine_report.py"
MACHINE = {"gpu": "GPU", "torch": "2.11", "date": "2026-01-02T03:04:05", "cpu": "c", "threads": 1}


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def write(path: Path, **content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"circumstances": MACHINE, **content}))


def accuracy_row(variant: str, seed: int, accuracy: float | None, error: str | None = None):
    return {
        "model": "resnet56",
        "variant": variant,
        "seed": seed,
        "accuracy": accuracy,
        "error": error,
    }


def test_the_page_in_the_repository_is_what_the_results_say():
    done = run("--check")
    assert done.returncode == 0, done.stderr


def test_verdicts_follow_the_paired_difference(tmp_path):
    recipe = {"epochs": 30, "batch_size": 128, "rate": 0.1, "schedule": "x", "weight_decay": 1e-4}
    rows = [
        accuracy_row("fp32", 0, 0.900),
        accuracy_row("fp32", 1, 0.910),
        accuracy_row("tf32", 0, 0.899),
        accuracy_row("tf32", 1, 0.909),
        accuracy_row("bf16", 0, 0.897),
        accuracy_row("bf16", 1, None, "diverged"),
    ]
    write(
        tmp_path / "results" / "ab" / "accuracy.json",
        kind="engine accuracy",
        settings={"images": 50_000, "recipe": recipe},
        rows=rows,
    )
    page = tmp_path / "docs" / "engine.md"
    assert run("--results", tmp_path / "results", "--page", page).returncode == 0
    text = page.read_text()
    assert "| resnet56 | fp32 | 2 | 90.50 ± 0.71 % | – | – |" in text
    assert "| resnet56 | tf32 | 2 | 90.40 ± 0.71 % | -0.10 points | holds |" in text
    assert "| resnet56 | bf16 | 1 | 89.70 % | -0.30 points | loses: off by default |" in text
    assert "resnet56 bf16 seed 1 failed: diverged" in text
    assert "30 epochs on 50,000 images: GPU, torch 2.11, 2026-01-02" in text
    check = ["--results", tmp_path / "results", "--page", page, "--check"]
    assert run(*check).returncode == 0
    page.write_text(text + "more")
    assert "out of date" in run(*check).stderr


@pytest.mark.parametrize(
    ("accuracies", "verdict"),
    [
        ((0.933, 0.932, 0.931), "met"),
        ((0.933, 0.932, 0.930), "**not met yet**"),
        ((0.94, 0.94), "**not met yet**"),  # too few seeds
    ],
)
def test_parity_needs_three_seeds_and_their_mean(tmp_path, accuracies, verdict):
    recipe = {"epochs": 160, "batch_size": 128, "rate": 0.1, "schedule": "x", "weight_decay": 1e-4}
    write(
        tmp_path / "parity" / "accuracy.json",
        kind="engine accuracy",
        settings={"images": 50_000, "recipe": recipe},
        rows=[accuracy_row("auto", seed, value) for seed, value in enumerate(accuracies)],
    )
    page = tmp_path / "engine.md"
    assert run("--results", tmp_path, "--page", page).returncode == 0
    (line,) = [line for line in page.read_text().splitlines() if "≥ 93.2 %" in line]
    assert line.startswith("| resnet56, 160 epochs: mean of 3 seeds ≥ 93.2 % | auto 9")
    assert line.endswith(f"| {verdict} |")
    assert "≥ 91.5 % | nothing | not measured yet |" in page.read_text()


def test_speed_is_told_with_its_spread(tmp_path):
    row = {"images_per_second": 20000.0, "lowest": 19000.0, "highest": 21000.0, "rounds": 1}
    write(
        tmp_path / "speed.json",
        kind="train speed",
        settings={"model": "resnet56", "batch_size": 128, "rounds": 2, "workers": 8},
        rows=[
            {"what": "tf32 x3 (cuda graph)", **row, "times_ordinary": 5.5},
            {"what": "tf32-nhwc x3 (cuda graph)", **row, "times_ordinary": 4.9},
        ],
        probes={"blocks": 27, "images": 50_000, "seconds": 1.0, "two_epochs_seconds": 4.0},
    )
    page = tmp_path / "engine.md"
    assert run("--results", tmp_path, "--page", page).returncode == 0
    assert "| tf32 x3 (cuda graph) | 20,000 | 19,000–21,000 | 5.50 |" in page.read_text()
    bar = "GPU, default precision, 3 at once: ≥ 5 × the ordinary trainer"
    assert f"| {bar} | tf32-nhwc x3 4.90 × (1 round) | **not met yet** |" in page.read_text()
    assert "≥ 1.5 × the ordinary trainer | nothing | not measured yet |" in page.read_text()
    assert "Probing 27 blocks on 50,000 images: 1.00 s; two epochs" in page.read_text()
