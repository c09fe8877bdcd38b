import pytest
import torch
from torch import nn
from torch.nn import functional

from triprune.learning.kernels.conv import convolve, suits

SHAPES = [  # images, inputs, outputs, height, width
    (2, 16, 16, 8, 6),
    (2, 24, 32, 5, 7),  # channels that fill no tile
    (1, 76, 12, 6, 6),  # several tiles of inputs, outputs that are no multiple of eight
    (1, 13, 5, 4, 3),
    (9, 64, 64, 8, 8),  # several parts of the pixels, several tiles of outputs' gradients
    (1, 8, 8, 1, 1),  # nothing but border
]


def error(mine, exact):
    return float((mine.double() - exact).norm() / exact.norm())


@pytest.mark.parametrize("shape", SHAPES)
def test_convolution_and_its_gradients_are_the_textbook_s(draw, shape):
    images, inputs, outputs, height, width = shape
    x = draw(images, inputs, height, width, dtype=torch.float16).requires_grad_()
    weight = draw(outputs, inputs, 3, 3, dtype=torch.float16).requires_grad_()
    y = convolve(x, weight)
    given = draw(*y.shape, dtype=torch.float16)
    slopes = torch.autograd.grad(y, (x, weight), given)
    exact = [t.detach().double().requires_grad_() for t in (x, weight)]
    z = functional.conv2d(*exact, padding=1)
    theirs = torch.autograd.grad(z, exact, given.double())
    assert error(y.detach(), z.detach()) < 5e-4
    assert all(error(*both) < 5e-4 for both in zip(slopes, theirs, strict=True))
    assert y.is_contiguous(memory_format=torch.channels_last)
    assert slopes[1].stride() == weight.stride()


def test_a_gradient_that_arrives_in_another_layout_is_taken_too(draw):
    x = draw(1, 8, 4, 4, dtype=torch.float16).requires_grad_()
    weight = draw(8, 8, 3, 3, dtype=torch.float16)
    given = draw(1, 8, 4, 4, dtype=torch.float16)
    y = convolve(x, weight)
    (there,) = torch.autograd.grad(y, x, given, retain_graph=True)
    (here,) = torch.autograd.grad(y, x, given.contiguous())
    assert torch.equal(there, here)


def test_an_output_too_large_for_the_indices_is_refused():
    x = torch.empty(1, 8, 5800, 5800, dtype=torch.float16, device="meta")
    x = x.to(memory_format=torch.channels_last)
    assert suits(conv_of(8, 16), x)
    assert not suits(conv_of(8, 64), x)


def conv_of(inputs=16, outputs=16, size=3, **settings):
    settings = {"padding": 1, "bias": False} | settings
    made = nn.Conv2d(inputs, outputs, size, **settings).half()
    return made.to(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("conv", "suited"),
    [
        (conv_of(), True),
        (conv_of(13, 5), True),
        (conv_of().bfloat16(), False),  # of another type than the images
        (conv_of(3), False),
        (conv_of(16, 128), False),
        (conv_of(stride=2), False),
        (conv_of(padding=0), False),
        (conv_of(dilation=2), False),
        (conv_of(groups=2), False),
        (conv_of(bias=True), False),
        (conv_of(padding_mode="reflect"), False),
        (conv_of(size=5), False),
        (conv_of().to(memory_format=torch.contiguous_format), False),
    ],
)
def test_what_the_kernels_are_for(conv, suited):
    x = torch.rand(2, conv.in_channels, 8, 8).half().to(memory_format=torch.channels_last)
    assert suits(conv, x) is suited
    assert not suits(conv, x.contiguous())
    assert not suits(conv, x.float())
