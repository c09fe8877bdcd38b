"""Owns asking a finished model about image files; names every file that cannot be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from triprune.errors import InputError, MissingExtraError
from triprune.learning.datasets.image_files import FileSource
from triprune.learning.images import affine_of, resize
from triprune.learning.normalisation import Normalisation, card_normalisation
from triprune.run.shipping import Shipment


@dataclass(frozen=True, slots=True)
class Prediction:
    """The likeliest classes of an image, with their probabilities; or why it could not be read."""

    file: Path
    likely: tuple[tuple[str, float], ...] = ()
    fault: str = ""


def predict(shipment: Shipment, files: Sequence[Path], *, top: int = 5) -> list[Prediction]:
    """Return one prediction a file, in their order, read as the run read its own images."""
    if not files:
        raise InputError("a prediction", "there are no images", "name at least one image file")
    if top < 1:
        raise InputError(f"the {top} likeliest classes", "that is none", "ask for 1 or more")
    mean, std = normalisation_of(shipment)
    scale, shift = affine_of(mean, std, "cpu")
    return [_one(shipment, file, (scale, shift), top) for file in files]


def normalisation_of(shipment: Shipment) -> Normalisation:
    """Return the mean and std that the model was trained with; refuse to guess them."""
    about = shipment.about
    if about is not None and about.mean:
        return about.mean, about.std
    card = card_normalisation(shipment.original)
    if card is None:
        raise InputError(
            f"pixels for a {type(shipment.model).__name__}",
            "nothing says what they were normalised with",
            "use a run folder, or a folder that a run's result saved",
        )
    return card


def _one(shipment: Shipment, file: Path, affine: tuple[Tensor, Tensor], top: int) -> Prediction:
    channels, height, width = shipment.plan.input_size
    if not file.is_file():
        return Prediction(file, fault="there is no such file")
    try:
        read = FileSource((file,), torch.zeros(1), ()).read(0, (height, width), channels)
    except MissingExtraError:
        raise
    except Exception as error:  # Pillow raises many kinds; each means this file, and no other
        return Prediction(file, fault=" ".join(str(error).split()) or type(error).__name__)
    inputs = resize(read[None], shipment.plan.resolution_px).float() * affine[0] + affine[1]
    with torch.no_grad():
        answer = shipment.model.cpu().float().eval()(inputs)
    if not isinstance(answer, Tensor) or answer.ndim != 2:
        raise InputError(
            f"the classes of {file}",
            f"a {type(shipment.model).__name__} gives no logits, N×classes",
            "predict is for classifiers",
        )
    chances = answer.softmax(1)[0]
    names = shipment.about.classes if shipment.about is not None else ()
    likely = [
        (names[place] if place < len(names) else f"class {place}", float(chances[place]))
        for place in map(int, chances.topk(min(top, len(chances))).indices)
    ]
    return Prediction(file, tuple(likely))
