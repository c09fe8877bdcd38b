import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from triprune import Reading, build_model, load_data, load_weights
from triprune.errors import WeightsError
from triprune.learning.evaluation import evaluate_final
from triprune.learning.normalisation import IMAGENET
from triprune.learning.weights import save_weights, weights_card


@pytest.fixture(scope="module")
def stored():
    return {k: v.clone() for k, v in build_model("resnet20").state_dict().items()}


@pytest.fixture
def model():
    return build_model("resnet20")


def write(folder, tensors):
    path = folder / "w.safetensors"
    save_file(tensors, path)
    return path


def test_weights_arrive_to_the_last_bit(tmp_path, model, stored):
    load_weights(model, write(tmp_path, stored))
    assert all(torch.equal(v, stored[k]) for k, v in model.state_dict().items())


def test_a_card_travels_with_the_weights(tmp_path, model, stored):
    save_weights(model, tmp_path / "w.safetensors", {"seed": 3})
    assert weights_card(tmp_path / "w.safetensors") == {"seed": 3}
    other = build_model("resnet20")
    load_weights(other, tmp_path / "w.safetensors")
    assert all(torch.equal(v, other.state_dict()[k]) for k, v in model.state_dict().items())
    assert weights_card(write(tmp_path, stored)) is None


def test_the_counters_of_batch_norm_may_be_missing(tmp_path, model, stored):
    kept = {k: v for k, v in stored.items() if not k.endswith("num_batches_tracked")}
    load_weights(model, write(tmp_path, kept))
    assert torch.equal(model.conv1.weight, stored["conv1.weight"])


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda t: t.pop("conv1.weight"), "1 missing: conv1.weight"),
        (lambda t: t.update(extra=torch.zeros(1)), "1 unexpected: extra"),
        (
            lambda t: t.update({"linear.weight": torch.zeros(7, 64)}),
            "1 mis-shaped: linear.weight (7, 64) for (10, 64)",
        ),
        (lambda t: t["bn1.weight"].fill_(float("nan")), "1 not finite: bn1.weight"),
        (lambda t: [t.pop(k) for k in list(t) if "layer3" in k], "missing: layer3.0.conv1.weight"),
    ],
)
def test_weights_that_do_not_fit_touch_nothing(tmp_path, model, stored, spoil, said):
    tensors = {k: v.clone() for k, v in stored.items()}
    spoil(tensors)
    path = write(tmp_path, tensors)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    with pytest.raises(WeightsError) as caught:
        load_weights(model, path)
    assert said in str(caught.value)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())


def test_long_lists_are_cut_short(tmp_path, model):
    with pytest.raises(WeightsError) as caught:
        load_weights(model, write(tmp_path, {"x": torch.zeros(1)}))
    assert "97 missing: conv1.weight, bn1.weight, bn1.bias, ..." in str(caught.value)


def test_a_truncated_file_and_a_missing_one(tmp_path, model, stored):
    path = write(tmp_path, stored)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(WeightsError, match="no complete safetensors file"):
        load_weights(model, path)
    with pytest.raises(WeightsError, match="there is no such file"):
        load_weights(model, tmp_path / "nowhere.safetensors")


def test_a_pth_is_refused_with_a_recipe_that_works(tmp_path, model, stored):
    old = tmp_path / "w.pth"
    torch.save({"state_dict": stored}, old)
    with pytest.raises(WeightsError, match="can run code") as caught:
        load_weights(model, old)
    recipe = re.search(r'python -c "(.*)"', str(caught.value)).group(1)
    subprocess.run([sys.executable, "-c", recipe], check=True)
    load_weights(model, tmp_path / "w.safetensors")
    assert torch.equal(model.conv1.weight, stored["conv1.weight"])


@pytest.mark.parametrize("zipped", [True, False])
def test_a_pth_by_another_name_gets_the_same_recipe(tmp_path, model, stored, zipped):
    old = tmp_path / "w.safetensors"
    torch.save(stored, old, _use_new_zipfile_serialization=zipped)
    with pytest.raises(WeightsError, match=r"PyTorch file by another name.*w-converted\.safeten"):
        load_weights(model, old)


def test_a_folder_is_no_file_of_weights(tmp_path, model):
    with pytest.raises(WeightsError, match="it is a folder"):
        load_weights(model, tmp_path)


def folder_from(*variables):
    for variable in variables:
        if os.environ.get(variable):
            return Path(os.environ[variable])
    pytest.skip(f"NOT RUN: set {' or '.join(variables)} to a folder to check the public weights")


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize(("layers", "percent"), [(20, 91.73), (32, 92.63), (56, 93.39)])
def test_public_weights_score_their_published_accuracy(layers, percent):
    weights = folder_from("TRIPRUNE_WEIGHTS") / f"resnet{layers}_cifar10.safetensors"
    splits = load_data(
        folder_from("TRIPRUNE_CIFAR10", "TRIPRUNE_DATA"), Reading(normalisation=IMAGENET)
    )
    model = build_model(f"resnet{layers}")
    load_weights(model, weights)
    assert 100 * evaluate_final(model, splits.test).accuracy == pytest.approx(percent, abs=0.01)
