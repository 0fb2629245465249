"""What operators of tensor expressions say that they touch, and accesses to a part of a buffer."""

from __future__ import annotations

from typing import cast

import pytest
from xdsl.dialects.builtin import f32
from xdsl.dialects.func import FuncOp
from xdsl.ir.affine import AffineExpr, AffineMap

from mugraph.dialects.te import (
    AccessKind,
    AccessOp,
    BufferType,
    Combination,
    NewOp,
    ParOp,
    touches_in,
)
from mugraph.passes.texpr.te_inline import fold_sections, inline_calls
from mugraph.passes.texpr.te_map.types import index_in_part, make_private
from mugraph.texpr import read_texpr

PROGRAM = """
fn f(a: f16[16, 16], s: f32[1], c: f32[16, 4]) {
    par 16 i {
        reg ra: f16[8]
        reg rc: f32[4]
        seq 4 v { rc[v] = 0.0 }
        seq 8 k { ra[k] = a[i, k] }
        red s[0] += f32(ra[0])
        asm("instruction %0, %1, %2;", inout rc, ra[2 : 4], a[i : 1, 8 : 8])
        seq 4 v { c[i, v] = rc[v] }
    }
}
"""


def function_of(text: str) -> FuncOp:
    function = cast(FuncOp, read_texpr(text, "touches.te", {}).body.block.first_op)
    inline_calls(function)
    fold_sections(function)
    return function


def test_operators_say_what_they_touch() -> None:
    found = [
        (touch.buffer.name_hint, touch.kind, touch.box, touch.combines)
        for touch in touches_in(function_of(PROGRAM))
    ]
    assert found == [
        ("rc", AccessKind.WRITE, (1,), None),
        ("a", AccessKind.READ, (1, 1), None),
        ("ra", AccessKind.WRITE, (1,), None),
        ("ra", AccessKind.READ, (1,), None),
        ("s", AccessKind.RED, (1,), Combination.ADD),
        ("rc", AccessKind.WRITE, (4,), None),
        ("ra", AccessKind.READ, (4,), None),
        ("a", AccessKind.READ, (1, 8), None),
        ("rc", AccessKind.READ, (1,), None),
        ("c", AccessKind.WRITE, (1, 1), None),
    ]


def test_a_section_stands_for_its_buffer() -> None:
    *_, section, _, _ = touches_in(function_of(PROGRAM))
    assert section.section is not None
    assert section.operand is section.section.result
    assert section.buffer is section.section.buffer


@pytest.mark.parametrize("index", ["i % 2, i / 2", "i"])
def test_accesses_move_to_a_part_of_a_larger_buffer(index: str) -> None:
    text = "fn f(x: f32[3]) { par 3 j { new t: f32[2, 4] par 8 i { t[INDEX] = 1.0 } x[j] = t[0] } }"
    function = function_of(text.replace("INDEX", index))
    loop = cast(ParOp, function.body.block.first_op)
    new = next(op for op in function.walk() if isinstance(op, NewOp))
    make_private(new.result, (3,), [loop.variable])
    assert new.result.type.get_shape() == (3, 2, 4)
    function.verify()
    accesses = [op for op in function.walk() if isinstance(op, AccessOp)]
    bind = next(op for op in accesses if op.kind is AccessKind.WRITE)
    inner, outer = bind.indices
    assert (inner.name_hint, outer.name_hint) == ("i", "j")
    for j in range(3):
        for i in range(8):
            coordinate = bind.index_map.eval([i, j], [])
            expected = (j, i % 2, i // 2) if index != "i" else (8 * j + i,)
            assert tuple(coordinate) == expected


def test_the_part_of_an_iteration_is_an_expression() -> None:
    part = BufferType.of((4,), f32)
    whole = NewOp(BufferType.of((2, 4), f32)).result
    turn = AffineMap(1, 0, (AffineExpr.dimension(0) % 2,))
    moved = index_in_part(AffineMap.identity(1), part, whole, turn)
    assert [tuple(moved.eval([3, k], [])) for k in range(3)] == [(0, 3), (1, 3), (0, 3)]
