"""A pruned model is an ordinary model: trace it, export it, compile it, copy it, train it."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import distributed, fx, nn
from torch.nn.parallel import DistributedDataParallel

import triprune
from triprune.core.scale import Scale

X = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module", params=["resnet20", "densenet40", "torchvision:mobilenet_v3_small"])
def pruned(request) -> nn.Module:
    torch.manual_seed(0)
    model = triprune.build_model(request.param, num_classes=10)
    return triprune.prune(model, Scale(0.8, 0.5, 1), example_input=X[:1])[0].eval()


def test_fx(pruned):
    traced = fx.symbolic_trace(pruned)
    with torch.no_grad():
        assert torch.equal(traced(X), pruned(X))


def test_export(pruned):
    with torch.no_grad():
        exported = torch.export.export(pruned, (X,)).module()
        torch.testing.assert_close(exported(X), pruned(X))


def test_compile(pruned):
    torch.compiler.reset()
    compiled = torch.compile(pruned, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(X), pruned(X))


def test_deepcopy_and_state_dict(pruned):
    twin = copy.deepcopy(pruned)
    for parameter in twin.parameters():
        nn.init.zeros_(parameter)
    twin.load_state_dict(pruned.state_dict())
    with torch.no_grad():
        assert torch.equal(twin(X), pruned(X))


def test_trains(pruned):
    model = copy.deepcopy(pruned).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    model(X).logsumexp(1).sum().backward()
    optimizer.step()
    moved = [name for name, p in model.named_parameters() if not torch.equal(p, before[name])]
    assert len(moved) > 0.9 * len(before)


def test_distributed(pruned, tmp_path):
    distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'meet'}", rank=0, world_size=1
    )
    try:
        model = DistributedDataParallel(copy.deepcopy(pruned).train())
        model(X).sum().backward()
        assert all(p.grad is not None for p in model.parameters())
        del model  # the last to hold the group would wait, as it goes, for threads that wait for it
    finally:
        distributed.destroy_process_group()


def test_pruning_again_counts_against_what_it_is_given(pruned):
    again, plan = triprune.prune(pruned, Scale(width=0.5), example_input=X[:1])
    assert plan.realised.width == pytest.approx(0.5, abs=0.05)
    assert again(X).shape == (2, 10)
