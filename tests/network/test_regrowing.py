import pytest
import torch

from triprune.core.scale import Scale
from triprune.learning.models import build_model
from triprune.network.pruning import prune
from triprune.network.regrowing import regrow

IMAGE = torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", ["resnet20", "resnet20-b", "densenet40"])
@pytest.mark.parametrize("scale", [Scale(1, 0.7, 1), Scale(0.7, 1, 1), Scale(0.8, 0.8, 0.8)])
def test_cutting_what_was_regrown_gives_the_same_model(name, scale):
    torch.manual_seed(0)
    model = build_model(name)
    pruned, plan = prune(model, scale, example_input=IMAGE)
    tensors = {
        key: torch.randn_like(t.float()).to(t.dtype) for key, t in pruned.state_dict().items()
    }
    grown = regrow(model, plan, tensors)
    again = plan.apply(grown).state_dict()
    assert again.keys() == tensors.keys()
    assert all(torch.equal(again[key], tensors[key]) for key in tensors)
    kept = sum(int(t.count_nonzero()) for t in tensors.values())
    assert sum(int(t.count_nonzero()) for t in grown.state_dict().values()) == kept


def test_a_second_round_counts_against_the_original_and_keeps_survivors():
    torch.manual_seed(0)
    model = build_model("resnet20")
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
    first, plan = prune(model, Scale(1, 0.8, 1), example_input=IMAGE)
    for module in first.modules():
        if isinstance(module, torch.nn.BatchNorm2d):  # another order of importance
            module.weight.data = 2 - module.weight.data
    grown = regrow(model, plan, first.state_dict())
    _, second = prune(grown, Scale(1, 0.6, 1), example_input=IMAGE)
    _, at_once = prune(model, Scale(1, 0.6, 1), example_input=IMAGE)
    assert second.realised == at_once.realised
    assert second != at_once
    for name, cut in plan.cuts.layers.items():
        if cut.out is not None:
            assert set(second.cuts.layers[name].out) < set(cut.out)
            assert len(second.cuts.layers[name].out) == len(at_once.cuts.layers[name].out)
