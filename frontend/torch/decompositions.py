"""Operators of ATen that are made of others: torch's own decompositions, and ours.

Ours make views, products and rows of tables of convolutions, paddings and indices.  One that gives
``NotImplemented`` leaves the call as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from importlib import import_module
from itertools import product
from typing import Any, TypeVar

from mugraph.torch.operator import import_torch

KEPT = (
    "silu.default",
    "gelu.default",
    "addmm.default",
    "softplus.default",
    "baddbmm.default",
    "logsumexp.default",
)
"""Operators that torch would take apart, and mugraph has as one."""

Decomposition = Callable[..., Any]
D = TypeVar("D", bound=Decomposition)

_OWN: dict[str, Decomposition] = {}


def _decomposes(*names: str) -> Callable[[D], D]:
    def register(decomposition: D) -> D:
        _OWN.update(dict.fromkeys(names, decomposition))
        return decomposition

    return register


def decompositions() -> dict[Any, Decomposition]:
    """What each operator of ATen is made of, for ``aot_autograd``."""
    aten = import_torch().ops.aten

    def operator(name: str) -> Any:
        packet, overload = name.split(".")
        return getattr(getattr(aten, packet), overload)

    table = dict(import_module("torch._decomp").core_aten_decompositions())
    for name in KEPT:
        table.pop(operator(name), None)
    return table | {operator(name): made for name, made in _OWN.items()}


def why_no_product(
    x: Any, weight: Any, transposed: bool, groups: int, output_padding: Sequence[int] = ()
) -> str | None:
    """Why a convolution is no matrix product of mugraph's; ``None`` where it is one."""
    if transposed or any(output_padding):
        return "it is a transposed convolution"
    if groups != 1 and weight.shape[1] < LEAST_CHANNELS:
        return f"it is a convolution in {groups} groups of {weight.shape[1]} channels"
    if x.dim() != weight.dim():
        return "it is a convolution without a batch"
    torch = import_torch()
    if x.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        return f"it is a convolution of {x.dtype}"
    return None


@_decomposes("convolution.default")
def _convolution(
    x: Any, weight: Any, bias: Any, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
) -> Any:  # fmt: skip
    """The product of each window's elements, as a row, and the weights of each channel."""
    if _is_by_channel(x, weight, transposed, groups, output_padding):
        return _convolved_by_channel(x, weight, bias, stride, padding, dilation)
    if why_no_product(x, weight, transposed, groups, output_padding) is not None:
        return NotImplemented
    channels, taps = weight.shape[0], weight.shape[2:]
    if not any(padding) and all(step == 1 for step in dilation) and tuple(stride) == tuple(taps):
        windows = _apart(x, taps)
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


LEAST_CHANNELS = 8
"""Groups of fewer channels are too small for a product each."""
MOST_TAPS = 8
"""Windows of more elements that each channel has of its own stay in torch: they are copied."""


def _is_by_channel(
    x: Any, weight: Any, transposed: bool, groups: int, output_padding: Sequence[int]
) -> bool:
    """Whether each channel has a small window of its own, as the convolutions of Mamba."""
    return (
        1 < groups == weight.shape[0] == x.shape[1]
        and math.prod(weight.shape[2:]) <= MOST_TAPS
        and why_no_product(x, weight, transposed, 1, output_padding) is None
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
        total = total + _by_channel(bias.float(), x)
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
    """Windows (batch, places, channels, taps), a copy: a slice for each tap, side by side."""
    torch = import_torch()
    counts: list[int] = []
    for at, (size, step, pad, apart) in enumerate(
        zip(taps, stride, padding, dilation, strict=True)
    ):
        extent = x.shape[at + 2] + 2 * pad
        counts.append((extent - apart * (size - 1) - 1) // step + 1)
        # Slices in whole steps may end behind the padding.
        end = max(extent, apart * (size - 1) + counts[-1] * step)
        x = _padded(x, at + 2, pad, end - extent + pad, 0.0)
    slices: list[Any] = []
    for tap in product(*map(range, taps)):
        part = x
        for at, place in enumerate(tap):
            span = counts[at] * stride[at]
            part = part.narrow(at + 2, place * dilation[at], span)
            if stride[at] != 1:
                part = part.unflatten(at + 2, (counts[at], stride[at])).select(at + 3, 0)
        slices.append(part.unsqueeze(-1))
    return torch.cat(slices, -1).movedim(1, -2)


@_decomposes("_native_batch_norm_legit_no_training.default")
def _batch_norm(
    x: Any, weight: Any, bias: Any, mean: Any, variance: Any, momentum: float, epsilon: float
) -> Any:
    """A scale and a shift of each channel, in fp32."""
    factor = (variance.float() + epsilon).rsqrt()
    result = (x.float() - _by_channel(mean.float(), x)) * _by_channel(factor, x)
    # What is for training is empty.
    return _scaled(result, x, weight, bias), x.new_empty((0,)), x.new_empty((0,))


@_decomposes("native_group_norm.default")
def _group_norm(
    x: Any, weight: Any, bias: Any, batch: int, channels: int, places: int, groups: int,
    epsilon: float,
) -> Any:  # fmt: skip
    """A norm of each group of channels, in fp32."""
    if not x.numel():
        return NotImplemented
    rows = x.float().reshape(batch, groups, -1)
    mean, variance = rows.mean(-1, keepdim=True), rows.var(-1, correction=0, keepdim=True)
    factor = (variance + epsilon).rsqrt()
    result = ((rows - mean) * factor).reshape(x.shape)
    return _scaled(result, x, weight, bias), mean.squeeze(-1), factor.squeeze(-1)


def _by_channel(numbers: Any, x: Any) -> Any:
    """A number for each channel, the second dimension."""
    return numbers.reshape(-1, *[1] * (x.dim() - 2))


def _scaled(result: Any, x: Any, weight: Any, bias: Any) -> Any:
    """What was computed in fp32 of ``x`` by the weight and bias of each channel, in its type."""
    if weight is not None:
        result = result * _by_channel(weight.float(), x)
    if bias is not None:
        result = result + _by_channel(bias.float(), x)
    return result.to(x.dtype)


@_decomposes("avg_pool2d.default")
def _avg_pool(
    x: Any, size: Sequence[int], stride: Sequence[int] = (), padding: Sequence[int] = (0,),
    ceil_mode: bool = False, count_include_pad: bool = True, divisor: int | None = None,
) -> Any:  # fmt: skip
    """The mean of each window."""
    padding = tuple(padding) * (2 // len(padding))
    if x.dim() != 4 or ceil_mode or (any(padding) and not count_include_pad):
        return NotImplemented
    if not x.is_floating_point():
        return NotImplemented
    taps = tuple(size) * (2 // len(size))
    steps = tuple(stride) * (2 // len(stride)) if stride else taps
    windows = _overlapping(x, taps, steps, padding, (1, 1))
    total = windows.sum(-1) / (divisor or math.prod(taps))
    return total.permute(0, 3, 1, 2).contiguous()


def _padded(x: Any, dim: int, before: int, after: int, value: float) -> Any:
    parts = [x]
    if before:
        parts.insert(0, x.new_full((*x.shape[:dim], before, *x.shape[dim + 1 :]), value))
    if after:
        parts.append(x.new_full((*x.shape[:dim], after, *x.shape[dim + 1 :]), value))
    return import_torch().cat(parts, dim) if len(parts) > 1 else x


@_decomposes("constant_pad_nd.default")
def _constant_pad(x: Any, pad: Sequence[int], value: float = 0) -> Any:
    """A concatenation with constants; with negative padding a slice."""
    for at in range(len(pad) // 2):
        dim = x.dim() - 1 - at
        before, after = pad[2 * at], pad[2 * at + 1]
        start = max(-before, 0)
        x = x.narrow(dim, start, x.shape[dim] - start - max(-after, 0))
        x = _padded(x, dim, max(before, 0), max(after, 0), value)
    return x.clone()


@_decomposes("cat.default")
def _cat(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Of one type, without what is empty, such as a cache that has nothing yet."""
    filled = [x for x in tensors if x.numel()]
    same = len({x.dtype for x in tensors}) == 1
    if not filled or (same and len(filled) == len(tensors)):
        return NotImplemented
    torch = import_torch()
    dtype = reduce(torch.promote_types, (x.dtype for x in tensors))
    filled = [x.to(dtype) for x in filled]
    return torch.cat(filled, dim) if len(filled) > 1 else filled[0].clone()


@_decomposes("slice_scatter.default")
def _slice_scatter(
    x: Any, part: Any, dim: int = 0, start: int | None = None, end: int | None = None,
    step: int = 1,
) -> Any:  # fmt: skip
    """What stands before the part, the part, and what stands behind it."""
    first, last, _ = slice(start, end).indices(x.shape[dim])
    if step != 1 or last <= first:
        return NotImplemented
    dim = dim % x.dim()
    parts = [x.narrow(dim, 0, first), part, x.narrow(dim, last, x.shape[dim] - last)]
    # In the order of x in memory, which the result has: views of it may follow.
    order = sorted(range(x.dim()), key=lambda at: -x.stride(at))
    filled = [each.to(x.dtype).permute(order) for each in parts if each.numel()]
    made = import_torch().cat(filled, order.index(dim)).contiguous()
    return made.permute([order.index(at) for at in range(x.dim())])


@_decomposes("linalg_vector_norm.default")
def _vector_norm(
    x: Any, order: float = 2, dim: Sequence[int] | None = None, keepdim: bool = False, *,
    dtype: Any = None,
) -> Any:  # fmt: skip
    """The root of the sum of squares, in fp32."""
    torch = import_torch()
    if order != 2 or x.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        return NotImplemented
    dims = list(range(x.dim())) if dim is None else dim
    return x.float().square().sum(dims, keepdim=keepdim).sqrt().to(dtype or x.dtype)


@_decomposes("full_like.default")
def _full_like(x: Any, value: float, *, dtype: Any = None, device: Any = None, **_: Any) -> Any:
    """A constant, which does not depend on the tensor."""
    torch = import_torch()
    return torch.full(tuple(x.shape), value, dtype=dtype or x.dtype, device=device or x.device)


@_decomposes("flip.default")
def _flip(x: Any, dims: Sequence[int]) -> Any:
    """The places of each dimension from the last to the first."""
    torch = import_torch()
    for dim in dims:
        places = torch.arange(x.shape[dim] - 1, -1, -1, device=x.device)
        x = torch.index_select(x, dim, places)
    return x


@_decomposes("index_select.default")
def _index_select(x: Any, dim: int, places: Any) -> Any:
    """Rows of a table, whose first dimension is the one that is selected along."""
    if not x.dim() or dim % x.dim() == 0:
        return NotImplemented
    torch = import_torch()
    chosen = torch.index_select(x.transpose(0, dim).contiguous(), 0, places)
    return chosen.transpose(0, dim).contiguous()


@_decomposes("index.Tensor")
def _index(x: Any, indices: Sequence[Any]) -> Any:
    """Rows of a table with one dimension in place of those that are indexed."""
    torch = import_torch()
    whole = (torch.int32, torch.int64)
    dims = [at for at, each in enumerate(indices) if each is not None]
    # Indices may be on the CPU beside a tensor on a GPU.
    given = [indices[at].to(x.device) for at in dims]
    if not x.numel() or any(each.dtype not in whole or not each.numel() for each in given):
        return NotImplemented
    rest = [at for at in range(x.dim()) if at not in dims]
    places = _flat_places(given, [x.shape[at] for at in dims])
    rows = math.prod(x.shape[at] for at in dims)
    table = x.permute(*dims, *rest).reshape(rows, *(x.shape[at] for at in rest))
    chosen = torch.index_select(table, 0, places.reshape(-1))
    chosen = chosen.reshape(*places.shape, *(x.shape[at] for at in rest))
    # Indices of dimensions side by side give dimensions in their place, others the first ones.
    if dims == list(range(dims[0], dims[0] + len(dims))) and dims[0]:
        new = range(places.dim())
        chosen = chosen.movedim(tuple(new), tuple(at + dims[0] for at in new)).contiguous()
    return chosen


def _flat_places(indices: Sequence[Any], extents: Sequence[int]) -> Any:
    """The place among all elements of some dimensions, row-major; negative ones from the last."""
    torch = import_torch()
    total: Any = 0
    for index, extent in zip(indices, extents, strict=True):
        index = index.long()
        total = total * extent + torch.where(index < 0, index + extent, index)
    return total


@_decomposes("gather.default")
def _gather(x: Any, dim: int, places: Any, *, sparse_grad: bool = False) -> Any:
    """Elements of a table of one dimension."""
    if not x.dim() or not places.numel() or not x.numel():
        return NotImplemented
    torch = import_torch()
    dim = dim % x.dim()
    total: Any = 0
    for at, extent in enumerate(x.shape):
        own = torch.arange(places.shape[at], device=x.device)
        own = own.view([-1 if each == at else 1 for each in range(x.dim())])
        total = total * extent + (places if at == dim else own)
    return torch.index_select(x.reshape(-1), 0, total.reshape(-1)).reshape(places.shape)
