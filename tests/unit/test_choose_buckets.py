"""Where buckets of named extents end, by the times of plans at sizes below theirs."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import PassPipeline
from xdsl.utils.exceptions import VerifyException

import mugraph.build as mi
from mugraph.dialects.named_extents import (
    NamedExtent,
    bucket_ends,
    called_extents,
    is_one_of_buckets,
    named_extents,
)
from mugraph.passes.compile import compile_pipeline
from mugraph.passes.mugraph.plan.tiles import time_of_smaller
from mugraph.passes.program.bucket_extents import (
    BucketExtentsPass,
    bucket_extents,
    buckets_of_extents,
)
from mugraph.passes.program.choose_buckets import (
    ChooseBucketsPass,
    most_buckets,
    times,
    write_ends,
)
from mugraph.passes.program.choose_buckets.choice import SizeTimes, Values, choose_ends, holds
from mugraph.passes.program.choose_buckets.sizes import MOST_SIZES, sizes_of
from mugraph.passes.program.choose_buckets.times import time_sizes
from mugraph.passes.program.named_extents import NamedExtentError
from mugraph.passes.targets import Target, target_named
from mugraph.reading import make_context

TARGET = target_named("h200")


def whole_tiles(tiles: dict[int, int], sizes: list[int]) -> SizeTimes:
    """A program whose plan of each size has tiles of so many rows, and takes a unit a row."""
    return SizeTimes(
        {
            (end,): {
                (size,): float(-(-size // tiles[end]) * tiles[end]) for size in sizes[: at + 1]
            }
            for at, end in enumerate(sizes)
        }
    )


def test_a_range_ends_where_larger_tiles_would_take_longer() -> None:
    sizes = [8, 16, 64, 128, 256]
    table = whole_tiles({8: 8, 16: 8, 64: 64, 128: 64, 256: 64}, sizes)
    assert choose_ends(table, most=5) == [(16,), (256,)]
    assert choose_ends(table, most=1) == [(256,)]
    assert max(table.ratios([(16,), (256,)]).values()) == 1.0


def test_so_many_ends_as_are_allowed_lose_least() -> None:
    sizes = [8, 16, 32, 64]
    table = whole_tiles({size: size for size in sizes}, sizes)
    two = choose_ends(table, most=2)
    assert two[-1] == (64,)
    others = [[(size,), (64,)] for size in sizes[:-1]]
    assert table.loss(two) == min(map(table.loss, others))


def test_the_smallest_size_stands_for_all_below_it() -> None:
    """Up to 8 are four powers of two, up to 16 are one more."""
    table = whole_tiles({8: 8, 16: 8}, [8, 16])
    assert table.weights == {(8,): 0.5, (16,): 0.5}
    assert SizeTimes(table.times, least=(1,)).weights == {(8,): 0.8, (16,): 0.2}


def test_a_call_takes_the_box_that_takes_least_time() -> None:
    """Few keys of all sequences are one box, many keys of few sequences another."""
    sizes = list(product((4, 64), (8, 4096)))

    def time(end: Values, size: Values) -> float:
        divides = end[0] == 4 and end[1] == 4096
        return size[0] * size[1] / (8 if divides else 1) + (5000 if end[1] == 4096 else 10)

    table = SizeTimes(
        {end: {size: time(end, size) for size in sizes if holds(end, size)} for end in sizes}
    )
    ends = choose_ends(table, most=3)
    assert ends == [(64, 8), (4, 4096), (64, 4096)]
    assert [next(e for e in ends if holds(e, size)) for size in ((1, 8), (3, 9), (5, 9))] == ends


def extents() -> tuple[NamedExtent, ...]:
    rows = NamedExtent("b", 64, most_buckets=6)
    return rows, NamedExtent("n", 32768, held=1, most_buckets=6)


def test_sizes_are_of_all_magnitudes_and_not_too_many_together() -> None:
    found = sizes_of(extents())
    assert len(found) <= MOST_SIZES and found[-1] == (64, 32768)
    assert min(found) == (1, 8)
    assert {rows for rows, _ in found} >= {1, 8, 16, 32, 64}
    (by_sixes,) = {size % 6 for (size,) in sizes_of([NamedExtent("m", 600, multiple=6)])}
    assert by_sixes == 0
    many = sizes_of([NamedExtent(name, 64) for name in "abcd"])
    assert len(many) <= MOST_SIZES and many[-1] == (64, 64, 64, 64)


def decode(rows: object = 6, keys: object = 6) -> FuncOp:
    graph = mi.new_kernel_graph("decode")
    batch = mi.Extent("b", largest=64, buckets=rows)  # pyright: ignore[reportArgumentType]
    length = graph.new_input((1,), dtype=mi.int32)
    n = mi.Extent("n", largest=4096, held=length, buckets=keys)  # pyright: ignore[reportArgumentType]
    q = graph.new_input((batch, 8, 4, 64))
    k, v = (graph.new_input((batch, 8, n, 64)) for _ in "kv")
    graph.mark_output(mi.softmax(q @ graph.transpose(k, [0, 1, 3, 2]), 3) @ v)
    function = graph.module().body.block.first_op
    assert isinstance(function, FuncOp)
    return function


def test_buckets_of_several_extents_are_boxes() -> None:
    function = decode()
    write_ends(function, [(64, 8), (12, 512), (64, 4096)])
    assert bucket_ends(function) == [(64, 8), (12, 512), (64, 4096)]
    ranges = [
        [(extent.least, extent.largest) for extent in bucket]
        for bucket in buckets_of_extents(function)
    ]
    assert ranges == [[(1, 64), (1, 8)], [(1, 12), (9, 512)], [(1, 64), (9, 4096)]]
    module = function.parent_op()
    assert module is not None
    BucketExtentsPass().apply(make_context(), module)  # pyright: ignore[reportArgumentType]
    names = [op.sym_name.data for op in module.walk() if isinstance(op, FuncOp)]
    assert names == ["decode_b64_n8", "decode_b12_n512", "decode"]


def test_a_bound_is_said_whether_an_end_is_chosen_or_not() -> None:
    function = decode()
    write_ends(function, [(12, 4096), (64, 4096)])
    called = called_extents(named_extents(function).values())
    assert [extent.name for extent in called] == ["b", "n"]
    assert most_buckets(function) == 0  # what is chosen stays when the pass runs again


@pytest.mark.parametrize(
    ("rows", "keys", "fault"),
    [
        (9, 4, "may have 6 buckets, not 9"),
        ((8,), 4, "those of 'b' are written; write the buckets of all extents, or of none"),
    ],
)
def test_what_cannot_be_chosen_is_said(rows: object, keys: object, fault: str) -> None:
    module = decode(rows, keys).parent_op()
    with pytest.raises(NamedExtentError, match=fault):
        ChooseBucketsPass().apply(make_context(), module)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("end", [(64, 8), (32, 8)])
def test_a_bucket_that_no_call_takes_is_refused(end: Values) -> None:
    """A call takes the first box that holds its values."""
    function = decode()
    write_ends(function, [(64, 8), end, (64, 4096)])
    with pytest.raises(VerifyException, match=r"no call takes .*, since \[64, 8\] before it holds"):
        bucket_ends(function)


def test_the_largest_box_is_one_of_several() -> None:
    """No other box ends where it does along an extent."""
    graph = mi.new_kernel_graph("apart")
    for rows in (mi.Extent("m", largest=64), mi.Extent("n", largest=512)):
        graph.mark_output(mi.exp(graph.new_input((rows, 32))))
    function = graph.module().body.block.first_op
    assert isinstance(function, FuncOp)
    write_ends(function, [(12, 48), (64, 512)])
    assert [is_one_of_buckets(each) for each in bucket_extents(function)] == [True, True]
    write_ends(function, [(64, 512)])
    assert [is_one_of_buckets(each) for each in bucket_extents(function)] == [False]


def test_ends_that_were_to_be_chosen_are_chosen_before() -> None:
    module = mlp(512).parent_op()
    assert isinstance(module, ModuleOp)
    with pytest.raises(NamedExtentError, match=r"at most 3 ranges of 'm' end, .* fuse=False"):
        PassPipeline(compile_pipeline(fuse=False)).apply(make_context(), module)


def test_a_program_of_no_time_has_one_bucket() -> None:
    sizes = [(8,), (16,)]
    table = SizeTimes({end: {size: 0.0 for size in sizes if size <= end} for end in sizes})
    assert choose_ends(table, most=2) == [(16,)]


def test_a_size_without_an_estimate_is_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would count as the best one if its kernels took no time."""
    sizes: list[Values] = [(16,), (64,), (512,)]
    without = 64

    def unknown(target: Target) -> Callable[..., float | None]:
        known = time_of_smaller(target)

        def time(model: Any, candidate: Any, shrink: Any) -> float | None:
            rows = max(model.space.dimensions, key=lambda each: each.extent == without).extent
            return None if rows == without else known(model, candidate, shrink)

        return time

    monkeypatch.setattr(times, "time_of_smaller", unknown)
    assert [*time_sizes(mlp(512), sizes, TARGET).times] == [(16,), (512,)]
    without = 512
    with pytest.raises(NamedExtentError, match="write where ranges end in 'buckets'"):
        time_sizes(mlp(512), sizes, TARGET)


def test_an_end_without_an_estimate_at_one_size_serves_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = times.PlannedKernel.time

    def time(self: Any, parts: dict[str, float], target: Target) -> float:
        is_64 = any(each.extent == 64 for each in self.space.dimensions)
        return math.inf if is_64 and parts.get("m", 1.0) < 1.0 else known(self, parts, target)

    monkeypatch.setattr(times.PlannedKernel, "time", time)
    table = time_sizes(mlp(512), [(16,), (64,), (512,)], TARGET)
    assert [*table.times] == [(16,), (64,), (512,)]
    assert table.times[64,][16,] == math.inf
    assert choose_ends(table, most=2)[0] == (16,)


def test_an_estimate_chooses_at_least_one_bucket() -> None:
    with pytest.raises(mi.BuildError, match="chooses at least 1 bucket, not 0"):
        mi.Extent("m", largest=64, buckets=0)


def mlp(rows: int) -> FuncOp:
    graph = mi.new_kernel_graph("mlp")
    m = mi.Extent("m", largest=rows, buckets=3)
    x = graph.new_input((m, 1024))
    gate, up = (graph.new_input((1024, 4096), constant=True) for _ in "gu")
    graph.mark_output(mi.silu(x @ gate) * (x @ up))
    function = graph.module().body.block.first_op
    assert isinstance(function, FuncOp)
    return function


def test_kernels_of_many_rows_take_longer_for_few_by_the_estimate() -> None:
    sizes: list[Values] = [(16,), (512,)]
    table = time_sizes(mlp(512), sizes, TARGET)
    assert table.times[512,][16,] > table.times[16,][16,]
    assert table.times[512,][16,] < table.times[512,][512,]
