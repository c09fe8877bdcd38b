"""Scripts run as on a bare GPU machine, and CIFAR-10's layout with random pixels in it."""

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


@pytest.fixture(scope="session")
def cifar10(tmp_path_factory) -> Path:
    """Random pixels in the official binary layout."""
    folder = tmp_path_factory.mktemp("cifar10") / "cifar-10-batches-bin"
    folder.mkdir()
    random = np.random.default_rng(0)
    parts = {f"data_batch_{number}": 52 for number in range(1, 6)} | {"test_batch": 20}
    for name, count in parts.items():
        records = random.integers(0, 256, (count, 3073), dtype=np.uint8)
        records[:, 0] = np.arange(count) % 10
        records.tofile(folder / f"{name}.bin")
    return folder.parent


def run_bare(script: str, *arguments: object, cwd: Path | None = None) -> str:
    """Run a benchmark where rich, typer, scipy and the like cannot be imported."""
    command = [sys.executable, "-c", BARE, str(ROOT / "benchmarks" / script)]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [*command, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment,
        cwd=cwd,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def prose():
    """Return what reads a document of the repository, its lines joined."""
    return lambda path: " ".join((ROOT / path).read_text().split())


@pytest.fixture(scope="session")
def run():
    return run_bare
