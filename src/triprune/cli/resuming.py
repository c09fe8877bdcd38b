"""Owns what commands that go on later share: their flags, and what they say when they stop."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from triprune.errors import InputError, RunStoppedError

SECONDS_HELP = (
    "Stop cleanly between two epochs or steps, before so much time is over; one is always made."
)
VALIDATION_HELP = "A fraction of the training images, or test:2000, for weights of other origin."
_INTERRUPTED = 130
_STOPPED = 4  # as triprune status has it


@contextmanager
def resumable() -> Iterator[None]:
    """Tell how to go on where the work inside is interrupted, or its time is up."""
    try:
        yield
    except KeyboardInterrupt:
        command = shlex.join(["triprune", *sys.argv[1:]])
        typer.echo(f"\nStopped; nothing finished is lost. To go on: {command}", err=True)
        sys.exit(_INTERRUPTED)
    except RunStoppedError as stop:
        typer.echo(f"Stopped: {stop}", err=True)
        sys.exit(_STOPPED)


def refuse_beside_config(context: typer.Context, allowed: set[str]) -> None:
    """Refuse flags that a config would silently win over."""
    given = [
        f"--{name.replace('_', '-')}"
        for name in context.params
        if name not in allowed and _is_given(context, name)
    ]
    if given:
        raise InputError(
            f"--config with {', '.join(given)}",
            "the file says it all",
            "write it there, or give flags without --config",
        )


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def read_validation(text: str) -> float | str:
    """Read a fraction of the training images; anything else is for ``load_data`` to judge."""
    try:
        return float(text)
    except ValueError:
        return text
