"""The small case as a module, and one finished run of it that many tests read."""

import importlib.util
from pathlib import Path

import pytest
from PIL import Image


def load_small_case():
    file = Path(__file__).parent / "small_case.py"
    spec = importlib.util.spec_from_file_location("small_case", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def small():
    return load_small_case()


@pytest.fixture(scope="session")
def real_run(small, tmp_path_factory):
    """Return the folder, the original and the result of a real run, with controls, two seeds."""
    folder = tmp_path_factory.mktemp("run")
    parts = small.splits()
    model = small.trained(parts)
    settings = small.settings(controls=True, seeds=2, executor="inline")
    result = small.compress(model, parts, budget=0.5, settings=settings, out=folder)
    return folder, model, result


@pytest.fixture(scope="session")
def image_home(small, tmp_path_factory):
    """Return a folder of a hundred training and thirty test images, a folder a class."""
    folder = tmp_path_factory.mktemp("images")
    images = small.splits().train
    for number in range(130):
        part = "train" if number < 100 else "val"
        name = images.classes[images.labels[number]].replace("/", " ")
        file = folder / part / name / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(images.images[number].permute(1, 2, 0).numpy()).save(file)
    return folder
