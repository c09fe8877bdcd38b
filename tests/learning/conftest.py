import pytest
import torch
from torch import nn

from triprune.learning.images import ImageSet


class TinyNet(nn.Module):
    """Two convolutions with batch norm, a residual sum, and dropout if asked."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU()
        )
        self.block = nn.Sequential(
            nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU()
        )
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        x = x + self.block(x)
        return self.head(self.dropout(x.mean((2, 3))))


@pytest.fixture
def tiny_net():
    def build(seed: int = 0, dropout: float = 0.0) -> TinyNet:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            return TinyNet(dropout)

    return build


@pytest.fixture
def coloured_images():
    """Noise tinted by class: easy to learn, impossible by chance."""

    def build(count: int = 96, size: int = 8, seed: int = 0) -> ImageSet:
        generator = torch.Generator().manual_seed(seed)
        labels = torch.arange(count) % 3
        pixels = torch.randint(0, 180, (count, 3, size, size), generator=generator)
        pixels[torch.arange(count), labels] += 75
        return ImageSet(
            pixels.to(torch.uint8), labels, ("red", "green", "blue"), (0.4,) * 3, (0.2,) * 3
        )

    return build
