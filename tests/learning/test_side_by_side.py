from dataclasses import replace

import pytest
import torch

from triprune.errors import DivergedError, InputError
from triprune.learning.job import Job, TrainResult
from triprune.learning.recipe import Recipe
from triprune.learning.side_by_side import train_side_by_side
from triprune.learning.training import train

RECIPE = Recipe(epochs=3, batch_size=16, rate=0.05, precision="fp32")


@pytest.fixture
def jobs(tiny_net, coloured_images):
    def build(count=3, **changes):
        return [
            Job(
                tiny_net(seed, dropout=0.2),
                coloured_images(),
                RECIPE,
                name=f"job {seed}",
                seed=seed,
                device="cpu",
                **changes,
            )
            for seed in range(count)
        ]

    return build


def weights(outcome) -> torch.Tensor:
    assert isinstance(outcome, TrainResult)
    return torch.cat([value.double().flatten() for value in outcome.model.state_dict().values()])


def test_side_by_side_equals_alone_bit_for_bit(jobs):
    together = train_side_by_side(jobs())
    for outcome, job in zip(together, jobs(), strict=True):
        assert torch.equal(weights(outcome), weights(train(job)))


def test_one_failure_harms_no_other(jobs):
    several = jobs()
    several[1] = replace(several[1], recipe=replace(RECIPE, rate=1e9))
    outcomes = train_side_by_side(several)
    assert isinstance(outcomes[1], DivergedError)
    for number in (0, 2):
        assert torch.equal(weights(outcomes[number]), weights(train(jobs()[number])))


def test_turns_are_taken_epoch_by_epoch(jobs):
    class Listener:
        def __init__(self):
            self.heard = []

        def on_epoch(self, training, record):
            self.heard.append((record.epoch, training))

        def on_end(self, training, note):
            self.heard.append((note, training))

    listener = Listener()
    train_side_by_side(jobs(2), watchers=[listener])
    assert listener.heard[:4] == [(1, "job 0"), (1, "job 1"), (2, "job 0"), (2, "job 1")]
    assert listener.heard[-1] == ("finished after epoch 3", "job 1")


def test_stop_stops_all(jobs):
    outcomes = train_side_by_side(jobs(), stop=lambda record: record.epoch == 2)
    assert [len(outcome.history) for outcome in outcomes] == [2, 2, 2]
    assert not any(outcome.finished for outcome in outcomes)


def test_jobs_must_be_apart(jobs, tmp_path):
    two = jobs(2)
    with pytest.raises(InputError, match="share one model"):
        train_side_by_side([two[0], replace(two[1], model=two[0].model)])
    with pytest.raises(InputError, match="called job 0"):
        train_side_by_side([two[0], replace(two[1], name="job 0")])
    with pytest.raises(InputError, match="checkpoint"):
        train_side_by_side(jobs(2, checkpoint=tmp_path / "same"))
