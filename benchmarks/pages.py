"""Owns the command line of a page that is written from results, or checked against them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from triprune.files import write_atomically

ROOT = Path(__file__).parents[1]


def write_or_check(name: str, text_of: Callable[[Path], str], about: str) -> None:
    """Write docs/results/``name``.md from results/``name``/; with --check only compare them."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--results", type=Path, default=ROOT / "results" / name)
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "results" / f"{name}.md")
    parser.add_argument("--check", action="store_true", help="compare, do not write")
    settings = parser.parse_args()
    text = text_of(settings.results)
    if settings.check:
        if not settings.page.exists() or settings.page.read_text() != text:
            raise SystemExit(f"{settings.page} is out of date: run this without --check")
        return
    settings.page.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(settings.page, text)
