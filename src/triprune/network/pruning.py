"""Owns the way from a model and a scale to a smaller model and its plan; refuses inexact surgery.

The plan is made on a private copy of the original, then replayed; the user's model is only read.
Before anything is returned, the cut network is run beside the original with the same channels
masked, and the two must agree.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping

import torch
from torch import nn
from torch.nn import functional
from torch.nn.modules.conv import _ConvNd

from triprune.core.scale import Scale
from triprune.errors import InputError, NonFiniteError, SurgeryError
from triprune.network.blocks import Block, survey
from triprune.network.channels.importance import scoring
from triprune.network.depth import blocks_to_remove, score_candidates
from triprune.network.fingerprint import fingerprint
from triprune.network.ignoring import Ignored, ignored_names
from triprune.network.narrowing import Narrowing, narrow
from triprune.network.plan import Plan
from triprune.network.running import all_finite, run_example, working_copy
from triprune.network.width import Scoring


def prune(
    model: nn.Module,
    scale: Scale,
    *,
    example_input: torch.Tensor,
    block_scores: Mapping[str, float] | None = None,
    importance: str | Scoring = "bn_scale",
    ignored_layers: Iterable[Ignored] = (),
    round_to: int = 1,
) -> tuple[nn.Module, Plan]:
    """Return a smaller network and the plan that makes it; ``model`` itself is left untouched.

    ``scale`` holds the *kept* fractions. ``block_scores`` says what each removable block is worth;
    without it, the blocks whose removal changes the output least go first. ``ignored_layers``
    (modules, types, or name patterns such as ``"head.*"``) keep every channel in and out.
    ``round_to`` makes the number of kept channels a multiple, rounded to nearest.
    """
    original, example = _prepared(model, scale, example_input)
    going, depth = _choose_blocks(original, example, scale.depth, block_scores)
    resolution_px, resolution = _resolution(example, scale.resolution)
    draft = Plan(
        fingerprint=fingerprint(original),
        input_size=tuple(example.shape[1:]),
        resolution_px=resolution_px,
        asked=scale,
        realised=Scale(depth, 1.0, resolution),
        removed_blocks=tuple(block.name for block in going),
    )
    order = Narrowing(
        keep=scale.width,
        scoring=scoring(model, importance),
        kept_whole=ignored_names(model, ignored_layers),
        round_to=_positive(round_to),
        dense=frozenset(block.name for block in going if block.kind == "dense"),
    )
    plan = narrow(original, example, draft, order)
    pruned = plan.apply(model)
    _run_at_resolution(pruned, example, plan)
    return pruned, plan


def _prepared(
    model: nn.Module, scale: Scale, example_input: torch.Tensor
) -> tuple[nn.Module, torch.Tensor]:
    """Return a private float32 copy on the CPU, ready to be followed, and the example with it."""
    if not isinstance(scale, Scale):
        raise InputError(f"the scale {scale!r}", "that is not a Scale", "pass Scale(d, w, r)")
    if not isinstance(example_input, torch.Tensor) or example_input.dim() < 2:
        raise InputError(
            f"an example_input of type {type(example_input).__name__}",
            "it is not a batch of pictures in one tensor",
            "give one, for example torch.randn(1, 3, 224, 224)",
        )
    if isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
        raise InputError(
            f"pruning a {type(model).__name__}",
            "it is a wrapper around a model",
            "give its .module",
        )
    original = working_copy(model).cpu().float().eval().requires_grad_(False)
    asked = f"pruning a {type(model).__name__}"
    if not any(isinstance(module, _ConvNd) for module in original.modules()):
        raise InputError(asked, "it has no convolution", "triprune cuts convolutional networks")
    spoiled = [name for name, p in original.named_parameters() if not all_finite(p)]
    if spoiled:
        raise NonFiniteError(asked, f"{spoiled[0]} holds NaN or infinity", "train it again")
    example = example_input.detach().cpu().float()
    if scale.depth >= 1.0:  # else looking for blocks begins with the same run
        run_example(original, example)
    return original, example


def _positive(round_to: int) -> int:
    if isinstance(round_to, bool) or not isinstance(round_to, int) or round_to < 1:
        raise InputError(f"round_to={round_to!r}", "it is not a positive integer", "give 1, 8, …")
    return round_to


def _choose_blocks(
    original: nn.Module,
    example: torch.Tensor,
    depth: float,
    scores: Mapping[str, float] | None,
) -> tuple[tuple[Block, ...], float]:
    """Return the blocks that go, and the depth that is left."""
    if depth >= 1.0:
        return (), 1.0
    blocks, candidates = survey(original, example)
    blocks.kept_at(depth)
    if scores is None:
        scores = score_candidates(original, example, blocks, candidates)
    names = blocks_to_remove(blocks, depth, scores=scores)
    going = tuple(block for block in blocks if block.name in names)
    return going, (blocks.total - len(going)) / blocks.total


def _resolution(example: torch.Tensor, keep: float) -> tuple[int, float]:
    """Return the shorter side in pixels, and the fraction of the original that it is."""
    side = min(example.shape[2:], default=1)
    pixels = max(1, int(side * keep + 0.5))
    return pixels, pixels / side


def _run_at_resolution(pruned: nn.Module, example: torch.Tensor, plan: Plan) -> None:
    if plan.realised.resolution >= 1.0:
        return
    sides = [max(1, int(n * plan.realised.resolution + 0.5)) for n in example.shape[2:]]
    smaller = functional.interpolate(example, size=sides)
    try:
        run_example(copy.deepcopy(pruned).cpu().float(), smaller)
    except InputError as error:
        raise SurgeryError(
            f"a resolution of {plan.resolution_px} px",
            f"the network does not run on it ({error.found})",
            "keep more of the resolution",
        ) from error
