"""Dense layers, however they are concatenated: found, and cut from all that comes after them."""

import pytest
import torch
from torch import nn

from triprune import Scale, prune
from triprune.network.blocks import removable_blocks
from triprune.network.plan import Plan
from triprune.network.running import output_tensors
from triprune.network.structure.dense import NoChannels, run_without_channels


class Layer(nn.Module):
    """Norm, ReLU, a depthwise convolution that carries the channels on, and one that makes new."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.norm, self.act = nn.BatchNorm2d(inputs), nn.ReLU(inplace=True)
        self.spread = nn.Conv2d(inputs, inputs, 3, padding=1, groups=inputs)
        self.conv = nn.Conv2d(inputs, 6, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(self.spread(self.act(self.norm(x))))


class TakesList(Layer):
    def forward(self, x: list[torch.Tensor]) -> torch.Tensor:  # pyright: ignore
        return super().forward(torch.cat(x, 1))


class SelfConcatenating(Layer):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([super().forward(x), x], 1)


class Loop(nn.Module):
    def __init__(self, layer: type[Layer]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layer(8 + 6 * n) for n in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features = [x]
        for layer in self.layers:
            features.append(layer(features))
        return torch.cat(features, dim=1)


class Running(Loop):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number in range(4):
            x = torch.cat((x, self.layers[number](x)), 1)
        return x


class Chain(Loop):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class Net(nn.Module):
    def __init__(self, block: nn.Module, *, bare: bool = False) -> None:
        super().__init__()
        self.stem, self.block, self.norm = nn.Conv2d(3, 8, 3), block, nn.BatchNorm2d(32)
        self.head = nn.Identity() if bare else nn.Linear(32, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.norm(self.block(self.stem(x)))).mean((2, 3)))


STYLES = {
    "list in a loop": lambda: Net(Loop(TakesList)),
    "running concatenation by number": lambda: Net(Running(Layer)),
    "layers that concatenate themselves": lambda: Net(Chain(SelfConcatenating)),
}


def made(style: str) -> nn.Module:
    torch.manual_seed(0)
    model = STYLES[style]().eval()
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                for tensor in (module.weight, module.bias, module.running_mean):
                    tensor.normal_(0.2, 0.5)
    return model


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("gone", [(0,), (3,), (1, 2), (0, 1, 2)])
def test_a_net_without_dense_layers_is_the_net_without_their_channels(
    style: str, gone: tuple[int, ...]
) -> None:
    model, x = made(style), torch.randn(2, 3, 9, 9)
    blocks = removable_blocks(model, x)
    assert blocks.names == tuple(f"block.layers.{n}" for n in range(4))
    assert [block.kind for block in blocks] == ["dense"] * 4
    scores = {name: float(n not in gone) for n, name in enumerate(blocks.names)}
    depth = (4 - len(gone)) / 4
    smaller, plan = prune(model, Scale(depth), example_input=x, block_scores=scores)
    expected = run_without_channels(model, x, [blocks.blocks[n].writes for n in gone])
    torch.testing.assert_close(smaller(x), expected, rtol=1e-4, atol=1e-5)
    again = Plan.from_json(plan.to_json()).apply(model)
    assert torch.equal(again(x), smaller(x))
    assert smaller.head.in_features == 32 - 6 * len(gone)
    narrow, _ = prune(model, Scale(depth, 0.5), example_input=x, block_scores=scores)
    narrow(x).sum().backward()
    assert narrow.head.in_features == 16 - 3 * len(gone)


def test_only_what_a_loop_does_not_go_through_leaves_a_layer_without_channels() -> None:
    x = torch.randn(2, 3, 9, 9)
    left = {}
    for style in STYLES:
        model = made(style)
        scores = dict.fromkeys(removable_blocks(model, x).names, 1.0) | {"block.layers.1": 0.0}
        smaller, _ = prune(model, Scale(0.75), example_input=x, block_scores=scores)
        layers = smaller.block.layers
        left[style] = type(layers._modules.get("1"))
        assert "block.layers.3.conv.weight" in smaller.state_dict()
    assert list(left.values()) == [type(None), NoChannels, nn.Identity]


def test_channels_that_reach_the_output_are_refused() -> None:
    blocks = removable_blocks(Net(Loop(TakesList), bare=True).eval(), torch.randn(2, 3, 9, 9))
    assert not len(blocks)
    assert "reach the output" in dict(blocks.refused)["block.layers.0"]


def test_look_alikes_are_no_dense_layers() -> None:
    class Inception(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Conv2d(3, 8, 1)
            self.one, self.two = nn.Conv2d(8, 8, 1), nn.Conv2d(8, 8, 3, padding=1)
            self.pyramid, self.up = nn.Conv2d(8, 8, 1), nn.ConvTranspose2d(8, 8, 2, stride=2)
            self.head = nn.Conv2d(32, 4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.stem(x)
            deep = self.up(nn.functional.max_pool2d(x, 2))
            pooled = self.pyramid(x.mean((2, 3), keepdim=True)).expand_as(x)
            return self.head(torch.cat([self.one(x), self.two(x), pooled, deep], 1))

    model, x = Inception().eval(), torch.randn(1, 3, 8, 8)
    blocks = removable_blocks(model, x)
    assert (len(blocks), blocks.total) == (0, 0)
    assert output_tensors(model(x))[0].shape == (1, 4, 8, 8)
