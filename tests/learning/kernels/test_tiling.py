import pytest

from triprune.learning.kernels.tiling import tile_of, vector_of


@pytest.mark.parametrize(
    ("channels", "tile"),
    [(8, 16), (12, 16), (16, 16), (24, 32), (32, 32), (40, 16), (56, 64), (88, 32), (304, 64)],
)
def test_a_tile_is_large_and_nearly_full(channels, tile):
    assert tile_of(channels) == tile


@pytest.mark.parametrize(("channels", "vector"), [(16, 8), (12, 4), (6, 2), (13, 1)])
def test_a_vector_divides_the_channels(channels, vector):
    assert vector_of(channels) == vector
