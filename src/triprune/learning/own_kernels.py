"""Owns a model's forward pass by kernels of our own, for training steps on a GPU.

Batch norms are computed together with what follows them, and 3×3 convolutions of few channels by
kernels that are made for few. The model itself stays as it is: what comes back shares its layers.
Refuses to trust kernels that it has not tried.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from triprune.errors import first_line
from triprune.learning.following import NotFollowedError, graph_of, require_same
from triprune.learning.low_copies import LowCopies
from triprune.learning.memory import out_of_memory
from triprune.learning.precision import product_format, switches
from triprune.learning.recipe import Recipe

_SUMS: tuple[Callable[..., Any] | str, ...] = (
    operator.add,
    operator.iadd,
    torch.add,
    "add",
    "add_",
)
_RELUS: tuple[Callable[..., Any] | str, ...] = (functional.relu, torch.relu, "relu", "relu_")
# Of a tensor's size: what rounding may change, and with it which of a ReLU's inputs are above zero.
_ALIKE = {torch.float16: 0.03, torch.bfloat16: 0.2}


def fast_forward(model: nn.Module, recipe: Recipe, example: Tensor) -> tuple[LowCopies, str | None]:
    """Return the fastest way through ``model``, and why it is not by our kernels where it could be.

    ``example`` is an input like those to come, on the model's device. The way is for the mode that
    the model is in, and for the inside of the recipe's ``autocast``.
    """
    low, device = product_format(recipe.precision), example.device
    if recipe.kernels != "own" or device.type != "cuda" or low is None:
        return LowCopies(model, None), None
    reason = trouble(device, low)
    if reason is None:
        try:
            with switches("fp32", device, search=False):
                return LowCopies(with_own_kernels(model, example), low), None
        except NotFollowedError as error:
            reason = str(error)
    return LowCopies(model, None), f"torch's kernels are used: {reason}"


@cache
def trouble(device: torch.device, low: torch.dtype) -> str | None:
    """Return why the kernels cannot be trusted on ``device``, after one try, or None: they can."""
    if find_spec("triton") is None:
        return "Triton is not installed"
    try:
        with torch.enable_grad(), torch.autocast(device.type, enabled=False):
            return None if _right(device, low) else "our own give other numbers here"
    except Exception as error:  # no compiler, an old GPU, a Triton of another kind
        if out_of_memory(error):
            raise  # another time it may fit
        return f"our own do not run here ({first_line(error)})"


def _right(device: torch.device, low: torch.dtype) -> bool:
    """Whether a convolution, a batch norm and their gradients are torch's, but for rounding."""
    numbers = torch.linspace(0, 1e4, 2304, device=device).sin_()  # as good as random
    image = numbers.view(2, 16, 12, 6).to(low).contiguous(memory_format=torch.channels_last)
    weight = numbers.flip(0).view(16, 16, 3, 3).to(low)
    conv = nn.Conv2d(16, 16, 3, padding=1, bias=False, device="meta")  # no weights are drawn
    conv.weight = nn.Parameter(weight.contiguous(memory_format=torch.channels_last))
    norm = nn.BatchNorm2d(16, device=device)
    inputs = [image.requires_grad_(), conv.weight, *norm.parameters()]
    y = OwnNorm(norm, rectified=True).by_kernels(OwnConv(conv).by_kernels(image), image)
    z = functional.relu(norm(conv(image)) + image)
    given = image.detach()
    mine, theirs = (torch.autograd.grad(each, inputs, given) for each in (y, z))
    pairs = zip((y.detach(), *mine), (z.detach(), *theirs), strict=True)
    return all(bool((a - b).norm() <= _ALIKE[low] * b.norm()) for a, b in pairs)


def with_own_kernels(model: nn.Module, example: Tensor) -> fx.GraphModule:
    """Return what computes as ``model`` does in its present mode, in fewer and faster kernels.

    The graph is held against the model by torch's kernels: ours are another question.
    """
    following = graph_of(model)
    graph = following.graph
    for node in [each for each in graph.nodes if _calls(following, each, nn.Identity)]:
        node.replace_all_uses_with(node.args[0])
        graph.erase_node(node)
    for node in [each for each in graph.nodes if _is_norm(following, each)]:
        _join(following, node)
    for node in [each for each in graph.nodes if _calls(following, each, nn.Conv2d)]:
        name = f"{node.target}_own".replace(".", "_")  # called twice, it is still one layer
        if not hasattr(following, name):
            conv = following.get_submodule(str(node.target))
            assert isinstance(conv, nn.Conv2d)
            following.add_submodule(name, OwnConv(conv))
        node.target = name
    following.recompile()
    following.delete_all_unused_submodules()
    require_same(model, following, example)
    for each in following.modules():
        if isinstance(each, (OwnNorm, OwnConv)):
            each.active = example.is_cuda
    return following


class OwnNorm(nn.Module):
    """A batch norm, plus a residual if one is given, behind a ReLU if so asked."""

    def __init__(self, norm: nn.BatchNorm2d, *, rectified: bool) -> None:
        super().__init__()
        self.norm = norm
        self.rectified = rectified
        self.active = False

    def forward(self, x: Tensor, residual: Any = None) -> Tensor:
        """Compute both in as few kernels as can be, or as PyTorch does."""
        if self.active and self.norm.training and _norm_kernels().suits(x, residual):
            return self.by_kernels(x, residual)
        y = self.norm(x)
        y = y if residual is None else y + residual
        return functional.relu(y) if self.rectified else y

    def by_kernels(self, x: Tensor, residual: Tensor | None) -> Tensor:
        """Compute both by the kernels, which suit these tensors."""
        norm, kernels = self.norm, _norm_kernels()
        assert norm.running_mean is not None
        assert norm.running_var is not None
        assert norm.momentum is not None
        if norm.num_batches_tracked is not None:  # taken off where a step is captured
            norm.num_batches_tracked.add_(1)
        numbers = kernels.Norm(norm.running_mean, norm.running_var, norm.momentum, norm.eps)
        affine = norm.weight, norm.bias
        return kernels.normalise(x, residual, affine, numbers, rectified=self.rectified)


class OwnConv(nn.Module):
    """A convolution, by the kernels where it is one of those that they are for."""

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        self.conv = conv
        self.active = False

    def forward(self, x: Tensor) -> Tensor:
        """Convolve by the kernels, or as PyTorch does."""
        plain = not self.conv._forward_hooks  # one of ours widens what comes out
        if self.active and plain and _conv_kernels().suits(self.conv, x):
            return self.by_kernels(x)
        return self.conv(x)

    def by_kernels(self, x: Tensor) -> Tensor:
        """Convolve by the kernels, which suit ``x``."""
        return _conv_kernels().convolve(x, self.conv.weight)


def _norm_kernels() -> Any:
    from triprune.learning.kernels import norm

    return norm


def _conv_kernels() -> Any:
    from triprune.learning.kernels import conv

    return conv


def _calls(owner: nn.Module, node: fx.Node, kind: type[nn.Module]) -> bool:
    """Whether the node gives one argument, and nothing else, to a module of exactly this kind."""
    if node.op != "call_module" or node.kwargs or len(node.args) != 1:
        return False
    return type(owner.get_submodule(str(node.target))) is kind


def _is_norm(owner: nn.Module, node: fx.Node) -> bool:
    if not _calls(owner, node, nn.BatchNorm2d):
        return False
    norm: Any = owner.get_submodule(str(node.target))
    return norm.affine and norm.track_running_stats and norm.momentum is not None


def _join(owner: fx.GraphModule, node: fx.Node) -> None:
    """Put one call in the place of the norm, the sum and the ReLU."""
    gone, arguments = [node], [node.args[0]]
    follower = _only_user(node)
    if follower is not None and (other := _summand(follower, node)) is not None:
        gone.append(follower)
        arguments.append(other)
        follower = _only_user(follower)
    rectified = follower is not None and _is_relu(owner, follower)
    if follower is not None and rectified:
        gone.append(follower)
    norm = owner.get_submodule(str(node.target))
    assert isinstance(norm, nn.BatchNorm2d)
    name = f"{node.name}_own"
    owner.add_submodule(name, OwnNorm(norm, rectified=rectified))
    with owner.graph.inserting_after(gone[-1]):
        call = owner.graph.call_module(name, tuple(arguments))
    gone[-1].replace_all_uses_with(call)
    for each in reversed(gone):
        owner.graph.erase_node(each)


def _only_user(node: fx.Node) -> fx.Node | None:
    users = list(node.users)
    return users[0] if len(users) == 1 else None


def _summand(node: fx.Node, one: fx.Node) -> fx.Node | None:
    """Return what ``node`` adds to ``one``, if it is a plain sum of the two."""
    if node.op not in ("call_function", "call_method") or node.target not in _SUMS:
        return None
    if node.kwargs or len(node.args) != 2 or not all(isinstance(a, fx.Node) for a in node.args):
        return None
    others = [a for a in node.args if a is not one]
    return others[0] if len(others) == 1 and isinstance(others[0], fx.Node) else None


def _is_relu(owner: nn.Module, node: fx.Node) -> bool:
    if node.op == "call_module":
        return _calls(owner, node, nn.ReLU)
    return node.op in ("call_function", "call_method") and node.target in _RELUS
