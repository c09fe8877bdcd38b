"""Owns a training on disk: one safetensors file whose header holds the facts as JSON; no pickle.

One file and not two, so that tensors and facts can never be of different epochs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from triprune.errors import FileFormatError, InputError
from triprune.files import write_atomically
from triprune.learning.progress import EpochRecord
from triprune.learning.step import Step
from triprune.places import Place, place

_FORMAT = "triprune training 1"


@dataclass(frozen=True, slots=True, eq=False)
class TrainingState:
    """A training between two epochs: ``tensors`` by name, and ``facts`` fit for JSON.

    ``name`` is where it was read; empty for one that is yet to be written.
    """

    tensors: dict[str, Tensor]
    facts: dict[str, Any]
    name: str = ""


def write_state(path: str | Place, state: TrainingState) -> Place:
    """Write ``state`` to ``path``, whole or not at all."""
    tensors = {
        name: tensor.detach().to("cpu", copy=True).contiguous()
        for name, tensor in state.tensors.items()
    }
    facts = json.dumps(state.facts)
    metadata = {"format": _FORMAT, "facts": facts, "sha256": _digest(tensors, facts)}
    return write_atomically(path, save(tensors, metadata=metadata))


def read_state(path: str | Place) -> TrainingState:
    """Read what ``write_state`` wrote."""
    asked = f"resuming from {path}"
    try:
        data = place(path).read_bytes()
        tensors = load(data)
        metadata = _metadata(data)
        if metadata.get("format") != _FORMAT:
            raise FileFormatError(asked, "it is not a triprune training", "name a checkpoint file")
        facts = json.loads(metadata["facts"])
        if metadata["sha256"] != _digest(tensors, metadata["facts"]):
            raise SafetensorError("its checksum does not fit")
    except FileNotFoundError as error:
        raise InputError(asked, "there is no such file", "check the path") from error
    except (SafetensorError, OSError, KeyError, json.JSONDecodeError) as error:
        raise FileFormatError(
            asked, f"the file is damaged ({error})", "delete it to start from the beginning"
        ) from error
    return TrainingState(tensors, facts, str(path))


def _metadata(data: bytes) -> dict[str, str]:
    """Return what the header of a safetensors file says beside its tensors."""
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]).get("__metadata__") or {}


def _digest(tensors: Mapping[str, Tensor], facts: str) -> str:
    digest = hashlib.sha256(facts.encode())
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].dtype} {list(tensors[name].shape)}".encode())
        digest.update(tensors[name].contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def state_of(step: Step, facts: Mapping[str, Any], history: Sequence[EpochRecord]) -> TrainingState:
    """Return the state of a training after the epochs of ``history``."""
    records = [record.to_mapping() for record in history]
    return TrainingState(_named_tensors(step), {**facts, "history": records})


def resume(step: Step, saved: TrainingState, facts: Mapping[str, Any]) -> list[EpochRecord]:
    """Put ``step`` where the saved training stood, and return its history.

    Generators need no saving: each epoch seeds its own from the training's seed.
    """
    targets = _named_tensors(step)
    _require_same_settings(saved, facts)
    _require_same_model(saved, targets)
    with torch.no_grad():
        for name, tensor in targets.items():
            tensor.copy_(saved.tensors[name])
    return [EpochRecord(**record) for record in saved.facts["history"]]


def _named_tensors(step: Step) -> dict[str, Tensor]:
    state = {f"model/{name}": tensor for name, tensor in step.model.state_dict().items()}
    names = [name for name, tensor in step.model.named_parameters() if tensor.requires_grad]
    momenta = zip(names, step.optimiser.momenta, strict=True)
    return state | {f"momentum/{name}": tensor for name, tensor in momenta}


def _require_same_settings(saved: TrainingState, now: Mapping[str, Any]) -> None:
    then = saved.facts
    differing = sorted(key for key in now if then.get(key) != now[key])
    if differing:
        changes = "; ".join(f"{key} was {then.get(key)!r}, is {now[key]!r}" for key in differing)
        raise InputError(
            f"resuming from {saved.name}",
            f"it was begun otherwise: {changes}",
            "resume with the same settings, or delete the file to start again",
        )


def _require_same_model(saved: TrainingState, now: Mapping[str, Tensor]) -> None:
    then = saved.tensors
    wrong = sorted(
        name
        for name in set(now) | set(then)
        if name not in now or name not in then or now[name].shape != then[name].shape
    )
    if wrong:
        raise InputError(
            f"resuming from {saved.name}",
            f"it holds another model ({len(wrong)} tensors differ, {wrong[0]} among them)",
            "build the model as it was, or delete the file to start again",
        )
