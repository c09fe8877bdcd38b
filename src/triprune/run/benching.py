"""Owns timing a run's models against each other: original, joint and controls, in turns.

The times of a network do not depend on the values of its weights, so the original is built fresh.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import nn

from triprune.core.measured import Timed
from triprune.errors import InputError
from triprune.export.onnx_file import open_session, runtime_versions, to_onnx
from triprune.network.hardware import require_device
from triprune.network.latency import summary, time_in_turns, timer
from triprune.network.peak_memory import peak_growth
from triprune.network.profile import example_input, profile
from triprune.places import Place, place
from triprune.run.artifacts import Bench
from triprune.run.collected import is_run
from triprune.run.finished import finished_budgets, read_finished
from triprune.run.keys import bench_key
from triprune.run.origin import Origin
from triprune.run.shipping import Wanted, open_shipment, original_of
from triprune.run.steps import restore
from triprune.run.store import Store

Runtime = Literal["torch", "onnxruntime"]


@dataclass(frozen=True, slots=True)
class BenchOrder:
    """Where and how to time: every model once in each of ``rounds``, at each batch size."""

    device: str = "cpu"
    runtime: Runtime = "torch"
    batches: tuple[int, ...] = (1, 32)
    rounds: int = 20

    def __post_init__(self) -> None:
        if self.runtime not in get_args(Runtime):
            raise InputError(
                f"--runtime {self.runtime}",
                "there is no such runtime",
                f"give {' or '.join(get_args(Runtime))}",
            )
        if not self.batches or min(self.batches) < 1 or self.rounds < 2:
            raise InputError(
                f"batches {self.batches}, {self.rounds} rounds",
                "there is nothing to time, or no spread to tell",
                "give batch sizes of 1 or more, as 1,32, and 2 rounds or more",
            )


@dataclass(frozen=True, slots=True, eq=False)
class Contestant:
    """A model to time; ``budget`` is the part of the original's cost that it was allowed."""

    name: str
    budget: float
    model: nn.Module
    input_size: tuple[int, int, int]

    @property
    def weight_bytes(self) -> int:
        """The bytes of its tensors."""
        return sum(t.numel() * t.element_size() for t in self.model.state_dict().values())


def bench_folder(folder: str | Place, wanted: Wanted, order: BenchOrder) -> Bench:
    """Time the models in ``folder``; a run folder keeps the result, a saved model's does not."""
    folder = place(folder)
    if not is_run(folder):
        return bench(contestants_of(folder, wanted), order)
    store = Store(folder)
    with store.locked():  # first: where a run works, nothing is timed in vain
        found = bench(contestants_of(folder, wanted), order)
        store.write(bench_key(found), found)
    return found


def contestants_of(folder: Place, wanted: Wanted) -> list[Contestant]:
    """Return the original and every finished model of a run, or the one that was saved."""
    if not is_run(folder):
        shipment = open_shipment(folder, wanted)
        channels, height, width = shipment.plan.input_size
        px, original = shipment.plan.resolution_px, shipment.original
        whole = profile(original, (channels, height, width)).macs
        left = profile(shipment.model, (channels, px, px)).macs / whole
        small = Contestant("joint", left, shipment.model, (channels, px, px))
        return [Contestant("original", 1.0, original, (channels, height, width)), small]
    budgets = finished_budgets(folder)
    if wanted.budget is not None:
        budgets = (read_finished(folder, wanted.budget),)
    original = original_of(folder, wanted)
    trained = [
        (name, each.outcome.budget, model)
        for each in budgets
        for name, model in each.models.items()
    ]
    channels, height, width = trained[0][2].plan.input_size
    found = [Contestant("original", 1.0, original.eval(), (channels, height, width))]
    for name, budget, model in trained:
        px = model.plan.resolution_px
        found.append(Contestant(name, budget, restore(original, model), (channels, px, px)))
    return found


def bench(contestants: list[Contestant], order: BenchOrder) -> Bench:
    """Time all of them at every batch size."""
    require_device(order.device, "timing")
    prepare = _in_torch if order.runtime == "torch" else _in_onnxruntime
    runners = {_label(each): prepare(each, order.device) for each in contestants}
    rows = [row for batch in order.batches for row in _rows(contestants, runners, batch, order)]
    here = Origin.here()
    gpu = torch.device(order.device).type == "cuda"
    versions = {"torch": here.versions["torch"], "triprune": here.versions["triprune"]}
    return Bench(
        device=order.device,
        runtime=order.runtime,
        hardware=here.hardware["gpu" if gpu else "processor"],
        threads=torch.get_num_threads(),
        versions=versions | (runtime_versions() if order.runtime == "onnxruntime" else {}),
        date=here.begun,
        rows=tuple(rows),
    )


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A model at one batch size: ``seconds(n)`` runs it n times and returns seconds per run."""

    seconds: Callable[[int], float]
    once: Callable[[], object]


_Runner = Callable[[int], _Prepared]
"""From a batch size to a model prepared for it."""


def _rows(
    contestants: list[Contestant], runners: dict[str, _Runner], batch: int, order: BenchOrder
) -> list[Timed]:
    prepared = {label: runner(batch) for label, runner in runners.items()}
    calls = {label: each.seconds for label, each in prepared.items()}
    samples = time_in_turns(calls, rounds=order.rounds)
    rows: list[Timed] = []
    for each in contestants:
        timed = summary(samples[_label(each)], batch_size=batch, device=order.device)
        rows.append(
            Timed(
                name=each.name,
                budget=each.budget,
                batch_size=batch,
                median_ms=timed.median_ms,
                lower_ms=timed.lower_ms,
                upper_ms=timed.upper_ms,
                samples=timed.samples,
                peak_bytes=_peak(each, prepared[_label(each)], order),
            )
        )
    return rows


def _peak(each: Contestant, prepared: _Prepared, order: BenchOrder) -> int | None:
    """Return the bytes of the weights and of what a pass adds to them."""
    if order.runtime == "onnxruntime" and order.device != "cpu":
        return None  # its GPU memory is not torch's to count
    grown = peak_growth(prepared.once, order.device)
    return None if grown is None else each.weight_bytes + grown


def _in_torch(each: Contestant, device: str) -> _Runner:
    model = each.model.eval().to(device)

    def runner(batch: int) -> _Prepared:
        seconds = timer(model, example_input(model, each.input_size, batch_size=batch))
        return _Prepared(seconds, lambda: seconds(1))

    return runner


def _in_onnxruntime(each: Contestant, device: str) -> _Runner:
    model = each.model.eval().cpu()
    example = example_input(model, each.input_size, batch_size=2)
    data = to_onnx(model, example, metadata={})
    session: Any = open_session(data, device=device)
    name: str = session.get_inputs()[0].name

    def runner(batch: int) -> _Prepared:
        feed = {name: example_input(model, each.input_size, batch_size=batch).numpy()}

        def seconds(repeats: int) -> float:
            start = time.perf_counter()
            for _ in range(repeats):
                session.run(None, feed)
            return (time.perf_counter() - start) / repeats

        frugal: Any = open_session(data, device=device, keeps_memory=False)
        return _Prepared(seconds, lambda: frugal.run(None, feed))

    return runner


def _label(each: Contestant) -> str:
    return f"{each.name} {each.budget:g}"
