"""All that cannot be meant is told before anything is trained, with what to do about it."""

from pathlib import Path

import pytest
import torch
from PIL import Image

from triprune.errors import BudgetError, DataError, InputError, ModelError, WeightsError
from triprune.learning.data import load_data
from triprune.run.compress import compress
from triprune.run.fake import FakeTrainer
from triprune.run.opening import open_case
from triprune.run.spec import RunSpec, Settings

ROOT = Path(__file__).parents[2]
WEIGHTS = str(ROOT / "examples" / "resnet14_fashion_mnist.safetensors")


def opened(**changes):
    """Open the demo's run with changes, by the name of the flag or of the TOML key."""
    spec = {"model": "resnet14", "weights": WEIGHTS, "settings": {"budget": "50%"}}
    for name, value in changes.items():
        place = spec if name in ("model", "weights", "data", "resolution_px", "settings") else None
        (spec["settings"] if place is None else place)[name] = value
    return open_case(RunSpec.from_mapping(spec))


@pytest.mark.parametrize(
    ("changes", "error", "told"),
    [
        ({"model": "resnet15"}, ModelError, "no model has this name; near it: resnet"),
        ({"model": "nowhere.py:make"}, ModelError, "there is no file nowhere.py"),
        ({"model": 3}, InputError, "model = 3: it cannot be meant. give a name"),
        ({"model": "resnet20"}, WeightsError, "missing.*build the model these weights"),
        ({"weights": "nowhere.safetensors"}, WeightsError, "there is no such file"),
        ({"weights": __file__}, WeightsError, "only .safetensors is read"),
        ({"weights": str(ROOT)}, WeightsError, "it is a folder.*name a .safetensors file"),
        ({"weights": 3}, InputError, "give the path of a .safetensors file"),
        ({"data": "nowhere"}, DataError, "no such folder.*give a folder, or fashion-mnist-small"),
        ({"data": str(ROOT)}, DataError, "no official layout.*lay images out as train/CLASS"),
        ({"data": 3}, InputError, "give the path of a folder"),
        ({"budget": "0%"}, InputError, "not a part of the original compute.*as 0.5 or '50%'"),
        ({"budget": "120%"}, InputError, "not a part of the original compute"),
        ({"budget": "half"}, InputError, "not a part of the original compute"),
        ({"chains_to": "60%"}, InputError, "chains to 0.6 for a budget of 0.5.*or leave it out"),
        ({"chains_to": "some"}, InputError, "chains to 'some': it is not a part of the original"),
        ({"resolution_px": "big"}, InputError, "give a number of pixels"),
        ({"resolution_px": 0}, InputError, "--resolution-px.*it is no size"),
        ({"seed": "x"}, InputError, "give a whole number from 0 up"),
        ({"seed": -1}, InputError, "give a whole number from 0 up"),
        ({"seeds": 0}, InputError, "give 1 or more"),
        ({"rounds": 2.5}, InputError, "give 1 or more"),
        ({"controls": "yes"}, InputError, "give true or false"),
        ({"device": "abacus"}, InputError, "a run on abacus: torch cannot use it.*try cpu"),
        ({"device": 3}, InputError, "give a name, as cpu or cuda"),
        ({"cost": "money"}, InputError, "give one of macs, params, latency, paper"),
        ({"effort": "some"}, InputError, "give one of paper, standard, quick"),
        ({"recipe": "cake"}, InputError, "there is no such preset"),
        ({"recipe": [1]}, InputError, "give a preset's name or a table"),
        ({"settings": "x"}, InputError, "give a table"),
        ({"cost": "latency", "executor": "ray"}, InputError, "may be other machines"),
    ],
)
def test_a_run_that_cannot_be_meant(changes, error, told):
    with pytest.raises(error, match=f"(?s){told}"):
        opened(**changes)


def test_images_that_cannot_be_read_are_named(tmp_path):
    for part in ("train", "val"):
        for name in ("cats", "dogs"):
            for number in range(4):
                file = tmp_path / part / name / f"{number}.png"
                file.parent.mkdir(parents=True, exist_ok=True)
                Image.new("RGB", (32, 32), (number, 0, 0)).save(file)
    broken = tmp_path / "train" / "dogs" / "2.png"
    broken.write_bytes(broken.read_bytes()[:40])
    with pytest.raises(DataError, match=r"dogs/2\.png.*triprune data folder.*in Python, load_data"):
        opened(data=str(tmp_path))
    broken.unlink()
    Image.new("RGB", (40, 40)).save(broken)
    with pytest.raises(DataError, match=r"sizes differ.*--resolution-px, or resolution_px"):
        opened(data=str(tmp_path))


ONE_DATASET = torch.utils.data.TensorDataset(torch.zeros(2))


def test_one_data_set_is_no_pair():
    with pytest.raises(DataError, match=r"data of type TensorDataset: .*give \(train, test\)"):
        load_data(ONE_DATASET)


def unpadded():
    """Return a network that needs 17 pixels."""
    convolutions = torch.nn.Conv2d(3, 8, 9), torch.nn.BatchNorm2d(8), torch.nn.Conv2d(8, 8, 9)
    return torch.nn.Sequential(*convolutions, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())


def test_images_below_the_network_s_minimum_are_refused_by_their_size():
    with pytest.raises(InputError, match=r"\(1, 3, 12, 12\).*Kernel size"):
        compress(unpadded(), FakeTrainer(lambda _: 0.9, (3, 12, 12)), budget=0.5)


def test_a_network_that_nothing_can_shrink():
    stiff = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 8), torch.nn.Flatten())
    with pytest.raises(BudgetError, match=r"can become has 100\.00% of its macs. ask for more"):
        compress(stiff, FakeTrainer(lambda _: 0.9, (3, 8, 8)), budget=0.5)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"data": 3}, "data of type int: it is neither"),
        ({"data": ONE_DATASET}, r"data of type TensorDataset: .*pass \(train, test\)"),
        ({"data": FakeTrainer(lambda _: 0.9), "settings": 3}, "they are no Settings"),
    ],
)
def test_arguments_of_another_kind(given, told):
    with pytest.raises(InputError, match=told):
        compress(unpadded(), **given, budget=0.5)
    with pytest.raises(InputError, match=r"it is not a torch\.nn\.Module"):
        compress("resnet14", FakeTrainer(lambda _: 0.9), budget=0.5)


def test_epochs_that_a_recipe_names_are_spent():
    named = Settings.from_mapping({"budget": 0.5, "recipe": {"round_epochs": 8}})
    assert named.spent_recipe.round_epochs == 8
    cut = Settings.from_mapping({"budget": 0.5, "recipe": {"round_epochs": 8}, "effort": "quick"})
    assert cut.spent_recipe.round_epochs == 2
    preset = Settings.from_mapping({"budget": 0.5, "recipe": "cifar10"})
    assert (preset.effort, preset.spent_recipe.round_epochs) == ("standard", 20)


def test_a_config_that_is_not_there_is_told(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        RunSpec.from_toml(tmp_path / "none.toml")
