import itertools
import json
from dataclasses import replace

import pytest

from triprune.errors import InputError
from triprune.learning.recipe import PRESETS, Recipe


def test_the_papers_settings():
    cifar = Recipe.preset("cifar10")
    assert (cifar.epochs, cifar.batch_size, cifar.momentum, cifar.weight_decay) == (
        160,
        128,
        0.9,
        1e-4,
    )
    assert [cifar.rate_at(epoch) for epoch in (1, 79, 80, 119, 120, 159)] == pytest.approx(
        [0.1, 0.1, 0.01, 0.01, 0.001, 0.001]
    )
    for name in ("tiny-imagenet", "imagenet"):
        recipe = Recipe.preset(name)
        assert (recipe.epochs, recipe.batch_size) == (100, 256)
        rates = [recipe.rate_at(epoch) for epoch in (1, 29, 30, 59, 60, 89, 90)]
        assert rates == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001, 0.001, 0.0001])
        assert recipe.fine_tuning().epochs == 30
        assert recipe.fine_tuning(final=True).epochs == 60


def test_the_presets_warm_up_for_an_epoch():
    for name in ("cifar10", "tiny-imagenet", "imagenet"):
        rates = Recipe.preset(name).rates(0, 4)
        assert rates == pytest.approx([0.025, 0.05, 0.075, 0.1])


def test_the_papers_crops_have_black_borders():
    assert {Recipe.preset(name).padding for name in PRESETS} == {"zero"}


def test_fine_tuning_is_shorter_and_gentler():
    recipe = Recipe.preset("cifar10").fine_tuning()
    assert recipe.epochs == 40
    assert recipe.rate == pytest.approx(0.01)
    assert Recipe.preset("cifar10").fine_tuning(final=True).epochs == 80


def test_cosine_with_warm_up_rises_then_falls_to_nearly_nothing():
    recipe = Recipe(epochs=10, schedule="cosine", warmup_epochs=2)
    rates = [rate for epoch in range(10) for rate in recipe.rates(epoch, 5)]
    assert rates[0] == pytest.approx(0.01)
    assert rates[9] == pytest.approx(0.1)
    assert rates[10] == pytest.approx(0.1)
    assert all(a > b for a, b in itertools.pairwise(rates[10:]))
    assert 0 < rates[-1] < 0.001


def test_warm_up_may_end_inside_an_epoch():
    recipe = Recipe(epochs=4, warmup_epochs=0.5, milestones=())
    assert recipe.rates(0, 4) == pytest.approx([0.05, 0.1, 0.1, 0.1])
    assert recipe.rates(1, 2) == [0.1, 0.1]
    rates = replace(recipe, schedule="cosine").rates(0, 4)
    assert rates[:3] == pytest.approx([0.05, 0.1, 0.1])
    assert rates[3] == pytest.approx(replace(recipe, schedule="cosine").rate_at(0.75))


@pytest.mark.parametrize("steps", [1, 2, 40])
def test_every_step_of_a_single_epoch_learns(steps):
    rates = Recipe.preset("demo").fine_tuning().rates(0, steps)
    assert len(rates) == steps
    assert all(rate > 0 for rate in rates)
    assert max(rates) == pytest.approx(0.01, rel=0.05)


@pytest.mark.parametrize("name", PRESETS)
def test_survives_json(name):
    recipe = Recipe.preset(name)
    assert Recipe.from_mapping(json.loads(json.dumps(recipe.to_mapping()))) == recipe


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epochs": 0}, "epochs = 0"),
        ({"epochs": 2.5}, "whole number"),
        ({"batch_size": True}, "whole number"),
        ({"rate": -0.1}, "0 or more"),
        ({"rate": 0}, "nothing would be learned"),
        ({"rate": float("nan")}, "not a finite number"),
        ({"momentum": 1.0}, "0 to 0.9999"),
        ({"label_smoothing": 1.0}, "0 to 0.9"),
        ({"temperature": 0}, "0.1 to 100"),
        ({"schedule": "linear"}, "multi-step, cosine"),
        ({"precision": "int8"}, "auto, fp32"),
        ({"layout": "hwc"}, "auto, nchw, nhwc"),
        ({"padding": "mirror"}, "zero, reflect"),
        ({"milestones": (0.75, 0.5)}, "do not rise"),
        ({"milestones": (80, 120)}, "0 to 1"),
        ({"warmup_epochs": 160}, "all warm-up"),
    ],
)
def test_settings_that_cannot_be_meant(changes, message):
    with pytest.raises(InputError, match=message):
        replace(Recipe(), **changes)


def test_unknown_names():
    with pytest.raises(InputError, match="cifar10, tiny-imagenet, imagenet, demo"):
        Recipe.preset("cifar")
    with pytest.raises(InputError, match="learning_rate"):
        Recipe.from_mapping({"learning_rate": 1})


def test_the_final_fine_tuning_may_begin_at_a_rate_of_its_own():
    recipe = Recipe(rate=0.2, final_rate=0.1)
    assert recipe.fine_tuning(final=True).rate == 0.1
    assert recipe.fine_tuning().rate == pytest.approx(0.02)
    assert Recipe(rate=0.2).fine_tuning(final=True).rate == pytest.approx(0.02)
    assert Recipe.from_mapping(recipe.to_mapping()) == recipe
    for wrong in (0, -1, float("nan")):
        with pytest.raises(InputError, match="final_rate"):
            Recipe(final_rate=wrong)


def test_rounds_may_begin_at_a_rate_of_their_own():
    recipe = Recipe(rate=0.2, round_rate=0.05)
    assert recipe.fine_tuning().rate == 0.05
    assert recipe.fine_tuning(final=True).rate == 0.05
    assert replace(recipe, final_rate=0.1).fine_tuning(final=True).rate == 0.1
    assert Recipe.from_mapping(recipe.to_mapping()) == recipe
    for wrong in (0, -1, float("nan")):
        with pytest.raises(InputError, match="round_rate"):
            Recipe(round_rate=wrong)


def test_a_later_setting_at_rest_leaves_no_trace():
    assert "round_rate" not in Recipe().to_mapping()
    assert Recipe(round_rate=0.05).to_mapping()["round_rate"] == 0.05
