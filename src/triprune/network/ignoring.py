"""Owns which layers the user wants left alone; refuses a wish that means no layer at all."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable

from torch import nn

from triprune.errors import InputError

Ignored = nn.Module | type[nn.Module] | str


def ignored_names(model: nn.Module, ignored: Iterable[Ignored]) -> frozenset[str]:
    """Return the names of the modules that are meant, with all that they contain."""
    chosen: set[str] = set()
    for each in [ignored] if isinstance(ignored, (str, type, nn.Module)) else ignored:
        found = [name for name, module in model.named_modules() if _meant(each, name, module)]
        if not found:
            what = each if isinstance(each, str) else getattr(each, "__name__", type(each).__name__)
            raise InputError(
                f"ignored_layers with {what!r}",
                "no module of this model is meant by it",
                "give modules of the model, their types, or patterns of their names",
            )
        chosen.update(found)
    return frozenset(
        name
        for name, _ in model.named_modules()
        if any(name == outer or name.startswith(f"{outer}.") or not outer for outer in chosen)
    )


def _meant(ignored: Ignored, name: str, module: nn.Module) -> bool:
    if isinstance(ignored, str):
        return fnmatch.fnmatchcase(name, ignored)
    if isinstance(ignored, type):
        return isinstance(module, ignored)
    return module is ignored
