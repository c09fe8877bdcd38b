"""Timing a run's models: what is stored, what is printed, what is refused."""

import json
import shutil

import pytest
import torch

from triprune.core.measured import Timed, times_faster
from triprune.core.scale import AXES
from triprune.errors import InputError, RunError, RunLockedError
from triprune.network.peak_memory import peak_growth
from triprune.run.artifacts import Bench
from triprune.run.benching import BenchOrder, Contestant, bench, bench_folder
from triprune.run.keys import bench_key
from triprune.run.shipping import Wanted
from triprune.run.store import Store


@pytest.fixture(scope="module")
def constructor(small):
    return f"{small.__file__}:make"


def test_a_bench_is_stored_and_read_back(tmp_path):
    rows = (
        Timed("original", 1.0, 1, 8.0, 7.5, 9.0, 30, 1_000_000),
        Timed("joint", 0.5, 1, 4.0, 3.9, 4.4, 30, None),
        Timed("original", 1.0, 32, 100.0, 90.0, 110.0, 30, 9_000_000),
    )
    bench = Bench("cpu", "torch", "a CPU", 2, {"torch": "2.13"}, "2026-11-16", rows)
    store = Store(tmp_path)
    store.write(bench_key(bench), bench)
    assert store.read("bench/cpu-torch", Bench) == bench


def test_a_run_is_timed_and_keeps_the_result(triprune, real_run, constructor, tmp_path):
    run = shutil.copytree(real_run[0], tmp_path / "run")
    asked = ("bench", run, "--model", constructor, "--batch", "1,4", "--rounds", 3)
    told = json.loads(triprune(*asked, "--json"))
    stored = Store(run).read("bench/cpu-torch", Bench)
    assert told["key"] == bench_key(stored)
    assert [row["median_ms"] for row in told["rows"]] == [row.median_ms for row in stored.rows]
    names = ["original", "joint", *AXES]
    assert [(row.name, row.batch_size) for row in stored.rows] == [
        (name, batch) for batch in (1, 4) for name in names
    ]
    assert {row.budget for row in stored.rows} == {1.0, 0.5}
    assert all(0 < row.lower_ms <= row.median_ms <= row.upper_ms for row in stored.rows)


def test_a_run_that_works_is_found_before_anything_is_timed(tmp_path, monkeypatch):
    def timed(*_):
        raise AssertionError

    monkeypatch.setattr("triprune.run.benching.contestants_of", timed)
    store = Store(tmp_path)
    store.begin({})
    with store.locked(), pytest.raises(RunLockedError, match=r"is working on it\. wait for it"):
        bench_folder(tmp_path, Wanted(), BenchOrder())


def test_a_saved_model_is_timed_in_onnx_runtime(triprune, real_run, constructor, tmp_path):
    home = real_run[2].save(tmp_path / "small")
    asked = ("--runtime", "onnxruntime", "--batch", "2", "--rounds", 2)
    told = triprune("bench", home, "--model", constructor, *asked, columns=150)
    assert "times faster" in told
    assert "onnxruntime 1." in told
    assert any(line.startswith("joint") and "%" in line for line in told.splitlines())
    assert not (home / "bench").exists()


@pytest.mark.alone
def test_less_work_is_timed_as_less():
    wide, narrow = (torch.nn.Conv2d(n, n, 3, padding=1) for n in (64, 16))
    models = [
        Contestant("original", 1.0, wide, (64, 32, 32)),
        Contestant("joint", 0.1, narrow, (16, 32, 32)),
    ]
    found = bench(models, BenchOrder(batches=(2,), rounds=5))
    assert times_faster(found.rows[1], found.rows) > 2


def test_peak_memory_follows_what_is_held():
    hold = [peak_growth(lambda n=n: torch.ones(n, 1_000_000).sum(), "cpu") for n in (10, 40)]
    if hold[0] is None:
        pytest.skip("this system does not tell a process its peak")
    assert hold[0] == pytest.approx(40e6, rel=0.25)
    assert hold[1] == pytest.approx(160e6, rel=0.25)


def test_onnx_runtime_s_memory_is_more_than_its_weights():
    model = torch.nn.Sequential(*(torch.nn.Conv2d(16, 16, 3, padding=1) for _ in range(3)))
    (row,) = bench(
        [Contestant("original", 1.0, model, (16, 256, 256))],
        BenchOrder(runtime="onnxruntime", batches=(4,), rounds=2),
    ).rows
    activations = 4 * 16 * 256 * 256 * 4
    assert row.peak_bytes is None or activations < row.peak_bytes < 8 * activations


def test_what_cannot_be_timed_is_said(triprune, real_run, constructor, tmp_path):
    run = ("bench", real_run[0], "--model", constructor)
    with pytest.raises(InputError, match="no such runtime"):
        triprune(*run, "--runtime", "tensorrt")
    with pytest.raises(InputError, match="no batch sizes"):
        triprune(*run, "--batch", "1,many")
    with pytest.raises(InputError, match="nothing to time"):
        triprune(*run, "--batch", "0")
    with pytest.raises(RunError, match="it has finished 50%"):
        triprune(*run, "--budget", "30%")
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="torch cannot use it here"):
            triprune(*run, "--device", "cuda")
    (tmp_path / "run.json").write_bytes((real_run[0] / "run.json").read_bytes())
    with pytest.raises(RunError, match="has not finished one yet"):
        triprune("bench", tmp_path)
