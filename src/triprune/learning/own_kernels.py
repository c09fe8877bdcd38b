"""Owns a model's forward pass by kernels of our own, for training steps on a GPU.

Batch norms are computed together with what follows them, 3×3 convolutions of few channels by
kernels that are made for few, densely connected layers in one tensor, and means of 2×2 pixels
without detours. The model itself stays as it is: what comes back shares its layers. Refuses to
trust kernels that it has not tried.
"""

from __future__ import annotations

import math
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
from triprune.learning.own_layers import OwnConv, OwnDense, OwnLayer, OwnNorm, OwnPool
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
    """Whether what our kernels do, and all their gradients, are torch's, but rounded."""
    image = _drawn((2, 40, 6, 4), device, low).requires_grad_()  # inputs in several steps
    convs = [_conv(*sides, device, low) for sides in ((40, 8), (40, 12), (52, 12))]
    norms = [nn.BatchNorm2d(channels, device=device) for channels in (40, 40, 52)]
    inputs = [image, *(each for layer in (*convs, *norms) for each in layer.parameters())]
    learning = [_alike(*pair, inputs, _ALIKE[low]) for pair in _both(image, norms, convs)]
    for norm in norms:
        norm.eval()
    with torch.no_grad():
        learned = [_near(*pair, _ALIKE[low]) for pair in _both(image, norms, convs)]
    return all(learning) and all(learned)


def _both(
    image: Tensor, norms: list[nn.BatchNorm2d], convs: list[nn.Conv2d]
) -> list[tuple[Tensor, Tensor]]:
    """Return what our kernels and what torch's make of an image."""
    own = [(OwnNorm(n, rectified=True), OwnConv(c)) for n, c in zip(norms, convs, strict=True)]
    grown = image
    for norm, conv in zip(norms[1:], convs[1:], strict=True):
        grown = torch.cat([grown, conv(norm(grown).relu())], 1)
    return [
        (own[0][1].by_kernels(image), convs[0](image)),
        (own[0][0].by_kernels(image, image), (norms[0](image) + image).relu()),
        (OwnDense(own[1:]).by_kernels(image), grown),
        (OwnPool(nn.AvgPool2d(2)).by_kernels(image), functional.avg_pool2d(image, 2)),
    ]


def _drawn(shape: tuple[int, ...], device: torch.device, low: torch.dtype) -> Tensor:
    """Return numbers as good as random, in NHWC; none are drawn."""
    numbers = torch.linspace(0, 1e4, math.prod(shape), device=device).sin_()
    return numbers.view(shape).to(low).contiguous(memory_format=torch.channels_last)


def _conv(inputs: int, outputs: int, device: torch.device, low: torch.dtype) -> nn.Conv2d:
    conv = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False, device="meta")
    conv.weight = nn.Parameter(_drawn((outputs, inputs, 3, 3), device, low))
    return conv


def _alike(y: Tensor, z: Tensor, inputs: list[Tensor], most: float) -> bool:
    """Whether two answers and their gradients differ by rounding alone."""
    given = z.detach()
    mine, theirs = (
        torch.autograd.grad(each, inputs, given, allow_unused=True, materialize_grads=True)
        for each in (y, z)
    )
    pairs = zip((y.detach(), *mine), (given, *theirs), strict=True)
    return all(_near(*pair, most) for pair in pairs)


def _near(one: Tensor, other: Tensor, most: float) -> bool:
    return bool((one - other).norm() <= most * other.norm())


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
    for theirs, ours in ((nn.Conv2d, OwnConv), (nn.AvgPool2d, OwnPool)):
        for node in [each for each in graph.nodes if _calls(following, each, theirs)]:
            name = f"{node.target}_own".replace(".", "_")  # called twice, it is still one layer
            if not hasattr(following, name):
                layer: Any = following.get_submodule(str(node.target))
                following.add_submodule(name, ours(layer))
            node.target = name
    _join_dense(following)
    following.recompile()
    following.delete_all_unused_submodules()
    require_same(model, following, example)
    for each in following.modules():
        if isinstance(each, OwnLayer):
            each.active = example.is_cuda
    return following


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
    name = _free_name(owner, f"{node.name}_own")
    owner.add_submodule(name, OwnNorm(norm, rectified=rectified))
    with owner.graph.inserting_after(gone[-1]):
        call = owner.graph.call_module(name, tuple(arguments))
    gone[-1].replace_all_uses_with(call)
    for each in reversed(gone):
        owner.graph.erase_node(each)


def _join_dense(owner: fx.GraphModule) -> None:
    """Put one call in the place of each row of densely connected layers."""
    rows: dict[fx.Node, list[tuple[fx.Node, fx.Node]]] = {}  # norms and convolutions, by their end
    for end in owner.graph.nodes:
        if (layer := _dense_layer(owner, end)) is not None:
            (begin,) = layer[0].all_input_nodes
            joined = begin in rows and len(begin.users) == 2  # this norm, and what is set behind
            rows[end] = [*(rows.pop(begin) if joined else ()), layer]
    for end, layers in rows.items():
        if not all(_only_reads(owner, user) for user in end.users):
            continue
        own = [tuple(owner.get_submodule(str(node.target)) for node in layer) for layer in layers]
        name = _free_name(owner, f"{end.name}_own")
        owner.add_submodule(name, OwnDense(own))  # pyright: ignore[reportArgumentType]
        first = layers[0][0]
        with owner.graph.inserting_after(end):
            call = owner.graph.call_module(name, first.args)
        end.replace_all_uses_with(call)
        for node in reversed([each for norm, conv in layers for each in (norm, conv, *conv.users)]):
            owner.graph.erase_node(node)


def _dense_layer(owner: fx.GraphModule, end: fx.Node) -> tuple[fx.Node, fx.Node] | None:
    """Return norm and convolution, if ``end`` sets the latter behind what the norm was given."""
    if end.op != "call_function" or end.target is not torch.cat:
        return None
    begin, conv = _two_channelwise(end) or (None, None)
    if begin is None or conv is None or not _calls(owner, conv, OwnConv):
        return None
    norm: Any = conv.args[0]
    if not _calls(owner, norm, OwnNorm) or norm.args[0] is not begin:
        return None
    own = owner.get_submodule(str(norm.target))
    assert isinstance(own, OwnNorm)
    alone = _only_user(conv) is end and _only_user(norm) is conv
    return (norm, conv) if own.rectified and alone and not _called_again(owner, own) else None


def _called_again(owner: fx.GraphModule, own: OwnNorm) -> bool:
    """Whether the same batch norm is called elsewhere: its statistics know an order."""
    calls = [each for each in owner.graph.nodes if _calls(owner, each, OwnNorm)]
    return sum(owner.get_submodule(str(each.target)).norm is own.norm for each in calls) > 1


def _only_reads(owner: fx.GraphModule, user: fx.Node) -> bool:
    """Whether this surely leaves what it is given as it is: a block's tensor is needed later."""
    return _calls(owner, user, OwnNorm) or (
        user.op == "call_function" and user.target is torch.cat and "out" not in user.kwargs
    )


def _free_name(owner: nn.Module, name: str) -> str:
    while hasattr(owner, name):
        name += "_"
    return name


def _two_channelwise(cat: fx.Node) -> tuple[fx.Node, fx.Node] | None:
    """Return the two tensors that are set one behind the other along the channels, if it is two."""
    given = {**dict(zip(("tensors", "dim"), cat.args, strict=False)), **cat.kwargs}
    parts: Any = given.pop("tensors", None)
    if given != {"dim": 1} or not isinstance(parts, (list, tuple)) or len(parts) != 2:
        return None
    return (parts[0], parts[1]) if all(isinstance(each, fx.Node) for each in parts) else None


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
