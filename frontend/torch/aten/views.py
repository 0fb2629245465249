"""ATen's views, slices and concatenations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import i1

import mugraph.build as mi
from mugraph.build import DTensor
from mugraph.torch.aten.conversion import Call, converts, require


@converts(
    "view.default",
    "reshape.default",
    "_unsafe_view.default",
    "unsqueeze.default",
    "squeeze.default",
    "squeeze.dim",
    "squeeze.dims",
)
def _reshape(call: Call, x: DTensor, *_: Any) -> DTensor:
    return mi.reshape(x, call.shape)


@converts("clone.default", "alias.default", "detach.default", "contiguous.default")
def _same(call: Call, x: DTensor, **_: Any) -> DTensor:
    return x


@converts("t.default")
def _t(call: Call, x: DTensor) -> DTensor:
    return mi.transpose(x) if len(x.shape) == 2 else x


@converts("transpose.int")
def _transpose(call: Call, x: DTensor, first: int, second: int) -> DTensor:
    order = list(range(len(x.shape)))
    order[first], order[second] = order[second], order[first]
    return mi.transpose(x, order)


@converts("permute.default")
def _permute(call: Call, x: DTensor, order: Sequence[int]) -> DTensor:
    return mi.transpose(x, order)


@converts("expand.default")
def _expand(call: Call, x: DTensor, *_: Any, **__: Any) -> DTensor:
    return mi.broadcast_to(x, call.shape)


@converts("repeat.default")
def _repeat(call: Call, x: DTensor, counts: Sequence[int]) -> DTensor:
    own = (*[1] * (len(counts) - len(x.shape)), *x.shape)
    apart = [each for extent in own for each in (1, extent)]
    repeated = [each for pair in zip(counts, own, strict=True) for each in pair]
    return mi.reshape(mi.broadcast_to(mi.reshape(x, apart), repeated), call.shape)


@converts("slice.Tensor")
def _slice(
    call: Call, x: DTensor, dim: int = 0, start: int | None = None, end: int | None = None,
    step: int = 1,
) -> DTensor:  # fmt: skip
    first, last, _ = slice(start, end).indices(x.shape[dim])
    dim %= len(x.shape)
    if step != 1:
        return _every(call, x, dim, range(first, last, step))
    starts = [0] * len(x.shape)
    starts[dim] = first
    return x if call.shape == x.shape else call.graph.slice(x, starts, call.shape)


def _every(call: Call, x: DTensor, dim: int, places: range) -> DTensor:
    """Elements in whole steps: the first of each step of them, and the last where steps are cut."""

    def part(start: int, extent: int) -> DTensor:
        starts, shape = [0] * len(x.shape), list(x.shape)
        starts[dim], shape[dim] = start, extent
        return call.graph.slice(x, starts, shape)

    step, whole = places.step, (places.stop - places.start) // places.step
    parts: list[DTensor] = []
    if whole:
        apart = (*x.shape[:dim], whole, step, *x.shape[dim + 1 :])
        windows = mi.reshape(part(places.start, whole * step), apart)
        shape = (*apart[: dim + 1], 1, *apart[dim + 2 :])
        chosen = call.graph.slice(windows, [0] * len(apart), shape)
        parts.append(mi.reshape(chosen, (*x.shape[:dim], whole, *x.shape[dim + 1 :])))
    if len(places) > whole:
        parts.append(part(places[-1], 1))
    return parts[0] if len(parts) == 1 else call.graph.concat_all(parts, dim)


@converts("select.int")
def _select(call: Call, x: DTensor, dim: int, index: int) -> DTensor:
    starts, extents = [0] * len(x.shape), list(x.shape)
    starts[dim], extents[dim] = index % x.shape[dim], 1
    return mi.reshape(call.graph.slice(x, starts, extents), call.shape)


@converts("split.Tensor", "split_with_sizes.default", "unbind.int", "chunk.default")
def _split(call: Call, x: DTensor, sizes: Any = None, dim: int = 0) -> list[DTensor]:
    if len(call.shape) < len(x.shape):  # unbind has no sizes
        dim = 0 if sizes is None else sizes
        return [_select(Call(call.graph, [result], call.tf32), x, dim, index)
                for index, result in enumerate(call.results)]  # fmt: skip
    parts: list[DTensor] = []
    start = [0] * len(x.shape)
    for result in call.results:
        whole = result.shape == x.shape
        parts.append(x if whole else call.graph.slice(x, start, result.shape))
        start[dim] += result.shape[dim]
    return parts


@converts("cat.default")
def _cat(call: Call, tensors: Sequence[DTensor], dim: int = 0) -> DTensor:
    require(all(x.dtype == call.dtype for x in tensors), "it concatenates several element types")
    return call.graph.concat_all(tensors, dim) if len(tensors) > 1 else tensors[0]


@converts("embedding.default")
def _embedding(call: Call, table: DTensor, rows: DTensor, *_: Any) -> DTensor:
    return mi.gather(table, rows)


@converts("index_select.default")
def _index_select(call: Call, table: DTensor, dim: int, rows: DTensor) -> DTensor:
    require(dim % len(table.shape) == 0, "it selects along another dimension than the first")
    return mi.gather(table, rows)


@converts("index_put.default")
def _index_put(
    call: Call, table: DTensor, indices: Sequence[DTensor | None], values: DTensor,
    accumulate: bool = False,
) -> DTensor:  # fmt: skip
    given = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    require(all(index.dtype != i1 for _, index in given), "it puts rows where a mask is true")
    require(len(given) == 1 and len(given[0][1].shape) == 1, "it puts single elements")
    require(not accumulate, "it adds to what is there")
    dim, rows = given[0]
    require(rows.shape[0] <= table.shape[dim],
            f"it puts {rows.shape[0]} rows into {table.shape[dim]} places")  # fmt: skip
    shape = (*table.shape[:dim], *rows.shape, *table.shape[dim + 1 :])
    return mi.scatter(mi.broadcast_to(values, shape), table, rows, dim)


VIEWS = (_reshape, _same, _t, _transpose, _permute, _expand, _slice, _select, _split)
"""Conversions that compute nothing, which torch does without a kernel."""
