"""Owns VGG-16 with batch norm in the form that is pruned on CIFAR: one linear layer at the end."""

from __future__ import annotations

import torch
from torch import nn

# Simonyan & Zisserman 2015, configuration D. The last halving is left to the average pooling, as
# usual on CIFAR, so that pictures of 16 px still pass.
STAGES = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))


class CifarVgg(nn.Module):
    """Thirteen 3×3 convolutions, each with batch norm, and a linear classifier."""

    def __init__(self, *, num_classes: int = 10) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for number, stage in enumerate(STAGES):
            if number:
                layers.append(nn.MaxPool2d(2))
            for width in stage:
                layers += [
                    nn.Conv2d(channels, width, 3, padding=1, bias=False),
                    nn.BatchNorm2d(width),
                    nn.ReLU(),
                ]
                channels = width
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.linear = nn.Linear(channels, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        nn.init.normal_(self.linear.weight, 0.0, 0.01)
        nn.init.zeros_(self.linear.bias)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Map N×3×H×W images to N×classes logits."""
        return self.linear(self.pool(self.features(images)).flatten(1))
