import pytest
import torch
from torch.nn import functional

from triprune.learning.kernels.norm import Norm, normalise, suits

SHAPES = [(3, 24, 6, 6), (2, 13, 5, 4), (2, 80, 4, 4), (2, 8, 1, 1)]
CASES = [(shape, True, True) for shape in SHAPES]
CASES += [
    ((4, 16, 7, 5), added, rectified) for added in (False, True) for rectified in (False, True)
]


def norm_of(channels, draw):
    running = draw(channels), draw(channels).abs()
    return Norm(*running, momentum=0.1, eps=1e-5), [r.double() for r in running]


@pytest.mark.parametrize(("shape", "added", "rectified"), CASES)
def test_norm_sum_and_relu_are_the_textbook_s(draw, shape, added, rectified):
    x = draw(*shape, mean=30.0).requires_grad_()  # far from zero: squares alone would lose digits
    residual = draw(*shape).requires_grad_() if added else None
    weight, bias = draw(shape[1]).requires_grad_(), draw(shape[1]).requires_grad_()
    norm, running = norm_of(shape[1], draw)
    y = normalise(x, residual, (weight, bias), norm, rectified=rectified)
    inputs = [t for t in (x, residual, weight, bias) if t is not None]
    exact = [t.detach().double().requires_grad_() for t in inputs]
    z = functional.batch_norm(exact[0], *running, *exact[-2:], True, 0.1, 1e-5)
    z = z + exact[1] if added else z
    z = z.relu() if rectified else z
    given = draw(*shape)
    torch.testing.assert_close(y.double(), z, rtol=1e-4, atol=1e-4)
    mine = torch.autograd.grad(y, inputs, given)
    theirs = torch.autograd.grad(z, exact, given.double())
    for ours, others in zip(mine, theirs, strict=True):
        torch.testing.assert_close(ours.double(), others, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(norm.running_mean.double(), running[0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(norm.running_var.double(), running[1], rtol=1e-4, atol=1e-5)


def test_half_numbers_are_summed_in_fp32(draw):
    x = draw(8, 16, 12, 12, dtype=torch.float16, mean=5.0)
    norm, running = norm_of(16, draw)
    one, zero = torch.ones_like(running[0]).float(), torch.zeros_like(running[0]).float()
    y = normalise(x, None, (one, zero), norm, rectified=False)
    exact = functional.batch_norm(x.double(), *running, training=True)
    assert y.dtype == torch.float16
    torch.testing.assert_close(y.double(), exact, rtol=2e-3, atol=2e-3)


def test_the_same_numbers_give_the_same_bits(draw):
    x, weight = draw(4, 16, 8, 8).requires_grad_(), draw(16).requires_grad_()
    given, bias = draw(4, 16, 8, 8), draw(16)

    def once():
        norm, _ = norm_of(16, lambda n: torch.ones(n, device=x.device))
        y = normalise(x, None, (weight, bias), norm, rectified=True)
        return [y, *torch.autograd.grad(y, (x, weight), given)]

    assert all(torch.equal(*both) for both in zip(once(), once(), strict=True))


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # of the interpreter's numpy
@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
@pytest.mark.parametrize("rectified", [False, True])
def test_what_is_no_number_shows(draw, wrong, rectified):
    """A ReLU that made zeros of it would hide that a training diverged."""
    x = draw(2, 8, 4, 4)
    x[0, 3, 1, 1] = wrong
    x.requires_grad_()
    one = torch.ones(8, device=x.device)
    norm, _ = norm_of(8, draw)
    y = normalise(x, None, (one, one), norm, rectified=rectified)
    assert bool(y[:, 3].isnan().all())
    assert bool(y[:, 4].isfinite().all())
    assert not bool(norm.running_var[3].isfinite())
    (slope,) = torch.autograd.grad(y, x, torch.ones_like(y))
    assert bool(slope[:, 3].isnan().all())


def test_what_the_kernels_are_for(draw):
    x = draw(2, 8, 4, 4)
    assert suits(x, None)
    assert suits(x, x)
    assert not suits(x, x.half())
    assert not suits(x, x[:, :, :1, :1])
    assert not suits(x, 3)
    assert not suits(x, x.contiguous())
    assert not suits(x.contiguous(), None)
    assert not suits(x[0], None)
    assert not suits(x[:1, :, :1, :1], None)  # one number a channel has no variance
