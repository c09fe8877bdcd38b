"""Owns where a result came from: the command, the date, the versions and the machine."""

from __future__ import annotations

import os
import platform
import shlex
import sys
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from triprune import __version__
from triprune.network.hardware import processor_name
from triprune.run.artifacts import Parts

_PACKAGES = ("torch", "numpy", "scipy")


@dataclass(frozen=True, slots=True)
class Origin:
    """What began a result. ``begun`` is in UTC, by ISO 8601."""

    command: str
    begun: str
    versions: dict[str, str]
    hardware: dict[str, str]

    @classmethod
    def here(cls) -> Origin:
        """Return this process, now."""
        program = Path(sys.argv[0])
        versions = {"triprune": __version__, "python": platform.python_version()}
        return cls(
            command=shlex.join([_name(program), *sys.argv[1:]]),
            begun=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            versions=versions | {name: _version(name) for name in _PACKAGES},
            hardware=_hardware(),
        )

    def to_parts(self) -> Parts:
        """Return plain values."""
        return asdict(self), {}

    @classmethod
    def from_parts(cls, values: dict[str, Any], tensors: dict[str, Tensor]) -> Origin:
        """Rebuild the origin."""
        del tensors
        return cls(**values)


def _name(program: Path) -> str:
    """Return what was called; a package that is run as a module shows its folders only."""
    return "triprune" if program.parts[-3:] == ("triprune", "cli", "__main__.py") else program.name


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _hardware() -> dict[str, str]:
    found = {
        "processor": processor_name(),
        "cores": str(len(os.sched_getaffinity(0))),
        "system": f"{platform.system()} {platform.machine()}",
    }
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        found["gpu"] = ", ".join(names)
    return found
