"""Owns opening a finished model for use: from a run folder, or from a folder that was saved."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from triprune.errors import ArchitectureError, InputError, RunError
from triprune.learning.models import build_model, is_named
from triprune.network.plan import Plan
from triprune.places import Place, place
from triprune.run.about import About, making_of, read_about
from triprune.run.collected import is_run, require_files
from triprune.run.finished import read_finished
from triprune.run.keys import SAMPLE
from triprune.run.sample import Sample
from triprune.run.steps import restore
from triprune.run.store import Store
from triprune.saving import PLAN_FILE, load, load_plan


@dataclass(frozen=True, slots=True, eq=False)
class Shipment:
    """A finished model, its plan and its original, what is said of it, and images to try it on.

    ``about`` is None for a folder of ``triprune.save``; ``images`` (uint8, full size) may be none.
    """

    model: nn.Module
    plan: Plan
    original: nn.Module
    about: About | None
    images: Tensor


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which model of a folder: its budget where there are several, and who builds the original."""

    budget: str | float | None = None
    model: str | None = None
    num_classes: int | None = None


def open_shipment(folder: str | Place, wanted: Wanted | None = None) -> Shipment:
    """Return the joint model of a run, or the model of a saved folder; nothing in it is executed.

    A run begun from the command line knows its model's name. For any other folder ``wanted.model``
    names it, except where ``about.json`` names one of the zoo, torchvision or timm.
    """
    wanted = wanted or Wanted()
    where = place(folder)
    if is_run(where):
        return _of_run(where, wanted)
    if isinstance(where, Path) and (where / PLAN_FILE).is_file():
        return _of_saved(where, wanted)
    missing = isinstance(where, Path) and not where.is_dir()
    raise InputError(
        f"the model in {folder}",
        "there is no such folder" if missing else "it is neither a run folder nor a saved model",
        "name a folder of triprune run, or one that save() wrote",
    )


def build_original(name: str, classes: int | None) -> nn.Module:
    """Build a model by name; a function of the user's own decides its classes itself."""
    chosen = None if ".py:" in name else classes
    return build_model(name, num_classes=chosen)


def original_of(folder: Place, wanted: Wanted) -> nn.Module:
    """Build the original of a run, with fresh weights."""
    spec: dict[str, Any] = Store(folder).facts().get("spec") or {}
    name: str | None = wanted.model or spec.get("model")
    if name is None:
        raise _nameless(folder, "the run was made from Python")
    if wanted.model is None:
        require_files(folder, spec, "model")
    classes = len(_sample(folder).classes)
    return build_original(name, wanted.num_classes or classes or None)


def _of_run(folder: Place, wanted: Wanted) -> Shipment:
    finished = read_finished(folder, wanted.budget)
    original, sample = original_of(folder, wanted), _sample(folder)
    trained = finished.models["joint"]
    making = making_of(Store(folder).facts(), finished.outcome, type(original).__name__)
    channels, height, width = trained.plan.input_size
    about = About.of(making, sample, finished.outcome, input_size=(channels, height, width))
    return Shipment(restore(original, trained), trained.plan, original, about, sample.images)


def _sample(folder: Place) -> Sample:
    store = Store(folder)
    if not store.has(SAMPLE):
        raise RunError(
            f"the images of {folder}",
            "it was made by an earlier version, which kept none",
            "give the command that began it again: nothing is trained twice",
        )
    return store.read(SAMPLE, Sample)


def _of_saved(folder: Path, wanted: Wanted) -> Shipment:
    if wanted.budget is not None:
        raise InputError(f"--budget with {folder}", "it holds one model", "leave it out")
    about, plan = read_about(folder), load_plan(folder)
    told = "" if about is None else about.making.model
    name = wanted.model or (told if is_named(told) else None)
    if name is None:
        if ".py:" in told:
            raise InputError(
                f"the model in {folder}",
                f"it was cut from {told}, and a file's code is only run when you name it",
                f"give --model {told} where that file is, or --model path/to/{told}",
            )
        known = f"it names the model only as a {told}, which does not tell how to build it"
        raise _nameless(folder, known if told else "nothing there says which model it was cut from")
    classes = wanted.num_classes or (len(about.classes) if about else 0) or None
    original = build_original(name, classes)
    try:
        model = load(folder, build=partial(build_original, name, classes)).eval()
    except ArchitectureError as error:
        if about is not None or wanted.num_classes is not None:
            raise
        raise ArchitectureError(
            error.asked, error.found, f"{error.remedy}; --num-classes says how many"
        ) from error
    return Shipment(model, plan, original, about, torch.zeros(0, *plan.input_size).byte())


def _nameless(folder: Place, found: str) -> InputError:
    return InputError(
        f"the model in {folder}",
        found,
        "name what builds the original with --model, as resnet56 or my/net.py:make "
        "(--num-classes says how many, where the data do not)",
    )
