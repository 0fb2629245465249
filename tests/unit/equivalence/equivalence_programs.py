"""Small µGraphs as text, each family in several partitions, for the tests of equivalence."""

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from mugraph.reading import make_context
from mugraph.runtime.equivalence import Subject

Array = npt.NDArray[Any]


def parse(text: str) -> ModuleOp:
    module = Parser(make_context(), text).parse_module()
    module.verify()
    return module


def subject(text: str) -> Subject:
    return Subject.of(parse(text))


def extents(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


def tensor(*shape: int) -> str:
    return f"tensor<{extents(shape)}xf16>"


def tile(*shape: int) -> str:
    return f"!tb.stensor<{extents(shape)}xf16>"


ROWS, DEPTH, COLUMNS = 4, 48, 24
X, W, Y = tensor(ROWS, DEPTH), tensor(DEPTH, COLUMNS), tensor(ROWS, COLUMNS)
TILE_OF_X = tile(ROWS, DEPTH)


def rmsnorm_linear(
    blocks: int = 1,
    loop: int = 1,
    w_imap: int = 1,
    w_fordim: int = 0,
    norm_of: str = "%sx",
    omap: int = 1,
) -> str:
    """rms_norm(X) · W with the columns of W over blocks and its rows over the loop."""
    w = [DEPTH, COLUMNS]
    w[w_imap] //= blocks
    w[w_fordim] //= loop
    x = (ROWS, DEPTH // loop)
    width = COLUMNS // blocks
    assert w == [x[1], width]
    columns, rows, row = tile(ROWS, width), tile(*x), tile(ROWS, 1)
    weights = tile(*w)
    return f"""
func.func @f(%x: {X}, %w: {W}) -> {Y} {{
  %o = kn.customized %x, %w grid [{blocks}, 1, 1] block [128, 1, 1] forloop {loop} {{
  ^bb0(%dx: {X}, %dw: {W}):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : {X} -> {rows}
    %sw = tb.input %dw imap [{w_imap}, -1, -1] fordim {w_fordim} : {W} -> {weights}
    %m = tb.matmul %sx, %sw : ({rows}, {weights}) -> {columns}
    %am = tb.forloop_accum none %m : {columns} -> {columns}
    %ar = tb.forloop_accum rms {norm_of} : {rows if norm_of == "%sx" else columns} -> {row}
    %d = tb.div %am, %ar : ({columns}, {row}) -> {columns}
    tb.output %d omap [{omap}, -1, -1] : {columns} -> {Y}
  }} : ({X}, {W}) -> {Y}
  func.return %o : {Y}
}}
"""


RMSNORM_REFERENCE = f"""
func.func @reference(%x: {X}, %w: {W}) -> {Y} {{
  %n = kn.customized %x grid [1, 1, 1] block [128, 1, 1] forloop 1 {{
  ^bb0(%dx: {X}):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 0 : {X} -> {TILE_OF_X}
    %y = tb.rms_norm %sx : {TILE_OF_X} -> {TILE_OF_X}
    %once = tb.forloop_accum none %y : {TILE_OF_X} -> {TILE_OF_X}
    tb.output %once omap [-1, -1, -1] : {TILE_OF_X} -> {X}
  }} : ({X}) -> {X}
  %o = kn.matmul %n, %w : ({X}, {W}) -> {Y}
  func.return %o : {Y}
}}
"""

QUERIES, WIDTH, KEYS = 4, 8, 32


def attention(splits: int, loop: int, meaning: str = "strided") -> str:
    """exp(Q · K) · V / row sums, the keys over blocks of a first kernel, summed by a second."""
    chunk = KEYS // splits // loop
    q, k, v = tensor(QUERIES, WIDTH), tensor(WIDTH, KEYS), tensor(KEYS, WIDTH)
    scores, part = tile(QUERIES, chunk), tile(QUERIES, WIDTH)
    sums, parts = tensor(QUERIES, splits), tensor(QUERIES, splits * WIDTH)
    rows = QUERIES // 2
    row_sums, row_parts = tile(rows, splits), tile(rows, splits * WIDTH)
    total, row = tile(rows, 1), tile(rows, WIDTH)
    return f"""
func.func @f(%q: {q}, %k: {k}, %v: {v}) -> {q} {{
  %l, %p = kn.customized %q, %k, %v grid [{splits}, 1, 1] block [128, 1, 1] forloop {loop} {{
  ^bb0(%dq: {q}, %dk: {k}, %dv: {v}):
    %sq = tb.input %dq imap [-1, -1, -1] : {q} -> {part}
    %sk = tb.input %dk imap [1, -1, -1] fordim 1 : {k} -> {tile(WIDTH, chunk)}
    %sv = tb.input %dv imap [0, -1, -1] fordim 0 : {v} -> {tile(chunk, WIDTH)}
    %s = tb.matmul %sq, %sk : ({part}, {tile(WIDTH, chunk)}) -> {scores}
    %e = tb.exp %s : {scores} -> {scores}
    %al = tb.forloop_accum sum %e : {scores} -> {tile(QUERIES, 1)}
    %m = tb.matmul %e, %sv : ({scores}, {tile(chunk, WIDTH)}) -> {part}
    %am = tb.forloop_accum none %m : {part} -> {part}
    tb.output %al omap [1, -1, -1] : {tile(QUERIES, 1)} -> {sums}
    tb.output %am omap [1, -1, -1] : {part} -> {parts}
  }} : ({q}, {k}, {v}) -> ({sums}, {parts})
  %o = kn.customized %l, %p grid [2, 1, 1] block [128, 1, 1] forloop 1 {{
  ^bb0(%dl: {sums}, %dp: {parts}):
    %sl = tb.input %dl imap [0, -1, -1] fordim 1 : {sums} -> {row_sums}
    %sp = tb.input %dp imap [0, -1, -1] fordim 1 : {parts} -> {row_parts}
    %rl = tb.forloop_accum sum %sl : {row_sums} -> {total}
    %rp = tb.forloop_accum_sum_to_dimx_{meaning} %sp : {row_parts} -> {row}
    %d = tb.div %rp, %rl : ({row}, {total}) -> {row}
    tb.output %d omap [0, -1, -1] : {row} -> {q}
  }} : ({sums}, {parts}) -> {q}
  func.return %o : {q}
}}
"""


def elementwise(*steps: str, inputs: int = 2, shape: Sequence[int] = (4, 6)) -> str:
    """A function of tensors %a, %b ... of equal extents; a step is ``name operator operands``."""
    type_ = tensor(*shape)
    arguments = ", ".join(f"%{chr(ord('a') + n)}: {type_}" for n in range(inputs))
    lines: list[str] = []
    name = ""
    for step in steps:
        name, operator, *operands = step.split()
        constant = f" by {operands.pop()}" if operator == "mul_scalar" else ""
        values = ", ".join(f"%{operand}" for operand in operands)
        types = f"({', '.join([type_] * len(operands))})" if len(operands) > 1 else type_
        lines.append(f"%{name} = kn.{operator} {values}{constant} : {types} -> {type_}")
    body = "\n  ".join(lines)
    return f"func.func @f({arguments}) -> {type_} {{\n  {body}\n  func.return %{name} : {type_}\n}}"
