"""Python and the command line read the same images for the same model and seed."""

import pytest

from triprune.errors import BudgetError, InputError
from triprune.learning.models import build_model
from triprune.learning.normalisation import IMAGENET
from triprune.run.compress import compress
from triprune.run.data import data_for
from triprune.run.opening import open_case
from triprune.run.spec import RunSpec
from triprune.run.store import Store

NETS = """
from torch import nn


def plain(channels=3):
    ends = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)
    return nn.Sequential(nn.Conv2d(channels, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), *ends)


def grey():
    return plain(1)


def carded():
    model = plain()
    model.pretrained_cfg = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
    return model
"""


@pytest.fixture
def named(tmp_path):
    (tmp_path / "nets.py").write_text(NETS)
    return lambda function: f"{tmp_path / 'nets.py'}:{function}"


@pytest.mark.parametrize("function", ["plain", "grey", "carded"])
def test_both_ways_read_the_same(named, function, image_home, small, tmp_path):
    told = {"seed": 3, "budget": 0.5, "device": "cpu"}
    spec = {"model": named(function), "data": str(image_home), "settings": told}
    by_command = open_case(RunSpec.from_mapping(spec)).facts()
    model, out = build_model(named(function)), tmp_path / "run"
    with pytest.raises(BudgetError):  # the facts are noted before that is found
        compress(model, image_home, budget=1e-6, settings=small.settings(seed=3), out=out)
    assert Store(out).facts()["data"] == by_command["data"]


def test_a_card_gives_the_normalisation_and_a_seed_the_division(named, image_home):
    plain, carded = (build_model(named(function)) for function in ("plain", "carded"))
    own = data_for(plain, image_home, seed=0).train
    assert (own.mean, own.std) != IMAGENET
    by_card = data_for(carded, image_home, seed=0).train
    assert (by_card.mean, by_card.std) == IMAGENET
    assert by_card.images.equal(own.images)
    assert not data_for(plain, image_home, seed=1).train.images.equal(own.images)
    assert data_for(plain, image_home, seed=0, resolution_px=16).train.resolution_px == 16


def test_something_that_is_no_model_is_told_before_its_data_are_read(image_home):
    with pytest.raises(InputError, match=r"it is not a torch\.nn\.Module"):
        compress("resnet14", image_home, budget=0.5)
