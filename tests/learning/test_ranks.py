import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from triprune.errors import InputError
from triprune.learning.ranks import Ranks, current_ranks

SCRIPT = Path(__file__).parent / "distributed_training.py"


def run(folder: Path, processes: int) -> str:
    folder.mkdir()
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    command = [sys.executable, *(launcher if processes > 1 else []), str(SCRIPT), str(folder)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.alone
def test_two_processes_train_as_one(tmp_path):
    """Without batch norm or augmentation the arithmetic is the same up to the order of sums."""
    alone = run(tmp_path / "one", 1)
    together = run(tmp_path / "two", 2)
    assert "rank 0 of 1" in alone
    assert "rank 0 of 2" in together
    assert "rank 1 of 2" in together
    expected = load_file(tmp_path / "one" / "rank0.safetensors")
    for rank in (0, 1):
        weights = load_file(tmp_path / "two" / f"rank{rank}.safetensors")
        for name, tensor in expected.items():
            torch.testing.assert_close(weights[name], tensor, rtol=1e-3, atol=1e-5)
    accuracies = {line.rpartition(" ")[2] for line in (alone + together).splitlines()}
    assert len(accuracies) == 1
    assert (tmp_path / "two" / "c").exists()


def test_alone_nothing_is_exchanged():
    tensors = [torch.ones(2)]
    ranks = current_ranks()
    ranks.average(tensors)
    ranks.add_up(tensors)
    assert ranks == Ranks(0, 1)
    assert ranks.leads
    assert torch.equal(tensors[0], torch.ones(2))


def test_a_batch_that_cannot_be_shared():
    assert Ranks(0, 2).share(128) == 64
    with pytest.raises(InputError, match="multiple of 3"):
        Ranks(0, 3).share(128)
