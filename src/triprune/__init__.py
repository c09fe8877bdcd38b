"""triprune: make a trained CNN cheaper by choosing depth, width and resolution together.

The public names live here and nothing else. Each is imported on first use, so that
``import triprune`` stays quick and never loads torch by itself.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from triprune.core.choice import Choice, Quote, choose_scale, quote
    from triprune.core.cost import CalibratedCost, paper_cost
    from triprune.core.fitting import fit_predictor
    from triprune.core.lattice import Lattice
    from triprune.core.observation import Observation
    from triprune.core.predictor import Predictor
    from triprune.core.scale import Scale
    from triprune.core.schedule import Schedule, schedule
    from triprune.learning.data import load_data
    from triprune.learning.evaluation import Evaluation, evaluate, evaluate_final
    from triprune.learning.images import ImageSet, SealedTest, Splits
    from triprune.learning.job import Job, TrainResult
    from triprune.learning.loading import Reading
    from triprune.learning.models import build_model, list_models
    from triprune.learning.normalisation import card_normalisation
    from triprune.learning.probe import BlockProbe, block_scores, probe_blocks
    from triprune.learning.recipe import Recipe
    from triprune.learning.side_by_side import train_side_by_side
    from triprune.learning.training import train
    from triprune.learning.weights import load_weights
    from triprune.network.blocks import Block, BlockList, removable_blocks
    from triprune.network.latency import Latency, measure_latency
    from triprune.network.plan import Plan
    from triprune.network.profile import Profile, profile
    from triprune.network.pruning import prune
    from triprune.run.compress import compress
    from triprune.run.fake import FakeTrainer
    from triprune.run.own_training import OwnTraining
    from triprune.run.result import Result
    from triprune.run.spec import Settings
    from triprune.saving import load, load_plan, save

__version__ = "0.1.0"

_HOME = {
    "Block": "triprune.network.blocks",
    "BlockList": "triprune.network.blocks",
    "BlockProbe": "triprune.learning.probe",
    "CalibratedCost": "triprune.core.cost",
    "Choice": "triprune.core.choice",
    "Evaluation": "triprune.learning.evaluation",
    "FakeTrainer": "triprune.run.fake",
    "ImageSet": "triprune.learning.images",
    "Job": "triprune.learning.job",
    "Latency": "triprune.network.latency",
    "Lattice": "triprune.core.lattice",
    "Observation": "triprune.core.observation",
    "OwnTraining": "triprune.run.own_training",
    "Plan": "triprune.network.plan",
    "Predictor": "triprune.core.predictor",
    "Profile": "triprune.network.profile",
    "Quote": "triprune.core.choice",
    "Reading": "triprune.learning.loading",
    "Recipe": "triprune.learning.recipe",
    "Result": "triprune.run.result",
    "Scale": "triprune.core.scale",
    "Schedule": "triprune.core.schedule",
    "SealedTest": "triprune.learning.images",
    "Settings": "triprune.run.spec",
    "Splits": "triprune.learning.images",
    "TrainResult": "triprune.learning.job",
    "block_scores": "triprune.learning.probe",
    "build_model": "triprune.learning.models",
    "card_normalisation": "triprune.learning.normalisation",
    "choose_scale": "triprune.core.choice",
    "compress": "triprune.run.compress",
    "evaluate": "triprune.learning.evaluation",
    "evaluate_final": "triprune.learning.evaluation",
    "fit_predictor": "triprune.core.fitting",
    "list_models": "triprune.learning.models",
    "load": "triprune.saving",
    "load_data": "triprune.learning.data",
    "load_plan": "triprune.saving",
    "load_weights": "triprune.learning.weights",
    "measure_latency": "triprune.network.latency",
    "paper_cost": "triprune.core.cost",
    "probe_blocks": "triprune.learning.probe",
    "profile": "triprune.network.profile",
    "prune": "triprune.network.pruning",
    "quote": "triprune.core.choice",
    "removable_blocks": "triprune.network.blocks",
    "save": "triprune.saving",
    "schedule": "triprune.core.schedule",
    "train": "triprune.learning.training",
    "train_side_by_side": "triprune.learning.side_by_side",
}

__all__ = [
    "Block",
    "BlockList",
    "BlockProbe",
    "CalibratedCost",
    "Choice",
    "Evaluation",
    "FakeTrainer",
    "ImageSet",
    "Job",
    "Latency",
    "Lattice",
    "Observation",
    "OwnTraining",
    "Plan",
    "Predictor",
    "Profile",
    "Quote",
    "Reading",
    "Recipe",
    "Result",
    "Scale",
    "Schedule",
    "SealedTest",
    "Settings",
    "Splits",
    "TrainResult",
    "__version__",
    "block_scores",
    "build_model",
    "card_normalisation",
    "choose_scale",
    "compress",
    "evaluate",
    "evaluate_final",
    "fit_predictor",
    "list_models",
    "load",
    "load_data",
    "load_plan",
    "load_weights",
    "measure_latency",
    "paper_cost",
    "probe_blocks",
    "profile",
    "prune",
    "quote",
    "removable_blocks",
    "save",
    "schedule",
    "train",
    "train_side_by_side",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'triprune' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
