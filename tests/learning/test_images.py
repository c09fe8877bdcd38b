import re
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch.nn import functional

import triprune
from triprune.errors import InputError
from triprune.learning.images import ImageSet, SealedTest, augment, pixel_statistics, resize


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


PAD = {"zero": "constant", "reflect": "reflect"}


def crops_shown(images: torch.Tensor, shown: torch.Tensor, padding: str) -> list[list[tuple]]:
    """Return, for every image, the (top, left, flipped) crops of the padded one it may be."""
    size = images.shape[-1]
    pad = size // 8
    padded = functional.pad(images.float(), (pad,) * 4, mode=PAD[padding]).to(torch.uint8)
    return [
        [
            (y, x, flip)
            for y in range(2 * pad + 1)
            for x in range(2 * pad + 1)
            for flip in (False, True)
            if torch.equal(image.flip(2) if flip else image, source[:, y : y + size, x : x + size])
        ]
        for image, source in zip(shown, padded, strict=True)
    ]


@pytest.mark.parametrize("padding", PAD)
def test_augment_shows_crops_of_the_padded_image_flipped_or_not(padding):
    images = random_images(200, 16)
    shown = augment(images, torch.Generator().manual_seed(3), padding)
    assert shown.shape == images.shape
    found = crops_shown(images, shown, padding)
    assert all(found)
    seen = {crop for crops in found for crop in crops}
    assert {y for y, _, _ in seen} == {x for _, x, _ in seen} == {0, 1, 2, 3, 4}
    assert {flip for _, _, flip in seen} == {False, True}


def test_every_crop_and_flip_is_as_likely_as_any_other():
    """One generator, drawn from again and again: 8 px and a pad of 1 make 3 × 3 × 2 views."""
    images, generator = random_images(100, 8), torch.Generator().manual_seed(0)
    views = [crops_shown(images, augment(images, generator), "zero") for _ in range(36)]
    counts = Counter(crop for view in views for crops in view for crop in crops)
    assert len(counts) == 18
    # 200 expected of each; 5 standard deviations are 69.
    assert all(abs(count - 200) < 69 for count in counts.values())
    for image in range(100):
        assert len({tuple(view[image]) for view in views}) > 9


def test_a_single_pixel_has_nothing_to_crop():
    images = random_images(4, 1)
    for padding in PAD:
        assert torch.equal(augment(images, torch.Generator().manual_seed(0), padding), images)


def test_augment_follows_its_generator():
    images = random_images()
    first, again, other = (augment(images, torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


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
