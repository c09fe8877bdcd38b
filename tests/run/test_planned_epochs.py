from triprune.learning.recipe import Recipe
from triprune.learning.teaching import Answers
from triprune.run.spec import Settings
from triprune.run.trainer import ImageTrainer

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
