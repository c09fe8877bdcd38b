"""Owns torch.export programs: a graph that runs without the model's own code."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.export import Dim

from triprune.errors import ExportError
from triprune.network.running import output_tensors

METADATA = "triprune.json"


def to_program(
    model: nn.Module, example: Tensor, *, any_size: bool = False, metadata: Mapping[str, str]
) -> bytes:
    """Return ``model`` as a .pt2 file, with the metadata as the extra file ``triprune.json``."""
    free = (0, 2, 3) if any_size else (0,)
    stream = io.BytesIO()
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            program = torch.export.export(
                model, (example,), dynamic_shapes=(dict.fromkeys(free, Dim.DYNAMIC),)
            )
            torch.export.save(program, stream, extra_files={METADATA: json.dumps(dict(metadata))})
    except Exception as error:
        told = (str(error).strip().splitlines() or ["no reason given"])[0][:200]
        raise ExportError(
            f"exporting a {type(model).__name__} with torch.export",
            f"torch failed ({type(error).__name__}: {told})",
            "rewrite that part of the model, or export with --format safetensors",
        ) from error
    return stream.getvalue()


def asking_program(data: bytes) -> Callable[[Tensor], Sequence[Tensor]]:
    """Return a function from a batch to the answers of a .pt2 file that was just written."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = torch.export.load(io.BytesIO(data)).module()

    def answer(batch: Tensor) -> Sequence[Tensor]:
        with torch.no_grad():
            return output_tensors(module(batch))

    return answer
