import time

import pytest
import torch
from torch import nn

from triprune import measure_latency
from triprune.errors import InputError


class Sleeper(nn.Module):
    def __init__(self, seconds, calls=None):
        super().__init__()
        self.seconds = seconds

    def forward(self, x):
        time.sleep(self.seconds)
        return x


@pytest.mark.alone
def test_a_known_wait_is_measured():
    waits = measure_latency({"short": Sleeper(0.004), "long": Sleeper(0.012)}, 8, rounds=6)
    assert 4 <= waits["short"].median_ms < 12 <= waits["long"].median_ms
    for latency in waits.values():
        assert latency.lower_ms <= latency.median_ms <= latency.upper_ms
        assert (latency.samples, latency.batch_size, latency.device) == (6, 1, "cpu")


ORDER = []


class Noting(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.name = name

    def forward(self, x):
        time.sleep(0.006)
        ORDER.append((self.name, self.training, tuple(x.shape)))
        return x


def test_models_take_turns_at_their_own_sizes_in_eval_mode():
    ORDER.clear()
    models = {"a": Noting("a"), "b": Noting("b")}
    measure_latency(models, {"a": 8, "b": (3, 4, 4)}, batch_size=2, rounds=4)
    assert [name for name, _, _ in ORDER[-8:]] == list("abbaabba")
    assert {shape for name, _, shape in ORDER if name == "a"} == {(2, 3, 8, 8)}
    assert {shape for name, _, shape in ORDER if name == "b"} == {(2, 3, 4, 4)}
    assert not any(training for _, training, _ in ORDER)
    assert models["a"].training


@pytest.mark.parametrize(
    ("models", "settings"),
    [({}, {}), ({"a": nn.ReLU()}, {"batch_size": 0}), ({"a": nn.ReLU()}, {"rounds": 1})],
)
def test_nothing_to_time_is_refused(models, settings):
    with pytest.raises(InputError, match="nothing to time"):
        measure_latency(models, 8, **settings)


@pytest.mark.parametrize("device", ["abacus", "cuda:99"])
def test_a_device_that_is_not_there_is_refused(device):
    with pytest.raises(InputError, match=f"timing on {device}: torch cannot use it here"):
        measure_latency({"a": nn.Conv2d(3, 3, 1)}, 8, device=device)


def test_a_size_that_does_not_fit_is_explained():
    with pytest.raises(InputError, match="its forward raised"):
        measure_latency({"a": nn.Conv2d(3, 3, 1)}, (4, 8, 8))


@pytest.mark.gpu
def test_latency_on_cuda():
    if not torch.cuda.is_available():
        pytest.skip("NOT RUN: no CUDA device here")
    small, large = nn.Conv2d(3, 8, 3), nn.Sequential(*[nn.Conv2d(3, 3, 9) for _ in range(6)])
    timed = measure_latency({"small": small, "large": large}, 256, device="cuda", batch_size=8)
    assert timed["small"].device == "cuda"
    assert 0 < timed["small"].median_ms < timed["large"].median_ms
    assert next(small.parameters()).device.type == "cpu"
