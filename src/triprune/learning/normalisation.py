"""Owns what pixels are normalised with: the mean and std on a model's card, where it has one."""

from __future__ import annotations

from torch import nn

Normalisation = tuple[tuple[float, ...], tuple[float, ...]]  # mean and std of each channel

# What most public weights expect: the mean and std of ImageNet's pixels.
IMAGENET: Normalisation = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def card_normalisation(model: nn.Module) -> Normalisation | None:
    """Return what a timm or torchvision model's public weights were trained with, else None.

    Use it with such weights; a model trained from scratch does as well with its data's own.
    """
    card = getattr(model, "pretrained_cfg", None)
    if isinstance(card, dict) and "mean" in card and "std" in card:
        return tuple(card["mean"]), tuple(card["std"])
    if type(model).__module__.startswith("torchvision.models"):
        return IMAGENET
    return None
