"""Owns the step as one CUDA graph on a stream of its own; refuses models that cannot be captured.

Replaying a graph costs the host one call a step instead of one a kernel, and small networks are
bound by exactly those calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from triprune.errors import first_line
from triprune.learning.memory import out_of_memory
from triprune.learning.precision import switches
from triprune.learning.step import Step

WARM_UP_STEPS = 3  # cuDNN chooses its kernels and allocators settle before the capture


class CaptureError(RuntimeError):
    """The step does something that a CUDA graph cannot hold."""


class GraphEngine:
    """Replays one captured step."""

    label = "cuda graph"

    def __init__(self, step: Step, stream: torch.cuda.Stream) -> None:
        self._step, self._stream = step, stream
        self._graph = torch.cuda.CUDAGraph()
        self._graph.register_generator_state(step.feed.generator)
        with uncounted_batches(step.model) as self._counters:
            self._warm_up()
            self._capture()

    def advance(self) -> None:
        """Launch one step; returns before it is done."""
        with torch.cuda.stream(self._stream):
            self._step.feed.load()
            self._graph.replay()

    def close_epoch(self) -> None:
        """Count the epoch's batches in the model's batch norms."""
        with torch.no_grad(), torch.cuda.stream(self._stream):
            for counter in self._counters:
                counter.add_(self._step.feed.steps)

    def _warm_up(self) -> None:
        with torch.cuda.stream(self._stream), switches(self._step.precision, self._step.device):
            kept = snapshot(self._step.tensors())
            for _ in range(WARM_UP_STEPS):
                self._step.start(0)
                self._step()
            restore(self._step.tensors(), kept)
        self._stream.synchronize()

    def _capture(self) -> None:
        before = torch.cuda.current_stream()
        try:
            with (
                switches(self._step.precision, self._step.device),
                # Other threads (loaders, loggers) may use CUDA while this one captures.
                torch.cuda.graph(
                    self._graph, stream=self._stream, capture_error_mode="thread_local"
                ),
            ):
                self._step()
        except Exception as error:
            torch.cuda.set_stream(before)  # a failed capture does not leave its stream
            if out_of_memory(error):
                raise
            raise CaptureError(first_line(error)) from error


def snapshot(tensors: list[Tensor]) -> list[Tensor]:
    """Return copies of ``tensors``."""
    return [tensor.detach().clone() for tensor in tensors]


@torch.no_grad()
def restore(tensors: list[Tensor], kept: list[Tensor]) -> None:
    """Write ``kept`` back into ``tensors``."""
    for tensor, copy in zip(tensors, kept, strict=True):
        tensor.copy_(copy)


@contextmanager
def uncounted_batches(model: nn.Module) -> Iterator[list[Tensor]]:
    """Take the batch counters off the batch norms inside, and yield them.

    Each would cost a kernel a step, for a number that only a batch norm without momentum reads.
    """
    counted = [
        module
        for module in model.modules()
        if isinstance(module, _BatchNorm)
        and module.momentum is not None
        and module.num_batches_tracked is not None
    ]
    counters = [module._buffers["num_batches_tracked"] for module in counted]
    try:
        for module in counted:
            module._buffers["num_batches_tracked"] = None
        yield [counter for counter in counters if counter is not None]
    finally:
        for module, counter in zip(counted, counters, strict=True):
            module._buffers["num_batches_tracked"] = counter
