from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from triprune.learning.kernels.dense import Layer, dense_block, suits
from triprune.learning.kernels.norm import Norm

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

SHAPES = [  # images, channels, grown by, height, width
    (2, 16, (12, 12, 12), 6, 5),
    (3, 12, (4, 9, 5), 4, 4),  # channels that lie at odd places
    (1, 40, (12,), 7, 3),
    (2, 16, (1, 14), 9, 8),  # the fewest and the most
    (2, 136, (12,), 1, 5),  # inputs in several steps
    (9, 12, (8,), 16, 16),  # pixels in several parts and steps, some left over
    (40, 16, (12, 5), 1, 1),  # nothing but borders beside a pixel
    (1, 16, (12,), 40, 1),
]
FORMATS = [
    torch.float16,
    pytest.param(
        torch.bfloat16,
        marks=[
            pytest.mark.gpu,
            pytest.mark.skipif(DEVICE == "cpu", reason="the interpreter has no bf16 products"),
        ],
    ),
]


def layers_of(draw, channels, grown, low=torch.float16):
    for outputs in grown:
        norm = Norm(draw(channels), draw(channels).abs(), 0.1, 1e-5)
        weight, bias = (draw(channels, mean=m).requires_grad_() for m in (1.0, 0.0))
        filters = (0.2 * draw(outputs, channels, 3, 3)).to(low)
        filters = filters.contiguous(memory_format=torch.channels_last).requires_grad_()
        yield Layer(norm, weight, bias, filters)
        channels += outputs


def by_the_textbook(x, layers, running, low=torch.float16, eps=None):
    for layer, kept, each in zip(layers, running, eps or [1e-5] * len(layers), strict=True):
        weight, bias, filters = layer
        y = functional.batch_norm(x, *kept, weight, bias, True, 0.1, each)
        x = torch.cat([x, rounded(functional.conv2d(y.relu(), filters, padding=1), low)], 1)
    return x


def rounded(x, low):
    """Round what a layer writes, or the next one's ReLU might open where ours is closed."""
    return x + (x.detach().to(low).double() - x.detach())


def error(mine, exact):
    mine, exact = mine.detach().double(), exact.detach()
    return float((mine - exact).norm() / exact.norm())


@pytest.mark.parametrize("low", FORMATS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_block_and_its_gradients_are_the_textbook_s(draw, shape, low):
    images, channels, grown, height, width = shape
    coarse = 8 if low == torch.bfloat16 else 1
    x = draw(images, channels, height, width, dtype=low).requires_grad_()
    layers = list(layers_of(draw, channels, grown, low))
    running = [(e.norm.running_mean.double(), e.norm.running_var.double()) for e in layers]
    inputs = [x, *(each for layer in layers for each in layer.parameters)]
    exact = [each.detach().double().requires_grad_() for each in inputs]
    threes = [exact[n : n + 3] for n in range(1, len(exact), 3)]
    y, z = dense_block(x, layers), by_the_textbook(exact[0], threes, running, low)
    given = draw(*y.shape, dtype=low)
    slopes = torch.autograd.grad(y, inputs, given)
    theirs = torch.autograd.grad(z, exact, given.double())
    assert torch.equal(y[:, :channels], x)
    assert error(y, z) < coarse * 1e-3
    for mine, other in zip(slopes, theirs, strict=True):
        assert error(mine, other) < coarse * 1e-2
    for layer, (mean, variance) in zip(layers, running, strict=True):
        assert error(layer.norm.running_mean, mean) < 1e-3
        assert error(layer.norm.running_var, variance) < 1e-3


def test_norms_may_differ_and_weights_be_nothing(draw):
    x = draw(3, 16, 5, 4, dtype=torch.float16)
    x[:, 2] = 0.5  # a channel without a variance
    layers = []
    for layer, eps in zip(layers_of(draw, 16, (4, 8, 12)), (1e-5, 0.1, 1.0), strict=True):
        layers.append(replace(layer, norm=replace(layer.norm, eps=eps)))
        with torch.no_grad():
            layer.weight[::3] = 0
            layer.weight[1::3] *= -1
    inputs = [x.requires_grad_(), *(each for layer in layers for each in layer.parameters)]
    exact = [each.detach().double().requires_grad_() for each in inputs]
    threes = [exact[n : n + 3] for n in range(1, len(exact), 3)]
    z = by_the_textbook(exact[0], threes, [(None, None)] * 3, eps=[e.norm.eps for e in layers])
    y = dense_block(x, layers)
    given = draw(*y.shape, dtype=torch.float16)
    theirs = torch.autograd.grad(z, exact, given.double())
    for mine, other in zip(torch.autograd.grad(y, inputs, given), theirs, strict=True):
        assert error(mine, other) < 1e-2


def test_gradients_of_other_layouts_and_without_one_of_x_are_the_same(draw):
    x = draw(2, 16, 4, 4, dtype=torch.float16)
    layers = list(layers_of(draw, 16, (8, 4)))
    inputs = [each for layer in layers for each in layer.parameters]
    given = draw(2, 28, 4, 4, dtype=torch.float16)
    found = []
    for learns, layout in ((True, torch.channels_last), (False, torch.contiguous_format)):
        y = dense_block(x.detach().requires_grad_(learns), layers)
        found.append(torch.autograd.grad(y, inputs, given.contiguous(memory_format=layout)))
    assert all(torch.equal(*both) for both in zip(*found, strict=True))


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # of the interpreter
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_what_nobody_reads_may_be_beyond_fp16(draw):
    """The last outputs owe no norm anything: infinity times nothing is nothing."""
    x = draw(1, 16, 4, 4, dtype=torch.float16).requires_grad_()
    (layer,) = layers_of(draw, 16, (8,))
    with torch.no_grad():
        layer.filters[3] = 3e4
    y = dense_block(x, [layer])
    assert bool(y[:, 19].isinf().any())
    given = torch.ones_like(y)
    given[:, 19] = 0
    slopes = torch.autograd.grad(y, [x, *layer.parameters], given)
    assert all(bool(each.isfinite().all()) for each in slopes)


def test_the_same_numbers_give_the_same_bits(draw):
    x = draw(9, 40, 5, 5, dtype=torch.float16).requires_grad_()
    layers = list(layers_of(draw, 40, (12, 9)))
    inputs = [x, *(each for layer in layers for each in layer.parameters)]

    def once():
        y = dense_block(x, layers)
        return [y, *torch.autograd.grad(y, inputs, torch.ones_like(y))]

    assert all(torch.equal(*both) for both in zip(once(), once(), strict=True))


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # where none is kept
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_pixels_that_are_not_there_give_nothing(draw):
    """A channel that is one large number, normalised where there are no pixels, is beyond fp16."""
    x = draw(5, 16, 4, 4, dtype=torch.float16)
    x[:, 3] = -250
    layers = list(layers_of(draw, 16, (8,)))
    y = dense_block(x, layers)
    slopes = torch.autograd.grad(y, layers[0].parameters, torch.ones_like(y))
    assert all(bool(each.isfinite().all()) for each in (y, *slopes))


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # of the interpreter's numpy
def test_what_is_no_number_shows(draw):
    x = draw(2, 16, 4, 4, dtype=torch.float16)
    x[0, 3, 1, 1] = float("nan")
    x.requires_grad_()
    y = dense_block(x, list(layers_of(draw, 16, (8,))))
    assert bool(y[:, 16:].isnan().any())
    (slope,) = torch.autograd.grad(y, x, torch.ones_like(y))
    assert bool(slope[:, 3].isnan().all())


def test_gradients_of_gradients_are_refused(draw):
    x = draw(1, 16, 4, 4, dtype=torch.float16).requires_grad_()
    y = dense_block(x, list(layers_of(draw, 16, (8,))))
    (slope,) = torch.autograd.grad(y.float().square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.sum().backward()


def test_the_given_gradient_is_left_as_it_was(draw):
    x = draw(1, 16, 4, 4, dtype=torch.float16).requires_grad_()
    y = dense_block(x, list(layers_of(draw, 16, (8, 8))))
    given = draw(*y.shape, dtype=torch.float16)
    before = given.clone()
    torch.autograd.grad(y, x, given)
    assert torch.equal(given, before)


def test_what_the_kernels_are_for(draw):
    x = draw(2, 16, 4, 4, dtype=torch.float16)
    filters = [each.filters for each in layers_of(draw, 16, (8, 8))]
    assert suits(x, filters)
    assert not suits(x.contiguous(), filters)
    assert not suits(x.float(), filters)
    assert not suits(x, [filters[0], filters[1].contiguous()])
    assert not suits(draw(1, 16, 1, 1, dtype=torch.float16), filters)
    assert not suits(x, [each.filters for each in layers_of(draw, 16, (15,))])
    large = torch.empty(1, 16, 5400, 5400, dtype=torch.float16, device="meta")
    large = large.to(memory_format=torch.channels_last)
    assert suits(large, filters)
    assert not suits(large, filters * 4)
    assert not suits(large, [each.filters for each in layers_of(draw, 16, (12,))])
