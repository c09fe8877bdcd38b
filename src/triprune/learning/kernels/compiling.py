"""Owns how kernels are compiled; needs Triton.

Triton compiles a kernel anew for integers that are multiples of 16 and for those that are not. Of
sizes that teaches it nothing here, as counts of channels come as vectors of a known length, and
pruned networks have channels of every count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import triton

_SIZES = (
    *(
        "rows",
        "height",
        "width",
        "tall",
        "wide",
        "channels",
        "steps",
        "count",
        "sum_row",
        "owed_row",
    ),
    *("vectors", "x_vectors", "sum_vectors", "in_vectors", "out_vectors", "row_vectors"),
)


def kernel(function: Callable[..., Any]) -> Any:
    """Return ``function`` as a kernel that is compiled once for all sizes."""
    return triton.jit(do_not_specialize=_SIZES)(function)
