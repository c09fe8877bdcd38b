"""Owns the way back through a densely connected layer: launches its kernels; needs Triton."""

# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false
from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import triton
from torch import Tensor

from triprune.learning.kernels.conv import add_parts
from triprune.learning.kernels.dense_back_passes import look_back, repay, settle_back
from triprune.learning.kernels.tiling import new_image, room_for, row_of, tile_of, vector_of

_PROGRAMS = 256  # that look back, or a few less: two for each processor of an H200
_MOST_PARTS = 128  # into which they divide the pixels; all are read again to be added up
_NUMBERS = 2048  # that a program sets right at once


def looked_back(
    x: Tensor, numbers: Sequence[Tensor], filters: Tensor, given: Sequence[Tensor], slope: Tensor
) -> tuple[Tensor, Tensor]:
    """Add to the gradient of ``x``; return the sums of what it owes, and the gradient of filters.

    ``given`` are the gradient of the outputs, with a border, and where in it the pixels lie.
    """
    images, ins, height, width = x.shape
    outs, rows, tile_rows = filters.shape[0], images * height * width, 64
    in_vector, tile_in = vector_of(math.gcd(ins, row_of(x))), 32 if ins > 16 else 16
    blocks = triton.cdiv(ins, tile_in)
    parts = min(_MOST_PARTS, _PROGRAMS // blocks, triton.cdiv(rows, tile_rows))
    parts = 1 << max(0, parts.bit_length() - 1)  # a power of two
    products = x.new_empty((parts, filters.numel()), dtype=torch.float32)
    sums = x.new_empty((parts, 2, ins), dtype=torch.float32)
    look_back[(parts, blocks)](
        x,
        *numbers,
        filters,
        *given,
        slope,
        sums,
        products,
        rows,
        width,
        ins // in_vector,
        row_of(x) // in_vector,
        triton.cdiv(triton.cdiv(rows, parts), tile_rows),
        outs=outs,
        in_vector=in_vector,
        tile_rows=tile_rows,
        tile_in=tile_in,
        tile_products=room_for(9 * outs),
        stages=3,
        num_warps=8,
        maxnreg=128,  # two programs fit in a processor then
    )
    learned = torch.empty_like(filters)
    add_parts(products, learned)
    return sums, learned


def settled_back(
    sums: Tensor, numbers: Sequence[Tensor], owed: Tensor, rows: int
) -> tuple[Tensor, Tensor]:
    """Return the gradients of the norm's weight and bias; add to what its inputs owe."""
    mean, scatter, weight, bias = numbers
    slope_weight, slope_bias = torch.empty_like(weight), torch.empty_like(bias)
    (parts, _, channels), tile = sums.shape, 16
    settle_back[(triton.cdiv(channels, tile),)](
        sums,
        mean,
        scatter,
        weight,
        slope_weight,
        slope_bias,
        owed,
        rows,
        channels,
        owed.stride(0),
        parts=parts,
        tile_channels=tile,
    )
    return slope_weight, slope_bias


def repaid(slope: Tensor, x: Tensor, owed: Tensor, *, border: int) -> Tensor:
    """Return the gradient of ``x`` less what its channels owe, with a ``border`` of zeros."""
    channels, height, width = x.shape[1:]
    output = new_image(x, channels, (height + 2 * border, width + 2 * border))
    rows, tile = output.numel() // channels, tile_of(channels)
    vector, tile_rows = vector_of(math.gcd(channels, row_of(x))), _NUMBERS // tile
    repay[(triton.cdiv(rows, tile_rows), triton.cdiv(channels, tile))](
        slope,
        x,
        owed,
        output,
        rows,
        height,
        width,
        channels // vector,
        row_of(x) // vector,
        owed.stride(0),
        border=border,
        vector=vector,
        tile_rows=tile_rows,
        tile_channels=tile,
    )
    return output


def places_of(x: Tensor) -> Tensor:
    """Return where the pixels of ``x`` lie among those of images with a border of one."""
    images, _, height, width = x.shape
    rows = images * (height + 2) * (width + 2)
    places = torch.arange(rows, dtype=torch.int32, device=x.device)
    inner = places.view(images, height + 2, width + 2)[:, 1:-1, 1:-1]
    return inner.reshape(-1).contiguous()  # of images that are one pixel wide it is a view
