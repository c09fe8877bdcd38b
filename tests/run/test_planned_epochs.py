from dataclasses import replace

import pytest
import torch
from torch import nn

from triprune.learning.ranks import Ranks
from triprune.learning.recipe import Recipe
from triprune.learning.teaching import Answers
from triprune.run import trainer as trainers
from triprune.run.spec import Settings
from triprune.run.trainer import ImageTrainer, on_worker

RECIPE = Recipe(round_epochs=10, final_epochs=80, distillation=0.5)


def test_all_epochs_of_a_run_are_counted():
    alone = Settings(0.5, rounds=4, recipe=RECIPE, effort="paper")
    assert alone.planned_epochs == 3 * 4 * 10 + 80
    compared = Settings(0.5, rounds=4, recipe=RECIPE, effort="paper", controls=True, seeds=3)
    assert compared.planned_epochs == 3 * 4 * 10 + 4 * 3 * 80


def test_a_cpu_asks_the_teacher_as_it_goes(small):
    trainer = ImageTrainer(small.splits(), RECIPE, "cpu", planned_epochs=10**6)
    original = small.make()
    teacher = trainer._teacher(original, RECIPE)
    assert teacher is not original
    assert not isinstance(teacher, Answers)
    assert trainer._teacher(original, RECIPE.from_scratch()) is None


UNCHANGED = replace(RECIPE, augment=False, precision="fp32")  # one view of every image


def test_one_original_s_answers_are_held_at_a_time(small):
    trainer = ImageTrainer(small.splits(100), UNCHANGED, "cpu")
    first, second = small.make(), small.make()
    train = trainer.splits.train
    said = trainer._answers(first, train, UNCHANGED)
    assert said is not None
    assert said.table.shape == (1, len(train), 10)
    assert trainer._answers(first, train, UNCHANGED) is said
    assert trainer._answers(second, train, UNCHANGED) is not said
    assert len(trainer.memory) == 1


class TooLarge(nn.Module):
    def __init__(self, error: type[Exception]) -> None:
        super().__init__()
        self.error = error

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise self.error("no room")


def test_an_original_whose_answers_do_not_fit_is_asked_as_it_goes(small):
    trainer = ImageTrainer(small.splits(100), UNCHANGED, "cpu")
    train = trainer.splits.train
    assert trainer._answers(TooLarge(torch.OutOfMemoryError), train, UNCHANGED) is None
    with pytest.raises(ZeroDivisionError):
        trainer._answers(TooLarge(ZeroDivisionError), train, UNCHANGED)


@pytest.mark.parametrize(("world", "remembers"), [(1, True), (2, False)])
def test_processes_that_train_together_each_pay_for_a_table(small, monkeypatch, world, remembers):
    monkeypatch.setattr(trainers, "current_ranks", lambda: Ranks(0, world))
    monkeypatch.setattr(ImageTrainer, "_device", lambda _: torch.device("cuda"))
    monkeypatch.setattr(ImageTrainer, "_answers", lambda *_: Answers(torch.zeros(1, 1, 1)))
    trainer = ImageTrainer(small.splits(100), UNCHANGED, planned_epochs=3)
    assert isinstance(trainer._teacher(small.make(), UNCHANGED), Answers) == remembers


def test_a_worker_plans_one_fine_tuning_and_no_more(small):
    trainer = ImageTrainer(small.splits(100), UNCHANGED, "cpu", planned_epochs=1080)
    assert trainer._answers(small.make(), trainer.splits.train, UNCHANGED)
    assert len(trainer.memory) == 1
    sent = on_worker(trainer, (), 1)
    assert isinstance(sent, ImageTrainer)
    assert sent.planned_epochs == 80
    assert not len(sent.memory)


def test_a_trainer_by_another_recipe_shares_the_answers(small):
    trainer = ImageTrainer(small.splits(100), UNCHANGED, "cpu")
    hotter = replace(UNCHANGED, temperature=8.0)
    said = trainer._answers(original := small.make(), trainer.splits.train, UNCHANGED)
    other = replace(trainer, recipe=hotter)
    assert other._answers(original, other.splits.train, hotter) is said
