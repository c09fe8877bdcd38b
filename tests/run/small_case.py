"""A real but tiny case: a narrow ResNet on a few hundred shipped images; the kill test runs it."""

import sys
from pathlib import Path

import torch
from torch import nn

from triprune.learning.data import load_data
from triprune.learning.images import SealedTest, Splits
from triprune.learning.job import Job
from triprune.learning.progress import PlainLines
from triprune.learning.recipe import Recipe
from triprune.learning.training import train
from triprune.run.compress import compress
from triprune.run.spec import Settings

RECIPE = Recipe(
    epochs=4, batch_size=50, rate=0.05, schedule="cosine", round_epochs=2, final_epochs=2
)


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x))))))


class SmallResNet(nn.Module):
    """A stem and four blocks of equal width: every axis has room, and macs are easy to count."""

    def __init__(self, num_classes: int = 10, *, channels: int = 12, stride: int = 2) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, stride=stride, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.blocks = nn.Sequential(*(Block(channels) for _ in range(4)))
        self.head = nn.Linear(channels, num_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(torch.relu(self.norm(self.stem(x)))).mean((2, 3)))


def make(num_classes: int = 10) -> SmallResNet:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return SmallResNet(num_classes)


def splits(count: int = 300) -> Splits:
    whole = load_data()
    some = torch.arange(len(whole.train))[:: len(whole.train) // count]
    held = torch.arange(len(whole.validation))[:200]
    test = whole.validation.take(torch.arange(len(whole.validation))[200:400])
    return Splits(whole.train.take(some), whole.validation.take(held), SealedTest(test))


def trained(parts: Splits) -> SmallResNet:
    model = make()
    train(Job(model, parts.train, RECIPE, device="cpu"))
    return model


def settings(**changes: object) -> Settings:
    given = {"rounds": 2, "recipe": RECIPE, "effort": "paper", "device": "cpu", **changes}
    return Settings(0.5, **given)  # type: ignore[arg-type]


if __name__ == "__main__":
    torch.set_num_threads(1)
    parts, lines, out = splits(100), [PlainLines()], Path(sys.argv[1])
    compress(make(), parts, budget=0.5, settings=settings(), out=out, watchers=lines)
