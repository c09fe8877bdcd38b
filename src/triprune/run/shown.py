"""Owns turning stored artifacts into what a report shows; reads no file."""

from __future__ import annotations

from triprune.report.contents import Comparison, LearningCurve, SpeedTest
from triprune.run.artifacts import Bench, Outcome, TrainedModel


def comparison(outcome: Outcome) -> Comparison:
    """Return an outcome as a report compares it."""
    device = outcome.latency_device
    return Comparison(outcome.budget, outcome.rows, device, outcome.epochs, outcome.paper_epochs)


def speed_test(bench: Bench) -> SpeedTest:
    """Return a bench as a report shows it."""
    versions = ", ".join(f"{name} {found}" for name, found in bench.versions.items())
    threads = "1 thread" if bench.threads == 1 else f"{bench.threads} threads"
    machine = f"{bench.hardware}, {threads}, {versions}"
    return SpeedTest(bench.device, bench.runtime, machine, bench.date, bench.rows)


def learning_curve(name: str, group: str, trained: TrainedModel) -> LearningCurve:
    """Return the epochs of a trained model."""
    losses = tuple(epoch.loss for epoch in trained.history)
    return LearningCurve(name, group, losses, tuple(epoch.accuracy for epoch in trained.history))
