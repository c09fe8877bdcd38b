"""The CUDA engine's logic, on a stand-in for CUDA graphs that replays the step it was given.

Like a real graph, the stand-in changes nothing while it captures, and replays what was captured.
"""

from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from triprune.learning import engine_cuda
from triprune.learning.engine import EagerEngine, engine_for
from triprune.learning.engine_cuda import GraphEngine, restore, snapshot, uncounted_batches
from triprune.learning.feed import Feed
from triprune.learning.ranks import Ranks
from triprune.learning.recipe import Recipe
from triprune.learning.step import Step

RECIPE = Recipe(epochs=3, batch_size=16, rate=0.05, precision="fp32")


def make_step(model, images, recipe=RECIPE) -> Step:
    return Step(model, Feed(images, recipe, seed=1, ranks=Ranks()), recipe, ranks=Ranks())


class StandInGraph:
    def __init__(self):
        self.generators = []
        self.step = None

    def register_generator_state(self, generator):
        self.generators.append(generator)

    def replay(self):
        with uncounted_batches(self.step.model):
            self.step()


@pytest.fixture
def stand_in_cuda(monkeypatch):
    capturing = SimpleNamespace(step=None, fail=None)

    @contextmanager
    def graph(graph, *, stream, capture_error_mode):
        assert capture_error_mode == "thread_local"
        kept = snapshot(capturing.step.tensors())
        if capturing.fail is not None:
            raise capturing.fail
        yield
        restore(capturing.step.tensors(), kept)
        graph.step = capturing.step

    cuda = SimpleNamespace(
        CUDAGraph=StandInGraph,
        graph=graph,
        stream=lambda stream: nullcontext(),
        current_stream=lambda: "before",
        set_stream=lambda stream: setattr(capturing, "left_on", stream),
        Stream=object,
    )
    monkeypatch.setattr(engine_cuda.torch, "cuda", cuda)
    return capturing


def run_epochs(engine, step, epochs=2):
    for epoch in range(epochs):
        step.start(epoch)
        for _ in range(step.feed.steps):
            engine.advance()
        engine.close_epoch()


def test_graph_equals_eager_bit_for_bit(tiny_net, coloured_images, stand_in_cuda):
    eager = make_step(tiny_net(), coloured_images())
    run_epochs(EagerEngine(eager), eager)
    step = stand_in_cuda.step = make_step(tiny_net(), coloured_images())
    stream = SimpleNamespace(synchronize=lambda: None)
    engine, reason = engine_for(step, stream)
    assert isinstance(engine, GraphEngine)
    assert reason is None
    assert engine._graph.generators == [step.feed.generator]
    run_epochs(engine, step)
    for mine, theirs in zip(step.tensors(), eager.tensors(), strict=True):
        assert torch.equal(mine, theirs)
    counted = dict(step.model.state_dict())["stem.1.num_batches_tracked"]
    assert int(counted) == 2 * step.feed.steps


def test_warm_up_leaves_no_trace(tiny_net, coloured_images, stand_in_cuda):
    step = stand_in_cuda.step = make_step(tiny_net(), coloured_images())
    before = snapshot(step.tensors())
    GraphEngine(step, SimpleNamespace(synchronize=lambda: None))
    assert all(torch.equal(a, b) for a, b in zip(step.tensors(), before, strict=True))


def test_one_step_an_epoch_is_enough_to_warm_up(tiny_net, coloured_images, stand_in_cuda):
    step = make_step(tiny_net(), coloured_images(), replace(RECIPE, batch_size=96))
    stand_in_cuda.step = step
    GraphEngine(step, SimpleNamespace(synchronize=lambda: None))
    assert step.feed.steps == 1


def test_a_model_that_cannot_be_captured_runs_step_by_step(
    tiny_net, coloured_images, stand_in_cuda
):
    step = stand_in_cuda.step = make_step(tiny_net(), coloured_images())
    stand_in_cuda.fail = RuntimeError("operation not permitted when stream is capturing\nmore")
    generator = step.feed.generator
    engine, reason = engine_for(step, SimpleNamespace(synchronize=lambda: None))
    assert isinstance(engine, EagerEngine)
    assert "(operation not permitted when stream is capturing)" in reason
    assert step.feed.generator is not generator
    assert stand_in_cuda.left_on == "before"
    assert step.model.stem[1].num_batches_tracked is not None
    run_epochs(EagerEngine(step), step)


def test_no_memory_during_capture_is_no_reason_to_go_on(tiny_net, coloured_images, stand_in_cuda):
    step = stand_in_cuda.step = make_step(tiny_net(), coloured_images())
    stand_in_cuda.fail = torch.OutOfMemoryError("CUDA out of memory")
    with pytest.raises(torch.OutOfMemoryError):
        engine_for(step, SimpleNamespace(synchronize=lambda: None))


def test_several_processes_run_step_by_step(tiny_net, coloured_images):
    images, ranks = coloured_images(), Ranks(0, 2)
    feed = Feed(images, RECIPE, seed=1, ranks=ranks)
    step = Step(tiny_net(), feed, RECIPE, ranks=ranks)
    engine, _ = engine_for(step, SimpleNamespace())
    assert isinstance(engine, EagerEngine)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_real_graph_follows_eager(tiny_net, coloured_images):
    images = coloured_images().to("cuda")
    eager = make_step(tiny_net().cuda(), images)
    graph = make_step(tiny_net().cuda(), images)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    run_epochs(EagerEngine(eager), eager)
    engine, reason = engine_for(graph, stream)
    assert reason is None
    with torch.cuda.stream(stream):  # an epoch is laid out behind the steps of the one before
        run_epochs(engine, graph)
    torch.cuda.synchronize()
    for mine, theirs in zip(graph.tensors(), eager.tensors(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4)
