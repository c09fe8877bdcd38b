"""Owns the graph of one module's own ``forward``; refuses to look inside its children.

Each child that holds parameters is one node, so control flow in a child, or in the network
around the module, cannot spoil the graph.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import fx, nn

Graphs = Mapping[nn.Module, fx.Graph | None]
"""The own graphs of a model's modules; None where there is none."""


def trace_own(module: nn.Module) -> fx.Graph | None:
    """Return the graph of the module's own forward in eval mode, or None where fx cannot follow.

    Parameters of ``forward`` that have a default stay at it, as most callers leave them.
    """
    if "forward" in vars(module):  # a forward patched onto the instance is not the class's
        return None
    with eval_mode(module):
        for see_through in (True, False):
            try:
                return _OwnTracer(see_through=see_through).trace(module)
            except Exception:  # the user's code may raise anything at a proxy
                continue
    return None


_LIKELY: dict[object, bool] = {
    operator.eq: True,
    operator.ge: True,
    operator.le: True,
    operator.ne: False,
    operator.gt: False,
    operator.lt: False,
}


class _OwnTracer(fx.Tracer):
    """Looks through children without parameters (drop path, a module that adds), if it may."""

    def __init__(self, *, see_through: bool) -> None:
        super().__init__()
        self._see_through = see_through

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Stop at torch's own layers and at whatever holds parameters."""
        del module_qualified_name
        builtin = type(m).__module__.startswith("torch.nn")
        return builtin or not self._see_through or has_parameters(m)

    def to_bool(self, obj: fx.Proxy) -> bool:
        """Answer a question about shapes as code with a shortcut hopes: equal, and large enough.

        A wrong guess shows when the graph is run beside the module.
        """
        if obj.node.target in _LIKELY:
            return _LIKELY[obj.node.target]
        return super().to_bool(obj)

    def create_args_for_root(
        self, root_fn: Callable[..., Any], is_module: bool, concrete_args: Any = None
    ) -> tuple[Callable[..., Any], list[Any]]:
        """Give ``forward`` a proxy for each required parameter and leave the others alone."""
        del is_module, concrete_args
        names = required_arguments(root_fn)
        return root_fn, [
            self.root,
            *(self.create_proxy("placeholder", name, (), {}) for name in names),
        ]


def required_arguments(forward: Callable[..., Any]) -> list[str]:
    """Return the names of the parameters, past ``self``, that a caller must give."""
    parameters = list(inspect.signature(forward).parameters.values())[1:]
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [p for p in parameters if p.kind in plain and p.default is inspect.Parameter.empty]
    return [p.name for p in required]


@contextmanager
def eval_mode(module: nn.Module) -> Iterator[None]:
    """Put every module into eval mode, and back those that were not in it."""
    training = [child for child in module.modules() if child.training]
    for child in training:
        child.training = False
    try:
        yield
    finally:
        for child in training:
            child.training = True


def has_parameters(module: nn.Module) -> bool:
    """Tell whether the module or one of its children holds a parameter."""
    return next(module.parameters(), None) is not None


def called_module(owner: nn.Module, node: fx.Node) -> nn.Module | None:
    """Return the child that the node calls, if it calls one."""
    return owner.get_submodule(str(node.target)) if node.op == "call_module" else None


def output_of(graph: fx.Graph) -> fx.Node:
    """Return the output node, which every graph ends with."""
    return next(iter(reversed(graph.nodes)))


def live_nodes(graph: fx.Graph, replaced: Mapping[fx.Node, fx.Node] | None = None) -> list[fx.Node]:
    """Return, in order, what the output needs once some nodes stand for others."""
    replaced = replaced or {}
    seen: set[fx.Node] = set()
    waiting = [output_of(graph)]
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting.extend([replaced[node]] if node in replaced else node.all_input_nodes)
    return [node for node in graph.nodes if node in seen]
