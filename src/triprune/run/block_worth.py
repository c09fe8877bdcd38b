"""Owns what each block of a run's original is worth: which of them go first; cuts nothing."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from triprune.learning.evaluation import Inputs
from triprune.network.blocks import BlockList
from triprune.network.depth import score_blocks
from triprune.run.case import Case
from triprune.run.trainer import ImageTrainer

_SCORED_IMAGES = 64
_NEXT_TO_NOTHING = 1e-9


def scores_of_blocks(case: Case, blocks: BlockList) -> dict[str, float]:
    """Return what each block is worth, in all or for what it costs."""
    if not len(blocks):
        return {}
    worth = _worth(case, blocks)
    if case.settings.block_importance != "probe_per_cost":
        return worth
    place = 1 if case.settings.cost == "params" else 0
    freed = {name: max(1, each[place]) for name, each in case.subject.freed(blocks).items()}
    mean = sum(freed.values()) / len(freed)
    return {name: _for_cost(gain, freed[name] / mean) for name, gain in worth.items()}


def _for_cost(gain: float, cost: float) -> float:
    """Order blocks that give something by what they give for it, and those that do not by cost."""
    return gain / cost if gain > 0.0 else (gain - _NEXT_TO_NOTHING) * cost


def _worth(case: Case, blocks: BlockList) -> dict[str, float]:
    """Return the probes' scores; how much the output changes if so asked, or without probes."""
    if case.settings.block_importance != "output":
        copied = copy.deepcopy(case.subject.model)
        probed = case.trainer.block_scores(copied, blocks.names)
        if probed:
            return probed
    return score_blocks(case.subject.model, _some_inputs(case), blocks)


def _some_inputs(case: Case) -> Tensor:
    """Return training images where they are known, else any input."""
    subject, trainer = case.subject, case.trainer
    if not isinstance(trainer, ImageTrainer):
        return subject.example
    images = trainer.splits.train
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    few = images.take(order[:_SCORED_IMAGES])
    return next(iter(Inputs(subject.model, few, resolution_px=subject.resolution_px)))[0]
