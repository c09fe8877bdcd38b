r"""Fine-tune a config's original after several cuts, side by side.

    python benchmarks/cuts.py configs/cifar10-public-resnet56.toml --epochs 160 --seeds 0 1 2 \
        --cut 0.48,1,1 0.74,0.81,1@random 0.74,0.81,1@bn_scale/output 1,0.71,1+schedule=cosine \
        --out results/fine_tuning/NAME.json

A cut is a scale; after an ``@`` it names who judges channels and, after a slash, who judges blocks.
What it does not name is the config's own. The recipe is that of the config's final fine-tuning,
with ``--epochs`` and what a cut sets otherwise after a ``+``. fine_tuning.py is for recipes alone,
after one cut. ``--test`` opens the test split at the end. Stops before ``--seconds`` are over; what
was not finished is recorded as stopped. It needs torch, numpy and safetensors.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fine_tuning import device_of, final_task, fine_tune_all, refuse_what_cannot_be
from kept_kernels import keep_by_source
from machine import circumstances
from scales import read_scale
from study_rows import Row, every
from triprune.core.scale import Scale
from triprune.errors import InputError, TripruneError
from triprune.learning.deadline import Deadline
from triprune.learning.recipe import Recipe
from triprune.network.plan import Plan
from triprune.run.artifacts import Survey
from triprune.run.block_worth import scores_of_blocks
from triprune.run.case import Case
from triprune.run.keys import SURVEY
from triprune.run.opening import open_case
from triprune.run.spec import RunSpec, Settings
from triprune.run.steps import original_task
from triprune.run.store import Store
from triprune.run.subject import Subject
from triprune.run.trainer import Task
from variants import read_settings

KIND = "study of cuts"


@dataclass(frozen=True, slots=True)
class Cut:
    """What is to be kept, and the settings that say who judges."""

    text: str
    scale: Scale
    settings: Settings

    @classmethod
    def read(cls, text: str, settings: Settings) -> Cut:
        """Return the cut written as SCALE, SCALE@CHANNELS/BLOCKS or either with +SETTING=VALUE."""
        cut, *told = text.split("+")
        scale, _, judges = cut.partition("@")
        channels, _, blocks = judges.partition("/")
        named = {"importance": channels, "block_importance": blocks}
        changes: dict[str, Any] = {name: judge for name, judge in named.items() if judge}
        recipe = Recipe.from_mapping({**settings.recipe.to_mapping(), **read_settings(told)})
        return cls(text, read_scale(scale), replace(settings, recipe=recipe, **changes))

    @property
    def deciding(self) -> tuple[Any, ...]:
        """What tells two cuts apart: nobody judges channels or blocks that all stay."""
        channels = self.settings.importance if self.scale.width < 1.0 else None
        blocks = self.settings.block_importance if self.scale.depth < 1.0 else None
        return self.scale, channels, blocks, self.settings.recipe.fine_tuning(final=True)

    def make(self, case: Case, judged: dict[str, dict[str, float]]) -> tuple[nn.Module, Plan]:
        """Cut a copy of the case's original; ``judged`` are the scores of blocks by judge."""
        own, asked = case.subject, self.settings
        subject = Subject(own.model, own.input_size, asked.importance, round_to=asked.round_to)
        if self.scale.depth == 1.0:
            return subject.cut(self.scale, {})
        judge = asked.block_importance
        if judge not in judged:
            judged[judge] = scores_of_blocks(replace(case, settings=asked), subject.blocks())
        return subject.cut(self.scale, judged[judge])


def main() -> None:
    settings = parse()
    try:
        if settings.out.exists():
            raise InputError(f"writing {settings.out}", "it is there already", "give another --out")
        if settings.kernels is not None:
            keep_by_source(settings.kernels)
        spec = read_spec(settings)
        cuts = [Cut.read(text, spec.settings) for text in settings.cut]
        rows = read_rows(cuts, device_of(spec), settings)
        run(open_case(spec, deadline=Deadline(settings.seconds)), cuts, rows, settings)
    except TripruneError as error:
        raise SystemExit(f"{error}") from error


def run(case: Case, cuts: Sequence[Cut], rows: Sequence[Row], settings: argparse.Namespace) -> None:
    """Make every cut, fine-tune it from every seed, and write down what came of it."""
    judged: dict[str, dict[str, float]] = {}
    if settings.run is not None:
        judged[case.settings.block_importance] = surveyed(settings.run, case)
    made = {cut.text: cut.make(case, judged) for cut in cuts}
    about: dict[str, Any] = {
        "kind": KIND,
        "config": settings.config.name,
        "blocks_of": None if settings.run is None else settings.run.name,
        "circumstances": circumstances(torch.device(case.device)),
        "original": {"accuracy": case.trainer.validate(original_task(case))},
        "epochs": settings.epochs,
        "recipe": case.settings.recipe.fine_tuning(final=True).to_mapping(),
        "cuts": {cut.text: about_cut(cut, case, *made[cut.text]) for cut in cuts},
    }
    pairs: list[tuple[Row, Task]] = []
    for row in rows:
        model, plan = made[row.what]
        pairs.append((row, final_task(row, case, copy.deepcopy(model), plan)))
    fine_tune_all(case, about, pairs, settings)


def surveyed(folder: Path, case: Case) -> dict[str, float]:
    """Return the scores of blocks that a run found: same original, same images, same judge."""
    store = Store(folder)
    theirs, ours = store.facts(), case.facts()
    for name in ("weights", "data"):
        if theirs[name] != json.loads(json.dumps(ours[name])):
            found = f"it began with other {name}"
            raise InputError(f"the blocks of {folder}", found, "name another run")
    for name in ("block_importance", "cost"):
        judge = theirs["settings"][name]
        if judge != getattr(case.settings, name):
            found = f"it judged them by {name} = {judge}"
            raise InputError(f"the blocks of {folder}", found, "name another run")
    return store.read(SURVEY, Survey).block_scores


def about_cut(cut: Cut, case: Case, model: nn.Module, plan: Plan) -> dict[str, Any]:
    """Return what was asked and what was built."""
    macs, params = case.subject.cost_of(model, plan.resolution_px)
    recipe, common = (each.recipe.to_mapping() for each in (cut.settings, case.settings))
    return {
        "scale": asdict(cut.scale),
        "realised": asdict(plan.realised),
        "importance": cut.settings.importance,
        "block_importance": cut.settings.block_importance,
        "recipe": {name: told for name, told in recipe.items() if told != common.get(name)},
        "removed_blocks": list(plan.removed_blocks),
        "macs": macs,
        "params": params,
    }


def read_spec(settings: argparse.Namespace) -> RunSpec:
    """Return the config's run, with as many final epochs as are asked for."""
    spec = RunSpec.from_toml(settings.config)
    recipe = replace(spec.settings.recipe, final_epochs=settings.epochs)
    return replace(spec, settings=replace(spec.settings, recipe=recipe, effort="paper"))


def read_rows(cuts: Sequence[Cut], device: torch.device, settings: argparse.Namespace) -> list[Row]:
    """Return every cut with every seed; refuse one that comes twice."""
    pairs = list(itertools.product(cuts, settings.seeds))
    rows = [Row(cut.text, seed, cut.settings.recipe) for cut, seed in pairs]
    for row in rows:
        refuse_what_cannot_be(row, device)
    same = {(cut.deciding, seed) for cut, seed in pairs}
    if len(same) < len(pairs):
        raise InputError(
            f"{len(settings.cut)} cuts with {len(settings.seeds)} seeds",
            "some fine-tunings would be the same",
            "give every cut and every seed once",
        )
    return rows


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("config", type=Path, help="a run's TOML file")
    parser.add_argument(
        "--cut",
        nargs="+",
        required=True,
        help="as 0.74,0.81,1@random/output+schedule=cosine",
    )
    parser.add_argument("--run", type=Path, help="take the scores of blocks that this run found")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument(
        "--validate-every", type=every, default=1, help="epochs; the last one always"
    )
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--test", action="store_true", help="open the test split at the end")
    parser.add_argument("--seconds", type=float, default=540, help="stop after about so long")
    parser.add_argument("--answers", type=Path, help="keep a teacher's answers in this folder")
    parser.add_argument("--kernels", type=Path, help="folder of kernels: compile_ahead.py")
    return parser.parse_args()


if __name__ == "__main__":
    main()
