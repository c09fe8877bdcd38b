"""Owns how each tensor operator moves channels; refuses to guess: an unknown one pins them.

A rule receives the flow, the operator's arguments by name, and its result; it gives each result
its labels. Rules speak of ``aten`` operators, the small closed set that every layer ends in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd

from triprune.network.channels import movements
from triprune.network.channels.ledger import FREE, Labels, Rows

if TYPE_CHECKING:
    from triprune.network.channels.flow import ChannelFlow

Dims = tuple["Labels | None", ...]
Rule = Callable[["ChannelFlow", dict[str, Any], Any], None]


def pointwise(flow: ChannelFlow, tensors: Sequence[torch.Tensor], result: torch.Tensor) -> None:
    """Tie the aligned dimensions of broadcast operands."""
    rank = result.dim()
    dims: list[Labels | None] = [None] * rank
    for k in range(1, rank + 1):
        size = result.shape[-k]
        full = [t for t in tensors if t.dim() >= k and t.shape[-k] == size]
        labels = [flow.dims(t)[-k] for t in full]
        known = [each for each in labels if each is not None]
        if known and len(known) < len(labels) and size > 1:
            for each in known:
                flow.block(each, "meet a tensor of fixed size")
        for each in known[1:]:
            flow.ledger.tie(known[0], each)
        dims[-k] = next((each for each in known if each[0] != FREE), known[0] if known else None)
    flow.set(result, tuple(dims))


def keep_all(flow: ChannelFlow, args: dict[str, Any], result: Any) -> None:
    """Give results of the operand's shape the operand's labels."""
    x = args["self"] if "self" in args else args["input"]
    for each in _tensors(result):
        if each.shape == x.shape:
            flow.set(each, flow.dims(x))
            if (grid := flow.grid(x)) is not None:
                flow.set_grid(each, grid)


def same_shape(flow: ChannelFlow, args: dict[str, Any], result: torch.Tensor) -> None:
    """Pass labels through a change of strides; a change of shape by strides is not followed."""
    if result.shape == args["self"].shape:
        flow.set(result, flow.dims(args["self"]))
        return
    for labels in flow.dims(args["self"]):
        flow.block(labels, "are rearranged by strides")


def keep_leading(spatial: int) -> Rule:
    """Return the rule of an operator that works on the last ``spatial`` dimensions alone."""

    def rule(flow: ChannelFlow, args: dict[str, Any], result: Any) -> None:
        x = args["self"] if "self" in args else args["input"]
        dims = flow.dims(x)
        for labels in dims[-spatial:]:
            flow.block(labels, "are pooled or resampled like pixels")
        for each in _tensors(result):
            flow.set(each, dims[:-spatial] + (None,) * spatial)

    return rule


def convolution(flow: ChannelFlow, args: dict[str, Any], result: torch.Tensor) -> None:
    """Read the input channels, write the output channels; one group, one per channel, or rows."""
    x, weight, groups = args["input"], args["weight"], args["groups"]
    channels = flow.dims(x)[1]
    for labels in flow.dims(x)[2:]:
        flow.block(labels, "are convolved along like pixels")
    into, out = flow.dims(weight)[:2][:: -1 if not args["transposed"] else 1]
    if groups == 1:
        flow.meet(channels, into)
    elif channels is None or not flow.inside(_ConvNd):
        flow.block(out, "come from a grouped convolution that cannot be followed")
        flow.block(channels, "enter a grouped convolution that cannot be followed")
    elif groups == len(channels):
        repeated = np.repeat(channels, result.shape[1] // groups)
        if args["transposed"]:
            flow.meet(channels, into)
            flow.block(out, "come from a depthwise transposed convolution")
            out = repeated
        else:
            flow.meet(repeated, out)
    elif args["transposed"] or out is None:
        flow.block(channels, "enter a grouped transposed convolution")
        flow.block(out, "come from a grouped transposed convolution")
        out = None
    else:
        matrices = (channels.reshape(groups, -1), out.reshape(groups, -1))
        flow.ledger.rows.append(Rows(matrices, flow.where()))
    if args["bias"] is not None:
        flow.meet(flow.dims(args["bias"])[0], out)
    flow.set(result, (flow.dims(x)[0], out, *[None] * (result.dim() - 2)))


def batch_norm(flow: ChannelFlow, args: dict[str, Any], result: Any) -> None:
    """Tie scale, shift and running statistics to the channels they act on."""
    dims = flow.dims(args["input"])
    if args.get("running_mean") is None and any(d is not None for d in dims[2:]):
        flow.counts_channels()  # weights that are standardised over the inputs they read
    for name in ("weight", "bias", "running_mean", "running_var"):
        if args.get(name) is not None:
            flow.meet(dims[1], flow.dims(args[name])[0])
    flow.set(_tensors(result)[0], dims)


def layer_norm(flow: ChannelFlow, args: dict[str, Any], result: Any) -> None:
    """Tie scale and shift to the normalised dimensions."""
    dims, rank = flow.dims(args["input"]), len(args["normalized_shape"])
    labelled = any(each is not None for each in dims[-rank:])
    if labelled and not flow.inside(nn.LayerNorm):
        flow.counts_channels()
    for name in ("weight", "bias"):
        if args[name] is not None:
            for ours, its in zip(dims[-rank:], flow.dims(args[name]), strict=True):
                flow.meet(ours, its)
    flow.set(_tensors(result)[0], dims)


def group_norm(flow: ChannelFlow, args: dict[str, Any], result: Any) -> None:
    """Tie scale and shift; every group of channels must keep as many as the next."""
    dims, groups = flow.dims(args["input"]), args["group"]
    for name in ("weight", "bias"):
        if args[name] is not None:
            flow.meet(dims[1], flow.dims(args[name])[0])
    if dims[1] is not None:
        if not flow.inside(nn.GroupNorm):
            flow.counts_channels()
        if groups > 1:
            flow.ledger.rows.append(Rows((dims[1].reshape(groups, -1),), flow.where()))
    flow.set(_tensors(result)[0], dims)


def product(flow: ChannelFlow, args: dict[str, Any], result: torch.Tensor) -> None:
    """Contract the last dimension of the left factor with the last but one of the right."""
    names = ("mat1", "mat2") if "mat1" in args else ("batch1", "batch2")
    left, right = (args[k] for k in names) if names[0] in args else (args["self"], args["mat2"])
    ours, its = flow.dims(left), flow.dims(right)
    flow.meet(ours[-1], its[-2])
    batch = ours[:-2]
    for mine, other in zip(batch, its[:-2], strict=True):
        flow.meet(mine, other)
    flow.set(result, (*batch, ours[-2], its[-1]))
    if "mat1" in args or "batch1" in args:
        pointwise(flow, (args["self"], result), result)


def reduction(flow: ChannelFlow, args: dict[str, Any], result: Any) -> None:
    """Sum, average or pick over some dimensions."""
    x = args["self"]
    dims, dim = flow.dims(x), args.get("dim")
    chosen = [dim] if isinstance(dim, int) else (dim or range(x.dim()))
    gone = {k % x.dim() for k in chosen} if x.dim() else set()
    if any(dims[k] is not None for k in gone):
        flow.counts_channels()
    kept = [None if k in gone else d for k, d in enumerate(dims)]
    if not args.get("keepdim", False):
        kept = [d for k, d in enumerate(kept) if k not in gone]
    for each in _tensors(result):
        if each.dim() == len(kept):
            flow.set(each, tuple(kept))


def softmax(flow: ChannelFlow, args: dict[str, Any], result: torch.Tensor) -> None:
    """Normalise along one dimension."""
    x = args["self"]
    if flow.dims(x)[args["dim"]] is not None:
        flow.counts_channels()
    keep_all(flow, args, result)


def _tensors(result: Any) -> list[torch.Tensor]:
    several = isinstance(result, (tuple, list))
    return [each for each in (result if several else (result,)) if isinstance(each, torch.Tensor)]


_BY_RULE: dict[Rule, str] = {
    convolution: "convolution",
    batch_norm: "native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training "
    "_batch_norm_with_update _batch_norm_no_update",
    layer_norm: "native_layer_norm _fused_rms_norm",
    group_norm: "native_group_norm",
    product: "mm bmm addmm baddbmm",
    movements.permute: "permute",
    movements.transpose: "transpose t",
    movements.view: "view _unsafe_view reshape _reshape_alias view_copy",
    movements.cat: "cat",
    movements.stack: "stack",
    movements.split: "split split_with_sizes",
    movements.slice_: "slice",
    movements.select: "select unbind",
    movements.expand: "expand",
    movements.repeat: "repeat",
    movements.squeeze: "squeeze",
    movements.unsqueeze: "unsqueeze",
    movements.pad: "constant_pad_nd",
    reduction: "mean sum amax amin max min prod var std var_mean std_mean linalg_vector_norm norm "
    "logsumexp argmax argmin any all",
    softmax: "_softmax _log_softmax cumsum",
    keep_all: "alias detach clone contiguous _to_copy lift_fresh native_dropout bernoulli "
    "empty_like zeros_like ones_like full_like rand_like randn_like hardswish fill zero normal "
    "uniform random exponential",
    same_shape: "as_strided",
    keep_leading(1): "avg_pool1d upsample_nearest1d upsample_linear1d reflection_pad1d "
    "replication_pad1d",
    keep_leading(2): "avg_pool2d max_pool2d_with_indices _adaptive_avg_pool2d adaptive_avg_pool2d "
    "adaptive_max_pool2d upsample_nearest2d upsample_bilinear2d upsample_bicubic2d "
    "_upsample_bilinear2d_aa _upsample_bicubic2d_aa _upsample_nearest_exact2d reflection_pad2d "
    "replication_pad2d fractional_max_pool2d max_unpool2d",
    keep_leading(3): "avg_pool3d max_pool3d_with_indices _adaptive_avg_pool3d "
    "adaptive_max_pool3d upsample_nearest3d upsample_trilinear3d reflection_pad3d "
    "replication_pad3d",
}
RULES: dict[str, Rule] = {name: rule for rule, names in _BY_RULE.items() for name in names.split()}
POINTWISE = frozenset({"_prelu_kernel", "copy", "addcmul", "addcdiv", "lerp", "where"})
"""Pointwise operators that some releases of torch do not tag as such."""
KEEPS_GRIDS = frozenset(
    {"view", "_unsafe_view", "reshape", "_reshape_alias", "permute", "transpose"} | {"clone"}
)
"""Operators that may stand between cutting channels up and putting them together again."""
