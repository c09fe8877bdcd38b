"""The benchmark scripts run, resume and write what they promise, on a handful of images."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
# What a plain GPU machine has is torch, numpy and safetensors; the engine needs no more.
BARE = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"rich", "typer", "scipy", "torch_pruning", "timm",
                                      "torchvision", "plotly", "matplotlib"}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
import runpy
sys.argv = sys.argv[1:]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture(scope="module")
def cifar10(tmp_path_factory) -> Path:
    """Random pixels in the official binary layout."""
    folder = tmp_path_factory.mktemp("cifar10") / "cifar-10-batches-bin"
    folder.mkdir()
    random = np.random.default_rng(0)
    for name, count in (("data_batch_1", 128), ("data_batch_2", 128), ("test_batch", 20)):
        records = random.integers(0, 256, (count, 3073), dtype=np.uint8)
        records[:, 0] %= 10
        records.tofile(folder / f"{name}.bin")
    return folder.parent


def run(script: str, *arguments: object) -> str:
    command = [sys.executable, "-c", BARE, str(ROOT / "benchmarks" / script)]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_accuracy_is_resumable(cifar10, tmp_path):
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


def test_speed_writes_ratios(cifar10, tmp_path):
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


def test_the_engine_follows_the_textbook(cifar10):
    """Orders, crops, flips, normalisation, momentum, decay and rates, over several epochs."""
    told = run("engine_steps.py", "--data", cifar10, *TEXTBOOK, "--epochs", 4, "--side-by-side", 2)
    assert told.count("epoch 4: engine") == 2


def test_the_textbook_tells_another_recipe_apart(cifar10):
    other = ["--epochs", 2, "--side-by-side", 1, "--variant", "fp32+padding=reflect"]
    with pytest.raises(AssertionError, match="not the textbook's loop"):
        run("engine_steps.py", "--data", cifar10, *TEXTBOOK, *other)
