import pytest

from triprune import build_model
from triprune.learning.normalisation import IMAGENET, card_normalisation


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("torchvision:resnet18", IMAGENET),
        ("timm:resnet18", IMAGENET),
        ("timm:mixer_s32_224", ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))),
        ("resnet20", None),
    ],
)
def test_the_card_of_a_model(name, expected):
    assert card_normalisation(build_model(name)) == expected
