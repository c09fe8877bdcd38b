"""Owns the verdict of a run on each block that structure allows; refuses with a reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from torch import nn

from triprune.errors import InputError
from triprune.network.running import Example, output_tensors, run_example
from triprune.network.structure.candidates import Candidate, edited, edits_of
from triprune.network.structure.dense import run_without_channels
from triprune.network.structure.observing import (
    Calls,
    Sighting,
    run_zeroed,
    same_output,
    watch_owners,
)
from triprune.network.structure.regions import is_weight

_RESHAPES = "its shortcut changes the shape"
_INEXACT = "the network without it is not the network with its branch zeroed"
_BOUND = "its channels reach the output, or another place from which they cannot be cut"
_SMALL_PART = 1 / 3


def judge(
    model: nn.Module, example: Example, candidates: Mapping[str, Candidate], calls: Calls
) -> tuple[list[Candidate], dict[str, str]]:
    """Return the candidates that can go, as they run, and why each other one cannot.

    Of nested candidates only one layer stays, silently: they are the same block twice.
    """
    refused = {name: _miscalled(model, c, calls) for name, c in candidates.items()}
    left = [c for c in candidates.values() if not refused[c.name]]
    sightings = watch_owners(model, example, {c.owner: c.graph for c in left})
    refused |= {c.name: _misfit(c, sightings[c.owner]) for c in left}
    left = _without_nesting(model, [c for c in left if not refused[c.name]], calls)
    exact = _exact(model, example, left)
    refused |= {c.name: _INEXACT for c in left if c not in exact}
    free = _with_free_channels(model, example, exact, calls)
    refused |= {c.name: _BOUND for c in exact if c not in free}
    free.sort(key=lambda c: calls.order.index(model.get_submodule((*c.branch, c.owner)[0])))
    owners = Counter(c.owner for c in candidates.values())
    return free, {
        c.owner if c.owner and owners[c.owner] == 1 else name: refused[name]
        for name, c in candidates.items()
        if refused[name]
    }


def _miscalled(model: nn.Module, candidate: Candidate, calls: Calls) -> str:
    for name in sorted({candidate.owner, *edits_of(model, candidate)}):
        count = calls.order.count(model.get_submodule(name))
        if count != 1:
            return f"{name or 'the model'} runs {count} times in one forward"
    return ""


def _misfit(candidate: Candidate, sighting: Sighting) -> str:
    region, shapes = candidate.region, sighting.shapes
    if sighting.doubt or region is None:
        return sighting.doubt
    entry, kept, join = (shapes.get(node) for node in (region.entry, region.kept, region.join))
    if entry is None or entry != kept or (region.kind == "residual" and join != kept):
        return _RESHAPES
    return ""


def _without_nesting(
    model: nn.Module, candidates: list[Candidate], calls: Calls
) -> list[Candidate]:
    """Keep the inner blocks of a nest, unless they are a small part of one outer block.

    A residual around a whole stage is no block, its blocks are; a block whose attention happens to
    have a residual of its own is one. A residual block outweighs the dense layers inside it.
    """
    macs = {c.name: _macs(model, c, calls) for c in candidates}
    kept: list[Candidate] = []
    for outer in sorted(candidates, key=lambda c: macs[c.name]):
        inner = [c for c in kept if _around(outer, c)]
        rivals = [c for c in inner if outer.kind == "dense" or c.kind == "residual"]
        part = sum(macs[c.name] for c in rivals) / max(1, macs[outer.name])
        if not rivals or (outer.whole and outer.kind == "residual" and part < _SMALL_PART):
            kept = [c for c in kept if c not in inner] + [outer]
    parts = _parts_of_siblings(model, kept)
    return [c for c in candidates if c in kept and c not in parts]


def _parts_of_siblings(model: nn.Module, kept: list[Candidate]) -> list[Candidate]:
    """Return the candidates inside a block that must stay, where its siblings go as a whole."""
    classes = {type(model.get_submodule(c.name)) for c in kept if c.whole}

    def inside_a_sibling(candidate: Candidate) -> bool:
        path = candidate.owner.split(".")
        around = [type(model.get_submodule(".".join(path[:n]))) for n in range(1, len(path))]
        itself = type(model.get_submodule(candidate.owner))
        return not (classes - {itself}).isdisjoint(around)

    return [c for c in kept if inside_a_sibling(c)]


def _around(outer: Candidate, inner: Candidate) -> bool:
    if outer is inner:
        return False
    if outer.region and inner.region and outer.region.contains(inner.region):
        return True
    return any(f"{inner.owner}.".startswith(f"{layer}.") for layer in outer.branch)


def _macs(model: nn.Module, candidate: Candidate, calls: Calls) -> int:
    inside = {m for name in candidate.branch for m in model.get_submodule(name).modules()}
    return sum(calls.macs[module] for module in inside)


def _exact(model: nn.Module, example: Example, candidates: list[Candidate]) -> list[Candidate]:
    """Return those whose removal, together, equals zeroing the branches to the last bit."""
    added = [candidate for candidate in candidates if candidate.kind == "residual"]
    if _removal_is_exact(model, example, added):
        return candidates
    good: list[Candidate] = []
    for candidate in added:
        if _removal_is_exact(model, example, [*good, candidate]):
            good.append(candidate)
    return [c for c in candidates if c.kind == "dense" or c in good]


def _removal_is_exact(model: nn.Module, example: Example, candidates: list[Candidate]) -> bool:
    if not candidates:
        return True
    edits = {name: new for c in candidates for name, new in edits_of(model, c).items()}
    zeroed = run_zeroed(model, example, candidates)
    try:
        with edited(model, edits):
            return same_output(zeroed, run_example(model, example))
    except InputError:
        return False


def _with_free_channels(
    model: nn.Module, example: Example, candidates: list[Candidate], calls: Calls
) -> list[Candidate]:
    """Leave out the dense layers whose channels are not taken up by layers with weights."""
    writers = {c.name: last_layer(model, c, calls) for c in candidates if c.kind == "dense"}

    def free(layers: list[str]) -> bool:
        output = run_without_channels(model, example, layers) if layers else None
        return not any(bool(tensor.isnan().any()) for tensor in output_tensors(output))

    if free(list(writers.values())):
        return candidates
    return [c for c in candidates if c.name not in writers or free([writers[c.name]])]


def last_layer(model: nn.Module, candidate: Candidate, calls: Calls) -> str:
    """Return the name of the last layer with weights that the block runs."""
    inside = {m for name in candidate.branch for m in model.get_submodule(name).modules()}
    weighty = [m for m in inside if any(map(is_weight, m.parameters(recurse=False)))]
    last = max(weighty, key=calls.order.index)
    return next(name for name, module in model.named_modules() if module is last)
