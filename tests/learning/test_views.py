from collections import Counter

import pytest
import torch
from torch.nn import functional

from triprune.learning.views import crops_of, draw_views, show

PAD = {"zero": "constant", "reflect": "reflect"}


def random_images(count: int = 6, size: int = 16) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (count, 3, size, size), generator=generator, dtype=torch.uint8)


def shown_at_random(images: torch.Tensor, seed: int, padding: str = "zero") -> torch.Tensor:
    return show(images, draw_views(images, torch.Generator().manual_seed(seed)), padding)


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
def test_views_are_crops_of_the_padded_image_flipped_or_not(padding):
    images = random_images(200, 16)
    shown = shown_at_random(images, 3, padding)
    assert shown.shape == images.shape
    found = crops_shown(images, shown, padding)
    assert all(found)
    seen = {crop for crops in found for crop in crops}
    assert {y for y, _, _ in seen} == {x for _, x, _ in seen} == {0, 1, 2, 3, 4}
    assert {flip for _, _, flip in seen} == {False, True}


def test_every_crop_and_flip_is_as_likely_as_any_other():
    """One generator, drawn from again and again: 8 px and a pad of 1 make 3 × 3 × 2 views."""
    images, generator = random_images(100, 8), torch.Generator().manual_seed(0)
    views = [
        crops_shown(images, show(images, draw_views(images, generator)), "zero") for _ in range(36)
    ]
    counts = Counter(crop for view in views for crops in view for crop in crops)
    assert len(counts) == 18
    # 200 expected of each; 5 standard deviations are 69.
    assert all(abs(count - 200) < 69 for count in counts.values())
    for image in range(100):
        assert len({tuple(view[image]) for view in views}) > 9


def test_a_single_pixel_has_nothing_to_crop():
    images = random_images(4, 1)
    for padding in PAD:
        assert torch.equal(shown_at_random(images, 0, padding), images)


def test_views_follow_their_generator():
    images = random_images()
    first, again, other = (shown_at_random(images, seed) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("shape", [(8, 8), (16, 8), (1, 1)])
def test_the_numbers_name_every_view_once(shape):
    images = torch.arange(shape[0] * shape[1]).view(1, 1, *shape) + 1
    count = crops_of(images).views
    shown = show(images.expand(count, -1, -1, -1), torch.arange(count))
    assert len({tuple(view.flatten().tolist()) for view in shown}) == (count if count > 2 else 1)
    assert count == 2 * (1 if shape == (1, 1) else (2 * (shape[0] // 8) + 1) * 3)
