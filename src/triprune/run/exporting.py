"""Owns exporting a finished model: file, parity, card; whatever fails leaves nothing behind."""

from __future__ import annotations

import copy
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from triprune import __version__
from triprune.errors import InputError
from triprune.export.front import Front, Fronted, Pixels
from triprune.export.onnx_file import asking, open_session, to_onnx
from triprune.export.parity import Parity, compare
from triprune.export.program import asking_program, to_program
from triprune.files import write_atomically
from triprune.learning.datasets.sources import centred_box
from triprune.learning.images import affine_of, resize
from triprune.network.running import output_tensors
from triprune.run.card import write_card
from triprune.run.predicting import normalisation_of
from triprune.run.shipping import Shipment
from triprune.run.usage import GraphFile
from triprune.saving import load, save

Format = Literal["onnx", "torch-export", "safetensors"]
_FILES = {"onnx": "model.onnx", "torch-export": "model.pt2", "safetensors": "weights.safetensors"}
_RANDOM_IMAGES = 8


@dataclass(frozen=True, slots=True)
class ExportOrder:
    """What to write, and what of the preparation of images goes inside the graph."""

    format: Format
    with_resize: bool = False
    with_normalisation: bool = False
    pixels: Pixels = "uint8"

    def __post_init__(self) -> None:
        if self.format not in get_args(Format):
            raise InputError(
                f"--format {self.format}",
                "there is no such format",
                f"give one of {', '.join(get_args(Format))}",
            )
        if self.format == "safetensors" and (self.with_resize or self.with_normalisation):
            raise InputError(
                "--format safetensors with a resize or a normalisation inside",
                "weights have no graph to put it in",
                "export to onnx or torch-export",
            )


@dataclass(frozen=True, slots=True)
class Exported:
    """Where the file is, what callers must send it, and how near to PyTorch it answers."""

    file: Path
    takes: str
    parity: Parity
    real_images: bool


def export(shipment: Shipment, folder: str | Path, order: ExportOrder) -> Exported:
    """Write the model to ``folder``, held against PyTorch on the run's own images before that."""
    folder = Path(folder)
    front = _front(shipment, order)
    model = Fronted(copy.deepcopy(shipment.model).cpu().float(), front).eval()
    inputs = _inputs(shipment, front)
    file = folder / _FILES[order.format]
    write = _write_weights if order.format == "safetensors" else _write_graph
    parity = write(shipment, (model, inputs), file, order)
    if shipment.about is not None:
        graph = None if order.format == "safetensors" else GraphFile(file.name, front)
        write_card(shipment.about, folder, graph)
    return Exported(file, front.takes, parity, bool(len(shipment.images)))


def metadata_of(shipment: Shipment, front: Front) -> dict[str, str]:
    """Return what a file says of its model, as texts: classes, resolution, accuracy, macs, plan."""
    plan, about = shipment.plan, shipment.about
    told = {
        "triprune": __version__,
        "input": front.takes,
        "resolution_px": str(plan.resolution_px),
        "scale": json.dumps(list(plan.realised)),
        "plan": plan.to_json(),
    }
    if about is not None:
        joint = about.row("joint")
        told |= {
            "model": about.making.model,
            "classes": json.dumps(about.classes),
            "mean": json.dumps(about.mean),
            "std": json.dumps(about.std),
            "accuracy": f"{joint.accuracy:.6g}",
            "accuracy_seeds": str(len(joint.accuracies)),
            "accuracy_spread": "" if joint.spread is None else f"{joint.spread:.6g}",
            "macs": str(joint.macs),
            "params": str(joint.params),
        }
    return told


def _write_graph(
    shipment: Shipment, subject: tuple[nn.Module, Tensor], file: Path, order: ExportOrder
) -> Parity:
    """Make the file in memory, ask it, and only then write it."""
    model, inputs = subject
    front = _front(shipment, order)
    told = metadata_of(shipment, front)
    asked = f"exporting to {file}"
    if order.format == "onnx":
        data = to_onnx(model, inputs[:2], any_size=order.with_resize, metadata=told)
        answer = asking(open_session(data))
    else:
        data = to_program(model, inputs[:2], any_size=order.with_resize, metadata=told)
        answer = asking_program(data)
    prepared = _uneven(inputs) if order.with_resize else ()
    parity = compare(model, answer, inputs, asked=asked, prepared=prepared)
    _make(file.parent)
    write_atomically(file, data)
    return parity


def _write_weights(
    shipment: Shipment, subject: tuple[nn.Module, Tensor], file: Path, order: ExportOrder
) -> Parity:
    """Save to a folder that goes away, ask what was read back, and only then save for good."""
    model, inputs = subject
    with tempfile.TemporaryDirectory(prefix="triprune-") as trial:
        save(shipment.model, shipment.plan, trial, build=lambda: shipment.original)
        loaded = load(trial, build=lambda: shipment.original)
    read = Fronted(loaded.cpu().float(), _front(shipment, order)).eval()
    asked = f"exporting to {file}"
    parity = compare(model, lambda batch: output_tensors(read(batch)), inputs, asked=asked)
    _make(file.parent)
    save(shipment.model, shipment.plan, file.parent, build=lambda: shipment.original)
    return parity


def _front(shipment: Shipment, order: ExportOrder) -> Front:
    mean, std = normalisation_of(shipment) if order.with_normalisation else ((), ())
    if not order.with_resize:
        return Front(mean=mean, std=std, pixels=order.pixels)
    _, height, width = shipment.plan.input_size
    if height != width:
        raise InputError(
            f"--with-resize for a model of {height}×{width} images",
            "the graph would make squares of them",
            "leave it out, and resize as in your training",
        )
    return Front(shipment.plan.resolution_px, height, mean, std, order.pixels)


def _inputs(shipment: Shipment, front: Front) -> Tensor:
    """Return real images as the graph takes them, or random ones where there are none."""
    plan, about = shipment.plan, shipment.about
    images = shipment.images
    if not len(images):
        generator = torch.Generator().manual_seed(0)
        size = (_RANDOM_IMAGES, *plan.input_size)
        images = torch.randint(0, 256, size, dtype=torch.uint8, generator=generator)
    if len(images) == 1:
        images = images.repeat(2, 1, 1, 1)
    if front.resize_px is None:
        images = resize(images, plan.resolution_px)
    affine = affine_of(about.mean, about.std, "cpu") if about is not None and about.mean else None
    return front.input_of(images, affine)


def _uneven(inputs: Tensor) -> tuple[tuple[Tensor, Tensor], ...]:
    """Return wide and tall images, each with the square that ``predict`` would cut out of them."""
    height, width = inputs.shape[-2:]
    wide = torch.cat([inputs, inputs[..., : width // 2 + 1]], dim=3)
    tall = torch.cat([inputs, inputs[..., : height // 3 + 1, :]], dim=2)
    found: list[tuple[Tensor, Tensor]] = []
    for sent in (wide, tall):
        top, left, rows, columns = centred_box((sent.shape[2], sent.shape[3]), (height, width))
        found.append((sent, sent[..., top : top + rows, left : left + columns]))
    return tuple(found)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"exporting to {folder}",
            f"it cannot be made a folder ({error.strerror})",
            "name another",
        ) from error
