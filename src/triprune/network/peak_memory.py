"""Owns how much memory a forward pass takes at its peak; says None where that cannot be measured.

On a GPU torch's own allocator tells. On a CPU it is how far the process grows while it runs, which
only Linux tells, and which also counts what a runtime keeps for itself.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch

_RUNS = 3
_PROCESS = Path("/proc/self")


def peak_growth(run: Callable[[], object], device: str) -> int | None:
    """Return by how many bytes memory grows during ``run``: the median of a few runs."""
    measure = _on_cuda if torch.device(device).type == "cuda" else _on_linux
    grown = [measure(run) for _ in range(_RUNS)]
    known = [each for each in grown if each is not None]
    return int(median(known)) if known else None


def _on_cuda(run: Callable[[], object]) -> int:
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def _on_linux(run: Callable[[], object]) -> int | None:
    try:
        # What was freed before must go back to the system, or the run would live on it unseen.
        ctypes.CDLL(None).malloc_trim(0)
        (_PROCESS / "clear_refs").write_text("5")  # forget the peak so far
        before = _kilobytes("VmRSS")
        run()
        return max(0, 1024 * (_kilobytes("VmHWM") - before))
    except (OSError, AttributeError, TypeError):
        run()
        return None


def _kilobytes(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB", (_PROCESS / "status").read_text(), re.MULTILINE)
    if found is None:
        raise OSError(f"{name} is not told")
    return int(found.group(1))
