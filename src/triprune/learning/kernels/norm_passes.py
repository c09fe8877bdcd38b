"""Owns the passes of a batch norm over a tensor's rows, as kernels in Triton; launches none.

Each direction is a pass that adds up columns by parts of the rows, and a pass in which every
program adds up the parts, always in one order, and uses them.
"""

from __future__ import annotations

import triton
import triton.language as tl

from triprune.learning.kernels.compiling import kernel


@kernel
def sum_columns(
    x,
    given,
    output,
    weight,
    bias,
    mean,
    scatter,
    kept,
    sums,
    rows,
    vectors,
    x_vectors,
    sum_vectors,
    backward: tl.constexpr,
    rectified: tl.constexpr,
    added: tl.constexpr,
    vector: tl.constexpr,
    tile_rows: tl.constexpr,
    tile_channels: tl.constexpr,
):
    """Add up two numbers a channel over this part of the rows.

    Forward: x and x², both less the first row, so that a large mean takes no digits. Backward: the
    gradient behind the ReLU, and its product with the normalised x; ``kept`` takes that gradient
    where a residual was ``added``.
    """
    part = tl.program_id(0)
    channels, x_row, sum_row = vectors * vector, x_vectors * vector, sum_vectors * vector
    channel = tl.program_id(1) * tile_channels + tl.arange(0, tile_channels)
    real = channel < channels
    steps = tl.cdiv(tl.cdiv(rows, tl.num_programs(0)), tile_rows)
    first = tl.zeros([tile_rows, tile_channels], tl.float32)
    second = tl.zeros([tile_rows, tile_channels], tl.float32)
    if backward:
        centre = tl.load(mean + channel, mask=real, other=0.0)
        factor = tl.load(scatter + channel, mask=real, other=0.0)
        slant = factor * tl.load(weight + channel, mask=real, other=0.0)
        shift = tl.load(bias + channel, mask=real, other=0.0)
    else:
        centre = tl.load(x + channel, mask=real, other=0.0).to(tl.float32)
        factor = centre  # not used, as the next two
        slant = centre
        shift = centre
    for step in range(0, steps):
        row = (part * steps + step) * tile_rows + tl.arange(0, tile_rows)
        inside = (row < rows)[:, None] & real[None, :]
        place = row[:, None] * channels + channel[None, :]
        there = x + row[:, None] * x_row + channel[None, :]
        value = tl.load(there, mask=inside, other=0.0).to(tl.float32) - centre[None, :]
        if backward:
            slope = tl.load(given + place, mask=inside, other=0.0)
            if rectified:
                if added:
                    closed = tl.load(output + place, mask=inside, other=0.0) <= 0
                else:
                    closed = value * slant[None, :] + shift[None, :] <= 0
                slope = tl.where(closed, 0.0, slope).to(slope.dtype)
                if added:
                    tl.store(kept + place, slope, mask=inside)
            slope = slope.to(tl.float32)
            first += slope
            second += slope * value * factor[None, :]
        else:
            value = tl.where(inside, value, 0.0)
            first += value
            second += value * value
    where = sums + part * 2 * sum_row + channel
    tl.store(where, tl.sum(first, 0), mask=real)
    tl.store(where + sum_row, tl.sum(second, 0), mask=real)


@triton.jit
def totals(sums, sum_row, channel, real, parts: tl.constexpr):
    """Return both numbers of every channel, over all parts."""
    part = tl.arange(0, parts)
    where = sums + part[:, None] * 2 * sum_row + channel[None, :]
    first = tl.load(where, mask=real[None, :], other=0.0)
    second = tl.load(where + sum_row, mask=real[None, :], other=0.0)
    return tl.sum(first, 0), tl.sum(second, 0)


@triton.jit
def moments(x, sums, rows, sum_row, channel, real, parts: tl.constexpr):
    """Return mean and variance of every channel."""
    total, squares = totals(sums, sum_row, channel, real, parts)
    away = total / rows  # of the mean from the first row
    variance = squares / rows - away * away
    centre = tl.load(x + channel, mask=real, other=0.0).to(tl.float32) + away
    return centre, tl.where(variance < 0, 0.0, variance)


@triton.jit
def keep(mean, scatter, centre, one_over, channel, real):
    """Keep a batch's statistics for the way back."""
    tl.store(mean + channel, centre, mask=real)
    tl.store(scatter + channel, one_over, mask=real)


@triton.jit
def learn(running_mean, running_var, centre, variance, rows, momentum, channel, real):
    """Let the running statistics follow."""
    before = tl.load(running_mean + channel, mask=real, other=0.0)
    tl.store(running_mean + channel, before + momentum * (centre - before), mask=real)
    unbiased = variance * (rows / (rows - 1.0))
    before = tl.load(running_var + channel, mask=real, other=0.0)
    tl.store(running_var + channel, before + momentum * (unbiased - before), mask=real)


@triton.jit
def shift_rows(
    x,
    residual,
    output,
    weight,
    bias,
    centre,
    one_over,
    channel,
    rows,
    channels,
    added: tl.constexpr,
    rectified: tl.constexpr,
    tile_rows: tl.constexpr,
):
    """Write this program's rows, centred, scaled and shifted, plus the residual, rectified."""
    real = channel < channels
    factor = one_over * tl.load(weight + channel, mask=real, other=0.0)
    shift = tl.load(bias + channel, mask=real, other=0.0)
    row = tl.program_id(0) * tile_rows + tl.arange(0, tile_rows)
    inside = (row < rows)[:, None] & real[None, :]
    here = row[:, None] * channels + channel[None, :]
    value = tl.load(x + here, mask=inside, other=0.0).to(tl.float32)
    value = (value - centre[None, :]) * factor[None, :] + shift[None, :]
    if added:
        value += tl.load(residual + here, mask=inside, other=0.0).to(tl.float32)
    if rectified:
        value = tl.where(value < 0, 0.0, value)  # a maximum would swallow NaN
    tl.store(output + here, value.to(output.dtype.element_ty), mask=inside)


@kernel
def normalise_rows(
    x,
    residual,
    weight,
    bias,
    sums,
    running_mean,
    running_var,
    mean,
    scatter,
    output,
    rows,
    vectors,
    momentum,
    eps,
    added: tl.constexpr,
    rectified: tl.constexpr,
    vector: tl.constexpr,
    parts: tl.constexpr,
    tile_rows: tl.constexpr,
    tile_channels: tl.constexpr,
):
    """Normalise these rows, add the residual, rectify; the first program keeps the statistics."""
    channels = vectors * vector
    channel = tl.program_id(1) * tile_channels + tl.arange(0, tile_channels)
    real = channel < channels
    centre, variance = moments(x, sums, rows, channels, channel, real, parts)
    one_over = 1.0 / tl.sqrt(variance + eps)
    if tl.program_id(0) == 0:
        keep(mean, scatter, centre, one_over, channel, real)
        learn(running_mean, running_var, centre, variance, rows, momentum, channel, real)
    shift_rows(
        x,
        residual,
        output,
        weight,
        bias,
        centre,
        one_over,
        channel,
        rows,
        channels,
        added,
        rectified,
        tile_rows,
    )


@kernel
def scale_rows(
    x,
    residual,
    weight,
    bias,
    running_mean,
    running_var,
    output,
    rows,
    vectors,
    eps,
    added: tl.constexpr,
    rectified: tl.constexpr,
    vector: tl.constexpr,
    tile_rows: tl.constexpr,
    tile_channels: tl.constexpr,
):
    """Normalise these rows by the running statistics, add the residual, rectify."""
    channels = vectors * vector
    channel = tl.program_id(1) * tile_channels + tl.arange(0, tile_channels)
    real = channel < channels
    centre = tl.load(running_mean + channel, mask=real, other=0.0)
    one_over = 1.0 / tl.sqrt(tl.load(running_var + channel, mask=real, other=1.0) + eps)
    shift_rows(
        x,
        residual,
        output,
        weight,
        bias,
        centre,
        one_over,
        channel,
        rows,
        channels,
        added,
        rectified,
        tile_rows,
    )


@kernel
def pass_back(
    x,
    given,
    weight,
    bias,
    mean,
    scatter,
    sums,
    slope_x,
    slope_weight,
    slope_bias,
    rows,
    vectors,
    rectified: tl.constexpr,
    vector: tl.constexpr,
    parts: tl.constexpr,
    tile_rows: tl.constexpr,
    tile_channels: tl.constexpr,
):
    """Write these rows' gradient of x; the first program keeps those of weight and bias."""
    channels = vectors * vector
    channel = tl.program_id(1) * tile_channels + tl.arange(0, tile_channels)
    real = channel < channels
    total, product = totals(sums, channels, channel, real, parts)
    if tl.program_id(0) == 0:
        tl.store(slope_bias + channel, total, mask=real)
        tl.store(slope_weight + channel, product, mask=real)
    centre = tl.load(mean + channel, mask=real, other=0.0)
    one_over = tl.load(scatter + channel, mask=real, other=0.0)
    factor = one_over * tl.load(weight + channel, mask=real, other=0.0)
    common, along = total / rows, product / rows * one_over
    row = tl.program_id(0) * tile_rows + tl.arange(0, tile_rows)
    inside = (row < rows)[:, None] & real[None, :]
    place = row[:, None] * channels + channel[None, :]
    slope = tl.load(given + place, mask=inside, other=0.0).to(tl.float32)
    value = tl.load(x + place, mask=inside, other=0.0).to(tl.float32) - centre[None, :]
    if rectified:
        shift = tl.load(bias + channel, mask=real, other=0.0)
        slope = tl.where(value * factor[None, :] + shift[None, :] <= 0, 0.0, slope)
    slope = (slope - common[None, :] - value * along[None, :]) * factor[None, :]
    tl.store(slope_x + place, slope.to(slope_x.dtype.element_ty), mask=inside)
