"""Your own task: shrink a network that segments noisy pictures. python examples/segmentation.py.

Nothing here is a classifier: ``train`` and ``evaluate`` are plain functions, the score is a mean
intersection over union, and ``triprune.compress`` does the rest.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

import triprune

SIDE = 24


class Block(nn.Module):
    """A residual block that can go."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return ``relu(x + body(x))``."""
        return torch.relu(x + self.body(x))


def make() -> nn.Module:
    """Return a network from grey pictures N×1×H×W to one logit a pixel."""
    stem = nn.Conv2d(1, 16, 3, padding=1, bias=False)
    blocks = [Block(16) for _ in range(4)]
    return nn.Sequential(stem, nn.BatchNorm2d(16), nn.ReLU(), *blocks, nn.Conv2d(16, 1, 1))


def pictures(count: int, side: int, *, seed: int) -> tuple[Tensor, Tensor]:
    """Return noisy pictures of bright discs, and which pixels belong to the disc."""
    generator = torch.Generator().manual_seed(seed)
    centre = torch.rand(count, 2, 1, 1, generator=generator) * 0.6 + 0.2
    radius = torch.rand(count, 1, 1, generator=generator) * 0.15 + 0.1
    rows, columns = torch.meshgrid(*[torch.linspace(0, 1, SIDE)] * 2, indexing="ij")
    inside = (rows - centre[:, 0]) ** 2 + (columns - centre[:, 1]) ** 2 < radius**2
    noisy = inside.float() + 0.7 * torch.randn(inside.shape, generator=generator)
    images, masks = noisy[:, None], inside.float()[:, None]
    small = functional.interpolate(images, size=side, mode="bilinear", antialias=True)
    return small, masks


def train(model: nn.Module, resolution_px: int) -> None:
    """Train in place at ``resolution_px``; the masks keep their size."""
    images, masks = pictures(192, resolution_px, seed=0)
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    for batch in torch.randperm(len(images)).split(32):
        logits = functional.interpolate(model(images[batch]), size=SIDE, mode="bilinear")
        loss = functional.binary_cross_entropy_with_logits(logits, masks[batch])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def evaluate(model: nn.Module, resolution_px: int, *, seed: int = 1) -> float:
    """Return the mean intersection over union on pictures that are not trained on."""
    images, masks = pictures(64, resolution_px, seed=seed)
    found = functional.interpolate(model(images), size=SIDE, mode="bilinear") > 0
    both, either = (found & (masks > 0)).sum((1, 2, 3)), (found | (masks > 0)).sum((1, 2, 3))
    return float((both / either).mean())


def main() -> triprune.Result:
    """Train a network, halve its macs, and print both scores."""
    torch.manual_seed(0)
    model = make()
    for _ in range(4):
        train(model.train(), SIDE)
    result = triprune.compress(
        model,
        train=train,
        evaluate=evaluate,
        final_evaluate=final_evaluate,
        input_size=(1, SIDE, SIDE),
        budget=0.5,
        settings=triprune.Settings(budget=0.5, rounds=3),
    )
    for row in result.outcome.rows:
        print(f"{row.name}: IoU {row.accuracy:.3f}, {row.macs:,} macs, {row.resolution_px} px")
    return result


def final_evaluate(model: nn.Module, resolution_px: int) -> float:
    """Return the score on pictures that only the last step sees."""
    return evaluate(model, resolution_px, seed=2)


if __name__ == "__main__":
    main()
