"""Owns what the page says of originals trained on, and of the recipe divided: see ADR 0111."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from predictor import table
from triprune.errors import InputError
from whole_runs_found import Found, on_test, told

TRAINED_ON = "original trained on"
WIDTH, NO_TEACHER, SMALL_RATE, NEITHER = (
    f"width alone{how}" for how in ("", ", no teacher", ", small rate", ", small rate, no teacher")
)
TRAINED = TRAINED_ON, NO_TEACHER, SMALL_RATE, NEITHER
HEAD = ["seed", "original", TRAINED_ON, "joint", WIDTH, NO_TEACHER, SMALL_RATE, NEITHER]


def part(folder: Path, seeds: Sequence[Found]) -> str:
    """Return the part of the page on the seeds that were trained further; none without any."""
    pairs = [(found, further) for found in seeds if (further := read(folder, found)) is not None]
    if len(pairs) < 2:
        return ""
    columns = [[accuracy(*pair, name) for pair in pairs] for name in HEAD[1:]]
    rows = [
        [f"{found['seed']}", *(f"{value:.2f}" for value in row)]
        for (found, _), row in zip(pairs, zip(*columns, strict=True), strict=True)
    ]
    return f"""
## The originals trained on

A final model has trained on from its original, which has not. Here the original does so, too, with
itself as the teacher ([ADR 0111](../adr/0111-the-originals-trained-on.md)); and the cut in width
alone is trained without the teacher, from a tenth of the rate, and by both, which is as the paper
has it. Accuracies on the test images (%), of the first {len(pairs)} seeds; the originals were made
again from them (`benchmarks/whole_runs_further.py`), with the very same accuracy on validation.

{table(HEAD, [*rows, ["mean", *map(told, columns)]])}
{textwrap.fill(in_words(pairs), 100, break_on_hyphens=False)}
"""


def in_words(pairs: Sequence[tuple[Found, dict[str, Any]]]) -> str:
    """Return what training on, the rate and the teacher bring, seed by seed."""

    def gained(one: str, other: str) -> str:
        return told([accuracy(*pair, one) - accuracy(*pair, other) for pair in pairs], "+.2f")

    return (
        f"Trained on alike, the original gains {gained(TRAINED_ON, 'original')} points. Beside it "
        f"the joint models stand at {gained('joint', TRAINED_ON)}, width alone at "
        f"{gained(WIDTH, TRAINED_ON)}. The large rate brings width alone "
        f"{gained(WIDTH, SMALL_RATE)} points beside the teacher and {gained(NO_TEACHER, NEITHER)} "
        f"without; the teacher {gained(WIDTH, NO_TEACHER)} at the large rate and "
        f"{gained(SMALL_RATE, NEITHER)} at the small one. These originals are far from converged: "
        "they have much left to learn and little to teach, and of the paper's regime this tells "
        "nothing."
    )


def accuracy(found: Found, further: dict[str, Any], name: str) -> float:
    """Return the accuracy on the test images, in percent, of a model of either record."""
    if name in TRAINED:
        return 100 * further["trainings"][name]["test"]
    return on_test(found, "width" if name == WIDTH else name)


def read(folder: Path, found: Found) -> dict[str, Any] | None:
    """Return what was trained further from the same original, if it was."""
    path = folder / f"further-{found['seed']}.json"
    if not path.exists():
        return None
    further: dict[str, Any] = json.loads(path.read_text())
    for name in ("model", "seed", "recipe", "original"):
        if further[name] != found[name]:
            raise InputError(f"reading {path}", f"another {name} than the whole job's", "remove it")
    return further
