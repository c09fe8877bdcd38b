import pytest
import torch

from triprune.learning.memory import (
    available_bytes,
    fitting_batch,
    measure_batches,
    memory_error,
    out_of_memory,
)

GIB = 2**30


def test_fit_from_two_measurements():
    # One GiB fixed and 10 MiB an image; nine tenths of 11 GiB leave room for 911 images.
    def take(batch):
        return GIB + batch * 10 * 2**20

    measured = [(64, take(64)), (32, take(32))]
    assert fitting_batch(measured, 11 * GIB) == 904
    assert fitting_batch(measured, GIB) is None
    assert fitting_batch(measured[:1], 11 * GIB) is None
    assert fitting_batch([(2, 100), (1, 100)], GIB) is None
    assert fitting_batch([(2, 2 * GIB), (1, GIB)], 4 * GIB) == 3


def test_measures_the_two_largest_halves_that_fit():
    tried = []

    def try_batch(batch):
        tried.append(batch)
        if batch > 32:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return batch * 100

    assert measure_batches(try_batch, 256) == [(32, 3200), (16, 1600)]
    assert tried == [128, 64, 32, 16]


def test_other_errors_are_not_swallowed():
    def try_batch(batch):
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        measure_batches(try_batch, 8)


def test_the_error_names_a_batch():
    error = memory_error("net", 256, measured=[(64, 6400), (32, 3200)], available=12_000)
    assert str(error).startswith("training net with batch_size = 256")
    assert error.remedy == "batch_size = 104 would fit"
    assert "try batch_size = 128" in memory_error("n", 256, measured=[], available=1).remedy
    measured_once = memory_error("n", 2, measured=[(1, 100)], available=1000)
    assert measured_once.remedy == "batch_size = 1 would fit"


def test_out_of_memory_is_recognised_through_its_causes():
    outer = RuntimeError("capture failed")
    outer.__cause__ = torch.OutOfMemoryError("CUDA out of memory")
    assert out_of_memory(outer)
    assert out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"))
    assert not out_of_memory(RuntimeError("shape"))


def test_the_host_knows_its_memory():
    assert available_bytes(torch.device("cpu")) > 0
