"""The share of a run outside training: every second is counted once, under one purpose."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONFIG = f"""
model = "{ROOT / "tests" / "run" / "small_case.py"}:make"
[settings]
budget = 0.5
rounds = 1
effort = "paper"
device = "cpu"
recipe = "demo"
"""


@pytest.mark.slow
def test_the_seconds_of_a_run_are_told_by_purpose(tmp_path):
    (tmp_path / "run.toml").write_text(CONFIG)
    out = tmp_path / "overhead.json"
    command = [sys.executable, str(ROOT / "benchmarks" / "overhead.py"), "--images", "256"]
    command += ["--config", str(tmp_path / "run.toml"), "--out", str(out), "--epochs", "1", "1"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    told = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert "outside training: " in told.stdout
    found = json.loads(out.read_text())
    assert {"training", "survey", "choose", "measure"} <= found["seconds"].keys()
    assert all(seconds >= 0 for seconds in found["seconds"].values())
    shares = found["outside_training"]
    whole = sum(found["seconds"].values())
    assert shares["wall"] == pytest.approx(1 - found["seconds"]["training"] / whole)
    assert 0 < shares["processor"] < 1
    assert found["images"] == 256
    assert found["circumstances"]["cores"] >= 1
