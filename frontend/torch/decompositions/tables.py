"""Elements by their places: concatenations, indices, scatters, and where the largest are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

from mugraph.torch.decompositions.table import decomposes
from mugraph.torch.operator import import_torch
from mugraph.torch.symbols import is_symbol


@decomposes("cat.default")
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


@decomposes("slice_scatter.default")
def _slice_scatter(
    x: Any, part: Any, dim: int = 0, start: int | None = None, end: int | None = None,
    step: int = 1,
) -> Any:  # fmt: skip
    """What stands before the part, the part, and what stands behind it; steps pick its rows."""
    torch, dim = import_torch(), dim % x.dim()
    if is_symbol(x.shape[dim]):
        return NotImplemented  # which elements are replaced is known at a call
    first, last, _ = slice(start, end).indices(x.shape[dim])
    if last <= first:
        return NotImplemented
    if step != 1:
        places = torch.arange(x.shape[dim], device=x.device)
        is_new = (places >= first) & (places < last) & ((places - first) % step == 0)
        rows = ((places - first) // step).clamp(0, part.shape[dim] - 1)
        is_new = is_new.view([-1 if at == dim else 1 for at in range(x.dim())])
        return _in_order_of(x, torch.where(is_new, part.to(x.dtype).index_select(dim, rows), x))
    parts = [x.narrow(dim, 0, first), part, x.narrow(dim, last, x.shape[dim] - last)]
    order = _order_in_memory(x)
    filled = [each.to(x.dtype).permute(order) for each in parts if each.numel()]
    made = torch.cat(filled, order.index(dim)).contiguous()
    return made.permute([order.index(at) for at in range(x.dim())])


def _order_in_memory(x: Any) -> list[int]:
    """The dimensions of a tensor, that of the smallest stride last."""
    return sorted(range(x.dim()), key=lambda at: -x.stride(at))


def _in_order_of(x: Any, made: Any) -> Any:
    """A tensor of the same shape in the order of x in memory: views of it may follow."""
    order = _order_in_memory(x)
    return made.permute(order).contiguous().permute([order.index(at) for at in range(x.dim())])


@decomposes("as_strided.default")
def _as_strided(
    x: Any, shape: Sequence[int], strides: Sequence[int], offset: int | None = None
) -> Any:
    """All elements in another order of dimensions, where none is read twice."""
    numbers = (*x.shape, *x.stride(), *shape, *strides)
    if not all(isinstance(each, int) for each in numbers) or offset not in (
        None,
        x.storage_offset(),
    ):
        return NotImplemented
    before, after = _order_in_memory(x), sorted(range(len(shape)), key=lambda at: -strides[at])
    ends = [_is_dense(x.shape, x.stride(), before), _is_dense(shape, strides, after)]
    if not all(ends) or math.prod(shape) != x.numel():
        return NotImplemented
    made = x.permute(before).reshape([shape[at] for at in after])
    return made.permute([after.index(at) for at in range(len(shape))])


def _is_dense(shape: Sequence[int], strides: Sequence[int], order: Sequence[int]) -> bool:
    """Whether elements lie side by side, in an order of the dimensions; extents of 1 have any."""
    expected = 1
    for at in reversed(order):
        if shape[at] != 1 and strides[at] != expected:
            return False
        expected *= shape[at]
    return True


@decomposes("full_like.default")
def _full_like(x: Any, value: float, *, dtype: Any = None, device: Any = None, **_: Any) -> Any:
    """A constant, which does not depend on the tensor."""
    torch = import_torch()
    return torch.full(tuple(x.shape), value, dtype=dtype or x.dtype, device=device or x.device)


@decomposes("flip.default")
def _flip(x: Any, dims: Sequence[int]) -> Any:
    """The places of each dimension from the last to the first."""
    torch = import_torch()
    if not x.dim():
        return x.clone()
    for dim in dims:
        places = torch.arange(x.shape[dim] - 1, -1, -1, device=x.device)
        x = torch.index_select(x, dim, places)
    return x


@decomposes("index_select.default")
def _index_select(x: Any, dim: int, places: Any) -> Any:
    """Rows of a table, whose first dimension is the one that is selected along."""
    if not x.dim() or dim % x.dim() == 0:
        return NotImplemented
    torch = import_torch()
    chosen = torch.index_select(x.transpose(0, dim).contiguous(), 0, places)
    return chosen.transpose(0, dim).contiguous()


@decomposes("index.Tensor")
def _index(x: Any, indices: Sequence[Any]) -> Any:
    """Rows of a table with one dimension in place of those that are indexed."""
    torch = import_torch()
    whole = (torch.int32, torch.int64)
    dims = [at for at, each in enumerate(indices) if each is not None]
    # Indices may be on the CPU beside a tensor on a GPU.
    given = [indices[at].to(x.device) for at in dims]
    if any(each.dtype not in whole or not each.numel() for each in given):
        return NotImplemented
    rest = [at for at in range(x.dim()) if at not in dims]
    places = _flat_places(given, [x.shape[at] for at in dims])
    rows = math.prod(x.shape[at] for at in dims)
    table = x.permute(*dims, *rest).reshape(rows, *(x.shape[at] for at in rest))
    chosen = torch.index_select(table, 0, places.reshape(-1))
    chosen = chosen.reshape([*places.shape, *(x.shape[at] for at in rest)])
    # Indices of dimensions side by side give dimensions in their place, others the first ones.
    if dims == list(range(dims[0], dims[0] + len(dims))) and dims[0]:
        new = range(places.dim())
        chosen = chosen.movedim(tuple(new), tuple(at + dims[0] for at in new)).contiguous()
    return chosen


@decomposes("unfold.default")
def _unfold(x: Any, dim: int, size: int, step: int) -> Any:
    """Rows of a table; a view where windows do not overlap and nothing is between them."""
    if not x.dim() or not size:
        return NotImplemented
    torch, dim = import_torch(), dim % x.dim()
    count = (x.shape[dim] - size) // step + 1
    if step == size:
        chosen = x.narrow(dim, 0, count * size)
    else:
        places = torch.arange(count, device=x.device)[:, None] * step
        places = places + torch.arange(size, device=x.device)
        chosen = torch.index_select(x, dim, places.reshape(-1))
    return chosen.unflatten(dim, (count, size)).movedim(dim + 1, -1)


@decomposes("index_put.default")
def _index_put(x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Any:
    """A choice by a mask, where what is put is the same for all places that the mask names."""
    torch = import_torch()
    *before, mask = indices
    if mask is None or mask.dtype != torch.bool or any(each is not None for each in before):
        return NotImplemented
    behind = x.dim() - len(before) - mask.dim()
    if not mask.dim() or values.dim() > behind:
        return NotImplemented
    values = values.to(x.device)
    mask = mask.to(x.device).reshape(*mask.shape, *[1] * behind)
    return _in_order_of(x, torch.where(mask, x + values if accumulate else values, x))


@decomposes("diagonal.default")
def _diagonal(x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """Rows of a table that has two dimensions in one."""
    torch = import_torch()
    both = x.movedim((dim1, dim2), (0, 1))
    first = max(offset, 0) + max(-offset, 0) * both.shape[1]
    count = min(both.shape[0] - max(-offset, 0), both.shape[1] - max(offset, 0))
    if count <= 0:
        return NotImplemented
    places = torch.arange(count, device=x.device) * (both.shape[1] + 1) + first
    return torch.index_select(both.reshape(-1, *both.shape[2:]), 0, places).movedim(0, -1)


def _flat_places(indices: Sequence[Any], extents: Sequence[int]) -> Any:
    """The place among all elements of some dimensions, row-major; negative ones from the last."""
    torch = import_torch()
    total: Any = 0
    for index, extent in zip(indices, extents, strict=True):
        index = index.long()
        total = total * extent + torch.where(index < 0, index + extent, index)
    return total


@decomposes("gather.default")
def _gather(x: Any, dim: int, places: Any, *, sparse_grad: bool = False) -> Any:
    """Elements of a table of one dimension."""
    if not x.dim() or not places.numel():
        return NotImplemented
    torch = import_torch()
    dim = dim % x.dim()
    total: Any = 0
    for at, extent in enumerate(x.shape):
        own = torch.arange(places.shape[at], device=x.device)
        own = own.view([-1 if each == at else 1 for each in range(x.dim())])
        total = total * extent + (places if at == dim else own)
    return torch.index_select(x.reshape(-1), 0, total.reshape(-1)).reshape(places.shape)


@decomposes("max.dim")
def _max(x: Any, dim: int, keepdim: bool = False) -> Any:
    """The largest number of a run, and its place."""
    torch = import_torch()
    if not x.is_floating_point() or not x.dim():
        return NotImplemented
    return torch.amax(x, dim, keepdim), torch.argmax(x, dim, keepdim)


@decomposes("min.dim")
def _min(x: Any, dim: int, keepdim: bool = False) -> Any:
    """The least number of a run, and its place."""
    torch = import_torch()
    if not x.is_floating_point() or not x.dim():
        return NotImplemented
    return torch.amin(x, dim, keepdim), torch.argmax(-x, dim, keepdim)


@decomposes("max.default")
def _max_of_all(x: Any) -> Any:
    """The largest number."""
    return import_torch().amax(x)


@decomposes("min.default")
def _min_of_all(x: Any) -> Any:
    """The least number."""
    return import_torch().amin(x)


MOST_COMPARED = 1 << 24
"""Elements are put into tensors by comparing places where these are no more comparisons."""


def _hits(x: Any, dim: int, index: Any) -> Any:
    """Which element (last dimension) is put where (before it); ``None`` where that is too much."""
    rest = [at for at in range(x.dim()) if at != dim % max(x.dim(), 1)]
    if not rest or any(index.shape[at] != x.shape[at] for at in rest):
        return None
    if not index.numel() or index.numel() * x.shape[dim] > MOST_COMPARED:
        return None
    places = import_torch().arange(x.shape[dim], device=x.device).unsqueeze(-1)
    return index.movedim(dim, -1).unsqueeze(-2) == places


@decomposes("scatter.value")
def _scatter_value(x: Any, dim: int, index: Any, value: float) -> Any:
    """A number at some places of each run, such as a mask of chosen experts."""
    hits = _hits(x, dim, index)
    if hits is None:
        return NotImplemented
    return x.masked_fill(hits.any(-1).movedim(-1, dim), value)


@decomposes("scatter.src")
def _scatter(x: Any, dim: int, index: Any, source: Any) -> Any:
    """Elements at places of each run; of several for one place any may stay, here the largest."""
    torch, hits = import_torch(), _hits(x, dim, index)
    if hits is None or not x.is_floating_point() or source.shape != index.shape:
        return NotImplemented
    given = torch.where(hits, source.movedim(dim, -1).unsqueeze(-2), -math.inf).amax(-1)
    return torch.where(hits.any(-1).movedim(-1, dim), given.movedim(-1, dim), x)


@decomposes("masked_scatter.default")
def _masked_scatter(x: Any, mask: Any, source: Any) -> Any:
    """The next element of the source, or its next row, wherever the mask is true."""
    torch = import_torch()
    if not source.numel() or not x.dim() or mask.numel() > MOST_COMPARED * x.shape[-1]:
        return NotImplemented
    x, mask = torch.broadcast_tensors(x, mask)
    by_rows = mask.stride(-1) == 0 and source.shape[-1:] == x.shape[-1:] and x.dim() > 1
    kept = mask.select(-1, 0) if by_rows else mask
    if kept.numel() > MOST_COMPARED:
        return NotImplemented
    table = source.reshape(-1, source.shape[-1]) if by_rows else source.reshape(-1)
    places = (kept.reshape(-1).long().cumsum(0) - 1).clamp(0, table.shape[0] - 1)
    chosen = torch.index_select(table, 0, places).reshape(x.shape)
    return torch.where(mask, chosen, x)
