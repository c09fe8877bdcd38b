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
    from triprune.learning.models import build_model, list_models
    from triprune.learning.weights import load_weights
    from triprune.network.blocks import Block, BlockList, removable_blocks
    from triprune.network.latency import Latency, measure_latency
    from triprune.network.profile import Profile, profile

__version__ = "0.1.0"

_HOME = {
    "Block": "triprune.network.blocks",
    "BlockList": "triprune.network.blocks",
    "CalibratedCost": "triprune.core.cost",
    "Choice": "triprune.core.choice",
    "Latency": "triprune.network.latency",
    "Lattice": "triprune.core.lattice",
    "Observation": "triprune.core.observation",
    "Predictor": "triprune.core.predictor",
    "Profile": "triprune.network.profile",
    "Quote": "triprune.core.choice",
    "Scale": "triprune.core.scale",
    "Schedule": "triprune.core.schedule",
    "build_model": "triprune.learning.models",
    "choose_scale": "triprune.core.choice",
    "fit_predictor": "triprune.core.fitting",
    "list_models": "triprune.learning.models",
    "load_weights": "triprune.learning.weights",
    "measure_latency": "triprune.network.latency",
    "paper_cost": "triprune.core.cost",
    "profile": "triprune.network.profile",
    "quote": "triprune.core.choice",
    "removable_blocks": "triprune.network.blocks",
    "schedule": "triprune.core.schedule",
}

__all__ = [
    "Block",
    "BlockList",
    "CalibratedCost",
    "Choice",
    "Latency",
    "Lattice",
    "Observation",
    "Predictor",
    "Profile",
    "Quote",
    "Scale",
    "Schedule",
    "__version__",
    "build_model",
    "choose_scale",
    "fit_predictor",
    "list_models",
    "load_weights",
    "measure_latency",
    "paper_cost",
    "profile",
    "quote",
    "removable_blocks",
    "schedule",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'triprune' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
