"""Owns the way from a name to a model; refuses to download weights or to guess a name.

=========================  ==========================================================
``resnet56``               the own zoo: the paper's CIFAR networks (``list_models()``)
``torchvision:resnet50``   torchvision's classifiers
``timm:efficientnet_b0``   timm's models
``my/net.py:make``         a function of yours; the file is imported, so its code runs
=========================  ==========================================================
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from triprune.errors import MissingExtraError, ModelError
from triprune.learning.zoo.densenet import CifarDenseNet
from triprune.learning.zoo.resnet import CifarResNet
from triprune.learning.zoo.vgg import CifarVgg

Result = TypeVar("Result")

ZOO: dict[str, Callable[..., nn.Module]] = {
    **{f"resnet{n}": partial(CifarResNet, n, shortcut="A") for n in (14, 20, 32, 44, 56, 110)},
    **{f"resnet{n}-b": partial(CifarResNet, n, shortcut="B") for n in (20, 32, 44, 56, 110)},
    "densenet40": partial(CifarDenseNet, 40),
    "densenet100": partial(CifarDenseNet, 100),
    "densenet100-bc": partial(CifarDenseNet, 100, bottleneck=True),
    "vgg16-bn": CifarVgg,
}

# Their auxiliary heads make training return a tuple, and a call without `init_weights` warns.
_PLAIN_HEAD = {"aux_logits": False, "init_weights": False}
_TORCHVISION_OPTIONS = {"googlenet": _PLAIN_HEAD, "inception_v3": _PLAIN_HEAD}

FILE_MODULE = "_triprune_model_"  # what the module of a user's own file is called, before its stem

_BROKEN_TORCHVISION = "operator torchvision::nms does not exist"
_stand_in_operators: list[torch.library.Library] = []


def build_model(name: str, *, num_classes: int | None = None) -> nn.Module:
    """Return the named model with fresh random weights; nothing is downloaded.

    ``num_classes=None`` leaves the source's own default: 10 in the zoo, 1000 elsewhere. A name
    like ``my/net.py:make`` imports that file and calls that function: run only code you trust.
    """
    if not isinstance(name, str):
        raise ModelError(f"the model {name!r}", "that is no name", "give one of list_models()")
    if num_classes is not None and (not isinstance(num_classes, int) or num_classes < 1):
        raise ModelError(f"num_classes={num_classes!r}", "it is not a positive integer", "give one")
    chosen = {} if num_classes is None else {"num_classes": num_classes}
    if name in ZOO:
        return ZOO[name](**chosen)
    source, colon, rest = name.rpartition(":")
    if colon and source.endswith(".py"):
        return _from_file(Path(source), rest, chosen)
    source, colon, rest = name.partition(":")
    if colon and source == "torchvision":
        return _from_torchvision(rest, chosen)
    if colon and source == "timm":
        return _from_timm(rest, chosen)
    raise _unknown(name, list_models())


def is_named(name: str) -> bool:
    """Tell whether ``name`` is one for ``build_model`` that leads to no file of anybody's own."""
    return name in ZOO or name.startswith(("torchvision:", "timm:"))


def list_models(source: str = "zoo") -> list[str]:
    """Return every name that ``build_model`` knows from ``zoo``, ``torchvision`` or ``timm``."""
    if source == "zoo":
        return list(ZOO)
    if source == "torchvision":
        models = _import_extra("torchvision.models")
        return [f"torchvision:{name}" for name in models.list_models(module=models)]
    if source == "timm":
        return [f"timm:{name}" for name in _import_extra("timm").list_models()]
    raise ModelError(
        f"the models of {source!r}", "there is no such source", "ask zoo, torchvision or timm"
    )


def _from_torchvision(name: str, chosen: dict[str, int]) -> nn.Module:
    models = _import_extra("torchvision.models")
    if name not in models.list_models(module=models):
        raise _unknown(f"torchvision:{name}", list_models("torchvision"))
    options = _TORCHVISION_OPTIONS.get(name, {})
    return models.get_model(name, weights=None, **options, **chosen)


def _from_timm(name: str, chosen: dict[str, int]) -> nn.Module:
    timm = _import_extra("timm")
    if not timm.is_model(name):
        raise _unknown(f"timm:{name}", list_models("timm"))
    return timm.create_model(name, pretrained=False, **chosen)


def _unknown(name: str, known: Sequence[str]) -> ModelError:
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    source = name.partition(":")[0] if ":" in name else ""
    listing = f'list_models("{source}")' if source in ("torchvision", "timm") else "list_models()"
    return ModelError(
        f"the model {name!r}",
        "no model has this name" + (f"; near it: {', '.join(near)}" if near else ""),
        f"triprune.{listing} names them all; your own goes as path/to/file.py:function",
    )


def _import_extra(module: str) -> Any:
    try:
        return _with_torchvision_repaired(lambda: importlib.import_module(module))
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        raise MissingExtraError(
            f"a model of {package}",
            f"the package {error.name!r} is not installed",
            "run: pip install triprune[vision]",
        ) from error


def _with_torchvision_repaired(action: Callable[[], Result]) -> Result:
    """Run ``action``; where torchvision's binary does not fit this torch, stand in for its nms.

    A torchvision built for CUDA fails to import beside a CPU-only torch for want of two operators
    that no classifier calls. They are declared only after that very failure.
    """
    try:
        return action()
    except RuntimeError as error:
        if str(error) != _BROKEN_TORCHVISION or _stand_in_operators:
            raise
    library = torch.library.Library("torchvision", "FRAGMENT")
    for operator in ("nms", "qnms"):
        library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _stand_in_operators.append(library)  # a library that is collected takes them with it
    return action()


def _from_file(file: Path, function: str, chosen: dict[str, int]) -> nn.Module:
    asked = f"the model {file}:{function}"
    if not file.is_file():
        raise ModelError(asked, f"there is no file {file}", "give path/to/file.py:function")
    with _importable(file.resolve().parent):
        make = _function_of_file(file, function, asked)
        if chosen and not _takes_num_classes(make):
            raise ModelError(
                asked,
                f"{function} takes no num_classes",
                "give it that parameter, or leave it out here",
            )
        try:
            model = _with_torchvision_repaired(lambda: make(**chosen))
        except Exception as error:
            raise ModelError(
                asked, f"{function} raised {type(error).__name__}: {error}", "mend that function"
            ) from error
    if not isinstance(model, nn.Module):
        raise ModelError(
            asked, f"{function} returned a {type(model).__name__}", "return a torch.nn.Module"
        )
    return model


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Let the user's file import its neighbours, as a script can."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _function_of_file(file: Path, function: str, asked: str) -> Callable[..., Any]:
    name = f"{FILE_MODULE}{file.stem}"
    try:
        module = _with_torchvision_repaired(partial(_import_file, file, name))
    except Exception as error:
        raise ModelError(
            asked, f"importing it raised {type(error).__name__}: {error}", "mend that file"
        ) from error
    make = getattr(module, function, None)
    if not callable(make):
        callables = [key for key, value in vars(module).items() if inspect.isfunction(value)]
        found = f"; it has {', '.join(callables[:5])}" if callables else ""
        raise ModelError(
            asked, f"{file} has no function {function!r}{found}", "name one that builds the model"
        )
    return make


def _import_file(file: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and copy look their own module up here
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _takes_num_classes(make: Callable[..., Any]) -> bool:
    parameters = inspect.signature(make).parameters.values()
    return any(p.name == "num_classes" or p.kind is p.VAR_KEYWORD for p in parameters)
