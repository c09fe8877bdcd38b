"""What one process asked a teacher, the next one finds on disk."""

import importlib
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from triprune.learning import teaching
from triprune.learning.images import ImageSet
from triprune.learning.recipe import Recipe

ROOT = Path(__file__).parents[2]
CPU = torch.device("cpu")
RECIPE = Recipe(precision="fp32")


@pytest.fixture
def kept(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("kept_answers")


def images(seed: int = 0) -> ImageSet:
    drawn = torch.randint(
        0, 256, (4, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed)
    )
    return ImageSet(drawn, torch.arange(4) % 3, ("a", "b", "c"), (0.5,) * 3, (0.25,) * 3)


def teacher() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 3))


def test_answers_are_asked_once(kept, tmp_path, monkeypatch):
    first = kept.KeptMemory(tmp_path).recall(teacher(), images(), RECIPE, CPU)
    monkeypatch.setattr(teaching, "remember", lambda *_: pytest.fail("asked again"))
    again = kept.KeptMemory(tmp_path).recall(teacher(), images(), RECIPE, CPU)
    assert torch.equal(first.table, again.table)
    assert [file.suffix for file in tmp_path.iterdir()] == [".safetensors"]


def test_whatever_changes_an_answer_changes_the_name(kept):
    other = teacher()
    with torch.no_grad():
        other[1].bias.add_(1.0)
    names = [
        kept.name_of(teacher(), images(), RECIPE),
        kept.name_of(other, images(), RECIPE),
        kept.name_of(teacher(), images(seed=1), RECIPE),
        *(
            kept.name_of(teacher(), images(), replace(RECIPE, **change))
            for change in (
                {"augment": False},
                {"padding": "reflect"},
                {"precision": "bf16"},
                {"layout": "nchw"},
                {"kernels": "torch"},
            )
        ),
        kept.name_of(teacher().append(nn.ReLU()), images(), RECIPE),
        kept.name_of(teacher().bfloat16(), images(), RECIPE),
    ]
    assert len(set(names)) == len(names)
    assert kept.name_of(teacher(), images(), RECIPE) == names[0]
