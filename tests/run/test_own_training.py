"""Functions of the user's own that cannot be meant are told with what they must take and return."""

import functools

import pytest
import torch

from triprune.errors import InputError, RunChangedError
from triprune.run.compress import compress
from triprune.run.own_training import OwnTraining
from triprune.run.store import Store
from triprune.run.trainer import Task


def train(model, resolution_px):
    raise AssertionError("trained")


@pytest.mark.parametrize("name", ["train", "evaluate", "final_evaluate"])
def test_a_function_of_other_arguments(small, name):
    given = {"train": train, "evaluate": lambda model, resolution_px: 0.5}
    given[name] = lambda model: 1
    told = rf"{name}=.*it takes \(model\), not a model and a resolution.*give {name}\(model, res"
    with pytest.raises(InputError, match=told):
        compress(small.make(), **given, input_size=(3, 32, 32), budget=0.5)


@pytest.mark.parametrize("score", [None, "good", [0.5], float("nan"), torch.ones(2), True, {}])
def test_a_score_that_is_no_number(small, score):
    own = {"train": train, "evaluate": lambda model, resolution_px: score}
    with pytest.raises(InputError, match=r"the score of original: .* returned .*return one plain"):
        compress(small.make(), **own, input_size=(3, 32, 32), budget=0.5)


def test_a_run_goes_on_with_the_size_and_the_functions_it_was_begun_with(small, tmp_path):
    calls = []

    def stop(model, resolution_px):
        calls.append(resolution_px)
        raise KeyboardInterrupt

    def go(side, **given):
        own = {"train": stop, "evaluate": lambda model, resolution_px: 0.9, **given}
        settings = small.settings(rounds=1, executor="inline")
        given = {"input_size": (3, side, side), "settings": settings, "out": tmp_path}
        compress(small.make(), **own, **given, budget=0.5)

    with pytest.raises(KeyboardInterrupt):
        go(32)
    with pytest.raises(RunChangedError, match=r"input_size was \[3, 32, 32\], is \[3, 24, 24\]"):
        go(24)
    with pytest.raises(
        RunChangedError, match="its final_evaluate changed: final_evaluate was None"
    ):
        go(32, final_evaluate=lambda model, resolution_px: 0.9)
    assert len(calls) == 1
    with pytest.raises(KeyboardInterrupt):
        go(32)
    assert len(calls) == 2


class Score:
    def __call__(self, model, resolution_px):
        return 0.9


@pytest.mark.parametrize("evaluate", [Score(), functools.partial(Score.__call__, Score())])
def test_facts_are_the_same_in_every_process(evaluate):
    own = OwnTraining(train, evaluate, (3, 32, 32), evaluate)
    assert "0x" not in str(own.facts())


def test_a_run_that_noted_less_goes_on(tmp_path):
    now = OwnTraining(train, Score(), (3, 32, 32)).facts()
    store = Store(tmp_path)
    store.begin({"functions": now["functions"]})
    store.begin(now)


@pytest.mark.parametrize("size", [(3, 48, 16), (48, 16), (3, 8, 32, 32)])
def test_an_input_that_is_no_square_image_is_refused_before_anything_runs(small, size):
    own = {"train": train, "evaluate": train}
    with pytest.raises(InputError, match=r"a run on inputs of 3×(48×16|8×32×32): they are no sq"):
        compress(small.make(), **own, input_size=size, budget=0.5)


def test_train_draws_from_the_seed_and_the_caller_s_numbers_stay(small):
    drawn = []

    def draw(model, resolution_px):
        drawn.append((torch.rand(1).item(), torch.initial_seed()))

    own = OwnTraining(draw, lambda model, resolution_px: 0.5, (3, 32, 32))
    for seed in (1, 1, 2):
        before = torch.get_rng_state()
        list(own.fine_tune(Task("t", small.make(), 32, seed=seed)))
        assert torch.get_rng_state().equal(before)
    assert drawn[0] == drawn[1] != drawn[2]
    assert [seed for _, seed in drawn] == [1, 1, 2]


@pytest.mark.parametrize("in_use", [True, False])
def test_a_gpu_is_seeded_too_and_none_is_woken_for_it(small, monkeypatch, in_use):
    """A GPU that is in use gets its numbers back; here is none, so its calls are written down."""
    told = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: in_use)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "manual_seed_all", lambda seed: told.append(f"seed {seed}"))
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: told.append(f"get {device}"))
    monkeypatch.setattr(
        torch.cuda, "set_rng_state", lambda state, device: told.append(f"set {device}")
    )
    own = OwnTraining(
        lambda model, resolution_px: told.append("train"), lambda model, px: 0.5, (3, 32, 32)
    )
    list(own.fine_tune(Task("t", small.make(), 32, seed=7)))
    seeded = ["seed 7", "train"]
    around = ["get 0", "get 1", *seeded, "set 0", "set 1"]
    assert told == (around if in_use else seeded)
