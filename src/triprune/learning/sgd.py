"""Owns SGD with momentum whose rate lives on the device, so that a CUDA graph can follow it."""

# pyright: reportPrivateImportUsage=false
from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Sgd:
    """SGD with momentum and weight decay, as ``torch.optim.SGD`` computes it.

    ``torch.optim.SGD`` reads a tensor rate on the host at every step, which a captured step
    cannot do; here the rate is a 0-d tensor that stays where it is. Gradients are divided by the
    ``loss_scale`` that the loss was multiplied with.
    """

    def __init__(
        self,
        parameters: Sequence[Tensor],
        *,
        momentum: float,
        weight_decay: float,
        loss_scale: float = 1.0,
    ) -> None:
        self.parameters = list(parameters)
        self.momenta = [torch.zeros_like(parameter) for parameter in self.parameters]
        self._momentum = momentum
        self._weight_decay = weight_decay
        self._loss_scale = loss_scale

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor | None], rate: Tensor) -> None:
        """Take one step; a parameter without a gradient (unused in the loss) stays as it is."""
        used = [index for index, gradient in enumerate(gradients) if gradient is not None]
        parameters = [self.parameters[index] for index in used]
        momenta = [self.momenta[index] for index in used]
        slopes = _alike(parameters, [gradients[index] for index in used])
        if self._loss_scale != 1:
            slopes = torch._foreach_div(slopes, self._loss_scale)
        if self._weight_decay:
            slopes = torch._foreach_add(slopes, parameters, alpha=self._weight_decay)
        torch._foreach_mul_(momenta, self._momentum)
        torch._foreach_add_(momenta, slopes)
        torch._foreach_add_(parameters, torch._foreach_mul(momenta, -rate))


def _alike(parameters: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> list[Tensor]:
    """Return the gradients in their parameters' formats and strides: foreach is one kernel then."""
    alike: list[Tensor] = []
    copied: dict[bool, tuple[list[Tensor], list[Tensor]]] = {True: ([], []), False: ([], [])}
    for parameter, gradient in zip(parameters, gradients, strict=True):
        assert gradient is not None
        same_strides = gradient.stride() == parameter.stride()
        if same_strides and gradient.dtype == parameter.dtype:
            alike.append(gradient)
            continue
        alike.append(torch.empty_like(parameter))
        targets, sources = copied[same_strides]
        targets.append(alike[-1])
        sources.append(gradient)
    for targets, sources in copied.values():
        if targets:
            torch._foreach_copy_(targets, sources)
    return alike
