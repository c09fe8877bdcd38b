import pytest
import torch

from triprune.learning.sgd import Sgd


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("loss_scale", [1.0, 256.0])
def test_follows_torch(weight_decay, loss_scale):
    generator = torch.Generator().manual_seed(0)
    shapes = [(4, 3, 3, 3), (5,), (2, 4)]
    mine = [torch.randn(shape, generator=generator) for shape in shapes]
    theirs = [tensor.clone().requires_grad_() for tensor in mine]
    mine[0] = mine[0].to(memory_format=torch.channels_last)
    sgd = Sgd(mine, momentum=0.9, weight_decay=weight_decay, loss_scale=loss_scale)
    torchs = torch.optim.SGD(theirs, lr=1.0, momentum=0.9, weight_decay=weight_decay)
    for rate in (0.1, 0.1, 0.01):
        gradients = [torch.randn(shape, generator=generator) for shape in shapes]
        sgd.step([gradient * loss_scale for gradient in gradients], torch.tensor(rate))
        for tensor, gradient in zip(theirs, gradients, strict=True):
            tensor.grad = gradient
        torchs.param_groups[0]["lr"] = rate
        torchs.step()
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other.detach())
    assert mine[0].is_contiguous(memory_format=torch.channels_last)


def test_a_parameter_without_gradient_stays():
    used, unused = torch.ones(2), torch.ones(2)
    sgd = Sgd([used, unused], momentum=0.9, weight_decay=0.1)
    sgd.step([torch.ones(2), None], torch.tensor(0.5))
    assert torch.equal(unused, torch.ones(2))
    assert not torch.equal(used, torch.ones(2))
