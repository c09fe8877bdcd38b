"""Owns reading image files (with Pillow); refuses pixels that eight bits cannot hold."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from triprune.errors import DataError, MissingExtraError
from triprune.learning.datasets.sources import Size, centred_box

if TYPE_CHECKING:
    from PIL import Image

EXTENSIONS = frozenset(
    {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
)
_MODES = {1: "L", 3: "RGB"}


@dataclass(frozen=True, slots=True, eq=False)
class FileSource:
    """Image files with their classes."""

    files: tuple[Path, ...]
    labels: Tensor
    classes: tuple[str, ...]

    def name(self, index: int) -> str:
        """Return what to call an image in a message."""
        return str(self.files[index])

    def size(self, index: int) -> Size:
        """Return the stored size of an image, from its header."""
        with open_image(self.files[index]) as image:
            return image.height, image.width

    def read(self, index: int, size: Size, channels: int) -> Tensor:
        """Return one image as uint8, ``channels``×height×width."""
        with open_image(self.files[index]) as image:
            image.draft("RGB", (size[1], size[0]))  # a JPEG decodes straight to about that size
            return pixels(image, size, channels)

    def mark(self, index: int, *, whole: bool) -> bytes:
        """Return the file's name and size; ``whole``, its bytes too. Its folder may be moved."""
        file = self.files[index]
        try:
            told = f"{file.name} {file.stat().st_size}".encode()
            return told + file.read_bytes() if whole else told
        except OSError:  # whoever reads the image names it
            return f"{file.name} gone".encode()

    def take(self, indices: Tensor) -> FileSource:
        """Return the source of the images at ``indices``, in that order."""
        files = tuple(self.files[i] for i in indices.tolist())
        return FileSource(files, self.labels[indices], self.classes)


def open_image(file: Path) -> Image.Image:
    """Open an image and read its header; the pixels are decoded later."""
    return _pillow().open(file)


def pixels(image: Image.Image, size: Size, channels: int) -> Tensor:
    """Return a Pillow image as uint8: its largest centred part of that shape, resized."""
    if channels not in _MODES:
        raise DataError(
            f"images of {channels} channels", "files are read in grey or in colour", "ask 1 or 3"
        )
    if image.mode.startswith(("I", "F")):
        raise ValueError(f"its pixels have more than eight bits ({image.mode})")
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    image = image.convert(_MODES[channels])
    top, left, height, width = centred_box((image.height, image.width), size)
    if (image.height, image.width) != size:
        image = image.crop((left, top, left + width, top + height))
        image = image.resize((size[1], size[0]), _pillow().Resampling.BILINEAR)
    array = np.array(image, dtype=np.uint8).reshape(*size, channels)
    return torch.from_numpy(array).permute(2, 0, 1).contiguous()


def _pillow() -> Any:
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            "reading image files", "Pillow is not installed", "run: pip install triprune[vision]"
        ) from error
    return Image
