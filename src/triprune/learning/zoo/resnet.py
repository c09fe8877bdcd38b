"""Owns the CIFAR ResNets of He et al. 2016 (Sec. 4.2): three stages of two-convolution blocks."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn
from torch.nn import functional

from triprune.errors import InputError

STAGE_WIDTHS = (16, 32, 64)

Shortcut = Literal["A", "B"]


class PaddedShortcut(nn.Module):
    """Option A: every ``stride``-th pixel, between ``pad`` zero channels on either side.

    Without parameters: input channel ``i`` becomes output channel ``i + pad``.
    """

    def __init__(self, *, stride: int, pad: int) -> None:
        super().__init__()
        self.stride = stride
        self.pad = pad

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map N×C×H×W to N×(C + 2·pad)×⌈H/stride⌉×⌈W/stride⌉."""
        kept = x[:, :, :: self.stride, :: self.stride]
        return functional.pad(kept, (0, 0, 0, 0, self.pad, self.pad))

    def extra_repr(self) -> str:
        """Show the settings in ``print(model)``."""
        return f"stride={self.stride}, pad={self.pad}"


class ResidualBlock(nn.Module):
    """Two 3×3 convolutions beside a shortcut: ``relu(branch(x) + shortcut(x))``."""

    def __init__(self, inputs: int, outputs: int, *, stride: int, shortcut: Shortcut) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = _shortcut(inputs, outputs, stride=stride, kind=shortcut)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return ``relu(branch(x) + shortcut(x))``."""
        y = functional.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return functional.relu(y + self.shortcut(x))


class CifarResNet(nn.Module):
    """ResNet of 6n + 2 layers; its tensor names are those of the widely used public weights."""

    def __init__(self, layers: int, *, num_classes: int = 10, shortcut: Shortcut = "A") -> None:
        super().__init__()
        if layers < 8 or (layers - 2) % 6:
            raise InputError(
                f"a CIFAR ResNet of {layers} layers", "they have 6n + 2 layers", "ask for 20 or 56"
            )
        blocks = (layers - 2) // 6
        narrow, middle, wide = STAGE_WIDTHS
        self.conv1 = nn.Conv2d(3, narrow, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(narrow)
        self.layer1 = _stage(narrow, narrow, blocks=blocks, shortcut=shortcut)
        self.layer2 = _stage(narrow, middle, blocks=blocks, shortcut=shortcut)
        self.layer3 = _stage(middle, wide, blocks=blocks, shortcut=shortcut)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.linear = nn.Linear(wide, num_classes)
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                nn.init.kaiming_normal_(module.weight)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Map N×3×H×W images to N×classes logits."""
        x = functional.relu(self.bn1(self.conv1(images)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.linear(self.pool(x).flatten(1))


def _stage(inputs: int, outputs: int, *, blocks: int, shortcut: Shortcut) -> nn.Sequential:
    stride = 1 if inputs == outputs else 2
    first = ResidualBlock(inputs, outputs, stride=stride, shortcut=shortcut)
    rest = [ResidualBlock(outputs, outputs, stride=1, shortcut=shortcut) for _ in range(blocks - 1)]
    return nn.Sequential(first, *rest)


def _shortcut(inputs: int, outputs: int, *, stride: int, kind: Shortcut) -> nn.Module:
    if stride == 1 and inputs == outputs:
        return nn.Identity()
    if kind == "A":
        return PaddedShortcut(stride=stride, pad=(outputs - inputs) // 2)
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs)
    )
