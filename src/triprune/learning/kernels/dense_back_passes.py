"""Owns the passes of the way back through a densely connected layer, as kernels in Triton.

A norm takes a level and a part of their values from the gradient of its inputs, both known only
when all pixels were seen. They are linear, so inputs may owe them: each layer adds to one gradient
and notes the debt, and a channel's gradient is set right once, when it is asked for. Until then it
may be larger than in the end, and in fp16 nothing is larger than 65,504. Launches none.
"""

from __future__ import annotations

import triton
import triton.language as tl

from triprune.learning.kernels.compiling import kernel
from triprune.learning.kernels.norm_passes import totals


@kernel
def look_back(
    x,
    mean,
    scatter,
    weight,
    bias,
    filters,
    given,
    places,
    slope,
    sums,
    products,
    rows,
    width,
    in_vectors,
    x_vectors,
    steps,
    outs: tl.constexpr,
    in_vector: tl.constexpr,
    tile_rows: tl.constexpr,
    tile_in: tl.constexpr,
    tile_products: tl.constexpr,
    stages: tl.constexpr,
):
    """Add the gradient of these inputs to ``slope``, but for what they owe the norm.

    Add up what they owe, as ``sum_columns`` does, and the gradient of the filters, over this part
    of the pixels. ``given`` has a border of zeros, and ``places`` says where in it a pixel lies.
    """
    part, ins, x_row = tl.program_id(0), in_vectors * in_vector, x_vectors * in_vector
    channel = tl.program_id(1) * tile_in + tl.arange(0, tile_in)
    real = channel < ins
    product = tl.arange(0, tile_products)
    tap, output = product // outs, product % outs
    centre = tl.load(mean + channel, mask=real, other=0.0)
    one_over = tl.load(scatter + channel, mask=real, other=0.0)
    factor = one_over * tl.load(weight + channel, mask=real, other=0.0)
    shift = tl.load(bias + channel, mask=real, other=0.0)
    where = (output * 9 + tap)[:, None] * ins + channel[None, :]
    wanted = (tap < 9)[:, None] & real[None, :]
    factors = tl.load(filters + where, mask=wanted, other=0.0)
    first = tl.zeros([tile_rows, tile_in], tl.float32)
    second = tl.zeros([tile_rows, tile_in], tl.float32)
    learned = tl.zeros([tile_products, tile_in], tl.float32)
    # Said here, the number of stages lets all loads of paired channels come ahead of their use.
    for step in tl.range(0, steps, num_stages=stages):  # pyright: ignore[reportGeneralTypeIssues]
        row = (part * steps + step) * tile_rows + tl.arange(0, tile_rows)
        seen = _seen(given, places, row, rows, width, tap, output, outs)
        inside = (row < rows)[:, None] & real[None, :]
        place = row[:, None] * x_row + channel[None, :]
        value = tl.load(x + place, mask=inside, other=0.0)
        value = value.to(tl.float32) - centre[None, :]
        exact = tl.where(inside, value * factor[None, :] + shift[None, :], 0.0)
        open_ = tl.where(exact < 0, 0.0, exact)  # a maximum would swallow NaN
        learned = tl.dot(tl.trans(seen), open_.to(seen.dtype), learned)
        back = tl.where(exact <= 0, 0.0, tl.dot(seen, factors))
        before = tl.load(slope + place, mask=inside, other=0.0)
        after = before.to(tl.float32) + back * factor[None, :]
        tl.store(slope + place, after.to(before.dtype), mask=inside)
        first += back
        second += back * value
    tl.store(products + part * outs * 9 * ins + where, learned, mask=wanted)
    where = sums + part * 2 * ins + channel
    tl.store(where, tl.sum(first, 0), mask=real)
    tl.store(where + ins, tl.sum(second, 0) * one_over, mask=real)


@triton.jit
def _seen(given, places, row, rows, width, tap, output, outs: tl.constexpr):
    """Return what each tap's outputs give these pixels: of images with a border of zeros.

    An input's pixel gives to the output's pixel that lies opposite of where the tap looks.
    """
    opposite = ((1 - tap // 3) * (width + 2) + 1 - tap % 3) * outs + output
    # Where there is no pixel any place will do: its numbers are multiplied by zero.
    place = tl.load(places + row, mask=row < rows, other=width + 3)
    place = given + place[:, None] * outs + opposite[None, :]
    return tl.load(place, mask=(tap < 9)[None, :], other=0.0)


@kernel
def settle_back(
    sums,
    mean,
    scatter,
    weight,
    slope_weight,
    slope_bias,
    owed,
    rows,
    channels,
    owed_row,
    parts: tl.constexpr,
    tile_channels: tl.constexpr,
):
    """Write the gradients of a norm's parameters, and note what its inputs now owe."""
    channel = tl.program_id(0) * tile_channels + tl.arange(0, tile_channels)
    real = channel < channels
    level, tilt = totals(sums, channels, channel, real, parts)
    tl.store(slope_bias + channel, level, mask=real)
    tl.store(slope_weight + channel, tilt, mask=real)
    one_over = tl.load(scatter + channel, mask=real, other=0.0)
    factor = one_over * tl.load(weight + channel, mask=real, other=0.0) / rows
    debt = owed + channel
    tl.store(debt, tl.load(mean + channel, mask=real, other=0.0), mask=real)
    before = tl.load(debt + owed_row, mask=real, other=0.0)
    tl.store(debt + owed_row, before + level * factor, mask=real)
    before = tl.load(debt + 2 * owed_row, mask=real, other=0.0)
    tl.store(debt + 2 * owed_row, before + tilt * one_over * factor, mask=real)


@kernel
def repay(
    slope,
    x,
    owed,
    output,
    rows,
    height,
    width,
    vectors,
    x_vectors,
    owed_row,
    border: tl.constexpr,
    vector: tl.constexpr,
    tile_rows: tl.constexpr,
    tile_channels: tl.constexpr,
):
    """Write the gradient less what it owes: a level, and a part of the value.

    ``rows`` are those of the output, which has a ``border`` of zeros around each image.
    """
    channels, x_row = vectors * vector, x_vectors * vector
    channel = tl.program_id(1) * tile_channels + tl.arange(0, tile_channels)
    real = channel < channels
    centre = tl.load(owed + channel, mask=real, other=0.0)
    level = tl.load(owed + owed_row + channel, mask=real, other=0.0)
    tilt = tl.load(owed + 2 * owed_row + channel, mask=real, other=0.0)
    row = tl.program_id(0) * tile_rows + tl.arange(0, tile_rows)
    tall, wide = height + 2 * border, width + 2 * border
    across, line = row % wide - border, row // wide
    down, image = line % tall - border, line // tall
    inside = (row < rows) & (down >= 0) & (down < height) & (across >= 0) & (across < width)
    inside = inside[:, None] & real[None, :]
    place = ((image * height + down) * width + across)[:, None] * x_row + channel[None, :]
    value = tl.load(x + place, mask=inside, other=0.0).to(tl.float32) - centre[None, :]
    given = tl.load(slope + place, mask=inside, other=0.0).to(tl.float32)
    debt = tl.where((tilt == 0)[None, :], 0.0, value * tilt[None, :])  # nothing, of infinity too
    given = tl.where(inside, given - level[None, :] - debt, 0.0)
    place = row[:, None] * channels + channel[None, :]
    wanted = (row < rows)[:, None] & real[None, :]
    tl.store(output + place, given.to(output.dtype.element_ty), mask=wanted)
