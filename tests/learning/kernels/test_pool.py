import pytest
import torch
from torch.nn import functional

from triprune.learning.kernels.pool import halve, suits


@pytest.mark.parametrize("shape", [(2, 24, 6, 4), (3, 13, 2, 9), (1, 160, 5, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_the_mean_of_four_and_its_gradient_are_torch_s(draw, shape, dtype):
    x = draw(*shape, dtype=dtype).requires_grad_()
    exact = x.detach().double().requires_grad_()
    y, z = halve(x), functional.avg_pool2d(exact, 2)
    given = draw(*y.shape, dtype=dtype)
    (mine,) = torch.autograd.grad(y, x, given)
    (theirs,) = torch.autograd.grad(z, exact, given.double())
    assert y.dtype == mine.dtype == dtype
    assert y.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(y.double(), z, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(mine.double(), theirs, rtol=1e-3, atol=1e-3)


def test_what_the_kernels_are_for(draw):
    assert suits(draw(2, 16, 4, 6))
    assert not suits(draw(2, 16, 1, 6))
    assert not suits(draw(2, 16, 4, 6).contiguous())
    assert not suits(draw(0, 16, 4, 6))
    assert not suits(draw(2, 16))
    assert not suits(draw(2, 16, 4, 6).long())
