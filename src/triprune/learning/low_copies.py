"""Owns the 16-bit copies of the weights that a step multiplies with; refuses other layers' weights.

Autocast makes such a copy for every layer, one kernel each, and as many again for the gradients.
Here all are made at once, and hold the same numbers, as long as the model leaves autocast alone.
"""

# pyright: reportPrivateImportUsage=false
from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call

# Exactly these: a layer derived from one of them may compute with its weights before it multiplies.
PRODUCTS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)


class LowCopies:
    """Runs ``model`` with copies in ``dtype`` in the place of its products' fp32 weights.

    Without a ``dtype`` there are no copies.
    """

    def __init__(self, model: nn.Module, dtype: torch.dtype | None) -> None:
        self._model = model
        self._wide: list[Tensor] = []
        self._low: list[Tensor] = []
        self._names: dict[str, Tensor] = {}
        for name, weight in _weights(model).items() if dtype is not None else ():
            low = self.stand_in(weight)
            if low is weight:
                low = torch.empty_like(weight, dtype=dtype).requires_grad_(weight.requires_grad)
                self._wide.append(weight)
                self._low.append(low)
            self._names[name] = low

    def stand_in(self, parameter: Tensor) -> Tensor:
        """Return what is multiplied with instead of ``parameter``: its copy, or itself."""
        pairs = zip(self._wide, self._low, strict=True)
        return next((low for wide, low in pairs if wide is parameter), parameter)

    def stand_ins(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        """Return what each of ``parameters`` gets its gradient from."""
        return [self.stand_in(parameter) for parameter in parameters]

    def __call__(self, inputs: Tensor) -> Tensor:
        """Copy the weights as they are now, and run the model with the copies."""
        if not self._names:
            return self._model(inputs)
        with torch.no_grad():
            torch._foreach_copy_(self._low, self._wide)
        return functional_call(self._model, self._names, (inputs,), tie_weights=False)


def _weights(model: nn.Module) -> dict[str, Tensor]:
    """Return the weights of products by name, but for those that other layers hold, too."""
    found: dict[str, Tensor] = {}
    elsewhere: set[int] = set()
    for owner, layer in model.named_modules():
        for name, weight in layer.named_parameters(recurse=False):
            watched = bool(weight._backward_hooks)  # by a hook on its gradient
            if type(layer) not in PRODUCTS or weight.dtype != torch.float32 or watched:
                elsewhere.add(id(weight))
            else:
                found[f"{owner}.{name}" if owner else name] = weight
    return {name: weight for name, weight in found.items() if id(weight) not in elsewhere}
