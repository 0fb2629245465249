"""Rows of a table that the kernel stores which computes them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from emulated_programs import check_emulated_later
from xdsl.passes import PassPipeline

from mugraph.passes.program.persist_program import PersistProgramPass
from mugraph.passes.transpile import transpile_pipeline
from mugraph.reading import make_context, parse_text
from mugraph.runtime.cuda import generate_cuda
from mugraph.runtime.execute import CudaModule

ROWS = """
func.func @f(%x: tensor<1x64xf16>, %w: tensor<64x256xf16>, %old: tensor<4x24x64xf16>, %at: tensor<1xi32>)
    -> tensor<4x24x64xf16> {
  %a = kn.customized %x, %w grid [8, 1, 1] block [64, 1, 1] forloop 2 plan <tiles = written, loads = cp_async> {
  ^bb0(%dx: tensor<1x64xf16>, %dw: tensor<64x256xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<1x64xf16> -> !tb.stensor<1x32xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<64x256xf16> -> !tb.stensor<32x32xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<1x32xf16>, !tb.stensor<32x32xf16>) -> !tb.stensor<1x32xf16>
    %s = tb.forloop_accum none %m : !tb.stensor<1x32xf16> -> !tb.stensor<1x32xf16>
    tb.output %s omap [1, -1, -1] : !tb.stensor<1x32xf16> -> tensor<1x256xf16>
  } : (tensor<1x64xf16>, tensor<64x256xf16>) -> tensor<1x256xf16>
  %v = kn.reshape %a : tensor<1x256xf16> -> tensor<4x1x64xf16>
  %t = kn.scatter %v into %old rows %at dim 1 : (tensor<4x1x64xf16>, tensor<4x24x64xf16>, tensor<1xi32>) -> tensor<4x24x64xf16>
  func.return %t : tensor<4x24x64xf16>
}
"""  # noqa: E501 the text as it is printed


def cuda_of(text: str) -> str:
    """The generated file of a program."""
    return generate_cuda(parse_text(make_context(), text, "f"), make_context(), "sm_90a").source


@pytest.mark.parametrize("at", [3, 23, -24, 24, -25])
def test_a_row_is_stored_where_its_number_says(at: int) -> None:
    """Also one counted from the end; one that the table does not have is left out."""
    made = generate_cuda(parse_text(make_context(), ROWS, "f"), make_context(), "sm_90a")
    assert "tb::PlacedRow<" in made.source and "kn::Scatter<" not in made.source
    rng = np.random.default_rng(5)
    x, w = (rng.standard_normal(shape).astype(np.float16) for shape in ((1, 64), (64, 256)))
    old = rng.standard_normal((4, 24, 64)).astype(np.float16)
    expected = old.astype(np.float64)
    if -24 <= at < 24:
        expected[:, at] = (x.astype(np.float64) @ w.astype(np.float64)).reshape(4, 64)

    def check(kernels: CudaModule) -> None:
        (result,) = kernels.run([x, w, old, np.array([at], np.int32)])
        np.testing.assert_allclose(result, expected, rtol=2**-10, atol=1e-2)
        rest = [n for n in range(24) if n != at % 24]
        np.testing.assert_array_equal(result[:, rest], old[:, rest])

    check_emulated_later(made, check)


def row_of_blocks(grid: tuple[int, ...], map_: tuple[int, ...], pieces: int, columns: int) -> str:
    """A row in pieces of 64 elements, of which each block computes so many columns of one."""
    row, weights, table = (f"tensor<{pieces}x{rest}xf16>" for rest in ("1x64", "64x64", "24x64"))
    x, at, tile = "tensor<1x1x64xf16>", "tensor<1xi32>", f"!tb.stensor<1x1x{columns}xf16>"
    left, right = "!tb.stensor<1x1x32xf16>", f"!tb.stensor<1x32x{columns}xf16>"
    return f"""
func.func @f(%x: {x}, %w: {weights}, %old: {table}, %at: {at}) -> {table} {{
  %a = kn.customized %x, %w grid {[*grid]} block [64, 1, 1] forloop 2
      plan <tiles = written, loads = cp_async> {{
  ^bb0(%dx: {x}, %dw: {weights}):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 2 : {x} -> {left}
    %sw = tb.input %dw imap {[*map_]} fordim 1 : {weights} -> {right}
    %m = tb.matmul %sx, %sw : ({left}, {right}) -> {tile}
    %s = tb.forloop_accum none %m : {tile} -> {tile}
    tb.output %s omap {[*map_]} : {tile} -> {row}
  }} : ({x}, {weights}) -> {row}
  %t = kn.scatter %a into %old rows %at dim 1 : ({row}, {table}, {at}) -> {table}
  func.return %t : {table}
}}
"""


@pytest.mark.parametrize(
    ("grid", "map_", "pieces", "columns", "stored"),
    [
        ((4, 2, 1), (0, 2, -1), 4, 32, True),
        # Kernels find the piece by the first step.
        ((2, 4, 1), (2, 0, -1), 4, 32, False),
        # There is no step.
        ((1, 1, 1), (-1, -1, -1), 1, 64, False),
    ],
    ids=["pieces first", "columns first", "one block"],
)
def test_the_first_axis_of_blocks_goes_from_piece_to_piece(
    grid: tuple[int, ...], map_: tuple[int, ...], pieces: int, columns: int, stored: bool
) -> None:
    """Others stay within one; else the row has a launch."""
    text = row_of_blocks(grid, map_, pieces, columns)
    made = generate_cuda(parse_text(make_context(), text, "f"), make_context(), "sm_90a")
    assert ("tb::PlacedRow<" in made.source) == stored
    rng = np.random.default_rng(6)
    x, w = (rng.standard_normal(n).astype(np.float16) for n in ((1, 1, 64), (pieces, 64, 64)))
    old = rng.standard_normal((pieces, 24, 64)).astype(np.float16)
    expected = old.astype(np.float64)
    expected[:, 5] = (x.astype(np.float64) @ w.astype(np.float64))[:, 0]

    def check(kernels: CudaModule) -> None:
        (result,) = kernels.run([x, w, old, np.array([5], np.int32)])
        np.testing.assert_allclose(result, expected, rtol=2**-10, atol=1e-2)

    check_emulated_later(made, check)


@pytest.mark.parametrize("at", [23, -24, 24])
def test_threads_find_the_pieces_of_a_tile_of_several(at: int) -> None:
    """Where each of their vectors lies in one: blocks have columns of all pieces of the row."""
    row, part = "tensor<4x64xf16>", "!tb.stensor<4x32xf16>"
    text = f"""
func.func @f(%x: {row}, %old: tensor<4x24x64xf16>, %at: tensor<1xi32>) -> tensor<4x24x64xf16> {{
  %a = kn.customized %x grid [2, 1, 1] block [64, 1, 1] forloop 1 plan <tiles = written> {{
  ^bb0(%dx: {row}):
    %sx = tb.input %dx imap [1, -1, -1] : {row} -> {part}
    %s = tb.silu %sx : {part} -> {part}
    tb.output %s omap [1, -1, -1] : {part} -> {row}
  }} : ({row}) -> {row}
  %v = kn.reshape %a : {row} -> tensor<4x1x64xf16>
  %t = kn.scatter %v into %old rows %at dim 1 : (tensor<4x1x64xf16>, tensor<4x24x64xf16>, tensor<1xi32>) -> tensor<4x24x64xf16>
  func.return %t : tensor<4x24x64xf16>
}}
"""  # noqa: E501 the text as it is printed
    made = generate_cuda(parse_text(make_context(), text, "f"), make_context(), "sm_90a")
    assert ".tile(blockIdx.x * 32)" in made.source and "kn::Scatter<" not in made.source
    rng = np.random.default_rng(7)
    x, old = (rng.standard_normal(n).astype(np.float16) for n in ((4, 64), (4, 24, 64)))
    expected, wide = old.astype(np.float64), x.astype(np.float64)
    if -24 <= at < 24:
        expected[:, at] = wide / (1 + np.exp(-wide))

    def check(kernels: CudaModule) -> None:
        (result,) = kernels.run([x, old, np.array([at], np.int32)])
        np.testing.assert_allclose(result, expected, rtol=2**-9, atol=1e-3)

    check_emulated_later(made, check)


def test_what_shares_a_launch_with_a_stored_row_keeps_it() -> None:
    """Two roots are one launch, with the scatter between them and without."""
    roots = "".join(
        f"  %{name} = kn.sqrt %{name}0 : tensor<3x5xf32> -> tensor<3x5xf32>\n" for name in "pq"
    )
    text = ROWS.replace(
        "%at: tensor<1xi32>", "%at: tensor<1xi32>, %p0: tensor<3x5xf32>, %q0: tensor<3x5xf32>"
    )
    text = text.replace(
        "-> tensor<4x24x64xf16> {", "-> (tensor<3x5xf32>, tensor<4x24x64xf16>, tensor<3x5xf32>) {"
    )
    text = text.replace(
        "  func.return %t : tensor<4x24x64xf16>",
        f"{roots}  func.return %p, %t, %q : tensor<3x5xf32>, tensor<4x24x64xf16>, tensor<3x5xf32>",
    )
    source = cuda_of(text)
    assert "kn::launch_parts(mugraph::overlapping(stream), part0, part1);" in source
    assert "tb::PlacedRow<" in source and "kn::Scatter<" not in source


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Another reader of the row.
        (
            "  func.return %t",
            "  %b = kn.sqrt %v : tensor<4x1x64xf16> -> tensor<4x1x64xf16>\n  func.return %t, %b",
        ),
        # Blocks with parts of two pieces.
        ("4x24x64", "16x24x16"),
        # Two rows.
        ("%at: tensor<1xi32>", "%at: tensor<2xi32>"),
    ],
    ids=["read", "pieces", "rows"],
)
def test_other_rows_have_a_launch(old: str, new: str) -> None:
    """Where a kernel cannot store them, or something else needs them, a scatter is launched."""
    text = ROWS.replace(old, new)
    if "%b" in new:
        text = text.replace(
            "    -> tensor<4x24x64xf16> {", "    -> (tensor<4x24x64xf16>, tensor<4x1x64xf16>) {"
        )
        text = text.replace(
            "%t, %b : tensor<4x24x64xf16>", "%t, %b : tensor<4x24x64xf16>, tensor<4x1x64xf16>"
        )
    if "16x24" in new:
        text = text.replace("4x1x64", "16x1x16")
    if "2xi32" in new:
        text = (
            text.replace("tensor<1xi32>", "tensor<2xi32>")
            .replace("4x1x64", "4x2x32")
            .replace("4x24x64", "4x24x32")
        )
    source = cuda_of(text)
    assert "kn::Scatter<" in source and "tb::PlacedRow<" not in source


def test_a_table_of_the_workspace_is_written_by_its_scatter() -> None:
    """Before it, other tensors may lie there: what the kernel reads, which the old rows replace."""
    text = ROWS.replace("-> tensor<4x24x64xf16> {", "-> tensor<4x24x64xf32> {")
    text = text.replace(
        "  %a = kn.customized %x,",
        "  %r = kn.sqrt %x : tensor<1x64xf16> -> tensor<1x64xf16>\n  %a = kn.customized %r,",
    )
    text = text.replace(
        "  func.return %t : tensor<4x24x64xf16>",
        "  %u = kn.cast %t : tensor<4x24x64xf16> -> tensor<4x24x64xf32>\n"
        "  func.return %u : tensor<4x24x64xf32>",
    )
    source = cuda_of(text)
    assert "half_t *r = (half_t*)((char*)buf + 0);" in source
    assert "half_t *t = (half_t*)((char*)buf + 0);" in source
    assert "kn::Scatter<" in source and "tb::PlacedRow<" not in source


def test_a_table_that_does_not_start_at_vectors_has_a_launch() -> None:
    """The kernel stores vectors of 16 bytes."""
    attribute = "(tensor<4x24x64xf16> {mugraph.alignment = 2 : i64}) {"
    source = cuda_of(ROWS.replace("-> tensor<4x24x64xf16> {", f"-> {attribute}"))
    assert "kn::Scatter<" in source and "tb::PlacedRow<" not in source


def for_two_tables() -> str:
    """Two kernels, which are the same one and share a launch, with a number for both."""
    second = re.sub(r"%([avtsmw]|sx|sw|dx|dw|old)\b", r"%\g<1>_2", ROWS)
    body, more = (
        text.partition("{\n")[2].rpartition("  func.return")[0] for text in (ROWS, second)
    )
    table = "tensor<4x24x64xf16>"
    return (
        f"func.func @f(%x: tensor<1x64xf16>, %w: tensor<64x256xf16>, %old: {table}, "
        f"%w_2: tensor<64x256xf16>, %old_2: {table}, %at: tensor<1xi32>) -> ({table}, {table}) {{\n"
        f"{body}{more}  func.return %t, %t_2 : {table}, {table}\n}}"
    )


def test_kernels_of_one_launch_store_rows_of_two_tables() -> None:
    made = generate_cuda(
        parse_text(make_context(), for_two_tables(), "f"), make_context(), "sm_90a"
    )
    assert "f_custom0_joined" in made.source and "kn::Scatter<" not in made.source
    rng = np.random.default_rng(6)
    x = rng.standard_normal((1, 64)).astype(np.float16)
    weights = [rng.standard_normal((64, 256)).astype(np.float16) for _ in range(2)]
    tables = [rng.standard_normal((4, 24, 64)).astype(np.float16) for _ in range(2)]

    def check(kernels: CudaModule) -> None:
        given = [x, weights[0], tables[0], weights[1], tables[1], np.array([7], np.int32)]
        for result, w, old in zip(kernels.run(given), weights, tables, strict=True):
            expected = old.astype(np.float64)
            expected[:, 7] = (x.astype(np.float64) @ w.astype(np.float64)).reshape(4, 64)
            np.testing.assert_allclose(result, expected, rtol=2**-10, atol=1e-2)

    check_emulated_later(made, check)


def test_what_stores_rows_is_no_task() -> None:
    """A persistent kernel has tensors as pointers."""
    module = parse_text(make_context(), for_two_tables(), "f")
    PassPipeline((*transpile_pipeline("sm_90a"), PersistProgramPass("sm_90a"))).apply(
        make_context(), module
    )
    assert str(module).count("kn.stored") == 2
    assert "task" not in str(module)
