import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from triprune.errors import ArtifactError
from triprune.run.artifacts import Outcome
from triprune.run.store import Store

SCRIPT = Path(__file__).parent / "small_case.py"


def start(folder: Path) -> subprocess.Popen[bytes]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, str(SCRIPT), str(folder)]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment)


def contents(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "lock"]
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in files
        if not path.name.startswith(("outcome", "origin"))  # these know the clock
    }


def test_a_run_killed_again_and_again_ends_with_the_same_bits(tmp_path):
    began = time.monotonic()
    assert start(tmp_path / "whole").wait() == 0
    duration = time.monotonic() - began
    points = random.Random(time.time_ns())
    for _ in range(3):
        process = start(tmp_path / "killed")
        time.sleep(points.uniform(0.25, 0.8) * duration)
        worker = Store(tmp_path / "killed").worker()
        assert worker is None or worker.startswith(f"process {process.pid} on ")
        process.kill()
        process.wait()
    assert start(tmp_path / "killed").wait() == 0
    expected, found = contents(tmp_path / "whole"), contents(tmp_path / "killed")
    assert found.keys() == expected.keys()
    assert [name for name in found if found[name] != expected[name]] == []
    key = "budget-50/outcome-1x1"
    whole, killed = (Store(tmp_path / n).read(key, Outcome) for n in ("whole", "killed"))
    assert [row.accuracies for row in whole.rows] == [row.accuracies for row in killed.rows]


def test_a_flipped_bit_in_any_artifact_stops_the_run(real_run, small, tmp_path):
    folder, model, _ = real_run
    parts = small.splits()
    settings = small.settings(controls=True, seeds=2)
    points = random.Random(0)
    files = [p for p in sorted(folder.rglob("*")) if p.suffix in (".json", ".safetensors")]
    assert len(files) > 25
    for path in files:
        whole = path.read_bytes()
        spoiled = bytearray(whole)
        spoiled[points.randrange(len(spoiled))] ^= 1 << points.randrange(8)
        path.write_bytes(spoiled)
        try:
            with pytest.raises(ArtifactError, match=path.name):
                small.compress(model, parts, budget=0.5, settings=settings, out=folder)
            assert path.read_bytes() == bytes(spoiled)
        finally:
            path.write_bytes(whole)


def test_artifacts_are_plain_json(real_run):
    for path in real_run[0].rglob("*.json"):
        assert len(json.loads(path.read_text())["checksum"]) == 64
