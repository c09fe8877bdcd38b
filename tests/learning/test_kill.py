import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

SCRIPT = Path(__file__).parent / "killed_training.py"


def start(checkpoint: Path, weights: Path) -> subprocess.Popen[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, str(SCRIPT), str(checkpoint), str(weights)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)


def epochs_of(process: subprocess.Popen[str]) -> list[int]:
    assert process.stderr is not None
    with process.stderr:
        lines = process.stderr.read().splitlines()
    assert process.wait() == 0, lines
    return [int(line.split()[2].split("/")[0]) for line in lines if "epoch" in line.split()[1]]


@pytest.mark.alone
def test_kill_costs_at_most_the_epoch_under_way(tmp_path):
    whole = start(tmp_path / "whole", tmp_path / "whole.safetensors")
    assert epochs_of(whole) == list(range(1, 13))
    killed = start(tmp_path / "part", tmp_path / "part.safetensors")
    assert killed.stderr is not None
    for _ in range(3):
        assert "epoch" in killed.stderr.readline()
    killed.kill()
    killed.wait()
    killed.stderr.close()
    assert not (tmp_path / "part.safetensors").exists()
    resumed = start(tmp_path / "part", tmp_path / "part.safetensors")
    assert epochs_of(resumed)[0] >= 4
    expected = load_file(tmp_path / "whole.safetensors")
    for name, tensor in load_file(tmp_path / "part.safetensors").items():
        assert torch.equal(tensor, expected[name]), name
