"""Owns the passes of a densely connected layer over a tensor's rows, as kernels in Triton.

A layer has many inputs and few outputs, so that reading the inputs is what takes time. Each pass
reads them once, and normalises and rectifies them as it does: that tensor is never written.
Launches none.
"""

from __future__ import annotations

import triton
import triton.language as tl

from triprune.learning.kernels.norm_passes import keep, learn, moments


@triton.jit
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


@triton.jit
def rectified_inputs(x, mean, scatter, weight, bias, row, channel, rows, channels, x_row):
    """Return these rows of x, normalised and rectified, in its own format."""
    real = channel < channels
    centre = tl.load(mean + channel, mask=real, other=0.0)
    factor = tl.load(scatter + channel, mask=real, other=0.0)
    factor *= tl.load(weight + channel, mask=real, other=0.0)
    shift = tl.load(bias + channel, mask=real, other=0.0)
    there = x + row[:, None] * x_row + channel[None, :]
    value = tl.load(there, mask=(row < rows)[:, None] & real[None, :], other=0.0)
    exact = (value.to(tl.float32) - centre[None, :]) * factor[None, :] + shift[None, :]
    exact = tl.where(exact < 0, 0.0, exact)  # a maximum would swallow NaN
    return exact.to(value.dtype)


@triton.jit
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
    product = tl.program_id(1) * tile_products + tl.arange(0, tile_products)
    wanted = product < 9 * outs
    filter_row = (product % outs) * 9 + product // outs
    total = tl.zeros([tile_rows, tile_products], tl.float32)
    for step in range(0, tl.cdiv(ins, tile_in)):
        channel = step * tile_in + tl.arange(0, tile_in)
        values = rectified_inputs(x, mean, scatter, weight, bias, row, channel, rows, ins, x_row)
        place = filters + filter_row[None, :] * ins + channel[:, None]
        real = (channel < ins)[:, None] & wanted[None, :]
        total = tl.dot(values, tl.load(place, mask=real, other=0.0), total)
    place = products + row[:, None] * (9 * outs) + product[None, :]
    real = (row < rows)[:, None] & wanted[None, :]
    tl.store(place, total.to(products.dtype.element_ty), mask=real)


@triton.jit
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
    for tap in tl.static_range(9):
        below, right = tap // 3 - 1, tap % 3 - 1
        seen = (row < rows) & (down + below >= 0) & (down + below < height)
        seen = seen & (across + right >= 0) & (across + right < width)
        place = (row + below * width + right)[:, None] * (9 * outs) + tap * outs + channel[None, :]
        given = tl.load(products + place, mask=seen[:, None] & real[None, :], other=0.0)
        total += given.to(tl.float32)
    place = output + row[:, None] * (row_vectors * out_vector) + channel[None, :]
    wanted = (row < rows)[:, None] & real[None, :]
    tl.store(place, total.to(output.dtype.element_ty), mask=wanted)


@triton.jit
def slopes_of_line(slope, row, column, shift, rows, height, width, outs, line: tl.constexpr):
    """Return the gradients of the three outputs that see each pixel by one line of the filter.

    In NHWC they lie side by side; ``shift`` says which of the three a column is of.
    """
    across, down = row % width, (row // width) % height
    above, beside = down - (line - 1), across[:, None] + shift[None, :]
    seen = (row < rows) & (above >= 0) & (above < height)
    inside = seen[:, None] & (beside >= 0) & (beside < width) & (shift < 2)[None, :]
    place = (row - (line - 1) * width - 1)[:, None] * outs + column[None, :]
    return tl.load(slope + place, mask=inside, other=0.0)


@triton.jit
def correlate_inputs(
    x,
    mean,
    scatter,
    weight,
    bias,
    slope,
    sums,
    rows,
    height,
    width,
    in_vectors,
    x_vectors,
    out_vectors,
    steps,
    in_vector: tl.constexpr,
    out_vector: tl.constexpr,
    tile_rows: tl.constexpr,
    tile_in: tl.constexpr,
    tile_line: tl.constexpr,
):
    """Add up products of inputs and outputs' gradients over this part of the pixels."""
    ins, x_row, outs = in_vectors * in_vector, x_vectors * in_vector, out_vectors * out_vector
    channel = tl.program_id(1) * tile_in + tl.arange(0, tile_in)
    column = tl.arange(0, tile_line)
    shift = tl.where(column < 3 * outs, column // outs - 1, 2)
    upper = tl.zeros([tile_in, tile_line], tl.float32)
    middle = tl.zeros([tile_in, tile_line], tl.float32)
    lower = tl.zeros([tile_in, tile_line], tl.float32)
    for step in range(0, steps):
        row = (tl.program_id(0) * steps + step) * tile_rows + tl.arange(0, tile_rows)
        values = rectified_inputs(x, mean, scatter, weight, bias, row, channel, rows, ins, x_row)
        values = tl.trans(values)
        given = slopes_of_line(slope, row, column, shift, rows, height, width, outs, 0)
        upper = tl.dot(values, given, upper)
        given = slopes_of_line(slope, row, column, shift, rows, height, width, outs, 1)
        middle = tl.dot(values, given, middle)
        given = slopes_of_line(slope, row, column, shift, rows, height, width, outs, 2)
        lower = tl.dot(values, given, lower)
    output = column - (shift + 1) * outs
    place = sums + tl.program_id(0) * outs * 9 * ins
    place += (output * 9 + 1 - shift)[None, :] * ins + channel[:, None]
    wanted = (channel < ins)[:, None] & (shift < 2)[None, :]
    tl.store(place, upper, mask=wanted)
    tl.store(place + 3 * ins, middle, mask=wanted)
    tl.store(place + 6 * ins, lower, mask=wanted)
