"""Owns timing: how long models take to answer, side by side; refuses to time a cold model."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median, quantiles

import torch
from torch import nn

from triprune.errors import InputError
from triprune.network.hardware import require_device
from triprune.network.profile import (
    InputSize,
    example_input,
    input_shape,
    run_once,
)
from triprune.network.running import deep_copy

_WARM_UP_S = 0.3
_SAMPLE_S = 0.005  # shorter samples measure the clock


@dataclass(frozen=True, slots=True)
class Latency:
    """Time of one forward pass: the median, and the quartiles between which half of them lie."""

    median_ms: float
    lower_ms: float
    upper_ms: float
    samples: int
    batch_size: int
    device: str


def measure_latency(
    models: Mapping[str, nn.Module],
    input_size: InputSize | Mapping[str, InputSize],
    *,
    batch_size: int = 1,
    rounds: int = 30,
    device: str | torch.device | None = None,
) -> dict[str, Latency]:
    """Time each named model in eval mode, in rounds that time every one of them once.

    Interleaving lets a busy machine disturb all models alike; each round begins with another one.
    ``input_size`` may differ by model. ``device=None`` is where each model already is.
    """
    if not models or batch_size < 1 or rounds < 2:
        raise InputError(
            f"the latency of {len(models)} models, batch_size={batch_size}, rounds={rounds}",
            "there is nothing to time, or no spread to report",
            "give at least one model, batch_size >= 1 and rounds >= 2",
        )
    if device is not None:
        require_device(device, "timing")
    calls: dict[str, Callable[[int], float]] = {}
    devices: dict[str, str] = {}
    for name, model in models.items():
        twin = deep_copy(model, f"the latency of {name}").eval()
        twin = twin if device is None else twin.to(device)
        size = input_size[name] if isinstance(input_size, Mapping) else input_size
        images = example_input(twin, input_shape(twin, size), batch_size=batch_size)
        run_once(twin, images)
        calls[name] = timer(twin, images)
        devices[name] = images.device.type
    samples = time_in_turns(calls, rounds=rounds)
    return {n: summary(s, batch_size=batch_size, device=devices[n]) for n, s in samples.items()}


def time_in_turns(
    calls: Mapping[str, Callable[[int], float]], *, rounds: int
) -> dict[str, list[float]]:
    """Return the seconds per run of each call, warmed up, one sample a round.

    A call runs as often as it is told and returns seconds per run.
    """
    repeats = {name: _warm_up(call) for name, call in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for round_number in range(rounds):
        start = round_number % len(names)
        for name in names[start:] + names[:start]:
            samples[name].append(calls[name](repeats[name]))
    return samples


def timer(model: nn.Module, images: torch.Tensor) -> Callable[[int], float]:
    """Return a function that runs the model ``repeats`` times and returns seconds per run."""

    def on_cpu(repeats: int) -> float:
        with torch.inference_mode():
            start = time.perf_counter()
            for _ in range(repeats):
                model(images)
            return (time.perf_counter() - start) / repeats

    def on_cuda(repeats: int) -> float:
        start = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        with torch.inference_mode(), torch.cuda.device(images.device):
            torch.cuda.synchronize()
            start.record()
            for _ in range(repeats):
                model(images)
            end.record()
            end.synchronize()
        return start.elapsed_time(end) / 1000 / repeats

    return on_cuda if images.device.type == "cuda" else on_cpu


def _warm_up(call: Callable[[int], float]) -> int:
    """Run for a while; return how many runs make a sample long enough to trust."""
    end = time.perf_counter() + _WARM_UP_S
    fastest = call(1)
    while time.perf_counter() < end:
        fastest = min(fastest, call(1))
    return max(1, round(_SAMPLE_S / max(fastest, 1e-7)))


def summary(seconds: list[float], *, batch_size: int, device: str) -> Latency:
    """Return the median and the quartiles of samples in seconds."""
    milliseconds = [1000 * s for s in seconds]
    lower, _, upper = quantiles(milliseconds, n=4)
    return Latency(median(milliseconds), lower, upper, len(milliseconds), batch_size, device)
