"""Owns which layers are cut as layers; all other tensors are cut one by one."""

from __future__ import annotations

from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

LAYERS = (_ConvNd, nn.Linear, _NormBase, nn.GroupNorm, nn.LayerNorm, nn.PReLU)


def is_depthwise(layer: nn.Module) -> bool:
    """Tell whether the layer carries each channel on by itself."""
    return isinstance(layer, _ConvNd) and 1 < layer.in_channels == layer.groups


def is_transposed(layer: nn.Module) -> bool:
    """Tell whether the layer's weight has its input channels first."""
    return isinstance(layer, _ConvTransposeNd)
