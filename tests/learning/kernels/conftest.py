"""Numbers for kernels, which run in Triton's interpreter where there is no GPU."""

import pytest
import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture
def draw():
    """Draw numbers, the same in every run, in NHWC where they are images."""
    generator = torch.Generator().manual_seed(0)

    def numbers(*shape: int, dtype=torch.float32, mean=0.0):
        drawn = (torch.randn(*shape, generator=generator) + mean).to(DEVICE, dtype)
        return drawn.contiguous(memory_format=torch.channels_last) if len(shape) == 4 else drawn

    return numbers
