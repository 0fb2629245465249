"""Partitions, grids and loops, against blocks and iterations run one after the other."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from interpreter_programs import (
    Array,
    customized,
    integers,
    normal,
    parse,
    relative_error,
    tensor,
    tile,
)

from mugraph.dialects.maps import Slicing
from mugraph.runtime.interpreter import blocks, run_function
from mugraph.runtime.interpreter.arithmetic import Arithmetic, Precision


def tile_at(
    array: Array,
    map_: Sequence[int],
    fordim: int,
    grid: Sequence[int],
    range_: int,
    block: Sequence[int],
    iteration: int,
) -> Array:
    """The tile of one block in one iteration: narrow each dimension axis by axis, then the loop."""
    for axis in range(3):
        dim = map_[axis]
        if dim >= 0:
            part = array.shape[dim] // grid[axis]
            array = np.take(array, range(block[axis] * part, (block[axis] + 1) * part), axis=dim)
    if fordim >= 0:
        part = array.shape[fordim] // range_
        array = np.take(array, range(iteration * part, (iteration + 1) * part), axis=fordim)
    return array


def place_at(
    out: Array, value: Array, map_: Sequence[int], grid: Sequence[int], block: Sequence[int]
) -> None:
    start, extent = [0] * out.ndim, list(out.shape)
    for axis in range(3):
        dim = map_[axis]
        if dim >= 0 and grid[axis] > 1:
            extent[dim] //= grid[axis]
            start[dim] += block[axis] * extent[dim]
    out[tuple(slice(s, s + e) for s, e in zip(start, extent, strict=True))] = value


MAPS = st.tuples(*[st.integers(-1, 1)] * 3)


@settings(max_examples=60, deadline=None)
@given(
    grid=st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 2)),
    imaps=st.tuples(MAPS, MAPS),
    omap=st.tuples(*[st.integers(0, 1)] * 3),
    fordims=st.tuples(st.integers(-1, 1), st.integers(-1, 1)),
    range_=st.integers(1, 3),
    memory=st.sampled_from([1, 2000, 2**28]),
)
def test_any_partition(
    grid: tuple[int, int, int],
    imaps: tuple[tuple[int, ...], tuple[int, ...]],
    omap: tuple[int, ...],
    fordims: tuple[int, int],
    range_: int,
    memory: int,
) -> None:
    """Sums a broadcast product of two tiles; each map may split no, one or two dimensions."""
    tiles = [(2, 3), (2, 3)]
    shapes: list[tuple[int, ...]] = []
    for imap, fordim, extents in zip(imaps, fordims, tiles, strict=True):
        shape = list(extents)
        for axis, dim in enumerate(imap):
            if dim >= 0:
                shape[dim] *= grid[axis]
        if fordim >= 0:
            shape[fordim] *= range_
        shapes.append(tuple(shape))
    output = [2, 3]
    for axis, dim in enumerate(omap):
        output[dim] *= grid[axis]
    assume(max(map(np.prod, [*shapes, output])) < 10_000)

    def load(index: int) -> str:
        split = f"fordim {fordims[index]}" if fordims[index] >= 0 else ""
        return (
            f"%t{index} = tb.input %d{index} imap {list(imaps[index])} {split} "
            f": {tensor(shapes[index])} -> {tile((2, 3))}"
        )

    t = tile((2, 3))
    body = f"""{load(0)}
    {load(1)}
    %p = tb.mul %t0, %t1 : ({t}, {t}) -> {t}
    %a = tb.forloop_accum none %p : {t} -> {t}
    tb.output %a omap {list(omap)} : {t} -> {tensor(output)}
    """
    inputs = [integers(shape, seed=index) for index, shape in enumerate(shapes)]
    expected = np.full(output, np.nan)
    for block in itertools.product(*map(range, grid)):
        total = np.zeros((2, 3))
        for iteration in range(range_):
            x, y = (
                tile_at(array, imap, fordim, grid, range_, block, iteration)
                for array, imap, fordim in zip(inputs, imaps, fordims, strict=True)
            )
            total += x.astype(np.float64) * y
        place_at(expected, total, omap, grid, block)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "MEMORY_BYTES", memory)
        module = parse(customized(shapes, output, body, grid, range_))
        (result,) = run_function(module, None, inputs)
    np.testing.assert_array_equal(result, expected)


def test_two_axes_on_one_dimension_nest_row_major() -> None:
    """Blocks along y number the columns; they come out where x is the outer axis."""
    y_index = np.arange(3, dtype=np.float16).reshape(1, 3)
    body = f"""
    %t0 = tb.input %d0 imap [-1, 1, -1] : {tensor((1, 3))} -> {tile((1, 1))}
    %a = tb.forloop_accum none %t0 : {tile((1, 1))} -> {tile((1, 1))}
    tb.output %a omap [1, 1, -1] : {tile((1, 1))} -> {tensor((1, 6))}
    """
    module = parse(customized([(1, 3)], (1, 6), body, grid=(2, 3, 1)))
    (result,) = run_function(module, None, [y_index])
    np.testing.assert_array_equal(result, [[0, 1, 2, 0, 1, 2]])


def test_the_loop_splits_inside_the_block() -> None:
    """Block b of 2, iteration i of 3 has column 3 * b + i; the sum weighs it by 10 ** i."""
    weights = np.array([[1, 10, 100]], np.float16)
    t = tile((1, 1))
    body = f"""
    %x = tb.input %d0 imap [1, -1, -1] fordim 1 : {tensor((1, 6))} -> {t}
    %w = tb.input %d1 imap [-1, -1, -1] fordim 1 : {tensor((1, 3))} -> {t}
    %p = tb.mul %x, %w : ({t}, {t}) -> {t}
    %a = tb.forloop_accum none %p : {t} -> {t}
    tb.output %a omap [1, -1, -1] : {t} -> {tensor((1, 2))}
    """
    module = parse(customized([(1, 6), (1, 3)], (1, 2), body, grid=(2, 1, 1), forloop=3))
    (result,) = run_function(module, None, [np.arange(1, 7).reshape(1, 6) * 1.0, weights])
    np.testing.assert_array_equal(result, [[321, 654]])


def test_a_loop_invariant_tile_in_and_after_the_loop() -> None:
    t = tile((4, 2))
    body = f"""
    %b = tb.input %d1 imap [-1, -1, -1] : {tensor((4, 2))} -> {t}
    %x = tb.input %d0 imap [-1, -1, -1] fordim 1 : {tensor((4, 6))} -> {t}
    %p = tb.mul %x, %b : ({t}, {t}) -> {t}
    %a = tb.forloop_accum none %p : {t} -> {t}
    %s = tb.add %a, %b : ({t}, {t}) -> {t}
    tb.output %s omap [-1, -1, -1] : {t} -> {tensor((4, 2))}
    """
    x, b = integers((4, 6), seed=1), integers((4, 2), seed=2)
    module = parse(customized([(4, 6), (4, 2)], (4, 2), body, forloop=3))
    (result,) = run_function(module, None, [x, b])
    np.testing.assert_array_equal(result, (x * np.tile(b, 3)).reshape(4, 3, 2).sum(1) + b)


def test_a_loop_invariant_tile_may_be_stored() -> None:
    """Two blocks store different rows of it, transposed into columns of the result."""
    t = tile((1, 4))
    body = f"""
    %x = tb.input %d0 imap [0, -1, -1] : {tensor((2, 4))} -> {t}
    tb.output %x omap [1, -1, -1] : {t} -> {tensor((1, 8))}
    """
    x = integers((2, 4))
    (result,) = run_function(parse(customized([(2, 4)], (1, 8), body, (2, 1, 1), 3)), None, [x])
    np.testing.assert_array_equal(result, x.reshape(1, 8))


def test_boxes_do_not_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, c = tile((4, 8)), tile((8, 2)), tile((4, 2))
    body = f"""
    %x = tb.input %d0 imap [0, -1, -1] fordim 1 : {tensor((12, 32))} -> {a}
    %w = tb.input %d1 imap [-1, 1, -1] fordim 0 : {tensor((32, 10))} -> {b}
    %m = tb.matmul %x, %w : ({a}, {b}) -> {c}
    %e = tb.exp %m : {c} -> {c}
    %t = tb.forloop_accum none %e : {c} -> {c}
    tb.output %t omap [0, 1, -1] : {c} -> {tensor((12, 10))}
    """
    module = parse(customized([(12, 32), (32, 10)], (12, 10), body, (3, 5, 1), 4))
    inputs = [normal((12, 32), 0.2, seed=1), normal((32, 10), 0.2, seed=2)]
    (whole,) = run_function(module, None, inputs)
    monkeypatch.setattr(blocks, "MEMORY_BYTES", 700)
    (parts,) = run_function(module, None, inputs)
    np.testing.assert_array_equal(whole, parts)
    (reference,) = run_function(module, None, inputs, "float64")
    assert 0 < relative_error(whole, reference) < 1e-3


def test_boxes_cover_the_grid_once_within_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "MEMORY_BYTES", 10)
    grid = (7, 5, 2)
    count = np.zeros(grid)
    for box in blocks.boxes(grid, lambda extents: int(np.prod(extents))):
        count[box] += 1
        assert count[box].size <= 10
    assert (count == 1).all()


def test_tiles_are_views_and_not_repeated() -> None:
    """A tile that all blocks share is there once."""
    box = (slice(0, 96), slice(0, 2), slice(0, 1))
    frame = blocks.Frame(Arithmetic(Precision.STORAGE), (96, 2, 1), 4, box)
    shared = np.zeros((16, 64), np.float16)
    tiles = frame.tiles_of(shared, Slicing((16, 64), (-1, -1, -1), 1, frame.grid, 4))
    assert tiles.shape == (1, 1, 1, 16, 16)
    assert np.shares_memory(tiles, shared)
    slicing = Slicing((96, 64), (0, 1, -1), -1, frame.grid, 4)
    split = frame.tiles_of(np.zeros((96, 64), np.float16), slicing)
    assert split.shape == (96, 2, 1, 1, 32)


def test_inputs_are_not_changed_and_results_are_copies() -> None:
    """fp32 tiles need no conversion, so a careless sum would go into the caller's array."""
    text = """
    func.func @f(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x4xf32>) {
      %y = kn.customized %x grid [1, 1, 1] block [128, 1, 1] forloop 2 {
      ^bb0(%d: tensor<4x8xf32>):
        %t = tb.input %d imap [-1, -1, -1] fordim 1 : tensor<4x8xf32> -> !tb.stensor<4x4xf32>
        %a = tb.forloop_accum none %t : !tb.stensor<4x4xf32> -> !tb.stensor<4x4xf32>
        tb.output %a omap [-1, -1, -1] : !tb.stensor<4x4xf32> -> tensor<4x4xf32>
      } : (tensor<4x8xf32>) -> tensor<4x4xf32>
      func.return %x, %y : tensor<4x8xf32>, tensor<4x4xf32>
    }"""
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    same, total = run_function(parse(text), None, [x])
    np.testing.assert_array_equal(total, x[:, :4] + x[:, 4:])
    same += 1
    np.testing.assert_array_equal(x, np.arange(32).reshape(4, 8))
