"""Networks that train in seconds, and data sets laid out as their authors do it."""

import importlib.util

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from triprune.learning.images import ImageSet


class TinyNet(nn.Module):
    """Two convolutions with batch norm, a residual sum, and dropout if asked."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU()
        )
        self.block = nn.Sequential(
            nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU()
        )
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        x = x + self.block(x)
        return self.head(self.dropout(x.mean((2, 3))))


@pytest.fixture(scope="session", autouse=True)
def language_prepared_once_a_launch():
    """Spare a third of the time that kernels take in Triton's interpreter.

    It replaces the functions of its language at a launch, and again, to no effect, at every call of
    a function from a kernel.
    """
    if torch.cuda.is_available() or importlib.util.find_spec("triton") is None:
        yield
        return
    from triton.runtime import interpreter

    prepare, launch, prepared = interpreter._patch_lang, interpreter.GridExecutor.__call__, set()

    def prepare_once(function):
        module = id(function.__globals__)
        if module in prepared:
            return None
        prepared.add(module)
        return prepare(function)

    def launch_prepared(*arguments, **options):
        prepared.clear()
        try:
            return launch(*arguments, **options)
        finally:
            prepared.clear()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(interpreter, "_patch_lang", prepare_once)
        patched.setattr(interpreter.GridExecutor, "__call__", launch_prepared)
        yield


@pytest.fixture
def tiny_net():
    def build(seed: int = 0, dropout: float = 0.0) -> TinyNet:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            return TinyNet(dropout)

    return build


@pytest.fixture
def coloured_images():
    """Noise tinted by class: easy to learn, impossible by chance."""

    def build(count: int = 96, size: int = 8, seed: int = 0) -> ImageSet:
        generator = torch.Generator().manual_seed(seed)
        labels = torch.arange(count) % 3
        pixels = torch.randint(0, 180, (count, 3, size, size), generator=generator)
        pixels[torch.arange(count), labels] += 75
        return ImageSet(
            pixels.to(torch.uint8), labels, ("red", "green", "blue"), (0.4,) * 3, (0.2,) * 3
        )

    return build


def noise(number, height=8, width=8, channels=3):
    generator = np.random.default_rng(number)
    shape = (height, width, channels) if channels > 1 else (height, width)
    return generator.integers(0, 256, shape, dtype=np.uint8)


@pytest.fixture
def picture():
    """Return a function that writes an image file of seeded noise."""

    def write(file, number=0, **shape):
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(noise(number, **shape)).save(file)
        return file

    return write


@pytest.fixture
def image_folder(tmp_path, picture):
    """Return ``train/ val/`` with the classes cat and dog: 10 and 4 images each."""
    for part, count in (("train", 10), ("val", 4)):
        for label, name in enumerate(("cat", "dog")):
            for number in range(count):
                picture(tmp_path / part / name / f"{number}.png", 100 * label + number)
    return tmp_path


@pytest.fixture
def tiny_imagenet(tmp_path, picture):
    """Return TinyImageNet's layout with 3 classes, 6 training and 2 validation images each."""
    home = tmp_path / "tiny-imagenet-200"
    wnids = ("n01443537", "n01629819", "n01641577")
    lines = []
    for label, wnid in enumerate(wnids):
        for number in range(6):
            file = home / "train" / wnid / "images" / f"{wnid}_{number}.JPEG"
            picture(file, 100 * label + number, height=64, width=64)
        (home / "train" / wnid / f"{wnid}_boxes.txt").write_text(f"{wnid}_0.JPEG\t0\t0\t62\t63\n")
    for number in range(6):
        wnid = wnids[number % 3]
        picture(home / "val" / "images" / f"val_{number}.JPEG", number, height=64, width=64)
        lines.append(f"val_{number}.JPEG\t{wnid}\t0\t32\t44\t62\n")
    for number in range(2):
        picture(home / "test" / "images" / f"test_{number}.JPEG", number, height=64, width=64)
    (home / "val" / "val_annotations.txt").write_text("".join(lines))
    (home / "wnids.txt").write_text("\n".join(reversed(wnids)) + "\n")
    (home / "words.txt").write_text("n01443537\tgoldfish, Carassius auratus\n")
    return tmp_path
