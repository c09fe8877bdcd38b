"""Owns the choice of executor; imports Ray's only where it is asked for."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager

from triprune.errors import MissingExtraError
from triprune.run.executors.inline import Executor, Inline, SideBySide
from triprune.run.executors.travelling import Traveller
from triprune.run.spec import Settings

# Ray reads these as it is imported and started: it shall report nothing, and pack no folder.
_QUIET = ("RAY_USAGE_STATS_ENABLED", "RAY_ENABLE_UV_RUN_RUNTIME_ENV")


@contextmanager
def open_executor(
    settings: Settings, shared: Traveller
) -> Generator[Executor[Traveller], None, None]:
    """Give the executor that ``settings`` name, on what all its pieces share."""
    if settings.executor != "ray":
        yield (Inline if settings.executor == "inline" else SideBySide)(shared)
        return
    for name in _QUIET:
        os.environ.setdefault(name, "0")
    try:
        from triprune.run.executors.ray_executor import RayExecutor
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            "--executor ray",
            f"the package {error.name!r} is not installed",
            "run: pip install triprune[ray]",
        ) from error
    with RayExecutor(settings, shared) as executor:
        yield executor
