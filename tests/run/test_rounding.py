"""Channels in multiples: kept through a whole run, and their price told in the outcome."""

import re

import pytest
from torch import nn

from triprune.core.scale import Scale
from triprune.errors import InputError, RunChangedError
from triprune.run.compress import compress
from triprune.run.fake import FakeTrainer
from triprune.run.spec import Settings

NOTE = re.compile(
    r"channels in multiples of 8: predicted accuracy ([\d.]+)% against ([\d.]+)% with free counts, "
    r"([\d.]+) ms against ([\d.]+) ms \(batch of 1 on cpu .*\), ([\d.]+)% of the macs against"
)


def accuracy(scale: Scale) -> float:
    """Prefer width: free counts then keep one that is no multiple of eight."""
    return 0.97 - 0.02 / scale.depth - 0.09 / scale.width - 0.03 / scale.resolution


def widths(model: nn.Module) -> set[int]:
    return {m.out_channels for m in model.modules() if isinstance(m, nn.Conv2d)}


def test_a_run_keeps_multiples_and_tells_their_price(small, tmp_path):
    model = small.SmallResNet(channels=48, stride=1)
    settings = Settings(0.6, rounds=2, device="cpu", round_to=8)
    trainer = FakeTrainer(accuracy)
    result = compress(model, trainer, budget=0.6, settings=settings, out=tmp_path / "a")
    assert all(width % 8 == 0 for width in widths(result.model))
    assert result.macs <= 0.6 * result.outcome.row("original").macs
    (note,) = [note for note in result.outcome.notes if "multiples" in note]
    rounded, free, *milliseconds, _ = map(float, NOTE.match(note).groups())
    assert rounded <= free + 0.1  # a coarse lattice need not use 97 % of the budget
    assert all(each > 0 for each in milliseconds)
    loose = Settings(0.6, rounds=2, device="cpu")
    other = compress(model, trainer, budget=0.6, settings=loose)
    assert not any("multiples" in note for note in other.outcome.notes)
    assert any(width % 8 for width in widths(other.model))
    with pytest.raises(RunChangedError, match="round_to was 8"):
        compress(model, trainer, budget=0.6, settings=loose, out=tmp_path / "a")


def test_a_multiple_that_no_layer_has_is_refused_before_any_training(small):
    class Untrained(FakeTrainer):
        def validate(self, task):
            raise AssertionError("measured")

    settings = Settings(0.6, rounds=2, device="cpu", round_to=4000)
    told = r"multiples of 4000 \(round_to\): the widest layer has 12. give less than 12"
    with pytest.raises(InputError, match=told):
        compress(small.make(), Untrained(accuracy), budget=0.6, settings=settings)


def test_a_multiple_is_a_count():
    with pytest.raises(InputError, match="round_to = 0: it is no count"):
        Settings(0.5, round_to=0)
