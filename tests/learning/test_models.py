import builtins
import sys

import pytest
import torch
from torch import nn

from triprune import build_model, list_models
from triprune.errors import MissingExtraError, ModelError
from triprune.learning import models


@pytest.mark.parametrize("name", list_models())
def test_every_zoo_model_classifies_pictures_smaller_than_its_own(name):
    model = build_model(name, num_classes=7)
    assert model(torch.zeros(2, 3, 20, 20)).shape == (2, 7)


def test_the_zoo_defaults_to_ten_classes():
    assert build_model("resnet20").linear.out_features == 10


@pytest.mark.parametrize("name", ["torchvision:resnet18", "timm:resnet18"])
@pytest.mark.parametrize(("asked", "classes"), [(None, 1000), (3, 3)])
def test_library_models(name, asked, classes):
    model = build_model(name, num_classes=asked).eval()
    assert model(torch.zeros(1, 3, 64, 64)).shape == (1, classes)


@pytest.mark.parametrize("name", ["googlenet", "inception_v3"])
def test_models_with_auxiliary_heads_train_with_plain_logits(name):
    model = build_model(f"torchvision:{name}", num_classes=4)
    assert model(torch.zeros(2, 3, 96, 96)).shape == (2, 4)


@pytest.mark.parametrize(
    ("name", "near", "listing"),
    [
        ("resnet65", "resnet56", "list_models()"),
        ("torchvision:resnet51", "torchvision:resnet50", 'list_models("torchvision")'),
        ("timm:efficientnetb0", "timm:efficientnet_b0", 'list_models("timm")'),
        ("hub:resnet50", "resnet", "list_models()"),
        ("timm:hf-hub:someone/something", "no model has this name", 'list_models("timm")'),
    ],
)
def test_an_unknown_name_is_met_with_its_neighbours(name, near, listing):
    with pytest.raises(ModelError) as caught:
        build_model(name)
    assert near in str(caught.value)
    assert listing in str(caught.value)


def test_what_is_no_name_is_refused():
    with pytest.raises(ModelError, match="that is no name"):
        build_model(56)


def test_lists_hold_only_names_that_work():
    assert "torchvision:resnet50" in list_models("torchvision")
    assert "timm:efficientnet_b0" in list_models("timm")
    assert not [n for n in list_models("torchvision") if "rcnn" in n or "quantized" in n]
    with pytest.raises(ModelError, match="no such source"):
        list_models("keras")


@pytest.mark.parametrize("count", [0, -1, 2.5, "10"])
def test_a_senseless_number_of_classes_is_refused(count):
    with pytest.raises(ModelError, match="positive integer"):
        build_model("resnet20", num_classes=count)


@pytest.mark.parametrize("name", ["timm:resnet18", "torchvision:resnet18"])
def test_a_missing_package_says_what_to_install(name, monkeypatch):
    package = name.partition(":")[0]
    for module in [m for m in sys.modules if m.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=r"pip install triprune\[vision\]"):
        build_model(name)


def test_only_the_known_torchvision_failure_is_repaired():
    def fail():
        raise RuntimeError("something else")

    with pytest.raises(RuntimeError, match="something else"):
        models._with_torchvision_repaired(fail)


OWN = """
import neighbour
from torch import nn

def make(num_classes=5):
    return nn.Sequential(nn.Flatten(), nn.Linear(neighbour.INPUTS, num_classes))

def fixed():
    import second_neighbour
    return second_neighbour.Layer()

def number():
    return 3

def broken():
    raise KeyError("lost")

constant = 3
"""


@pytest.fixture
def own_file(tmp_path, monkeypatch):
    (tmp_path / "neighbour.py").write_text("INPUTS = 12\n")
    (tmp_path / "second_neighbour.py").write_text("from torch.nn import Identity as Layer\n")
    file = tmp_path / "net.py"
    file.write_text(OWN)
    before = list(sys.path)
    yield file
    assert sys.path == before
    sys.modules.pop("neighbour", None)
    sys.modules.pop("second_neighbour", None)


def test_a_function_of_the_user(own_file):
    assert build_model(f"{own_file}:make")(torch.zeros(1, 3, 2, 2)).shape == (1, 5)
    assert build_model(f"{own_file}:make", num_classes=9)[1].out_features == 9
    assert isinstance(build_model(f"{own_file}:fixed"), nn.Identity)


@pytest.mark.parametrize(
    ("function", "classes", "said"),
    [
        ("mkae", None, "no function 'mkae'; it has make"),
        ("constant", None, "no function 'constant'"),
        ("number", None, "returned a int"),
        ("broken", None, "raised KeyError: 'lost'"),
        ("fixed", 4, "takes no num_classes"),
    ],
)
def test_a_bad_function_of_the_user_is_explained(own_file, function, classes, said):
    with pytest.raises(ModelError) as caught:
        build_model(f"{own_file}:{function}", num_classes=classes)
    assert said in str(caught.value)


def test_a_bad_file_of_the_user_is_explained(tmp_path):
    with pytest.raises(ModelError, match="there is no file"):
        build_model(f"{tmp_path}/nowhere.py:make")
    broken = tmp_path / "broken.py"
    broken.write_text("def make(:\n")
    with pytest.raises(ModelError, match="importing it raised SyntaxError"):
        build_model(f"{broken}:make")
    assert not [name for name in sys.modules if name.startswith("_triprune_model_broken")]


def test_the_zoo_needs_no_optional_package(monkeypatch):
    real = builtins.__import__

    def no_vision(name, *args, **kwargs):
        if name.partition(".")[0] in ("torchvision", "timm"):
            raise AssertionError(f"imported {name}")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_vision)
    assert build_model("resnet20")
