"""Kernels of a program's buckets are searched for once."""

from __future__ import annotations

from functools import cache

import pytest
from xdsl.dialects.func import FuncOp

import mugraph.build as mi
from mugraph.dialects.named_extents import buckets_of, is_smaller_bucket
from mugraph.passes.program.bucket_extents import BucketExtentsPass
from mugraph.passes.program.fuse_kernels import choice
from mugraph.passes.program.fuse_kernels.choice import find_in_buckets, find_kernels
from mugraph.passes.targets import target_named
from mugraph.reading import make_context

TARGET = target_named("h200")


def buckets() -> list[FuncOp]:
    """A norm before two products, whose kernels depend on the rows."""
    rows = mi.Extent("m", largest=8192, buckets=(16,))
    graph = mi.new_kernel_graph("projections")
    x = mi.rms_norm(graph.new_input((rows, 1024)), graph.new_input((1024,)), eps=1e-5)
    for _ in range(2):
        graph.mark_output(x @ graph.new_input((1024, 1024)) + graph.new_input((1024,)))
    module = graph.module()
    BucketExtentsPass().apply(make_context(), module)
    functions = (op for op in module.body.block.ops if isinstance(op, FuncOp))
    return buckets_of(module, next(op for op in functions if not is_smaller_bucket(op)))


@cache
def searched_each() -> tuple[list[FuncOp], list[choice.Found], int]:
    """Buckets, what a search for each of them finds, and in how many attempts."""
    functions = buckets()
    each = [find_kernels(bucket, TARGET) for bucket in functions]
    return functions, each, sum(len(found.fusion.attempts) for found in each)


def test_one_search_finds_what_a_search_for_each_does(monkeypatch: pytest.MonkeyPatch) -> None:
    _, each, attempts = searched_each()
    searched: list[FuncOp] = []

    def counted(function: FuncOp, *args: object, **options: object) -> choice.Found:
        searched.append(function)
        return find_kernels(function, TARGET)

    monkeypatch.setattr(choice, "find_kernels", counted)
    once = find_in_buckets(buckets(), TARGET)
    assert len(searched) == 1 and len(once) == 2
    assert (
        [len(found.kernels) for found in once] == [len(found.kernels) for found in each] == [1, 2]
    )
    assert [found.time for found in once] == pytest.approx([found.time for found in each])
    assert sum(len(found.fusion.attempts) for found in once) < attempts


def test_another_graph_is_searched_for_itself() -> None:
    """At one row a broadcast is none, so that operators differ."""
    large, small = (only(rows) for rows in (64, 1))
    found, before = find_kernels(large, TARGET), str(small)
    assert found.again(small) is None
    assert str(small) == before


def packed() -> list[FuncOp]:
    """Two parts of a product, of which few rows make kernels of their own."""
    rows = mi.Extent("m", largest=4096, buckets=(16,))
    graph = mi.new_kernel_graph("packed")
    x = graph.new_input((rows, 1024))
    y = x @ graph.new_input((1024, 4096), constant=True)
    graph.mark_output(mi.silu(y[:, :2048]) * y[:, 2048:])
    module = graph.module()
    BucketExtentsPass().apply(make_context(), module)
    functions = (op for op in module.body.block.ops if isinstance(op, FuncOp))
    return buckets_of(module, next(op for op in functions if not is_smaller_bucket(op)))


def test_a_bucket_in_which_other_operators_are_found_is_searched_as_it_was_written() -> None:
    """Preparing it for the groups of the largest extents would keep its product whole."""
    alone = [find_kernels(bucket, TARGET) for bucket in packed()]
    together = find_in_buckets(packed(), TARGET)
    assert together[0].time <= alone[0].time * 1.001


def only(rows: int) -> FuncOp:
    graph = mi.new_kernel_graph("f")
    x = graph.new_input((rows, 64))
    y = mi.silu(x) if rows > 1 else mi.silu(mi.exp(x))
    graph.mark_output(y * x)
    (function,) = graph.module().body.block.ops
    assert isinstance(function, FuncOp)
    return function


def test_kernels_that_segments_keep_apart_are_joined_at_the_largest_extents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    functions, (*_, searched), _ = searched_each()
    operators = range(len(searched.fusion.operators))
    apart = choice.Found(searched.fusion, [1 << number for number in operators])

    def found(function: FuncOp, *args: object, **options: object) -> choice.Found:
        return apart

    monkeypatch.setattr(choice, "find_kernels", found)
    joined = find_in_buckets(functions, TARGET)[-1]
    assert len(joined.kernels) == len(searched.kernels)
    assert joined.time == pytest.approx(searched.time)
