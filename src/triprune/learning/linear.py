"""Owns linear classifiers fitted together: multinomial logistic regression, one batch of them.

Logistic regression and not least squares on one-hot labels: with many classes the latter hides
those in the middle, and the probes would rank blocks by it. Whitening the features makes the
problem well-conditioned, so accelerated gradient descent with the known smoothness constant
settles in a fixed, small number of steps.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

_STEPS = 150
_RIDGE = 1e-4
_SMOOTHNESS = 0.5  # the largest curvature of softmax cross-entropy on white features


@torch.no_grad()
def fit_linear(features: Tensor, labels: Tensor, classes: int) -> Tensor:
    """Fit P classifiers: features P×N×C, labels N; return weights P×(C+1)×K, the bias last."""
    mean, root = _whitening(features)
    white = _with_bias(torch.bmm(features - mean, root))
    target = functional.one_hot(labels, classes).to(white.dtype)
    weights = white.new_zeros(len(white), white.shape[2], classes)
    ahead = weights.clone()
    # The bias column of ones adds to the curvature of the white features at most once more.
    rate = 1 / (2 * _SMOOTHNESS + _RIDGE)
    for step in range(_STEPS):
        error = torch.softmax(torch.bmm(white, ahead), 2).sub_(target)
        slope = torch.bmm(white.mT, error).div_(len(labels)).add_(ahead, alpha=_RIDGE)
        after = ahead - rate * slope
        ahead = after + step / (step + 3) * (after - weights)
        weights = after
    slopes, bias = weights[:, :-1], weights[:, -1:]
    slopes = torch.bmm(root, slopes)
    return torch.cat([slopes, bias - torch.bmm(mean, slopes)], 1)


@torch.no_grad()
def linear_accuracy(features: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """Return the accuracy of each of P classifiers on features P×N×C."""
    answers = torch.bmm(_with_bias(features), weights).argmax(2)
    return (answers == labels).double().mean(1)


def _whitening(features: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean P×1×C and the matrix P×C×C that makes the features white."""
    mean = features.mean(1, keepdim=True)
    spread = features.std(1, correction=0)
    # Channels that never vary, and directions that repeat others, carry no class of their own.
    inverse = torch.where(spread > 1e-6 * spread.amax(1, keepdim=True), 1 / spread, 0.0)
    standard = (features - mean) * inverse[:, None, :]
    correlation = torch.bmm(standard.mT, standard).div_(features.shape[1]).double()
    values, vectors = torch.linalg.eigh(correlation)
    scale = torch.where(values > 1e-5, values, torch.inf).rsqrt()
    white = (vectors * scale[:, None, :]).to(features.dtype)
    return mean, inverse[:, :, None] * white


def _with_bias(features: Tensor) -> Tensor:
    return functional.pad(features, (0, 1), value=1.0)
