"""Owns the model card: what a run knows of its model, in the Hugging Face layout; no more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from triprune.core.measured import Judged
from triprune.files import write_atomically
from triprune.run.about import ABOUT_FILE, About
from triprune.run.usage import GraphFile, use_of_folder, use_of_graph

CARD_FILE = "MODEL_CARD.md"
_CLASSES_SHOWN = 20
_COSTS = {"macs": "macs", "params": "params", "latency": "latency", "paper": "compute d·w²·r²"}


def model_card(about: About, graph: GraphFile | None = None) -> str:
    """Return the card as Markdown with YAML front matter, of a saved folder or of ``graph``."""
    told = [*_front_matter(about), *_summary(about), *_use(about, graph), *_made(about)]
    return "\n".join(told) + "\n"


def write_card(about: About, folder: Path, graph: GraphFile | None = None) -> None:
    """Write ``about.json`` and the card beside a model."""
    write_atomically(folder / ABOUT_FILE, about.to_json())
    write_atomically(folder / CARD_FILE, model_card(about, graph))


def _front_matter(about: About) -> Iterator[str]:
    joint = about.row("joint")
    task = "image-classification" if about.classes else "other"
    # A JSON string is a YAML string, whatever stands in it.
    yield "---"
    yield "library_name: triprune"
    if about.classes:
        yield f"pipeline_tag: {task}"
    yield "tags: [pruning, compression, pytorch]"
    yield "metrics: [accuracy]"
    yield "model-index:"
    yield f"- name: {json.dumps(_title(about))}"
    yield "  results:"
    yield f"  - task: {{type: {task}}}"
    data = about.making.data
    yield f"    dataset: {{name: {json.dumps(data)}, type: {_slug(data)}}}"
    yield "    metrics:"
    yield f"    - {{type: accuracy, name: test score, value: {joint.accuracy:.6g}}}"
    yield "---"
    yield ""


def _summary(about: About) -> Iterator[str]:
    joint, original = about.row("joint"), about.row("original")
    made = about.making
    yield f"# {_title(about)}"
    yield ""
    yield (
        f"{_cell(made.model)}, pruned with triprune {_cell(made.triprune)}: "
        f"{joint.macs / original.macs:.1%} of the macs and {joint.params / original.params:.1%} of "
        f"the params are left. Kept: depth {joint.scale.depth:.3f}, width {joint.scale.width:.3f}, "
        f"resolution {joint.scale.resolution:.3f} ({joint.resolution_px} px of "
        f"{original.resolution_px})."
    )
    yield ""
    yield "| model | test score | macs | params | px | latency, ms |"
    yield "|---|---|---|---|---|---|"
    for row in about.rows:
        yield (
            f"| {_cell(row.name)} | {_score(row)} | {row.macs:,} | {row.params:,} | "
            f"{row.resolution_px} | {row.latency_ms:.2f} |"
        )
    seeds = len(joint.accuracies)
    spread = "mean ± standard deviation" if seeds > 1 else "no spread is known"
    yield ""
    yield (
        f"Scores are of the test split, over {seeds} seed{'s' if seeds > 1 else ''} ({spread}); "
        "the weights are the first seed's. Latency: a batch of one on "
        f"{_cell(made.latency_device)}. "
        "`joint` is this model; the other rows, if any, spend the same budget on one axis alone."
    )
    yield ""


def _use(about: About, graph: GraphFile | None) -> Iterator[str]:
    yield "## Use"
    yield ""
    yield from use_of_folder(about) if graph is None else use_of_graph(about, graph)
    yield ""
    if about.classes:
        more = len(about.classes) - _CLASSES_SHOWN
        shown = ", ".join(map(_cell, about.classes[:_CLASSES_SHOWN]))
        yield f"Classes, in order: {shown}" + (f" and {more} more (about.json)" if more > 0 else "")
        yield ""


def _made(about: About) -> Iterator[str]:
    made = about.making
    yield "## How it was made"
    yield ""
    yield (
        "Depth, width and resolution were each pruned and fine-tuned on their own; a predictor of "
        f"accuracy was fitted to that, the best combination within {made.budget:.1%} of the "
        f"{_COSTS.get(made.cost, 'cost')} chosen, cut from the original and fine-tuned (Wang et "
        "al., *Accelerate CNNs from Three Dimensions*, ICML 2021)."
    )
    yield ""
    yield f"- data: {_cell(made.data)}; first seed {made.seed}; {made.epochs} epochs of fine-tuning"
    recipe = ", ".join(f"{key} {value}" for key, value in made.recipe.items())
    yield f"- recipe: {_cell(recipe)}"
    for note in about.notes:
        yield f"- note: {_cell(note)}"


def _title(about: About) -> str:
    joint, original = about.row("joint"), about.row("original")
    return f"{_cell(about.making.model)} at {joint.macs / original.macs:.1%} of its macs"


def _score(row: Judged) -> str:
    return f"{row.accuracy:.4f}" + ("" if row.spread is None else f" ± {row.spread:.4f}")


def _slug(name: str) -> str:
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in name)
    return json.dumps(kept.strip("-") or "unknown")


def _cell(text: str) -> str:
    """Return ``text`` on one line, with nothing in it that Markdown would take for its own."""
    plain = " ".join(str(text).split())
    return "".join(f"\\{c}" if c in "\\`*<>|[]" else c for c in plain)
