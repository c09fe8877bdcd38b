"""A training from scratch: on the run's own images, resumable, and never over other weights."""

import re

import pytest
import torch
from safetensors.torch import save_file

from triprune.errors import InputError
from triprune.learning.weights import load_weights, weights_card
from triprune.run.opening import open_case, open_parts
from triprune.run.spec import RunSpec

RECIPE = {"preset": "demo", "epochs": 2, "batch_size": 25, "warmup_epochs": 0.0}


@pytest.fixture
def config(tmp_path, image_home):
    def write(name: str, seed: int = 0, **changes: object) -> RunSpec:
        recipe = RECIPE | changes
        text = (
            f'model = "resnet20"\nweights = "{tmp_path / name}.safetensors"\n'
            f'data = "{image_home}"\n[settings]\nbudget = 0.5\nseed = {seed}\ndevice = "cpu"\n'
            "[settings.recipe]\n" + "".join(f"{key} = {value!r}\n" for key, value in recipe.items())
        )
        (tmp_path / f"{name}.toml").write_text(text)
        return RunSpec.from_toml(tmp_path / f"{name}.toml")

    return write


def test_slices_end_in_the_weights_of_one_go(triprune, config, tmp_path):
    spec = config("sliced")
    config("whole")
    command = ("train", "--config", tmp_path / "sliced.toml")
    assert "time that was given is up" in triprune(*command, "--seconds", 0, code=4)
    assert (tmp_path / "sliced.under-way").exists()
    assert not (tmp_path / "sliced.safetensors").exists()
    assert re.search(r"accuracy \d+\.\d\d% on validation", triprune(*command))
    assert not (tmp_path / "sliced.under-way").exists()
    assert "was there" in triprune(*command)
    triprune("train", "--config", tmp_path / "whole.toml")
    one, other = (open_case(config(name)).subject.model for name in ("sliced", "whole"))
    assert all(torch.equal(v, other.state_dict()[k]) for k, v in one.state_dict().items())
    card = weights_card(tmp_path / "sliced.safetensors")
    assert card is not None
    assert (card["model"], card["seed"], card["recipe"]["epochs"]) == ("resnet20", 0, 2)
    assert card["images"] == len(open_parts(spec)[1].train)


def test_a_run_trains_on_the_images_its_baseline_saw(triprune, config, tmp_path):
    spec = config("one")
    triprune("train", "--config", tmp_path / "one.toml", "--seconds", 60)
    card = weights_card(tmp_path / "one.safetensors")
    assert card is not None
    assert card["trained_on"] == open_case(spec).facts()["data"][0]


def test_flags_do_what_a_config_does(triprune, image_home, tmp_path):
    out = tmp_path / "w.safetensors"
    flags = ("--data", image_home, "--recipe", "demo", "--epochs", 1, "--batch-size", 25)
    triprune("train", "--model", "resnet20", "--out", out, *flags)
    assert weights_card(out)["recipe"]["epochs"] == 1
    model, _ = open_parts(
        RunSpec.from_mapping(
            {"model": "resnet20", "data": str(image_home), "settings": {"budget": 0.5}}
        )
    )
    load_weights(model, out)


def test_other_weights_are_never_written_over(triprune, config, tmp_path):
    config("one")
    triprune("train", "--config", tmp_path / "one.toml")
    before = (tmp_path / "one.safetensors").read_bytes()
    config("one", seed=1)
    told = r"it holds others: trained_on was [0-9a-f]+, is [0-9a-f]+; seed was 0, is 1"
    with pytest.raises(InputError, match=told):
        triprune("train", "--config", tmp_path / "one.toml")
    config("one", epochs=3)
    with pytest.raises(InputError, match=r"it holds others: epochs was 2, is 3\. name another"):
        triprune("train", "--config", tmp_path / "one.toml")
    assert (tmp_path / "one.safetensors").read_bytes() == before
    save_file({"w": torch.ones(1)}, tmp_path / "one.safetensors")
    with pytest.raises(InputError, match="do not say how they were trained"):
        triprune("train", "--config", tmp_path / "one.toml")


def test_bad_input_is_named(triprune, tmp_path):
    with pytest.raises(InputError, match="--config with --epochs"):
        triprune("train", "--config", tmp_path / "one.toml", "--epochs", 3)
    with pytest.raises(InputError, match="needs --model and --out, or --config"):
        triprune("train", "--model", "resnet20")
    with pytest.raises(InputError, match=r"no \.safetensors file is named"):
        triprune("train", "--model", "resnet20", "--out", tmp_path / "w.pth")
    with pytest.raises(InputError, match="neither a fraction"):
        triprune(
            "train", "--model", "resnet20", "--out", tmp_path / "w.safetensors",
            "--validation", "tset:200",
        )  # fmt: skip
