"""Owns a densely connected layer's passes over a tensor's rows, as kernels in Triton.

A layer has many inputs and few outputs, so that reading the inputs is what takes time. Each pass
reads them once, and normalises and rectifies them as it does: that tensor is never written. What
belongs to a tap and an output lies at tap · outputs + output. Launches none.
"""

from __future__ import annotations

import triton.language as tl

from triprune.learning.kernels.compiling import kernel
from triprune.learning.kernels.norm_passes import keep, learn, moments


@kernel
def settle(
    x,
    sums,
    running_mean,
    running_var,
    mean,
    scatter,
    rows,
    channels,
    sum_row,
    momentum,
    eps,
    parts: tl.constexpr,
    tile_channels: tl.constexpr,
):
    """Keep these channels' statistics of the batch, and let the running ones follow."""
    channel = tl.program_id(0) * tile_channels + tl.arange(0, tile_channels)
    real = channel < channels
    centre, variance = moments(x, sums, rows, sum_row, channel, real, parts)
    keep(mean, scatter, centre, 1.0 / tl.sqrt(variance + eps), channel, real)
    learn(running_mean, running_var, centre, variance, rows, momentum, channel, real)


@kernel
def project(
    x,
    mean,
    scatter,
    weight,
    bias,
    filters,
    products,
    rows,
    in_vectors,
    x_vectors,
    out_vectors,
    in_vector: tl.constexpr,
    out_vector: tl.constexpr,
    tile_rows: tl.constexpr,
    tile_in: tl.constexpr,
    tile_products: tl.constexpr,
):
    """Write what each pixel gives to its outputs by each of the nine taps: outputs by tap."""
    ins, x_row, outs = in_vectors * in_vector, x_vectors * in_vector, out_vectors * out_vector
    row = tl.program_id(0) * tile_rows + tl.arange(0, tile_rows)
    product = tl.arange(0, tile_products)
    wanted = product < 9 * outs
    filter_row = (product % outs) * 9 + product // outs
    total = tl.zeros([tile_rows, tile_products], tl.float32)
    for step in range(0, tl.cdiv(ins, tile_in)):
        channel = step * tile_in + tl.arange(0, tile_in)
        real = channel < ins
        centre = tl.load(mean + channel, mask=real, other=0.0)
        factor = tl.load(scatter + channel, mask=real, other=0.0)
        factor *= tl.load(weight + channel, mask=real, other=0.0)
        shift = tl.load(bias + channel, mask=real, other=0.0)
        place = x + row[:, None] * x_row + channel[None, :]
        value = tl.load(place, mask=(row < rows)[:, None] & real[None, :], other=0.0)
        exact = (value.to(tl.float32) - centre[None, :]) * factor[None, :] + shift[None, :]
        exact = tl.where(exact < 0, 0.0, exact)  # a maximum would swallow NaN
        place = filters + filter_row[None, :] * ins + channel[:, None]
        factors = tl.load(place, mask=real[:, None] & wanted[None, :], other=0.0)
        total = tl.dot(exact.to(value.dtype), factors, total)
    place = products + row[:, None] * (9 * outs) + product[None, :]
    wanted = (row < rows)[:, None] & wanted[None, :]
    tl.store(place, total.to(products.dtype.element_ty), mask=wanted)


@kernel
def add_taps(
    products,
    output,
    rows,
    height,
    width,
    out_vectors,
    row_vectors,
    out_vector: tl.constexpr,
    tile_rows: tl.constexpr,
    tile_out: tl.constexpr,
):
    """Add up what these pixels are given by their neighbours and themselves."""
    outs = out_vectors * out_vector
    row = tl.program_id(0) * tile_rows + tl.arange(0, tile_rows)
    across, down = row % width, (row // width) % height
    channel = tl.program_id(1) * tile_out + tl.arange(0, tile_out)
    real = channel < outs
    total = tl.zeros([tile_rows, tile_out], tl.float32)
    for tap in tl.static_range(9):  # pyright: ignore[reportGeneralTypeIssues]
        below, right = tap // 3 - 1, tap % 3 - 1
        seen = (row < rows) & (down + below >= 0) & (down + below < height)
        seen = seen & (across + right >= 0) & (across + right < width)
        place = (row + below * width + right)[:, None] * (9 * outs) + tap * outs + channel[None, :]
        given = tl.load(products + place, mask=seen[:, None] & real[None, :], other=0.0)
        total += given.to(tl.float32)
    place = output + row[:, None] * (row_vectors * out_vector) + channel[None, :]
    wanted = (row < rows)[:, None] & real[None, :]
    tl.store(place, total.to(output.dtype.element_ty), mask=wanted)
