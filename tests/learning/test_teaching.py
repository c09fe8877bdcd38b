from dataclasses import replace

import pytest
import torch
from torch import nn

from triprune.errors import InputError
from triprune.learning import teaching
from triprune.learning.job import Job
from triprune.learning.recipe import Recipe
from triprune.learning.teaching import Answers, Memory, remember, views_of, worth_remembering
from triprune.learning.training import train
from triprune.learning.views import draw_views, show

RECIPE = Recipe(
    epochs=2, batch_size=32, rate=0.05, distillation=0.7, precision="fp32", layout="nchw"
)


@pytest.mark.parametrize("padding", ["zero", "reflect"])
def test_what_is_remembered_is_what_the_teacher_says(tiny_net, coloured_images, padding):
    images, teacher = coloured_images(), tiny_net(1)
    answers = remember(teacher, images, replace(RECIPE, padding=padding))
    assert teacher.training  # it is left as it was
    numbers = torch.tensor([5, 0, 95, 5])
    views = draw_views(images.images[numbers], torch.Generator().manual_seed(0))
    scale, shift = images.affine("cpu")
    seen = show(images.images[numbers], views, padding).float() * scale + shift
    with torch.no_grad():
        live = teacher.eval()(seen)
    torch.testing.assert_close(answers.look_up(numbers, views), live)
    assert not torch.allclose(live[0], live[3])  # the same image in another view


@pytest.mark.parametrize("changes", [{}, {"augment": False}])
@pytest.mark.parametrize("resolution_px", [None, 6])
def test_answers_teach_as_their_teacher_does(tiny_net, coloured_images, changes, resolution_px):
    images, recipe = coloured_images(), replace(RECIPE, **changes)
    teacher = train(Job(tiny_net(1), images, replace(RECIPE, distillation=0.0))).model
    taught = []
    for who in (teacher, remember(teacher, images, recipe), remember(tiny_net(3), images, recipe)):
        job = Job(
            tiny_net(2), images, recipe, teacher=who, resolution_px=resolution_px, device="cpu"
        )
        taught.append(nn.utils.parameters_to_vector(train(job).model.parameters()))
    torch.testing.assert_close(taught[1], taught[0])
    assert not torch.allclose(taught[2], taught[0], atol=1e-3)


def test_a_teacher_is_asked_once_by_all_recipes_that_show_images_alike(
    tiny_net, coloured_images, monkeypatch
):
    asked = []

    def count(teacher, images, recipe):
        asked.append(recipe)
        return remember(teacher, images, recipe)

    monkeypatch.setattr(teaching, "remember", count)
    memory, images, teacher = Memory(), coloured_images(), tiny_net(1)
    alike = [RECIPE, replace(RECIPE, temperature=2.0), replace(RECIPE, rate=0.1, epochs=5)]
    here = torch.device("cpu")
    first, *others = (memory.recall(teacher, images, each, here) for each in alike)
    assert len(asked) == 1
    assert all(other is first for other in others)
    mirrored = memory.recall(teacher, images, replace(RECIPE, padding="reflect"), here)
    assert not torch.allclose(mirrored.table, first.table)
    memory.recall(teacher, coloured_images(64), RECIPE, here)
    assert len(memory) == len(asked) == 3
    memory.recall(tiny_net(2), images, RECIPE, here)
    assert len(memory) == 1


def test_answers_to_other_images_are_refused(tiny_net, coloured_images):
    answers = remember(tiny_net(), coloured_images(), RECIPE)
    with pytest.raises(InputError, match="to 96 images in 18 views"):
        Job(tiny_net(), coloured_images(64), RECIPE, teacher=answers)
    with pytest.raises(InputError, match="teaching 96 images in 1 views"):
        Job(tiny_net(), coloured_images(), replace(RECIPE, augment=False), teacher=answers)


class Streamed:
    """As many images as one likes, none of them at hand."""

    classes = ("a", "b")

    def __len__(self) -> int:
        return 100


def test_a_table_is_made_where_it_pays_and_fits(coloured_images, monkeypatch):
    images = coloured_images()
    assert views_of(images, RECIPE) == 18
    assert not worth_remembering(images, RECIPE, 18)
    assert worth_remembering(images, RECIPE, 19)
    assert worth_remembering(images, replace(RECIPE, augment=False), 2)
    assert not worth_remembering(Streamed(), RECIPE, 10**6)
    monkeypatch.setattr(teaching, "LARGEST_TABLE", 4 * 18 * 96 * 3 - 1)
    assert not worth_remembering(images, RECIPE, 10**6)


def test_answers_hold_one_row_a_view(tiny_net, coloured_images):
    answers = remember(tiny_net(), coloured_images(), replace(RECIPE, augment=False))
    assert isinstance(answers, Answers)
    assert answers.table.shape == (1, 96, 3)
    assert torch.equal(answers.look_up(torch.tensor([3]), None), answers.table[0, 3:4])


def test_large_images_are_asked_about_in_small_batches(tiny_net, coloured_images, monkeypatch):
    seen, images, recipe = [], coloured_images(), replace(RECIPE, augment=False)
    whole = remember(tiny_net(), images, recipe)
    monkeypatch.setattr(teaching, "_PIXELS_A_BATCH", 40 * 8 * 8)
    teacher = tiny_net()
    teacher.register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs[0])))
    parts = remember(teacher, images, recipe)
    assert seen == [40, 40, 16]
    torch.testing.assert_close(parts.table, whole.table)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("resolution_px", [None, 6])
def test_a_captured_step_looks_answers_up(tiny_net, coloured_images, resolution_px):
    images, recipe = coloured_images(), replace(RECIPE, precision="fp16", layout="auto")
    teacher = tiny_net(1).cuda()
    taught = []
    for who in (teacher, remember(teacher, images.to("cuda"), recipe)):
        job = Job(tiny_net(2), images, recipe, teacher=who, resolution_px=resolution_px)
        result = train(job)
        assert result.engine == "cuda graph"
        taught.append(nn.utils.parameters_to_vector(result.model.parameters()))
    torch.testing.assert_close(taught[1], taught[0], atol=5e-3, rtol=0)
