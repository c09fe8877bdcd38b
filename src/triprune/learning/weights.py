"""Owns weights on disk, with what is known of them; refuses pickles and what does not fit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import nn

from triprune.errors import WeightsError
from triprune.files import write_atomically

_CONVERT = (
    'convert a file you trust once: python -c "import torch, safetensors.torch as s; '
    "d = torch.load('{old}', map_location='cpu', weights_only=True); "
    "s.save_file({{k: v.clone() for k, v in d.get('state_dict', d).items()}}, '{new}')\""
)
_SHOWN = 3
_CARD = "triprune"


def load_weights(model: nn.Module, path: str | Path) -> None:
    """Copy the tensors of a .safetensors file into ``model``: all of them fit, or none is touched.

    Batch norm's ``num_batches_tracked`` may be missing from the file: no forward pass needs it.
    """
    path = Path(path)
    asked = f"the weights {path}"
    stored = _read(path, asked)
    own = model.state_dict()
    missing = [k for k in own if k not in stored and not k.endswith("num_batches_tracked")]
    unexpected = [k for k in stored if k not in own]
    misshaped = [
        f"{k} {tuple(v.shape)} for {tuple(own[k].shape)}"
        for k, v in stored.items()
        if k in own and v.shape != own[k].shape
    ]
    faults = {"missing": missing, "unexpected": unexpected, "mis-shaped": misshaped}
    if any(faults.values()):
        found = "; ".join(_few(kind, names) for kind, names in faults.items() if names)
        raise WeightsError(asked, found, "build the model these weights were saved from")
    spoiled = [k for k, v in stored.items() if v.is_floating_point() and not v.isfinite().all()]
    if spoiled:
        raise WeightsError(asked, _few("not finite", spoiled), "take an unspoiled copy")
    model.load_state_dict(stored, strict=False)


def save_weights(model: nn.Module, path: str | Path, card: Mapping[str, Any]) -> None:
    """Write the tensors of ``model``, and in the header of the file what is known of them."""
    tensors = {
        name: tensor.detach().cpu().clone().contiguous()
        for name, tensor in model.state_dict().items()
    }
    write_atomically(path, save(tensors, metadata={_CARD: json.dumps(card)}))


def weights_card(path: str | Path) -> dict[str, Any] | None:
    """Return what ``save_weights`` wrote beside the tensors; None for weights of other origin."""
    with safe_open(path, framework="pt") as file:
        card = (file.metadata() or {}).get(_CARD)
    return None if card is None else json.loads(card)


def _read(path: Path, asked: str) -> dict[str, torch.Tensor]:
    if not path.is_file():
        found = "it is a folder" if path.is_dir() else "there is no such file"
        raise WeightsError(asked, found, "name a .safetensors file")
    if path.suffix != ".safetensors":
        raise WeightsError(
            asked,
            f"only .safetensors is read: a {path.suffix or 'bare'} file can run code when opened",
            _CONVERT.format(old=path, new=path.with_suffix(".safetensors")),
        )
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        if _is_pickle(path):
            raise WeightsError(
                asked,
                "it is a PyTorch file by another name, which can run code when opened",
                _CONVERT.format(old=path, new=path.with_stem(f"{path.stem}-converted")),
            ) from error
        raise WeightsError(
            asked, f"it is no complete safetensors file ({error})", "save or copy it again"
        ) from error


def _is_pickle(path: Path) -> bool:
    """Whether a file begins as torch.save's do: a zip archive, or a pickle of old."""
    with path.open("rb") as stream:
        return stream.read(4).startswith((b"PK\x03\x04", b"\x80\x02"))


def _few(kind: str, names: list[str]) -> str:
    more = len(names) - _SHOWN
    return f"{len(names)} {kind}: {', '.join(names[:_SHOWN])}" + (", ..." if more > 0 else "")
