"""Owns models on disk: a plan and plain tensors, checked as they are written and as they are read.

A folder holds ``plan.json``, ``weights.safetensors`` and ``SHA256SUMS`` of both. Loading builds the
original with the caller's own constructor, replays the plan and fills in the tensors: nothing in
the folder is ever executed, so a folder from a stranger can do no more than fail.
"""

from __future__ import annotations

import copy
import json
import struct
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load as parse_tensors
from safetensors.torch import save as pack_tensors
from torch import nn

from triprune.checksums import SUMS_FILE, check_sum, listed_sums
from triprune.errors import (
    ArchitectureError,
    FileFormatError,
    InputError,
    NonFiniteError,
    PlanError,
    PlanVersionError,
    TruncatedFileError,
    WeightsError,
)
from triprune.files import write_together
from triprune.network.plan import Plan
from triprune.network.reading import LONGEST_TEXT
from triprune.network.running import all_finite, run_example
from triprune.network.structure.observing import same_output

PLAN_FILE = "plan.json"
WEIGHTS_FILE = "weights.safetensors"

_LARGEST_HEADER = 100_000_000
_RESTORE = "restore it from a copy, or save the model again; the weights alone do not fit any model"


def save(
    model: nn.Module,
    plan: Plan,
    folder: str | Path,
    *,
    build: Callable[[], nn.Module] | None = None,
) -> Path:
    """Write a pruned model and its plan to ``folder``; read both back before reporting success.

    Every tensor must come back bit by bit, and on a picture of noise the model that was read must
    answer exactly as ``model`` does. With ``build``, which makes the original, the plan is
    replayed for this as ``load`` will; without it, the tensors are put into a copy of ``model``.
    A model that was in ``folder`` stays until the new one is on the disk; then its plan goes first,
    so that a folder that has a plan is complete.
    """
    folder = Path(folder)
    tensors = _plain_tensors(model, folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"saving to {folder}", f"it cannot be made a folder ({error.strerror})", "name another"
        ) from error
    packed, text = pack_tensors(tensors), plan.to_json()
    sums = listed_sums({WEIGHTS_FILE: packed, PLAN_FILE: text.encode()})
    write_together(folder, {WEIGHTS_FILE: packed, SUMS_FILE: sums, PLAN_FILE: text})
    loaded = _fill(_blank(model), folder) if build is None else load(folder, build=build)
    _compare(model, loaded, plan, folder)
    return folder


def _plain_tensors(model: nn.Module, folder: Path) -> dict[str, torch.Tensor]:
    tensors: dict[str, torch.Tensor] = {}
    for name, value in model.state_dict().items():
        if not isinstance(value, torch.Tensor):
            raise WeightsError(
                f"saving to {folder}", f"{name} is a {type(value).__name__}", "keep tensors only"
            )
        # Shared tensors are written once for each name: the format has no sharing.
        tensors[name] = value.detach().cpu().clone().contiguous()
    return _finite(tensors, f"saving to {folder}")


def _blank(model: nn.Module) -> nn.Module:
    blank = copy.deepcopy(model)
    with torch.no_grad():
        for tensor in blank.state_dict().values():
            tensor.zero_()
    return blank


def load(folder: str | Path, *, build: Callable[[], nn.Module]) -> nn.Module:
    """Return the model stored in ``folder``; ``build`` makes the original, with any weights."""
    folder = Path(folder)
    plan = load_plan(folder)
    fresh = build()
    if not isinstance(fresh, nn.Module):
        raise InputError(
            f"loading {folder}", f"build() returned a {type(fresh).__name__}", "return the model"
        )
    return _fill(plan.apply(fresh), folder)


def _fill(model: nn.Module, folder: Path) -> nn.Module:
    """Put the stored tensors into ``model``, which takes their precision."""
    stored = _read_tensors(folder / WEIGHTS_FILE, model.state_dict())
    _finite(stored, f"loading {folder}")
    own = dict(model.named_parameters()) | dict(model.named_buffers())
    for name, tensor in own.items():
        if name in stored and tensor.dtype != stored[name].dtype:
            tensor.data = tensor.data.to(stored[name].dtype)
    model.load_state_dict(stored)
    return model


def verify(folder: str | Path) -> None:
    """Refuse a stored model whose plan or weights are missing or damaged; builds none."""
    load_plan(folder)
    weights = Path(folder) / WEIGHTS_FILE
    check_sum(weights, _read_file(weights))


def load_plan(folder: str | Path) -> Plan:
    """Return the plan stored in ``folder``."""
    path = Path(folder) / PLAN_FILE
    data = _read_file(path, LONGEST_TEXT)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise FileFormatError(f"reading {path}", "it is not text", _RESTORE) from error
    try:
        plan = Plan.from_json(text)
    except PlanVersionError:
        raise
    except (PlanError, TruncatedFileError) as error:
        # A plan by itself knows no file, and pruning again would not fit the weights beside it.
        raise type(error)(f"reading {path}", error.found, _RESTORE) from error
    check_sum(path, data)
    return plan


def _read_file(path: Path, longest: int | None = None) -> bytes:
    """Read a plain file, and no more of it than a true one could hold."""
    asked = f"reading {path}"
    try:
        if not path.is_file():
            raise FileFormatError(
                asked,
                "there is no such file",
                "name a folder that save() wrote; if saving was cut short, save the model again",
            )
        with path.open("rb") as stream:
            data = stream.read(-1 if longest is None else longest + 1)
    except OSError as error:
        raise FileFormatError(asked, f"{error.strerror}", "look at its permissions") from error
    if longest is not None and len(data) > longest:
        raise FileFormatError(asked, f"it is longer than {longest} bytes", "save the model again")
    return data


def _read_tensors(path: Path, expected: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    size = sum(t.numel() * 8 for t in expected.values())
    data = _read_file(path, size + _LARGEST_HEADER)
    asked = f"reading {path}"
    _check_complete(data, asked)
    check_sum(path, data)
    try:
        stored = parse_tensors(data)
    except (SafetensorError, ValueError, KeyError, RuntimeError) as error:
        raise WeightsError(
            asked, f"it is no safetensors file ({error})", "save it again"
        ) from error
    _check_fits(expected, stored, asked)
    return stored


def _check_complete(data: bytes, asked: str) -> None:
    """Compare the length with what the file's own header announces."""
    truncated = TruncatedFileError(asked, "the file ends too early", "copy or save it again, whole")
    if len(data) < 8:
        raise truncated
    (length,) = struct.unpack("<Q", data[:8])
    if length > _LARGEST_HEADER:
        raise WeightsError(asked, "it is no safetensors file", "save it again")
    if len(data) < 8 + length:
        raise truncated
    try:
        header = json.loads(data[8 : 8 + length])
        ends = [entry["data_offsets"][1] for k, entry in header.items() if k != "__metadata__"]
        needed = 8 + length + max(ends, default=0)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError) as error:
        raise WeightsError(
            asked, "its header is not one of safetensors", "save it again"
        ) from error
    if len(data) < needed:
        raise truncated


def _check_fits(
    expected: dict[str, torch.Tensor], stored: dict[str, torch.Tensor], asked: str
) -> None:
    odd = sorted(expected.keys() ^ stored.keys())
    if odd:
        where = "is missing" if odd[0] in expected else "belongs to no layer"
        raise ArchitectureError(
            asked, f"the tensor {odd[0]} {where} ({len(odd)} such)", "give the plan's own model"
        )
    for name, tensor in expected.items():
        if stored[name].shape != tensor.shape:
            raise ArchitectureError(
                asked,
                f"{name} has shape {tuple(stored[name].shape)}, not {tuple(tensor.shape)}",
                "give the plan's own model",
            )


def _finite(tensors: dict[str, torch.Tensor], where: str) -> dict[str, torch.Tensor]:
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not all_finite(tensor):
            raise NonFiniteError(where, f"{name} holds NaN or infinity", "train the model again")
    return tensors


def _compare(model: nn.Module, loaded: nn.Module, plan: Plan, folder: Path) -> None:
    asked = f"saving to {folder}"
    ours, theirs = model.state_dict(), loaded.state_dict()
    changed = [k for k, v in ours.items() if not torch.equal(v.cpu(), theirs[k].cpu())]
    if changed:
        raise WeightsError(asked, f"{changed[0]} came back changed", "try another disk")
    size = (1, plan.input_size[0], *(_scaled(n, plan) for n in plan.input_size[1:]))
    picture = torch.rand(size, generator=torch.Generator().manual_seed(0))
    reference = next(iter(ours.values()))
    loaded = loaded.to(reference.device)
    same = same_output(run_example(copy.deepcopy(model), picture), run_example(loaded, picture))
    if not same:
        raise ArchitectureError(
            asked,
            "the tensors came back, but the loaded model answers otherwise",
            "give as original the model that the plan was made from; settings that are no tensors "
            "(an activation, a flag) must be the same",
        )


def _scaled(side: int, plan: Plan) -> int:
    return max(1, int(side * plan.realised.resolution + 0.5))
