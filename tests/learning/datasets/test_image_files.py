import numpy as np
import pytest
import torch
from PIL import Image

from triprune.errors import DataError
from triprune.learning.datasets.image_files import FileSource, pixels
from triprune.learning.datasets.sources import centred_box, fit


def source_of(*files):
    return FileSource(tuple(files), torch.zeros(len(files), dtype=torch.int64), ("only",))


def test_stored_pixels_arrive_to_the_byte(tmp_path, picture):
    file = picture(tmp_path / "a.png", height=6, width=9)
    source = source_of(file)
    assert source.size(0) == (6, 9)
    image = source.read(0, (6, 9), 3)
    assert image.dtype == torch.uint8
    assert np.array_equal(image.permute(1, 2, 0).numpy(), np.asarray(Image.open(file)))


def test_the_largest_centred_part_is_kept():
    assert centred_box((6, 9), (3, 3)) == (0, 1, 6, 6)
    assert centred_box((9, 6), (3, 3)) == (1, 0, 6, 6)
    assert centred_box((6, 9), (4, 6)) == (0, 0, 6, 9)
    assert centred_box((1, 100), (2, 2)) == (0, 49, 1, 1)


@pytest.mark.parametrize("size", [(12, 12), (16, 16), (48, 48), (10, 20)])
def test_files_and_tensors_are_resized_alike(tmp_path, picture, size):
    """Pillow's antialiased bilinear filter and torch's agree to one grey level."""
    source = source_of(picture(tmp_path / "a.png", height=40, width=33))
    stored = source.read(0, (40, 33), 3)
    by_pillow = source.read(0, size, 3)
    by_torch = fit(stored, size, 3)
    assert by_pillow.shape == by_torch.shape == (3, *size)
    assert (by_pillow.int() - by_torch.int()).abs().max() <= 1


def test_grey_palette_and_transparent_images_become_colour(tmp_path):
    grey = Image.fromarray(np.full((4, 4), 7, np.uint8))
    files = []
    for mode in ("L", "P", "RGBA", "CMYK", "1", "LA"):
        files.append(tmp_path / f"{mode}.{'jpg' if mode == 'CMYK' else 'png'}")
        grey.convert(mode).save(files[-1])
    source = source_of(*files)
    for index in range(len(files)):
        assert source.read(index, (4, 4), 3).shape == (3, 4, 4)
        assert source.read(index, (4, 4), 1).shape == (1, 4, 4)
    assert source.read(0, (4, 4), 3).unique().tolist() == [7]


def test_more_than_eight_bits_are_not_squeezed(tmp_path):
    Image.fromarray(np.full((4, 4), 40_000, np.uint16)).save(tmp_path / "deep.png")
    with pytest.raises(ValueError, match="more than eight bits"):
        source_of(tmp_path / "deep.png").read(0, (4, 4), 3)


def test_channels_that_files_do_not_have():
    with pytest.raises(DataError, match="ask 1 or 3"):
        pixels(Image.new("RGB", (4, 4)), (4, 4), 4)
    with pytest.raises(DataError, match="channels=4"):
        fit(torch.zeros(4, 8, 8, dtype=torch.uint8), (8, 8), 3)


def test_grey_is_the_usual_mix():
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (5, 5, 3), dtype=np.uint8))
    by_torch = fit(pixels(image, (5, 5), 3), (5, 5), 1)
    assert (by_torch.int() - pixels(image, (5, 5), 1).int()).abs().max() <= 1
