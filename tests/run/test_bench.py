"""Timing a run's models: what is stored, what is printed, what is refused."""

from triprune.run.artifacts import Bench, BenchRow
from triprune.run.store import Store


def test_a_bench_is_stored_and_read_back(tmp_path):
    rows = (
        BenchRow("original", 1.0, 1, 8.0, 7.5, 9.0, 30, 1_000_000),
        BenchRow("joint", 0.5, 1, 4.0, 3.9, 4.4, 30, None),
        BenchRow("original", 1.0, 32, 100.0, 90.0, 110.0, 30, 9_000_000),
    )
    bench = Bench("cpu", "torch", "a CPU", 2, {"torch": "2.13"}, "2026-11-16", rows)
    store = Store(tmp_path)
    store.write(bench.key, bench)
    assert store.read("bench/cpu-torch", Bench) == bench
    assert bench.speed_up(rows[1]) == 2.0
    assert rows[2].images_per_second == 320.0
