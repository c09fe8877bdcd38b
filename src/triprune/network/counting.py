"""Owns the one definition of macs; refuses to pass over a product that it cannot count: names it.

``macs`` are the multiply-adds of convolutions (transposed ones too) and of matrix products (linear
layers, attention, recurrent layers, a bare ``matmul`` or ``einsum``), as they are dispatched, for a
batch of one. One multiply-add is one. Biases, norms, activations, pooling, resizing and elementwise
arithmetic are not counted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

# An operator's macs from its result and its positional arguments.
Rule = Callable[..., int]


def _convolution(
    out: Tensor, x: Tensor, weight: Tensor, _bias: Any, _s: Any, _p: Any, _d: Any, transposed: bool,
    *_rest: Any,
) -> int:  # fmt: skip
    # Every position of the result (of the input, if transposed) meets every number of the weight.
    positions = (x if transposed else out).shape[2:]
    return x.shape[0] * math.prod(positions) * weight.numel()


def _product(_out: Tensor, left: Tensor, right: Tensor, *_rest: Any) -> int:
    return left.numel() * (right.shape[-1] if right.dim() > 1 else 1)


def _added_product(_out: Tensor, _sum: Tensor, left: Tensor, right: Tensor, *_rest: Any) -> int:
    return _product(_out, left, right)


def _attention(_out: Any, query: Tensor, key: Tensor, value: Tensor, *_rest: Any) -> int:
    return query.numel() * key.shape[-2] + query.numel() // query.shape[-1] * value[0, 0].numel()


def _recurrent_step(_out: Any, x: Tensor, of_input: Tensor, of_state: Tensor, *_rest: Any) -> int:
    return math.prod(x.shape[:-1]) * (of_input.numel() + of_state.numel())


def _recurrent_stack(_out: Any, x: Tensor, weights: list[Tensor], *_rest: Any) -> int:
    return math.prod(x.shape[:-1]) * sum(w.numel() for w in weights if w.dim() == 2)


RULES: dict[str, Rule] = {
    "aten::convolution": _convolution,
    "aten::_convolution": _convolution,  # in traced modules
    "aten::mm": _product,
    "aten::bmm": _product,
    "aten::mv": _product,
    "aten::dot": _product,
    "aten::vdot": _product,
    "aten::_int_mm": _product,
    "aten::_scaled_mm": _product,
    "aten::addmm": _added_product,
    "aten::addmm_": _added_product,
    "aten::_addmm_activation": _added_product,
    "aten::addmv": _added_product,
    "aten::addmv_": _added_product,
    "aten::addbmm": _added_product,
    "aten::addbmm_": _added_product,
    "aten::baddbmm": _added_product,
    "aten::baddbmm_": _added_product,
    "aten::_scaled_dot_product_flash_attention": _attention,
    "aten::_scaled_dot_product_flash_attention_for_cpu": _attention,
    "aten::_scaled_dot_product_efficient_attention": _attention,
    "aten::_scaled_dot_product_cudnn_attention": _attention,
    "aten::_scaled_dot_product_fused_attention_overrideable": _attention,
    "aten::mkldnn_rnn_layer": _recurrent_step,
    "aten::_cudnn_rnn": _recurrent_stack,
}

_PRODUCT = re.compile(r"conv|mm|mv|dot|matmul|linear|rnn|lstm|gru|attention|transform|cdist|linalg")
_HARMLESS = re.compile(r"upsample|norm|check|flatten|pack|reorder|gamma|cumm|hamming|convert|fused")


class MacCounter(TorchDispatchMode):
    """While active, reports every counted operator's macs, and names every product it cannot count.

    An operator from outside torch (a custom kernel) counts as such a product: nobody can tell.
    """

    def __init__(self, add: Callable[[int], None], uncounted: Callable[[str], None]) -> None:
        super().__init__()
        self._add = add
        self._uncounted = uncounted

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Skipping would import all of torch._dynamo at the first operator: more than a second.
        return False

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Let ``func`` run, broken into simpler operators where torch can, and count it."""
        kwargs = kwargs or {}
        name = func._schema.name
        rule = RULES.get(name)
        if rule is None:
            with self:
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        out = func(*args, **kwargs)
        if rule is not None:
            self._add(rule(out, *args, *kwargs.values()))
        elif _is_unknown_product(name):
            self._uncounted(name)
        return out


def _is_unknown_product(name: str) -> bool:
    namespace, _, operator = name.partition("::")
    if namespace in ("prim", "prims"):
        return False
    return namespace != "aten" or bool(_PRODUCT.search(operator) and not _HARMLESS.search(operator))
