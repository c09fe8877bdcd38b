r"""Time ``prune`` and ``profile`` on every architecture of the support table.

    python benchmarks/pruning.py
    python benchmarks/pruning.py --model resnet56 --model torchvision:resnet50 --bar 5

Prints a Markdown table: seconds for pruning at a scale, for profiling the original, and the part of
macs and params that is left. Exits with 1 if pruning took longer than ``--bar`` seconds anywhere.
The machine should be idle: threads that wait for a busy core make small operators many times
slower; beside other work, measure with ``--threads 1``.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

import torch

import triprune
from triprune.errors import InputError

MODELS = [
    *("resnet20", "resnet20-b", "resnet56", "resnet56-b", "densenet40", "vgg16-bn"),
    *("torchvision:resnet18", "torchvision:resnet50", "torchvision:resnet101"),
    *("torchvision:densenet121", "torchvision:efficientnet_b0", "torchvision:mobilenet_v2"),
    *("torchvision:mobilenet_v3_large", "torchvision:resnext50_32x4d"),
    *("torchvision:regnet_y_400mf", "torchvision:convnext_tiny", "torchvision:googlenet"),
    *("torchvision:shufflenet_v2_x1_0", "timm:resnet50", "timm:efficientnet_b0"),
    *("timm:mobilenetv3_small_100", "timm:vgg16_bn"),
]
BOTH, NARROW = triprune.Scale(0.7, 0.6, 0.8), triprune.Scale(1.0, 0.6, 0.8)


def measure(name: str) -> tuple[float, float, str]:
    model = triprune.build_model(name).eval()
    side = 224 if ":" in name else 32
    start = time.perf_counter()
    before = triprune.profile(model, side)
    profiled = time.perf_counter() - start
    example = torch.randn(1, 3, side, side)
    start = time.perf_counter()
    try:
        pruned, plan = triprune.prune(model, BOTH, example_input=example)
    except InputError:
        start = time.perf_counter()
        pruned, plan = triprune.prune(model, NARROW, example_input=example)
    spent = time.perf_counter() - start
    after = triprune.profile(pruned, plan.resolution_px)
    axes = " ".join(f"{value:.2f}" for value in plan.realised)
    left = f"{after.macs / before.macs:.3f} | {after.params / before.params:.3f}"
    return spent, profiled, f"| {name} | {spent:.1f} | {profiled:.2f} | {axes} | {left} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", action="append", help="a name; repeat for several")
    parser.add_argument("--bar", type=float, default=5.0, help="seconds that pruning may take")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="all cores by default")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    print("| model | prune, s | profile, s | realised d w r | macs left | params left |")
    print("|---|---|---|---|---|---|")
    slow = []
    for name in chosen.model or MODELS:
        spent, _, row = measure(name)
        print(row, flush=True)
        if spent > chosen.bar:
            slow.append(name)
    if slow:
        print(f"\nabove {chosen.bar:g} s: {', '.join(slow)}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
