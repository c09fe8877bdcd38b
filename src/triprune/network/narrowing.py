"""Owns adding the width to a plan: follow, couple, choose, check; names whatever did not shrink."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn

from triprune.errors import InputError, SurgeryError
from triprune.network.channels.coupling import IGNORED, Coupling, Mask, couple
from triprune.network.channels.flow import ChannelFlow
from triprune.network.channels.following import follow_channels
from triprune.network.channels.layers import LAYERS, is_depthwise
from triprune.network.checking import TOLERANCE, can_be_masked, largest_difference, masked
from triprune.network.matching import Chosen, match
from triprune.network.plan import Plan
from triprune.network.running import output_tensors, run_example
from triprune.network.slicing import sharing_copy, slice_model
from triprune.network.width import Scoring, choose_classes, cuts_of, kept_count


@dataclass(frozen=True, slots=True)
class Narrowing:
    """How much of the width to keep, and by which rules."""

    keep: float
    scoring: Scoring
    kept_whole: frozenset[str]
    round_to: int
    dense: frozenset[str] = frozenset()
    """Removed blocks whose channels later layers still expect."""


def narrow(original: nn.Module, example: torch.Tensor, draft: Plan, order: Narrowing) -> Plan:
    """Return ``draft`` with the cuts of every layer, proven on the example.

    The channels of a removed dense layer go too: nothing writes them any more.
    """
    if order.keep >= 1.0 and not order.dense:
        return draft
    _require_own_weights(original)
    flow = follow_channels(original, example)
    residual = tuple(name for name in draft.removed_blocks if name not in order.dense)
    reference = replace(draft, removed_blocks=residual).cut_view(original)
    shallow = draft.cut_view(original) if order.dense else reference
    trouble = "its channels are split into parts that would differ"
    for strict in (False, True):
        coupling = couple(flow, original, kept_whole=order.kept_whole, strict=strict)
        choose = _choose if strict or not flow.ledger.shuffled else _choose_matched
        chosen = choose(flow, coupling, (shallow, example), draft.removed_blocks, order)
        if chosen is None:
            continue
        width = _realised_width(original, coupling, chosen.stay, draft.removed_blocks)
        plan = replace(
            draft,
            cuts=chosen.cuts,
            realised=replace(draft.realised, width=width),
            notes=_notes(flow, original, coupling, chosen.stay, order),
        )
        cut = sharing_copy(shallow)
        slice_model(cut, chosen.cuts)
        trouble = _trouble(flow, cut, example, masked_by=(reference, chosen.stay))
        if not trouble:
            _require_room(plan, order)
            return plan
    raise SurgeryError(
        f"pruning a {type(original).__name__}",
        trouble,
        "name the layers around it in ignored_layers, or keep that axis at 1",
    )


def _require_own_weights(model: nn.Module) -> None:
    """Refuse a weight that is computed from other tensors at every call: there is none to cut."""
    for name, layer in model.named_modules():
        if isinstance(layer, LAYERS) and "weight" not in layer._parameters:
            raise SurgeryError(
                f"cutting channels of a {type(model).__name__}",
                f"the weight of {name} is computed (weight_norm, spectral_norm, a mask)",
                "make it plain, prune, and put it back: torch.nn.utils.parametrize."
                "remove_parametrizations, or remove_weight_norm, remove_spectral_norm",
            )


def _choose(
    flow: ChannelFlow,
    coupling: Coupling,
    subject: tuple[nn.Module, torch.Tensor],
    removed: tuple[str, ...],
    order: Narrowing,
) -> Chosen | None:
    """Keep the best channels of every group, in their old order, if equal parts stay equal."""
    stay = choose_classes(coupling, order.scoring, keep=order.keep, round_to=order.round_to)
    if _uneven_parts(flow, coupling, stay):
        return None
    stay &= ~_unwritten(subject[0], coupling, removed)
    return Chosen(stay, cuts_of(flow, subject[0], stay))


def _choose_matched(
    flow: ChannelFlow,
    coupling: Coupling,
    subject: tuple[nn.Module, torch.Tensor],
    removed: tuple[str, ...],
    order: Narrowing,
) -> Chosen | None:
    """Keep, of channels that are shuffled by number, those that find a place."""
    if removed:
        return None
    widths = (order.keep, order.round_to)
    return match(flow, coupling, subject, scoring=order.scoring, widths=widths)


def _uneven_parts(flow: ChannelFlow, coupling: Coupling, stay: Mask) -> bool:
    kept = ([int(stay[coupling.classes[part]].sum()) for part in p] for p in flow.ledger.chunks)
    return any(len(set(counts)) > 1 for counts in kept)


def _unwritten(model: nn.Module, coupling: Coupling, removed: tuple[str, ...]) -> Mask:
    """Return the classes that only removed blocks write; a depthwise layer just passes them on."""

    def is_gone(layer: str) -> bool:
        return any(layer == block or layer.startswith(f"{block}.") for block in removed)

    def writes(layer: str) -> bool:
        return not is_gone(layer) and not is_depthwise(model.get_submodule(layer))

    gone = [
        any(map(is_gone, group.written_by)) and not any(map(writes, group.written_by))
        for group in coupling.groups
    ]
    return (coupling.group_of >= 0) & np.array([*gone, False])[coupling.group_of]


def _trouble(
    flow: ChannelFlow,
    cut: nn.Module,
    example: torch.Tensor,
    *,
    masked_by: tuple[nn.Module, Mask],
) -> str:
    """Return what is wrong with the cut network, or nothing."""
    try:
        found = run_example(cut, example)
    except InputError as error:
        return f"the cut network does not run ({error.found})"
    reference, stay = masked_by
    if not can_be_masked(reference, flow):
        return ""
    full = masked(reference, cuts_of(flow, reference, stay), cut, flow)
    expected = run_example(full, example)
    difference = largest_difference(expected, found)
    if difference <= TOLERANCE:
        return ""
    if any(bool(tensor.isnan().any()) for tensor in output_tensors(expected)):
        return "the model answers the example with NaN, so that no cut can be proven right"
    return f"the cut network differs from the masked original by {difference:.1e} of its output"


def _require_room(plan: Plan, order: Narrowing) -> None:
    if order.keep < 1.0 and plan.realised.width >= 1.0:
        raise SurgeryError(
            f"width {order.keep:g}",
            "no layer could shrink" + (f"; {plan.notes[0]}" if plan.notes else ""),
            "keep width at 1 and cut depth or resolution",
        )


def _realised_width(
    model: nn.Module, coupling: Coupling, stay: Mask, removed: tuple[str, ...]
) -> float:
    """Return the kept part of all channels, but for those that no network may lose."""
    told = np.isin(np.arange(len(stay)), list(coupling.reasons))
    counted = (coupling.group_of >= 0) & (~coupling.pinned | told)
    counted &= ~_unwritten(model, coupling, removed)
    return float(stay[counted].mean()) if counted.any() else 1.0


def _notes(
    flow: ChannelFlow, model: nn.Module, coupling: Coupling, stay: Mask, order: Narrowing
) -> tuple[str, ...]:
    if order.keep >= 1.0:
        return ()
    whole: dict[tuple[str, str], int] = {}
    for number, group in enumerate(coupling.groups):
        own = np.flatnonzero(coupling.group_of == number)
        if not stay[own].all() or kept_count(group.size, order.keep) == group.size:
            continue
        reasons = [coupling.reasons[c] for c in own.tolist() if c in coupling.reasons]
        untold = coupling.pinned[own].any() or order.round_to == 1
        if reasons[:1] == [IGNORED] or (not reasons and untold):
            continue
        why = reasons[0] if reasons else f"are rounded to a multiple of {order.round_to}"
        layers = ", ".join(group.written_by)
        whole[layers, why] = whole.get((layers, why), 0) + group.size
    notes = [f"{layers}: all {n} channels stay, they {why}" for (layers, why), n in whole.items()]
    unused = {name.rpartition(".")[0] for name, _ in model.named_parameters()} - {
        name.rpartition(".")[0] for name in flow.used
    }
    notes += [f"{name}: not run on the example input, it stays as it is" for name in sorted(unused)]
    if flow.ledger.counted_in:
        places = sorted({name or "the model itself" for name in flow.ledger.counted_in})
        where = ", ".join(places[:3])
        notes.append(f"{where}: depends on the number of channels, so no masked original is equal")
    return tuple(notes)
