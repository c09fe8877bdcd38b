r"""Time ResNet-50 at half its macs against the original, in torch and in ONNX Runtime.

    python benchmarks/speed_up.py --out results/speed_up/resnet50_cpu.json

The budget is spent jointly and on each axis alone: every cut comes as near to half the macs as
whole blocks, channels and pixels allow, never above. All models of a runtime are timed in turns,
one sample a round, with random weights, whose values do not change the time. The machine should be
idle. Exits with 1 if the joint model is less than ``--bar`` times as fast, by median, in either
runtime.
``python benchmarks/speed_up_report.py`` writes docs/results/speed_up.md from the files.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn

import triprune
from machine import circumstances, write_json
from triprune.core.measured import times_faster
from triprune.core.scale import AXES, Scale
from triprune.run.benching import BenchOrder, Contestant, bench

# Shaped like the joint optima that the paper reports: a little of everything.
STEPS = 7
SHAPE = {"depth": 0.8, "width": 0.85, "resolution": 0.9}


def main() -> int:
    settings, load = parsed(), round(os.getloadavg()[0], 1)
    torch.set_num_threads(1)  # cutting gains nothing from more
    torch.manual_seed(settings.seed)
    original = triprune.build_model(settings.model).eval()
    cuts = dict(contestants(original, settings))
    torch.set_num_threads(settings.threads)
    rows = []
    for runtime in settings.runtime:
        order = BenchOrder("cpu", runtime, tuple(settings.batch), settings.rounds)
        found = bench([cut for cut, _ in cuts.values()], order)
        for row in found.rows:
            told = {
                "runtime": runtime,
                **asdict(row),
                "times_faster": times_faster(row, found.rows),
            }
            rows.append(told | cuts[row.name][1])
            print(f"{runtime:12} {row.name:11} batch {row.batch_size:3} {row.median_ms:8.2f} ms")
    machine = circumstances(torch.device("cpu")) | {"load_before": load}
    given = {key: value for key, value in vars(settings).items() if key != "out"}
    versions = {name: version for name, version in found.versions.items() if name != "triprune"}
    content = {"kind": "speed-up", "circumstances": machine | versions, "settings": given}
    write_json(settings.out, content | {"rows": rows})
    joint = [row for row in rows if row["name"] == "joint" and row["batch_size"] == 1]
    slow = [row["runtime"] for row in joint if row["times_faster"] < settings.bar]
    print(", ".join(f"{row['runtime']} {row['times_faster']:.2f} times faster" for row in joint))
    return 1 if slow else 0


def contestants(
    original: nn.Module, settings: argparse.Namespace
) -> Iterator[tuple[str, tuple[Contestant, dict[str, Any]]]]:
    """Yield the original, the joint cut and the three that cut one axis only."""
    side = settings.resolution_px
    whole = triprune.profile(original, side)
    told = {"macs": whole.macs, "params": whole.params, "scale": [1.0, 1.0, 1.0], "px": side}
    yield "original", (Contestant("original", 1.0, original, (3, side, side)), told)
    for name in ("joint", *AXES):
        found = cut_to(original, name, whole.macs, settings)
        if found is not None:
            pruned, plan, counted = found
            size = (3, plan.resolution_px, plan.resolution_px)
            told = {"macs": counted.macs, "params": counted.params}
            told |= {"scale": [*plan.realised], "px": plan.resolution_px}
            yield name, (Contestant(name, settings.budget, pruned, size), told)


def cut_to(
    original: nn.Module, name: str, macs: int, settings: argparse.Namespace
) -> tuple[nn.Module, triprune.Plan, triprune.Profile] | None:
    """Return the largest cut of a shape within the budget, by bisection on how far it goes."""
    example = torch.randn(1, 3, settings.resolution_px, settings.resolution_px)
    blocks = triprune.removable_blocks(original, example)
    scores = {block: float(place) for place, block in enumerate(blocks.names)}
    given = {"example_input": example, "block_scores": scores, "round_to": settings.round_to}
    best, low, high = None, 0.0, 1.0
    for _ in range(STEPS):
        reach = (low + high) / 2
        scale = shaped(name, reach, least_depth=blocks.fewest / blocks.total)
        pruned, plan = triprune.prune(original, scale, **given)
        counted = triprune.profile(pruned, plan.resolution_px)
        if counted.macs <= settings.budget * macs:
            high = reach
            if best is None or counted.macs >= best[2].macs:
                best = pruned.eval(), plan, counted
        else:
            low = reach
    return best


def shaped(name: str, reach: float, *, least_depth: float) -> Scale:
    """Return a scale: ``reach`` of the way from the whole model to the least of one shape."""
    if name != "joint":
        least = least_depth if name == "depth" else 0.3
        return Scale.along(name, 1.0 - reach * (1.0 - least))  # type: ignore[arg-type]
    power = 2 * reach
    kept = {axis: SHAPE[axis] ** power for axis in AXES}
    # Blocks come whole: they are fixed first, and the finer axes meet the budget.
    kept["depth"] = max(least_depth, SHAPE["depth"])
    return Scale(**kept)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", default="torchvision:resnet50")
    parser.add_argument("--resolution-px", type=int, default=224)
    parser.add_argument("--budget", type=float, default=0.5)
    parser.add_argument("--runtime", nargs="+", default=["torch", "onnxruntime"])
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--round-to", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bar", type=float, default=1.4)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
