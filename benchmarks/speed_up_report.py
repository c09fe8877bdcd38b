"""Write docs/results/speed_up.md from the measurements under results/speed_up/.

python benchmarks/speed_up_report.py            # write the page
python benchmarks/speed_up_report.py --check    # fail if the page is not what they say
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pages import write_or_check

INTRO = """# The speed-up, measured

This page is written by `python benchmarks/speed_up_report.py` from the files under
`results/speed_up/`, which `benchmarks/speed_up.py` measures; edit neither by hand. In each file
all models were timed in turns in one process, one sample a round; a time is the median of the
rounds, with the quartiles between which half of them lie. `joint` cuts all three axes, the other
rows spend the same budget on one. Peak memory is the weights and what the process grows by during
a pass. A load average well above zero before the start tells of other work beside the measurement;
two torch threads that wait for busy cores then spoil even the ratios, as the quartiles show."""


def main() -> None:
    write_or_check("speed_up", whole_page, (__doc__ or "").partition("\n")[0])


def whole_page(folder: Path) -> str:
    """Return the page for the measurements in ``folder``."""
    return "\n".join([INTRO, *page(folder)]) + "\n"


def page(folder: Path) -> Iterator[str]:
    files = sorted(folder.glob("*.json"))
    if not files:
        yield ""
        yield "Nothing has been measured yet."
    for path in files:
        measured = json.loads(path.read_text())
        asked, here = measured["settings"], measured["circumstances"]
        yield ""
        yield f"## {asked['model']} at {asked['budget']:.0%} of its macs"
        yield ""
        yield (
            f"`results/speed_up/{path.name}`: {here['cpu']}, {here['threads']} threads, torch "
            f"{here['torch']}, onnxruntime {here.get('onnxruntime', 'not measured')}, Python "
            f"{here['python']}, {here['date'][:10]}, load average before {here['load_before']}; "
            f"seed {asked['seed']}, {asked['rounds']} rounds, channels in multiples of "
            f"{asked['round_to']}, {asked['resolution_px']} px."
        )
        yield ""
        yield from verdict(measured)
        yield from table(measured)


def verdict(measured: dict[str, Any]) -> Iterator[str]:
    bar = measured["settings"]["bar"]
    for row in measured["rows"]:
        if row["name"] == "joint" and row["batch_size"] == 1:
            met = "met" if row["times_faster"] >= bar else "**not met**"
            yield (
                f"- joint in {row['runtime']}, batch of 1: {row['times_faster']:.2f} × "
                f"(bar {bar:g} ×): {met}"
            )
    yield ""


def table(measured: dict[str, Any]) -> Iterator[str]:
    yield (
        "| runtime | batch | model | depth, width, resolution | macs | ms | half lie in | "
        "times faster | peak MB |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    whole = next(row["macs"] for row in measured["rows"] if row["name"] == "original")
    for row in measured["rows"]:
        scale = " ".join(f"{kept:.2f}" for kept in row["scale"])
        peak = "–" if row["peak_bytes"] is None else f"{row['peak_bytes'] / 1e6:.0f}"
        yield (
            f"| {row['runtime']} | {row['batch_size']} | {row['name']} | "
            f"{scale} ({row['px']} px) | {row['macs'] / whole:.1%} | {row['median_ms']:.1f} | "
            f"{row['lower_ms']:.1f}–{row['upper_ms']:.1f} | {row['times_faster']:.2f} | {peak} |"
        )


if __name__ == "__main__":
    main()
