import re
from pathlib import Path

import pytest
import torch
from torch.nn import functional

import triprune
from triprune.errors import InputError
from triprune.learning.images import ImageSet, SealedTest, pixel_statistics, resize


def make_set(images: torch.Tensor, classes: int = 3) -> ImageSet:
    labels = torch.arange(len(images)) % classes
    channels = images.shape[1]
    names = tuple(f"class {i}" for i in range(classes))
    return ImageSet(images, labels, names, (0.5,) * channels, (0.25,) * channels)


def random_images(count: int = 6, size: int = 16) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (count, 3, size, size), generator=generator, dtype=torch.uint8)


def test_affine_normalises_pixels():
    images = random_images()
    scale, shift = make_set(images).affine("cpu")
    expected = (images.float() / 255 - 0.5) / 0.25
    torch.testing.assert_close(images.float() * scale + shift, expected, rtol=1e-4, atol=1e-5)


def test_pixel_statistics_are_those_of_the_pixels():
    images = random_images(40)
    mean, std = pixel_statistics(images)
    pixels = images.double() / 255
    torch.testing.assert_close(torch.tensor(mean).double(), pixels.mean((0, 2, 3)))
    torch.testing.assert_close(
        torch.tensor(std).double(), pixels.std((0, 2, 3), correction=0), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"images": torch.zeros(2, 3, 4, 4)}, "as uint8"),
        ({"images": torch.zeros(0, 3, 4, 4, dtype=torch.uint8)}, "at least one image"),
        ({"labels": torch.tensor([0, 5])}, "from 0 to 5 for 3 classes"),
        ({"labels": torch.tensor([0])}, "2 int64 labels"),
        ({"labels": torch.tensor([-1, 0])}, "from -1 to 0"),
        ({"std": (1.0, 0.0, 1.0)}, "positive std"),
        ({"mean": (0.5,)}, "one mean"),
    ],
)
def test_impossible_sets_are_refused(changes, message):
    good = {
        "images": torch.zeros(2, 3, 4, 4, dtype=torch.uint8),
        "labels": torch.tensor([0, 1]),
        "classes": ("a", "b", "c"),
        "mean": (0.5,) * 3,
        "std": (0.2,) * 3,
    }
    with pytest.raises(InputError, match=message):
        ImageSet(**(good | changes))


@pytest.mark.parametrize("resolution_px", [5, 12, 16, 24])
def test_resize_is_antialiased_bilinear(resolution_px):
    images = random_images()
    expected = functional.interpolate(
        images.float(), size=(resolution_px,) * 2, mode="bilinear", antialias=True
    )
    resized = resize(images, resolution_px)
    assert resized.dtype == torch.uint8
    assert (resized.float() - expected).abs().max() <= 0.5 + 1e-4
    torch.testing.assert_close(resize(images.float(), resolution_px), expected)


def test_resize_refuses_no_pixels():
    with pytest.raises(InputError, match="at least one pixel"):
        resize(random_images(), 0)


def test_set_at_its_own_resolution_is_itself():
    images = make_set(random_images())
    assert images.at(16) is images
    assert images.at(None) is images
    assert images.at(8).images.shape[-1] == 8


def test_sealed_test_shows_only_its_length():
    sealed = SealedTest(make_set(random_images()))
    assert len(sealed) == 6
    assert not hasattr(sealed, "images")
    assert not hasattr(sealed, "labels")


def test_only_the_final_evaluation_opens_the_test_split():
    source = Path(triprune.__file__).parent
    openers = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if re.search(r"open_once_for\(|_SealedTest__images", path.read_text())
    }
    assert openers <= {"learning/images.py", "learning/evaluation.py"}
