"""Convolutions, pools and paddings: products and slices of windows."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import reduce
from itertools import product
from typing import Any

from mugraph.build.convolution import places_of_windows
from mugraph.torch.decompositions.layers import by_channel
from mugraph.torch.decompositions.table import decomposes
from mugraph.torch.image_windows import image_windows_operator
from mugraph.torch.operator import import_torch


def _is_product(x: Any, weight: Any, groups: int) -> bool:
    """Whether a convolution, which is not transposed, is a matrix product for each group."""
    torch = import_torch()
    small = groups != 1 and weight.shape[1] < LEAST_CHANNELS
    known = x.dtype in (torch.float16, torch.bfloat16, torch.float32)
    return known and not small and x.dim() == weight.dim()


@decomposes("convolution.default")
def _convolution(
    x: Any, weight: Any, bias: Any, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
) -> Any:  # fmt: skip
    """The product of each window's elements, as a row, and the weights of each channel."""
    rank = weight.dim() - 2
    stride, padding, dilation, output_padding = (
        [*each] * rank if len(each) == 1 else each  # one number for all dimensions
        for each in (stride, padding, dilation, output_padding)
    )
    if not transposed and _is_by_channel(x, weight, groups):
        return _convolved_by_channel(x, weight, bias, stride, padding, dilation)
    if transposed and all(each == 1 for each in dilation):
        return _transposed(x, weight, bias, stride, padding, output_padding, groups)
    if transposed or not _is_product(x, weight, groups):
        return NotImplemented
    channels, taps = weight.shape[0], weight.shape[2:]
    are_apart = not any(padding) and all(step == 1 for step in dilation)
    if are_apart and tuple(stride) == tuple(taps):
        windows = _apart(x, taps)
    elif groups == 1:
        return _of_images(x, weight, bias, stride, padding, dilation)
    else:
        windows = _overlapping(x, taps, stride, padding, dilation)
    batch, *places = windows.shape[: len(taps) + 1]
    torch = import_torch()
    if groups == 1:
        rows = windows.reshape(batch * math.prod(places), -1)
        columns = weight.reshape(channels, -1).t()
        made = rows @ columns if bias is None else torch.addmm(bias, rows, columns)
    else:
        rows = windows.reshape(batch * math.prod(places), groups, -1).transpose(0, 1)
        columns = weight.reshape(groups, channels // groups, -1).transpose(1, 2)
        made = (rows @ columns).transpose(0, 1).reshape(-1, channels)
        made = made if bias is None else made + bias
    return made.reshape(batch, *places, channels).movedim(-1, 1).contiguous()


def _of_images(x: Any, weight: Any, bias: Any, *strides: Sequence[int]) -> Any:
    """The product of windows, with channels inside, which it may load where they lie."""
    images, settings = x.movedim(1, -1), [list(each) for each in (weight.shape[2:], *strides)]
    rows = image_windows_operator()(images, *settings)
    columns = weight.movedim(1, -1).reshape(weight.shape[0], -1).t()
    made = rows @ columns if bias is None else import_torch().addmm(bias, rows, columns)
    places = places_of_windows(images.shape[1:-1], *settings)
    made = made.reshape(x.shape[0], *places, weight.shape[0])
    return made.movedim(-1, 1).contiguous()


def _transposed(
    x: Any, weight: Any, bias: Any, stride: Sequence[int], padding: Sequence[int],
    output_padding: Sequence[int], groups: int,
) -> Any:  # fmt: skip
    """A convolution whose channels are the places between two of ``x``, from the last tap on.

    Tap r + s j of a stride s adds to place s q + r what ``x`` has at place q - j.
    """
    rank, taps = len(stride), weight.shape[2:]
    if x.dim() != weight.dim():
        return NotImplemented
    counts = [-(-size // step) for size, step in zip(taps, stride, strict=True)]
    for at, (size, step) in enumerate(zip(taps, stride, strict=True)):
        weight = _padded(weight, at + 2, 0, counts[at] * step - size, 0.0)
    split = [each for pair in zip(counts, stride, strict=True) for each in pair]
    weight = weight.reshape(groups, -1, weight.shape[1], *split)
    towards, between = range(3, 3 + 2 * rank, 2), range(4, 3 + 2 * rank, 2)
    weight = weight.flip([at for at in towards if weight.shape[at] > 1])
    weight = weight.permute(0, 2, *between, 1, *towards)
    weight = weight.reshape(-1, x.shape[1] // groups, *counts)
    ones, around = [1] * rank, [count - 1 for count in counts]
    sizes = [
        (extent - 1) * step - 2 * pad + size + more
        for extent, step, pad, size, more in zip(
            x.shape[2:], stride, padding, taps, output_padding, strict=True
        )
    ]
    # Of places behind the last tap there is the bias alone.
    ends = [
        (extent + count - 1) * step - pad
        for extent, count, step, pad in zip(x.shape[2:], counts, stride, padding, strict=True)
    ]
    own = None
    if bias is not None and all(map(operator.le, sizes, ends)):
        own, bias = bias.repeat_interleave(math.prod(stride)), None
    made = _convolution(x, weight, own, ones, around, ones, False, [0] * rank, groups)
    if made is NotImplemented:
        return made
    places = made.shape[2:]
    made = made.reshape(made.shape[0], -1, *stride, *places)
    made = made.permute(0, 1, *(at for pair in zip(range(2 + rank, 2 + 2 * rank),
                                                   range(2, 2 + rank), strict=True)
                                for at in pair))  # fmt: skip
    made = made.reshape(*made.shape[:2], *map(operator.mul, places, stride))
    for at, (extent, pad, end) in enumerate(zip(sizes, padding, ends, strict=True), 2):
        kept = min(extent, end)
        made = _padded(made.narrow(at, pad, kept), at, 0, extent - kept, 0.0)
    return (made if bias is None else made + by_channel(bias, made)).contiguous()


LEAST_CHANNELS = 8
"""Groups of fewer channels are too small for a product each."""


MOST_TAPS = 8
"""Windows of more elements that each channel has of its own stay in torch: they are copied."""


def _is_by_channel(x: Any, weight: Any, groups: int) -> bool:
    """Whether each channel has a small window of its own, as the convolutions of Mamba."""
    return (
        1 < groups == weight.shape[0] == x.shape[1]
        and math.prod(weight.shape[2:]) <= MOST_TAPS
        and _is_product(x, weight, 1)
    )


def _convolved_by_channel(
    x: Any, weight: Any, bias: Any, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int],
) -> Any:  # fmt: skip
    """The sum, in fp32, of each window's elements times the numbers of their channel."""
    taps = weight.shape[2:]
    windows = _overlapping(x, taps, stride, padding, dilation).movedim(-2, 1)
    numbers = weight.float().reshape(weight.shape[0], *[1] * len(taps), -1)
    total = (windows.float() * numbers).sum(-1)
    if bias is not None:
        total = total + by_channel(bias.float(), x)
    return total.to(x.dtype)


def _apart(x: Any, taps: Sequence[int]) -> Any:
    """Windows (batch, places, channels, taps) that lie side by side: a view."""
    rank = len(taps)
    split: list[int] = []
    for at, size in enumerate(taps):
        count = x.shape[at + 2] // size
        x = x.narrow(at + 2, 0, count * size)
        split += [count, size]
    x = x.reshape(*x.shape[:2], *split)
    places, inner = range(2, 2 + 2 * rank, 2), range(3, 3 + 2 * rank, 2)
    return x.permute(0, *places, 1, *inner)


def _overlapping(
    x: Any, taps: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int],
) -> Any:  # fmt: skip
    """Windows (batch, places, channels, taps), a copy: the slice of each tap, side by side."""
    slices = [each.unsqueeze(-1) for each in _slices(x, taps, stride, padding, dilation)]
    return import_torch().cat(slices, -1).movedim(1, -2)


def _slices(
    x: Any, taps: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], fill: float = 0.0,
) -> list[Any]:  # fmt: skip
    """Of each tap what it reads at all places, (batch, channels, places); padding is ``fill``."""
    counts: list[int] = []
    for at, (size, step, pad, apart) in enumerate(
        zip(taps, stride, padding, dilation, strict=True)
    ):
        extent = x.shape[at + 2] + 2 * pad
        counts += places_of_windows([x.shape[at + 2]], [size], [step], [pad], [apart])
        # Slices in whole steps may end behind the padding.
        end = max(extent, apart * (size - 1) + counts[-1] * step)
        x = _padded(x, at + 2, pad, end - extent + pad, fill)
    slices: list[Any] = []
    for tap in product(*map(range, taps)):
        part = x
        for at, place in enumerate(tap):
            span = counts[at] * stride[at]
            part = part.narrow(at + 2, place * dilation[at], span)
            if stride[at] != 1:
                part = part.unflatten(at + 2, (counts[at], stride[at])).select(at + 3, 0)
        slices.append(part)
    return slices


@decomposes("avg_pool2d.default")
def _avg_pool(
    x: Any, size: Sequence[int], stride: Sequence[int] = (), padding: Sequence[int] = (0,),
    ceil_mode: bool = False, count_include_pad: bool = True, divisor: int | None = None,
) -> Any:  # fmt: skip
    """The mean of each window."""
    if x.dim() != 4 or ceil_mode or not x.is_floating_point():
        return NotImplemented
    taps, pads = _of_rank(2, size), _of_rank(2, padding)
    windows = taps, _of_rank(2, stride or size), pads, (1, 1)
    total = reduce(operator.add, _slices(x.float(), *windows))
    count: Any = divisor or math.prod(taps)
    if any(pads) and not count_include_pad and not divisor:
        ones = import_torch().ones((1, 1, *x.shape[2:]), device=x.device)
        count = reduce(operator.add, _slices(ones, *windows))
    return (total / count).to(x.dtype)


def _of_rank(rank: int, numbers: Sequence[int] | int) -> tuple[int, ...]:
    """A number for each dimension, of which one may be said for all."""
    several = (numbers,) if isinstance(numbers, int) else tuple(numbers)
    return several * (rank // len(several))


@decomposes("max_pool2d_with_indices.default", "max_pool3d_with_indices.default")
def _max_pool(
    x: Any, size: Sequence[int], stride: Sequence[int] = (), padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,), ceil_mode: bool = False,
) -> Any:  # fmt: skip
    """The largest number of each window, and where it is, which is mostly left out."""
    rank = x.dim() - 2
    if rank < max(2, len(size)) or ceil_mode or not x.is_floating_point():
        return NotImplemented
    taps, pads, apart = (_of_rank(rank, each) for each in (size, padding, dilation))
    steps = _of_rank(rank, stride or size)
    torch = import_torch()
    slices = _slices(x, taps, steps, pads, apart, -math.inf)
    chosen = torch.stack(slices, -1).argmax(-1)
    # A place is the window's first one and the tap's distance from it, row-major.
    first, distance, step = 0, torch.zeros((1,), dtype=torch.int64, device=x.device), 1
    for at in reversed(range(rank)):
        counts = torch.arange(slices[0].shape[at + 2], device=x.device) * steps[at] - pads[at]
        first = first + (counts * step).reshape([-1, *[1] * (rank - 1 - at)])
        own = torch.arange(taps[at], device=x.device) * (apart[at] * step)
        distance = (own.unsqueeze(-1) + distance).reshape(-1)
        step *= x.shape[at + 2]
    places = torch.index_select(distance, 0, chosen.reshape(-1)).reshape(chosen.shape) + first
    return reduce(torch.maximum, slices), places


MOST_PARTS = 32
"""Pools to more places than this in a dimension that does not divide evenly stay in torch."""


@decomposes("_adaptive_avg_pool2d.default", "_adaptive_avg_pool3d.default")
def _adaptive_avg_pool(x: Any, size: Sequence[int]) -> Any:
    """The mean of each part of a dimension; parts may overlap where it is not divided evenly."""
    if not x.is_floating_point() or max(size) > MOST_PARTS:
        return NotImplemented
    wide, torch = x.float(), import_torch()
    for at, count in enumerate(size, x.dim() - len(size)):
        extent = x.shape[at]
        if extent % count == 0:
            wide = wide.unflatten(at, (count, extent // count)).mean(at + 1)
            continue
        ends = [(each * extent // count, -(-(each + 1) * extent // count)) for each in range(count)]
        parts = [wide.narrow(at, a, b - a).mean(at, keepdim=True) for a, b in ends]
        wide = torch.cat(parts, at)
    return wide.to(x.dtype)


def _padded(x: Any, dim: int, before: int, after: int, value: float) -> Any:
    parts = [x]
    if before:
        parts.insert(0, x.new_full((*x.shape[:dim], before, *x.shape[dim + 1 :]), value))
    if after:
        parts.append(x.new_full((*x.shape[:dim], after, *x.shape[dim + 1 :]), value))
    return import_torch().cat(parts, dim) if len(parts) > 1 else x


@decomposes("constant_pad_nd.default")
def _constant_pad(x: Any, pad: Sequence[int], value: float = 0) -> Any:
    """A concatenation with constants; with negative padding a slice."""
    for at in range(len(pad) // 2):
        dim = x.dim() - 1 - at
        before, after = pad[2 * at], pad[2 * at + 1]
        start = max(-before, 0)
        x = x.narrow(dim, start, x.shape[dim] - start - max(-after, 0))
        x = _padded(x, dim, max(before, 0), max(after, 0), value)
    return x.clone()
