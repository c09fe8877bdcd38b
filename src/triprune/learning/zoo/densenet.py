"""Owns the CIFAR DenseNets of Huang et al. 2017: three dense blocks, plain or bottlenecked (BC)."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from triprune.errors import InputError


class DenseLayer(nn.Module):
    """Norm, ReLU, 3×3 convolution, and its ``growth`` new channels set behind the input's."""

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, growth, 3, padding=1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map N×C×H×W to N×(C + growth)×H×W."""
        return torch.cat([x, self.conv1(functional.relu(self.bn1(x)))], 1)


class BottleneckLayer(nn.Module):
    """A dense layer whose 3×3 convolution sees only ``4 · growth`` channels (DenseNet-B)."""

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, 4 * growth, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(4 * growth)
        self.conv2 = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map N×C×H×W to N×(C + growth)×H×W."""
        y = self.conv1(functional.relu(self.bn1(x)))
        return torch.cat([x, self.conv2(functional.relu(self.bn2(y)))], 1)


class Transition(nn.Module):
    """Norm, ReLU, 1×1 convolution and a halving of the picture, between two dense blocks."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.bn = nn.BatchNorm2d(inputs)
        self.conv = nn.Conv2d(inputs, outputs, 1, bias=False)
        self.pool = nn.AvgPool2d(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map N×C×H×W to N×outputs×⌊H/2⌋×⌊W/2⌋."""
        return self.pool(self.conv(functional.relu(self.bn(x))))


class CifarDenseNet(nn.Module):
    """DenseNet of ``layers`` layers.

    Plain (the default, "DenseNet" in Huang et al.): 16 channels at first, no bottleneck,
    transitions that keep every channel. ``bottleneck=True`` is their DenseNet-BC: 2 · growth
    channels at first, bottlenecked layers, transitions that halve the channels.
    """

    def __init__(
        self, layers: int, *, growth: int = 12, bottleneck: bool = False, num_classes: int = 10
    ) -> None:
        super().__init__()
        convolutions = 6 if bottleneck else 3
        if layers <= 4 or (layers - 4) % convolutions:
            raise InputError(
                f"a CIFAR DenseNet of {layers} layers",
                f"this kind has {convolutions}n + 4 layers",
                "ask for 40 or 100",
            )
        layer = BottleneckLayer if bottleneck else DenseLayer
        channels = 2 * growth if bottleneck else 16
        self.conv = nn.Conv2d(3, channels, 3, padding=1, bias=False)
        stages = nn.Sequential()
        for number in (1, 2, 3):
            block = nn.Sequential()
            for _ in range((layers - 4) // convolutions):
                block.append(layer(channels, growth))
                channels += growth
            stages.add_module(f"block{number}", block)
            if number < 3:
                kept = channels // 2 if bottleneck else channels
                stages.add_module(f"transition{number}", Transition(channels, kept))
                channels = kept
        self.stages = stages
        self.bn = nn.BatchNorm2d(channels)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.linear = nn.Linear(channels, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Map N×3×H×W images to N×classes logits."""
        x = functional.relu(self.bn(self.stages(self.conv(images))))
        return self.linear(self.pool(x).flatten(1))
