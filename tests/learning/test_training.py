import math
from dataclasses import replace

import pytest
import torch

from triprune.errors import DivergedError, InputError, OutOfMemoryError
from triprune.learning.evaluation import evaluate, evaluate_final
from triprune.learning.images import SealedTest
from triprune.learning.job import Job
from triprune.learning.recipe import Recipe
from triprune.learning.training import train

RECIPE = Recipe(epochs=3, batch_size=16, rate=0.05, precision="fp32")


def same_state(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def test_training_learns(tiny_net, coloured_images):
    validation = coloured_images(60, seed=1)
    result = train(
        Job(tiny_net(), coloured_images(), replace(RECIPE, epochs=6), validation=validation)
    )
    assert result.finished
    assert result.engine == ("cuda graph" if torch.cuda.is_available() else "eager")
    assert [record.epoch for record in result.history] == [1, 2, 3, 4, 5, 6]
    assert result.accuracy is not None
    assert result.accuracy > 0.8
    assert result.accuracy == evaluate(result.model, validation).accuracy
    assert result.history[-1].loss < result.history[0].loss


def test_equals_plain_pytorch(tiny_net, coloured_images):
    """Without augmentation, the loop is torch.optim.SGD over the same order of batches."""
    images, recipe = coloured_images(), replace(RECIPE, augment=False, layout="nchw", epochs=2)
    result = train(Job(tiny_net(), images, recipe, seed=5, device="cpu"))
    from triprune.learning.feed import seed_for

    model = tiny_net()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    scale, shift = images.affine("cpu")
    for epoch in range(2):
        for group in optimiser.param_groups:
            group["lr"] = recipe.rate_at(epoch)
        generator = torch.Generator().manual_seed(seed_for(5, epoch, "order"))
        for rows in torch.randperm(96, generator=generator).split(16):
            logits = model(images.images[rows].float() * scale + shift)
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(logits, images.labels[rows]).backward()
            optimiser.step()
    for mine, theirs in zip(
        result.model.state_dict().values(), model.state_dict().values(), strict=True
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("epochs", [1, 2, 3, 4])
def test_resumed_equals_uninterrupted_after_every_epoch(
    tiny_net, coloured_images, tmp_path, epochs
):
    recipe = replace(RECIPE, epochs=5, schedule="cosine", warmup_epochs=1.5)
    validation = coloured_images(30, seed=2)

    def job(path):
        return Job(
            tiny_net(dropout=0.3),
            coloured_images(),
            recipe,
            validation=validation,
            checkpoint=path,
            device="cpu",
            seed=7,
        )

    whole = train(job(None))
    path = tmp_path / "half.safetensors"
    torch.manual_seed(epochs)
    first = train(job(path), stop=lambda record: record.epoch == epochs)
    assert not first.finished
    torch.manual_seed(99)
    second = train(job(path))
    assert second.finished
    assert same_state(whole.model, second.model)
    untimed = [replace(r, seconds=0, images_per_second=0) for r in second.history]
    assert untimed == [replace(r, seconds=0, images_per_second=0) for r in whole.history]


def test_a_record_tells_the_rate_that_an_epoch_learned_by(tiny_net, coloured_images):
    recipe = replace(RECIPE, epochs=1, schedule="cosine", warmup_epochs=0.1)
    (record,) = train(Job(tiny_net(), coloured_images(), recipe, device="cpu")).history
    rates = recipe.rates(0, 6)
    assert record.rate == pytest.approx(sum(rates) / 6)
    assert record.rate > 0.4 * recipe.rate


def test_a_finished_training_is_not_run_again(tiny_net, coloured_images, tmp_path):
    path = tmp_path / "done.safetensors"
    first = train(Job(tiny_net(), coloured_images(), RECIPE, checkpoint=path))
    again = train(Job(tiny_net(3), coloured_images(), RECIPE, checkpoint=path))
    assert again.finished
    assert again.history == first.history
    assert same_state(first.model, again.model)


def test_validation_now_and_then_and_after_the_last_epoch(tiny_net, coloured_images):
    images = coloured_images(128)
    recipe = replace(RECIPE, epochs=5)
    every, seldom = (
        train(Job(tiny_net(), images, recipe, validation=images, validate_every=n)) for n in (1, 2)
    )
    known = [record.accuracy for record in every.history]
    assert [record.accuracy for record in seldom.history] == [None, known[1], None, *known[3:]]
    assert [r.loss for r in seldom.history] == [r.loss for r in every.history]


@pytest.mark.parametrize("name", ["validate_every", "checkpoint_every"])
def test_a_count_of_epochs_below_one_is_refused(tiny_net, coloured_images, name):
    with pytest.raises(InputError, match=f"{name} = 0: it is no count of epochs. give 1 or more"):
        Job(tiny_net(), coloured_images(), RECIPE, **{name: 0})


def test_seed_decides(tiny_net, coloured_images):
    results = [
        train(Job(tiny_net(), coloured_images(), RECIPE, seed=seed, device="cpu"))
        for seed in (1, 1, 2)
    ]
    assert same_state(results[0].model, results[1].model)
    assert not same_state(results[0].model, results[2].model)


def test_callers_randomness_is_left_alone(tiny_net, coloured_images):
    torch.manual_seed(4)
    expected = torch.rand(3)
    torch.manual_seed(4)
    train(Job(tiny_net(dropout=0.5), coloured_images(), replace(RECIPE, epochs=1)))
    assert torch.equal(torch.rand(3), expected)


def test_weights_keep_their_layout(tiny_net, coloured_images):
    model = tiny_net()
    train(Job(model, coloured_images(), replace(RECIPE, epochs=1, layout="nhwc")))
    assert all(parameter.is_contiguous() for parameter in model.parameters())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_diverging_stops_with_epoch_rate_and_remedy(tiny_net, coloured_images, tmp_path):
    path = tmp_path / "lost.safetensors"
    job = Job(tiny_net(), coloured_images(), replace(RECIPE, rate=1e6), checkpoint=path)
    with pytest.raises(DivergedError, match=r"epoch 1, rate 1e\+06.*loss is.*try a rate of 1e\+05"):
        train(job)
    assert not list(tmp_path.iterdir())


def test_divergence_keeps_the_last_good_epoch(tiny_net, coloured_images, tmp_path):
    path = tmp_path / "kept.safetensors"
    recipe = replace(RECIPE, rate=1e7, warmup_epochs=1.9, epochs=4)
    tame = replace(recipe, rate=0.05)
    train(Job(tiny_net(), coloured_images(), tame, checkpoint=path), stop=lambda record: True)
    before = path.read_bytes()

    class Poison:
        def on_epoch(self, training, record):
            raise AssertionError("no epoch may finish")

        def on_end(self, training, note):
            self.note = note

    model, watcher = tiny_net(), Poison()
    images = coloured_images()
    job = Job(model, images, tame, checkpoint=path)
    handle = model.head.register_forward_hook(lambda *args: args[2] * math.nan)
    with pytest.raises(DivergedError, match="epoch 2"):
        train(job, watchers=[watcher])
    handle.remove()
    assert path.read_bytes() == before
    assert watcher.note.startswith("failed: training")


def test_out_of_memory_names_a_batch(tiny_net, coloured_images):
    class Hungry(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = tiny_net()

        def forward(self, x):
            if len(x) > 4:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return self.net(x)

    if torch.cuda.is_available():
        pytest.skip("simulated on the CPU")
    with pytest.raises(OutOfMemoryError, match=r"batch_size = 16.*batch_size = 8"):
        train(Job(Hungry(), coloured_images(), RECIPE))


def test_settings_must_be_those_of_the_checkpoint(tiny_net, coloured_images, tmp_path):
    path = tmp_path / "a.safetensors"
    train(Job(tiny_net(), coloured_images(), RECIPE, checkpoint=path), stop=lambda _: True)
    with pytest.raises(InputError, match="seed was 0, is 1"):
        train(Job(tiny_net(), coloured_images(), RECIPE, checkpoint=path, seed=1))


def test_distillation_follows_the_teacher(tiny_net, coloured_images):
    images = coloured_images()
    teacher = train(Job(tiny_net(1), images, replace(RECIPE, epochs=6))).model
    student = train(
        Job(tiny_net(2), images, replace(RECIPE, epochs=6, distillation=0.9), teacher=teacher)
    )
    assert evaluate(student.model, images).accuracy > 0.8
    with pytest.raises(InputError, match="there is no teacher"):
        Job(tiny_net(), images, replace(RECIPE, distillation=0.5))


def test_a_student_far_from_a_sure_teacher_has_not_diverged(tiny_net, coloured_images):
    teacher = tiny_net(1)
    with torch.no_grad():
        teacher.head.weight.mul_(100)
    recipe = replace(RECIPE, epochs=1, rate=1e-4, distillation=0.9)
    result = train(Job(tiny_net(2), coloured_images(), recipe, teacher=teacher, device="cpu"))
    assert 10 * math.log(3) < result.history[0].loss < 10 * math.log(3) * (0.1 + 0.9 * 16)


def test_the_teacher_sees_images_at_their_own_size(tiny_net, coloured_images):
    images, teacher, student = coloured_images(), tiny_net(1), tiny_net(2)
    seen: dict[str, set[tuple[int, ...]]] = {"teacher": set(), "student": set()}
    for name, model in (("teacher", teacher), ("student", student)):
        model.register_forward_pre_hook(
            lambda _model, inputs, name=name: seen[name].add(tuple(inputs[0].shape[2:]))
        )
    recipe = replace(RECIPE, epochs=1, distillation=0.5)
    train(Job(student, images, recipe, teacher=teacher, resolution_px=6, device="cpu"))
    side = images.resolution_px
    assert seen == {"teacher": {(side, side)}, "student": {(6, 6)}}


def test_resolution_is_trained_and_evaluated_at(tiny_net, coloured_images):
    sizes = []
    model = tiny_net()
    model.register_forward_pre_hook(lambda _, inputs: sizes.append(inputs[0].shape[-1]))
    images = coloured_images()
    train(Job(model, images, replace(RECIPE, epochs=1), validation=images, resolution_px=6))
    assert set(sizes) == {6}


def test_test_split_goes_to_the_final_evaluation_only(tiny_net, coloured_images):
    images = coloured_images()
    sealed = SealedTest(images)
    with pytest.raises(InputError, match="sealed test split"):
        Job(tiny_net(), sealed, RECIPE)
    with pytest.raises(InputError, match="sealed test split"):
        Job(tiny_net(), images, RECIPE, validation=sealed)
    with pytest.raises(InputError, match="evaluate_final"):
        evaluate(tiny_net(), sealed)
    with pytest.raises(InputError, match="sealed test split"):
        evaluate_final(tiny_net(), images)
    model = tiny_net()
    assert evaluate_final(model, sealed) == evaluate(model, images)


def test_batch_larger_than_the_set_is_refused(tiny_net, coloured_images):
    with pytest.raises(InputError, match="96 images"):
        train(Job(tiny_net(), coloured_images(), replace(RECIPE, batch_size=97)))
