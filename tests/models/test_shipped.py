"""The models under models/ load, are as small as they say, and score what was recorded."""

import json
import os
from pathlib import Path

import pytest

import triprune
from triprune.learning.evaluation import evaluate_final
from triprune.learning.loading import Reading

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "models" / "resnet56-cifar10-half"
RECORD = ROOT / "results" / "cifar10" / "cifar10-resnet56.json"


@pytest.fixture(scope="module")
def shipped():
    if not (FOLDER / "plan.json").exists():
        pytest.skip(f"NOT RUN: {FOLDER.relative_to(ROOT)} has not been made yet")
    return triprune.load(FOLDER, build=lambda: triprune.build_model("resnet56"))


@pytest.fixture(scope="module")
def joint():
    at = next(at for at in json.loads(RECORD.read_text())["budgets"] if at["budget"] == 0.5)
    return next(row for row in at["test"]["rows"] if row["name"] == "joint")


def test_the_joint_resnet56_has_half_the_macs_and_a_card(shipped, joint):
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 3_000_000
    plan = triprune.load_plan(FOLDER)
    macs = triprune.profile(shipped, plan.resolution_px).macs
    whole = triprune.profile(triprune.build_model("resnet56"), 32).macs
    assert macs == joint["macs"]
    assert 0.97 * 0.5 <= macs / whole <= 0.5
    assert (FOLDER / "MODEL_CARD.md").is_file()


@pytest.mark.data
@pytest.mark.slow
def test_the_joint_resnet56_scores_what_was_recorded(shipped, joint):
    data = os.environ.get("TRIPRUNE_CIFAR10")
    if not data:
        pytest.skip("NOT RUN: set TRIPRUNE_CIFAR10 to the folder of CIFAR-10")
    about = json.loads((FOLDER / "about.json").read_text())
    normalisation = tuple(about["mean"]), tuple(about["std"])
    test = triprune.load_data(data, Reading(normalisation=normalisation)).test
    found = evaluate_final(shipped, test, resolution_px=about["resolution_px"])
    assert found.accuracy == pytest.approx(joint["accuracies"][0], abs=5e-4)
