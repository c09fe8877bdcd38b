"""The benchmark scripts run, resume and write what they promise, on a handful of images."""

import json

import numpy as np
import pytest


def test_accuracy_is_resumable(run, cifar10, tmp_path):
    arguments = ["--data", cifar10, "--out", tmp_path, "--model", "resnet20", "--seeds", 0, 1]
    arguments += ["--variant", "fp32", "--epochs", 2]
    first = run("engine_accuracy.py", *arguments, "--seconds", 0)
    assert "stopped after epoch 1" in first
    assert json.loads((tmp_path / "accuracy.json").read_text())["rows"] == []
    assert [path.name for path in tmp_path.glob("*.tar")] == ["checkpoints-0.tar"]
    second = run("engine_accuracy.py", *arguments)
    assert "about" in second
    assert not list(tmp_path.glob("*.tar"))
    written = json.loads((tmp_path / "accuracy.json").read_text())
    assert [row["seed"] for row in written["rows"]] == [0, 1]
    assert all(0 <= row["accuracy"] <= 1 for row in written["rows"])
    (summary,) = written["summary"]
    assert summary["mean"] == pytest.approx(np.mean([row["accuracy"] for row in written["rows"]]))
    assert written["circumstances"]["torch"]
    third = run("engine_accuracy.py", *arguments)
    assert "0 trainings to do, 2 done before" in third


def test_speed_writes_ratios(run, cifar10, tmp_path):
    out = tmp_path / "speed.json"
    arguments = ["--data", cifar10, "--out", out, "--model", "resnet20", "--batch-size", 8]
    arguments += ["--images", 88, "--rounds", 1, "--variant", "fp32", "--side-by-side", 1, 2]
    run("train_speed.py", *arguments)
    rows = {row["what"]: row for row in json.loads(out.read_text())["rows"]}
    assert set(rows) == {"ordinary", "fp32 x1 (eager)", "fp32 x2 (eager)"}
    assert rows["ordinary"]["times_ordinary"] == 1
    assert all(row["images_per_second"] > 0 for row in rows.values())
    assert json.loads(out.read_text())["probes"]["blocks"] == 9


TEXTBOOK = ["--model", "resnet20", "--batch-size", 16, "--images", 36, "--tolerance", 0.002]


def test_the_engine_follows_the_textbook(run, cifar10):
    """Orders, crops, flips, normalisation, momentum, decay and rates, over several epochs."""
    told = run("engine_steps.py", "--data", cifar10, *TEXTBOOK, "--epochs", 4, "--side-by-side", 2)
    assert told.count("epoch 4: engine") == 2


def test_the_textbook_tells_another_recipe_apart(run, cifar10):
    other = ["--epochs", 2, "--side-by-side", 1, "--variant", "fp32+padding=reflect"]
    with pytest.raises(AssertionError, match="not the textbook's loop"):
        run("engine_steps.py", "--data", cifar10, *TEXTBOOK, *other)
