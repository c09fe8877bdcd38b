"""Write docs/scaling.md: what a run costs on 1, 8 and 64 GPUs, from measured speeds.

python benchmarks/scaling.py            # write the page
python benchmarks/scaling.py --check    # fail if the page is not what the measurements say
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triprune.core.cost import paper_cost
from triprune.core.scale import AXES
from triprune.core.schedule import schedule
from triprune.learning.recipe import Recipe
from triprune.run.spec import Effort, Settings

ROOT = Path(__file__).parents[1]
BUDGET, ROUNDS, CHOICES = 0.5, 4, 4  # joint and a control on each axis
RESNET56_MACS, RESNET50_MACS, RESNET50_PARAMS = 125_485_696, 4_089_184_256, 25_557_032
LINES = {"alone": "tf32-nhwc x1 (cuda graph)", "three": "tf32-nhwc x3 (cuda graph)"}
HELD_OUT = 0.1


@dataclass(frozen=True)
class Speeds:
    """Images per second of ResNet-56 on one H200, and of a core that decodes JPEGs."""

    alone: float
    three: float
    eager: float
    decoded: float

    @classmethod
    def read(cls, results: Path) -> Speeds:
        """Read what was measured."""
        measured = json.loads((results / "engine" / "speed_h200.json").read_text())
        rows = {row["what"]: row["images_per_second"] for row in measured["rows"]}
        decode = json.loads((results / "scaling" / "decode.json").read_text())["rows"]
        sizes = {row["resolution_px"]: row["images_per_core_second"] for row in decode}
        return cls(rows[LINES["alone"]], rows[LINES["three"]], rows["ordinary"], sizes[224])

    @property
    def launch_s(self) -> float:
        """The shortest step from Python: 128 small images, which leave the GPU waiting."""
        return 128 / self.eager


@dataclass(frozen=True)
class Case:
    """A model on a data set."""

    name: str
    images: int
    macs: int
    recipe: str
    effort: Effort

    @property
    def spent(self) -> Recipe:
        """The recipe with the epochs of its effort."""
        chosen = Recipe.preset(self.recipe)
        return Settings(BUDGET, recipe=chosen, effort=self.effort).spent_recipe

    @property
    def large(self) -> bool:
        """Whether one model fills a GPU, so that several at once bring nothing."""
        return self.macs > RESNET56_MACS


CASES = (
    Case("ResNet-56, CIFAR-10, paper", 50_000, RESNET56_MACS, "cifar10", "paper"),
    Case("ResNet-50, ImageNet, standard", 1_281_167, RESNET50_MACS, "imagenet", "standard"),
    Case("ResNet-50, ImageNet, paper", 1_281_167, RESNET50_MACS, "imagenet", "paper"),
    Case("ResNet-50, ImageNet-21k, standard", 14_197_122, RESNET50_MACS, "imagenet", "standard"),
)


@dataclass(frozen=True)
class Layout:
    """How the GPUs are used: how many train one model, and how many models train at once."""

    gpus: int
    per_chain: int

    @property
    def at_once(self) -> int:
        """How many models train at the same time."""
        return self.gpus // self.per_chain


@dataclass(frozen=True)
class Times:
    """Seconds of the chains and of the final fine-tunings, and what holds the chains up."""

    layout: Layout
    chains: float
    finals: float
    bound: str

    @property
    def total(self) -> float:
        """Seconds of the whole run."""
        return self.chains + self.finals


def rate(case: Case, speeds: Speeds, layout: Layout, cost: float) -> tuple[float, str]:
    """Return images per second of one model at ``cost``, and what bounds them."""
    full = speeds.three * RESNET56_MACS / case.macs
    if layout.per_chain > 1:
        step = case.spent.batch_size / layout.per_chain * cost / full
        launched = speeds.launch_s > step
        seconds = max(step, speeds.launch_s)
        return case.spent.batch_size / seconds, "launches" if launched else "compute"
    if case.large:
        return full / cost, "compute"
    if layout.gpus == 1:  # three side by side: a third of the whole for each
        return full / 3 / cost, "compute"
    return speeds.alone / cost, "a model too small for its GPU"


def times(case: Case, speeds: Speeds, layout: Layout) -> Times:
    """Return how long a run with controls takes: rounds one after the other, chains at once."""
    targets = schedule(BUDGET, rounds=ROUNDS)
    seen = case.images * (1 - HELD_OUT) * (1 + HELD_OUT / (1 - HELD_OUT) / 3)
    chains = []
    bound = ""
    for axis in AXES:
        seconds = 0.0
        for scale in targets.targets(axis):
            speed, bound = rate(case, speeds, layout, paper_cost(scale))
            seconds += case.spent.round_epochs * seen / speed
        chains.append(seconds)
    side_by_side = layout.gpus == 1 and not case.large
    last, _ = rate(case, speeds, layout, BUDGET)
    final = case.spent.final_epochs * seen / last
    slots = 3 if side_by_side else layout.at_once
    return Times(layout, makespan(chains, slots), makespan([final] * CHOICES, slots), bound)


def makespan(works: list[float], slots: int) -> float:
    """Return when the last work ends, if each takes the slot that is free first."""
    ends = [0.0] * slots
    for seconds in sorted(works, reverse=True):
        ends[ends.index(min(ends))] += seconds
    return max(ends)


def best(case: Case, speeds: Speeds, gpus: int) -> Times:
    """Return the fastest layout that lets three chains run at once, where there are three GPUs.

    A chain gets a power of two, which divides the batch.
    """
    widest = max(1, gpus // 3)
    sizes = [2**n for n in range(7) if 2**n <= widest and case.spent.batch_size % 2**n == 0]
    return min((times(case, speeds, Layout(gpus, n)) for n in sizes), key=lambda t: t.total)


def page(results: Path) -> str:
    speeds = Speeds.read(results)
    resnet50 = speeds.three * RESNET56_MACS / RESNET50_MACS
    batch = Recipe.preset("imagenet").batch_size
    widest = int(batch * speeds.launch_s**-1 / resnet50)
    exchanged = 2 * 4 * RESNET50_PARAMS
    lines = [INTRO.format(budget=BUDGET, rounds=ROUNDS, choices=CHOICES)]
    lines += ["| case | GPUs | a chain gets | chains | finals | whole run | GPU-hours | bound by |"]
    lines += ["|---|---|---|---|---|---|---|---|"]
    for case in CASES:
        for gpus in (1, 8, 64):
            lines.append(row(case, best(case, speeds, gpus)))
    lines.append(
        REST.format(
            alone=speeds.alone,
            three=speeds.three,
            eager=speeds.eager,
            resnet50=resnet50,
            launch=1000 * speeds.launch_s,
            widest=widest,
            most=batch / speeds.launch_s,
            megabytes=exchanged / 1e6,
            needed=exchanged / (batch / 8 / resnet50) / 1e9,
            decoded=speeds.decoded,
            cores=resnet50 / speeds.decoded,
            many=batch / speeds.launch_s / speeds.decoded,
        )
    )
    return "\n".join(lines)


def row(case: Case, found: Times) -> str:
    layout = found.layout
    gets = f"{layout.per_chain} GPU{'s' if layout.per_chain > 1 else ''}"
    if layout.gpus == 1:
        gets = "the GPU, in turn" if case.large else "a third of the GPU"
    used = [spell(each) for each in (found.chains, found.finals, found.total)]
    hours = found.total * layout.gpus / 3600
    told = f"{hours:,.0f}" if hours >= 10 else f"{hours:.1f}"
    return f"| {case.name} | {layout.gpus} | {gets} | {' | '.join(used)} | {told} | {found.bound} |"


def spell(seconds: float) -> str:
    for unit, length in (("days", 86_400), ("h", 3600)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds / 60:.0f} min"


INTRO = """# What a run costs on 1, 8 and 64 GPUs

This page is written by `python benchmarks/scaling.py` from `results/engine/speed_h200.json` and
`results/scaling/decode.json`; do not edit it by hand. **Only ResNet-56 on one H200 and the
decoding of JPEGs on a core were measured. Every other figure is computed from these, as told below;
several GPUs at once have not been measured at all.**

A run to a budget of {budget:.0%} has three chains of {rounds} rounds, then {choices} final
fine-tunings (the joint choice and `--controls`, one seed). *paper* and *standard* are `--effort`:
30 epochs a round and 60 at the end on ImageNet, or half of them.
"""

REST = """
GPU-hours count every GPU of the machine, busy or idle. A chain gets the power of two of GPUs that
is fastest and lets all three chains run at once.

## Where the figures come from

- One H200, ResNet-56, 32 px, tf32 and channels last, the whole step one CUDA graph: {alone:,.0f}
  images/s alone, {three:,.0f} for three side by side (measured, one round).
- ResNet-50 at 224 px: {resnet50:,.0f} images/s, **extrapolated** by equal macs per second from the
  three side by side. Its layers are larger and fill a GPU better, so this is likely too low; bf16,
  which is faster, lost accuracy on ResNet-56 and is off by default.
- A smaller model takes its part of the macs, an epoch's validation a third of a training's time
  for each image (both **assumed**; `triprune run` expects the same before it starts).
- Several GPUs on one chain run step by step from Python, not as a CUDA graph. Such a step takes at
  least {launch:.0f} ms (**taken from** the ordinary trainer on ResNet-56, which leaves the GPU
  waiting: {eager:,.0f} images/s; ResNet-50 has about as many layers). Exchanging gradients is
  **assumed** to hide behind computing.

## Where the bottleneck moves

1. **One GPU: compute.** Small networks share it (`--executor side-by-side`), large ones take turns.
2. **Three GPUs: the longest chain.** A chain's rounds follow each other, so a fourth GPU is idle
   until the finals unless it helps inside a chain. Without `--controls` and `--seeds` the end is
   one training.
3. **Eight GPUs: two a chain** (`--executor ray --gpus-per-chain 2`) for a large network, and two of
   the eight are idle until the finals. For ResNet-56 it is a loss: a captured step on one GPU beats
   eager steps on several.
4. **64 GPUs: launching kernels.** The recipe's batch stays what it is, so each GPU gets a smaller
   part of it. Past {widest} GPUs a chain, a step of ResNet-50 is as short as Python can launch it:
   {most:,.0f} images/s for one chain, however many GPUs there are. More seeds, more budgets or a
   larger batch (another recipe) use them; a wider chain does not.
5. **Gradients.** Each step moves about {megabytes:.0f} MB from and to every GPU: to hide it behind
   a step of eight GPUs takes {needed:.1f} GB/s, which one machine has, and a slow network between
   machines has not.
6. **Data.** A core decodes {decoded:,.0f} JPEGs/s of 500×375 at 224 px (measured on an AMD EPYC, on
   files of 80 kB): ResNet-50 on one GPU wants {cores:.1f} cores at the extrapolated speed, a chain
   at the launch limit {many:.0f}. Three chains decode three times; nothing is shared between them.
   A worker takes its GPU's part of the machine's cores.
7. **The run folder.** A checkpoint an epoch, of twice the weights (ResNet-50: 204 MB). On an object
   store that is one upload an epoch and chain.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "scaling.md")
    parser.add_argument("--check", action="store_true", help="compare, do not write")
    settings: Any = parser.parse_args()
    text = page(settings.results)
    if not settings.check:
        settings.page.write_text(text)
    elif not settings.page.exists() or settings.page.read_text() != text:
        raise SystemExit(f"{settings.page} is out of date: run this without --check")


if __name__ == "__main__":
    main()
