import base64
import io

import numpy as np
import pytest
from PIL import Image

from triprune.report.bitmap import data_uri, heat, png, shown


@pytest.mark.parametrize("channels", [1, 3])
def test_a_png_holds_the_pixels(channels):
    pixels = np.random.default_rng(0).integers(0, 256, (5, 9, channels), dtype=np.uint8)
    read = np.asarray(Image.open(io.BytesIO(png(pixels))))
    assert np.array_equal(read.reshape(pixels.shape), pixels)
    assert base64.b64decode(data_uri(pixels).split(",")[1]) == png(pixels)


def test_heat_goes_from_dark_to_light():
    colours = heat(np.array([[0.0, 1.0], [2.0, 4.0]], dtype=np.float32)).astype(int).sum(-1)
    assert colours[0, 0] < colours[0, 1] < colours[1, 0] < colours[1, 1]
    assert len(np.unique(heat(np.ones((2, 2), dtype=np.float32)).reshape(-1, 3), axis=0)) == 1


def test_a_picture_of_five_channels_shows_its_first():
    image = np.arange(20, dtype=np.uint8).reshape(2, 2, 5)
    assert np.array_equal(shown(image)[..., 0], image[..., 0])
