"""triprune: make a trained CNN cheaper by choosing depth, width and resolution together.

The public names live here and nothing else. Each is imported on first use, so that
``import triprune`` stays quick and never loads torch by itself.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from triprune.core.observation import Observation
    from triprune.core.scale import Scale
    from triprune.learning.models import build_model, list_models
    from triprune.learning.weights import load_weights
    from triprune.network.blocks import Block, BlockList, removable_blocks
    from triprune.network.latency import Latency, measure_latency
    from triprune.network.profile import Profile, profile

__version__ = "0.1.0"

_HOME = {
    "Block": "triprune.network.blocks",
    "BlockList": "triprune.network.blocks",
    "Latency": "triprune.network.latency",
    "Observation": "triprune.core.observation",
    "Profile": "triprune.network.profile",
    "Scale": "triprune.core.scale",
    "build_model": "triprune.learning.models",
    "list_models": "triprune.learning.models",
    "load_weights": "triprune.learning.weights",
    "measure_latency": "triprune.network.latency",
    "profile": "triprune.network.profile",
    "removable_blocks": "triprune.network.blocks",
}

__all__ = [
    "Block",
    "BlockList",
    "Latency",
    "Observation",
    "Profile",
    "Scale",
    "__version__",
    "build_model",
    "list_models",
    "load_weights",
    "measure_latency",
    "profile",
    "removable_blocks",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'triprune' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
