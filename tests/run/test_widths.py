"""Trainings at multiples of channels, forced on a CPU: what comes of them is what came before."""

import gc
import weakref
from contextlib import suppress
from dataclasses import replace

import pytest
import torch

from triprune.core.scale import Scale
from triprune.errors import RunStoppedError
from triprune.learning.checkpoint import read_state
from triprune.learning.deadline import Deadline
from triprune.learning.precision import resolved_precision
from triprune.learning.turns import drive
from triprune.network.pruning import prune
from triprune.network.widening import widening_of
from triprune.places import place
from triprune.run import widths
from triprune.run.artifacts import TrainedModel
from triprune.run.case import Case
from triprune.run.compress import checked_subject
from triprune.run.pipeline import Pipeline
from triprune.run.store import Store
from triprune.run.trainer import ImageTrainer, Task
from triprune.run.widths import suiting_multiple, widening_for


def wide_enough(small) -> torch.nn.Module:
    torch.manual_seed(0)
    return small.SmallResNet(channels=16)


@pytest.fixture(scope="module")
def tune(small):
    """Return a function that fine-tunes a cut model, and returns it with its history."""
    parts, model = small.splits(100), wide_enough(small)
    scale = Scale(0.75, 0.7, 1)
    _, plan = prune(model, scale, example_input=torch.randn(1, 3, *[parts.train.resolution_px] * 2))

    def go(multiple: int | None, checkpoint=None, *, seconds: float | None = None):
        deadline = None if seconds is None else Deadline(seconds)
        trainer = ImageTrainer(
            parts, small.RECIPE, "cpu", deadline=deadline, width_multiple=multiple
        )
        cut = plan.apply(model)
        task = Task("it", cut, 28, checkpoint=checkpoint, original=model, plan=plan)
        (tuned,) = drive([trainer.fine_tune(task)])
        assert tuned.accuracy == pytest.approx(trainer.validate(task))
        return cut.state_dict(), tuned.history

    return go


@pytest.mark.parametrize(
    ("device", "precision", "multiple"),
    [
        ("cuda:1", "fp16", 8),
        ("cuda", "bf16", 8),
        ("cuda", "auto", 1),
        ("cuda", "tf32", 1),
        ("cuda", "fp32", 1),
        ("cuda", "bf16conv", 1),
        ("cpu", "auto", 1),
        ("cpu", "bf16", 1),
    ],
)
def test_gpus_train_at_multiples_of_eight_in_16_bits(device, precision, multiple):
    where = torch.device(device)
    assert suiting_multiple(where, resolved_precision(precision, where)) == multiple


@pytest.mark.parametrize(("precision", "multiple"), [("fp16", 8), ("auto", 1)])
def test_a_trainer_asks_for_what_suits_its_recipe(small, monkeypatch, precision, multiple):
    asked = []

    def refuse(task, multiple):
        del task
        asked.append(multiple)
        raise RunStoppedError("asked", "enough", "stop")

    monkeypatch.setattr("triprune.run.trainer.widening_for", refuse)
    trainer = ImageTrainer(small.splits(100), replace(small.RECIPE, precision=precision), "cuda")
    with pytest.raises(RunStoppedError):
        drive([trainer.fine_tune(Task("it", wide_enough(small), 28))])
    assert asked == [multiple]


def test_the_task_s_own_model_is_trained(tune):
    (narrow, told), (wide, told_wide) = tune(None), tune(8)
    assert {n: t.shape for n, t in wide.items()} == {n: t.shape for n, t in narrow.items()}
    assert wide["stem.weight"].shape[0] == 11
    for name, tensor in narrow.items():
        torch.testing.assert_close(wide[name], tensor, rtol=1e-2, atol=1e-3)
    assert [e.loss for e in told_wide] == pytest.approx([e.loss for e in told], rel=1e-3)


@pytest.mark.parametrize(("began", "goes_on"), [(8, 8), (8, None), (None, 8)])
def test_a_training_goes_on_at_the_width_it_began_with(tune, tmp_path, began, goes_on):
    checkpoint = place(tmp_path / "half")
    with pytest.raises(RunStoppedError):
        tune(began, checkpoint, seconds=0)
    assert len(read_state(checkpoint).tensors["model/stem.weight"]) == (11 if began is None else 16)
    halves, history = tune(goes_on, checkpoint)
    whole, _ = tune(began)
    assert len(history) == 2
    assert all(torch.equal(halves[name], tensor) for name, tensor in whole.items())


def test_a_run_in_slices_ends_in_the_plans_of_a_plain_one(small, tmp_path):
    def pipeline(name: str, multiple: int | None, deadline: Deadline | None = None) -> Pipeline:
        parts, settings = small.splits(100), small.settings(rounds=1)
        trainer = ImageTrainer(
            parts, settings.spent_recipe, "cpu", deadline=deadline, width_multiple=multiple
        )
        subject = checked_subject(wide_enough(small), trainer, settings)
        return Pipeline(Case(subject, trainer, settings), Store(tmp_path / name))

    widths = set()
    while not list((tmp_path / "sliced").glob("budget-50/outcome-*")):
        with suppress(RunStoppedError):
            pipeline("sliced", 8, Deadline(0)).run()
        for saved in (tmp_path / "sliced" / "under-way").iterdir():
            widths.add(len(read_state(saved).tensors["model/stem.weight"]))
    pipeline("plain", None).run()
    sliced, plain = (
        Store(tmp_path / name).read("chains/width-1", TrainedModel) for name in ("sliced", "plain")
    )
    assert widths == {16}
    assert sliced.plan == plain.plan
    assert len(sliced.tensors["stem.weight"]) < 16
    for name, tensor in plain.tensors.items():
        torch.testing.assert_close(sliced.tensors[name], tensor, rtol=1e-2, atol=1e-3)


def test_seeds_share_what_was_tried_and_nothing_outlives_the_original(small, monkeypatch):
    model, tried = wide_enough(small), []
    narrow, plan = prune(model, Scale(1, 0.7, 1), example_input=torch.randn(1, 3, 28, 28))

    def counted(*arguments):
        tried.append(arguments[1:])
        return widening_of(*arguments)

    monkeypatch.setattr(widths, "widening_of", counted)
    task = Task("it", narrow, 28, original=model, plan=plan)
    first, second = widening_for(task, 8), widening_for(task, 8)
    assert first is not None
    assert second is not None
    assert first.wide == second.wide
    assert len(tried) == 1
    original = weakref.ref(model)
    del model, task, first, second
    gc.collect()
    assert original() is None
