"""Owns the card's words on using a model: for a saved folder, and for a file that holds a graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from triprune.export.front import Front
from triprune.learning.models import is_named
from triprune.run.about import About

_MODES = {1: "L", 3: "RGB"}


@dataclass(frozen=True, slots=True)
class GraphFile:
    """A file that answers without the model's code: its name, and what it does with its input."""

    name: str
    front: Front


def use_of_folder(about: About) -> Iterator[str]:
    """Tell how to load plan and weights, and what the network takes."""
    name, px, channels = about.making.model, about.resolution_px, about.input_size[0]
    build = "make_the_original_model"
    plain = name.isprintable() and '"' not in name and "\\" not in name
    if plain and about.classes and is_named(name):
        build = f'lambda: triprune.build_model("{name}", num_classes={len(about.classes)})'
    yield "```python"
    yield "import triprune"
    yield ""
    yield "model = triprune.load("
    yield f'    "this/folder", build={build}'
    yield ").eval()"
    yield "```"
    yield ""
    if about.mean:
        mean, std = _normalisation(about)
        yield (
            f"Input: {channels}×{px}×{px}; pixels scaled to [0, 1], then mean ({mean}) and std "
            f"({std}). From larger images: the centred square, resized bilinearly with "
            "antialiasing. `triprune predict FOLDER IMAGE` does all of it."
        )
    else:
        yield f"Input: {channels}×{px}×{px}, as in your training."


def use_of_graph(about: About, graph: GraphFile) -> Iterator[str]:
    """Tell how to ask an ONNX file or a torch.export program, with the images it really takes."""
    onnx, front = graph.name.endswith(".onnx"), graph.front
    pictures = about.input_size[0] in _MODES and bool(about.mean or front.mean)
    yield "```python"
    yield "import numpy as np"
    yield "import onnxruntime" if onnx else "import torch"
    if pictures:
        yield "from PIL import Image"
    yield ""
    yield from _images(about, front) if pictures else _tensor(about, front)
    if onnx:
        yield f'session = onnxruntime.InferenceSession("{graph.name}")'
        yield '(logits,) = session.run(None, {"images": images})'
    else:
        yield f'program = torch.export.load("{graph.name}").module()'
        yield "with torch.no_grad():"
        yield "    logits = program(torch.from_numpy(images))"
    yield "```"
    yield ""
    yield f"Input: `images`, N×{about.input_size[0]}×height×width, {_sent(about, front)}."
    yield (
        f"Nothing of triprune is needed to run `{graph.name}`. `triprune.load` and `triprune "
        "predict` do not read it: they take the run's folder, or one of `--format safetensors`."
    )


def _images(about: About, front: Front) -> Iterator[str]:
    """Show how a picture becomes what the graph takes, as ``triprune predict`` prepares it."""
    channels, full, _ = about.input_size
    px = about.resolution_px
    yield f'image = Image.open("image.png").convert("{_MODES[channels]}")'
    if front.resize_px is None:
        yield "side = min(image.size)"
        yield "left, top = (image.width - side) // 2, (image.height - side) // 2"
        yield "image = image.crop((left, top, left + side, top + side))"
        for each in dict.fromkeys((full, px)):
            yield f"image = image.resize(({each}, {each}), Image.Resampling.BILINEAR)"
    axes = "[None, None]" if channels == 1 else ".transpose(2, 0, 1)[None]"
    yield f"images = np.array(image){axes}"
    if front.mean and front.pixels == "uint8":
        return
    yield "images = images.astype(np.float32) / 255"
    if not front.mean:
        mean, std = (f"np.float32([{x}]).reshape(-1, 1, 1)" for x in _normalisation(about))
        yield f"images = (images - {mean}) / {std}"


def _tensor(about: About, front: Front) -> Iterator[str]:
    px, kind = about.resolution_px, "uint8" if front.mean and front.pixels == "uint8" else "float32"
    shape = f"(1, {about.input_size[0]}, {px}, {px})"
    yield f"images = np.zeros({shape}, np.{kind})  # yours, prepared as in your training"


def _sent(about: About, front: Front) -> str:
    if front.resize_px is not None:
        sent = front.takes
    else:
        sent = front.takes.replace("the network's own size", f"{about.resolution_px} px a side")
    if front.mean:
        return sent
    if not about.mean:
        return f"{sent}, as in your training"
    mean, std = _normalisation(about)
    return f"{sent}: pixels scaled to [0, 1], then mean ({mean}) and std ({std})"


def _normalisation(about: About) -> tuple[str, str]:
    mean, std = (", ".join(f"{x:.6g}" for x in each) for each in (about.mean, about.std))
    return mean, std
