"""Owns the names of processors and devices; refuses to measure anything on them."""

from __future__ import annotations

import platform
from pathlib import Path

import torch

from triprune.errors import InputError, first_line


def processor_name() -> str:
    """Return the processor's name; Linux tells it in a file only."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = list[str]()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def require_device(device: str | torch.device, asked: str) -> None:
    """Refuse a device that torch cannot use here."""
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            f"{asked} on {device}", f"torch cannot use it here ({first_line(error)})", "try cpu"
        ) from error


def device_name(device: str | torch.device) -> str:
    """Return a device as a reader of timings must know it, as ``cpu (AMD EPYC, 2 threads)``."""
    kind = torch.device(device)
    if kind.type == "cuda":
        return f"cuda ({torch.cuda.get_device_name(kind)})"
    threads = torch.get_num_threads()
    return f"{kind.type} ({processor_name()}, {threads} thread{'s' if threads > 1 else ''})"
