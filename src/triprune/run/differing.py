"""Owns saying how two sets of facts differ: by the innermost names, with both values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SHOWN = 3


def difference(before: Mapping[str, Any], now: Mapping[str, Any], name: str) -> str:
    """Name the innermost values under ``name`` that differ, the first few of them."""
    old: Any = before.get(name)
    new: Any = now.get(name)
    if not (hasattr(old, "get") and hasattr(new, "get")):
        return f"{name} was {str(old)[:40]}, is {str(new)[:40]}"
    keys = [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]
    return "; ".join(difference(old, new, key) for key in keys[:_SHOWN])
