"""Owns the report on a plain CSV of observations; needs neither a run nor torch."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from triprune import __version__
from triprune.core.fitting import fit_predictor
from triprune.report.contents import Report
from triprune.run.observations import read_observations


def report_on_file(path: str | Path) -> Report:
    """Fit a predictor to the observations in ``path`` and return what can be said of them."""
    found = read_observations(path)
    return Report(
        subject=Path(path).name,
        state=f"{len(found.observations)} observations; nothing was run",
        predictor=fit_predictor(found.observations),
        observations=found.observations,
        notes=("accuracies were read as percentages",) if found.in_percent else (),
        facts=(("observations", str(path)), ("cost", "d·w²·r²"), *made_now()),
    )


def made_now() -> tuple[tuple[str, str], ...]:
    """Return when, and by which version, a report is made."""
    now = datetime.now(timezone.utc).isoformat(sep=" ", timespec="minutes")
    return (("report made", f"{now} by triprune {__version__}"),)
