r"""Compile our kernels for a GPU that is not here, and keep them for the machine that has it.

    python benchmarks/compile_ahead.py densenet40 --batch 64 --scale 1,1,1 1,0.8,1 0.5,1,0.8 \
        --capability 90 --out kernels

A step of training and an evaluation of each model at each scale run on this CPU, with every launch
of a kernel replaced by its compilation: what comes out is no number, but what a GPU's compiler
refuses shows, which Triton's interpreter may accept. ``paper_run.py --kernels`` finds what is kept,
on a machine with the same release of Triton. It needs torch, numpy, safetensors and Triton.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

from kept_kernels import keep_by_source
from scales import read_scale
from triprune.core.scale import Scale
from triprune.errors import TripruneError
from triprune.learning.low_copies import LowCopies
from triprune.learning.models import build_model
from triprune.learning.own_kernels import with_own_kernels
from triprune.learning.own_layers import OwnLayer
from triprune.network.pruning import prune
from triprune.network.widening import widening_of
from triprune.run.widths import suiting_multiple

SIDE = 32  # pixels of an image at full resolution


def main() -> None:
    settings = parse()
    keep_by_source(settings.out)
    compiled = compile_instead_of_launching(settings.capability)
    try:
        scales = {text: read_scale(text) for text in settings.scale}
        for name, (text, scale) in itertools.product(settings.models, scales.items()):
            begun, before = time.monotonic(), len(compiled)
            run_once(name, scale, settings.batch)
            told = f"{len(compiled) - before} kernels in {time.monotonic() - begun:.1f} s"
            print(f"{name} at {text}: {told}", flush=True)
    except TripruneError as error:
        raise SystemExit(f"{error}") from error
    print(f"{len(compiled)} kernels for compute capability {settings.capability}: {settings.out}")


def compile_instead_of_launching(capability: int) -> list[str]:
    """Let every launch compile for a GPU of this ``capability``; return the names as they come."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import ASTSource
    from triton.runtime import driver, jit

    class Absent:
        """The driver of a GPU that is not here."""

        def get_current_target(self) -> GPUTarget:
            return GPUTarget("cuda", capability, 32)

        def get_current_device(self) -> int:
            return 0

        def get_current_stream(self, device: int) -> int:
            return device

    compiled: list[str] = []
    launch, make_ir = jit.JITFunction.run, ASTSource.make_ir

    def compile_only(self: Any, *arguments: Any, grid: Any, warmup: bool, **others: Any) -> Any:
        del warmup
        return launch(self, *arguments, grid=grid, warmup=True, **others)

    def noted(self: Any, *arguments: Any, **others: Any) -> Any:
        compiled.append(self.name)
        return make_ir(self, *arguments, **others)

    driver.set_active(Absent())
    jit.JITFunction.run = compile_only
    ASTSource.make_ir = noted
    return compiled


def run_once(name: str, scale: Scale, batch: int) -> None:
    """Take a step of training and an evaluation, as a run does with a model cut to ``scale``."""
    original = cut(build_model(name), scale).to(memory_format=torch.channels_last)
    images = torch.zeros(batch, 3, *2 * [round(SIDE * scale.resolution)])
    images = images.contiguous(memory_format=torch.channels_last)
    for training in (True, False):
        model = copy.deepcopy(original)  # what was trained on no numbers is none
        own = with_own_kernels(model.train(training), images[:2])
        for each in own.modules():
            if isinstance(each, OwnLayer):
                each.active = True
        way = LowCopies(own, torch.float16)
        with (
            torch.autocast("cpu", dtype=torch.float16, cache_enabled=False),
            torch.set_grad_enabled(training),
        ):
            answers = way(images)
        if training:
            learning = way.stand_ins(list(model.parameters()))
            torch.autograd.grad(answers.float().sum(), learning, allow_unused=True)


def cut(model: nn.Module, scale: Scale) -> nn.Module:
    """Return the model at this scale, with the channels that it trains with on a GPU."""
    if scale.depth == scale.width == 1.0:
        return model
    small, plan = prune(model, scale, example_input=torch.zeros(1, 3, SIDE, SIDE))
    widening = widening_of(model, plan, suiting_multiple(torch.device("cuda"), "fp16"))
    return small if widening is None else widening.widened(small.state_dict())


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("models", nargs="+", help="as --model of triprune run")
    parser.add_argument("--scale", nargs="+", default=["1,1,1"], help="kept depth,width,resolution")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--capability", type=int, default=90, help="90 is an H100 or H200")
    parser.add_argument("--out", type=Path, required=True, help="folder to keep the kernels in")
    return parser.parse_args()


if __name__ == "__main__":
    main()
