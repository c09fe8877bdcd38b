"""Owns answers to a batch that does not fit: how much memory one takes, and which would fit."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from triprune.errors import OutOfMemoryError

if TYPE_CHECKING:
    from triprune.learning.step import Step

_MEMINFO = Path("/proc/meminfo")
_MARGIN = 0.9  # kernels' workspaces and fragments need a part of what is free


def out_of_memory(error: BaseException | None) -> bool:
    """Whether ``error``, or what led to it, is a device or a host without memory."""
    while error is not None:
        if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
            return True
        if isinstance(error, RuntimeError) and "can't allocate memory" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def fitting_batch(measured: Sequence[tuple[int, int]], available: int) -> int | None:
    """Return the largest batch for ``available`` bytes, from two measured (batch, bytes).

    Memory is a fixed part and a part per image; rounded down to a multiple of 8 where it can be.
    """
    if len(measured) < 2:
        return None
    (small, low), (large, high) = min(measured), max(measured)
    if large == small or high <= low:
        return None
    per_image = (high - low) / (large - small)
    fixed = low - small * per_image
    batch = int((available * _MARGIN - fixed) / per_image)
    if batch < 1:
        return None
    return batch if batch < 8 else batch - batch % 8


def measure_batches(try_batch: Callable[[int], int], failed: int) -> list[tuple[int, int]]:
    """Return (batch, bytes) of the two largest batches that fit below ``failed``, by halving."""
    measured: list[tuple[int, int]] = []
    batch = failed // 2
    while batch >= 1 and len(measured) < 2:
        try:
            measured.append((batch, try_batch(batch)))
        except Exception as error:
            if not out_of_memory(error):
                raise
        batch //= 2
    return measured


def bytes_of_step(step: Step) -> int:
    """Return the most memory that ``step`` takes at once; the model stays as it was."""
    tensors = step.tensors()
    kept = [tensor.detach().to("cpu", copy=True) for tensor in tensors]
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(step.device)
    before = torch.cuda.memory_allocated(step.device)
    try:
        step.start(0)
        step.feed.load()
        step()
        torch.cuda.synchronize(step.device)
        return torch.cuda.max_memory_allocated(step.device) - before
    finally:
        with torch.no_grad():
            for tensor, copy in zip(tensors, kept, strict=True):
                tensor.copy_(copy)


def available_bytes(device: torch.device) -> int:
    """Return the memory that a training could have on ``device``."""
    if device.type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info(device)[0]
    if _MEMINFO.is_file():  # the kernel's own estimate, which counts caches as free
        fields = dict(line.split(":") for line in _MEMINFO.read_text().splitlines())
        return int(fields["MemAvailable"].split()[0]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def memory_error(
    name: str, batch: int, *, measured: Sequence[tuple[int, int]], available: int
) -> OutOfMemoryError:
    """Return the error that says which batch would fit."""
    fits = fitting_batch(measured, available)
    if fits is None and measured:
        fits = max(size for size, _ in measured)
    remedy = (
        f"batch_size = {min(fits, batch - 1)} would fit"
        if fits
        else f"try batch_size = {max(1, batch // 2)}, or a smaller resolution"
    )
    found = f"the device has no memory for it ({available / 2**30:.1f} GiB were free)"
    return OutOfMemoryError(f"training {name} with batch_size = {batch}", found, remedy)
