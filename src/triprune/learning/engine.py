"""Owns the choice of engine: the whole step as one CUDA graph, or step by step from Python."""

from __future__ import annotations

from typing import Protocol

import torch

from triprune.learning.engine_cuda import CaptureError, GraphEngine
from triprune.learning.precision import on_stream, switches
from triprune.learning.step import Step


class Engine(Protocol):
    """Drives the steps of a training."""

    label: str

    def advance(self) -> None:
        """Do one step, or launch it."""
        ...

    def close_epoch(self) -> None:
        """Do what is left once an epoch's steps are launched."""
        ...


class EagerEngine:
    """Runs every step from Python: on the CPU, over several processes, or where capture fails."""

    label = "eager"

    def __init__(self, step: Step, stream: torch.cuda.Stream | None = None) -> None:
        self._step, self._stream = step, stream

    def advance(self) -> None:
        """Run one step."""
        with on_stream(self._stream), switches(self._step.precision, self._step.device):
            self._step.feed.load()
            self._step()

    def close_epoch(self) -> None:
        """Nothing is left to do: an eager batch norm counts its batches itself."""


def engine_for(step: Step, stream: torch.cuda.Stream | None) -> tuple[Engine, str | None]:
    """Return the fastest engine that can run ``step``, and why it is not the fast one, if so."""
    if stream is None or step.ranks.world > 1:
        return EagerEngine(step, stream), None
    try:
        return GraphEngine(step, stream), None
    except CaptureError as error:
        # The failed capture may have left the generator mid-way.
        step.feed.generator = torch.Generator(step.device)
        return EagerEngine(step, stream), (
            f"the step cannot be captured as a CUDA graph ({error}); running it step by step"
        )
