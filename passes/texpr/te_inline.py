"""Calls of functions on buffers become their bodies, and sections part of the indices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects import te
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.te.indices import coordinates_of
from mugraph.dialects.te.sections import IndexedOp, section_type


def inline_calls(function: FuncOp, original: FuncOp | None = None) -> None:
    """Puts the bodies of the functions that ``function`` calls in the place of the calls.

    ``original`` is the function in its module that ``function`` is a copy of, if it is one.  Raises
    ``VerifyException`` for a function that calls itself.
    """
    _inline(function, original or function, (function.sym_name.data,))


def _inline(copy: FuncOp, original: FuncOp, active: tuple[str, ...]) -> None:
    """Inlines in a copy what the original, which has a module to look symbols up in, calls."""
    calls = [op for op in original.walk() if isinstance(op, te.CallOp)]
    callees = [call.function() for call in calls]
    copies = [op for op in copy.walk() if isinstance(op, te.CallOp)]
    for callee, call in zip(callees, copies, strict=True):
        name = callee.sym_name.data
        if name in active:
            raise VerifyException(f"'te.call': @{name} calls itself, which no kernel can")
        body = callee.clone()
        _inline(body, callee, (*active, name))
        block = body.body.block
        if isinstance(last := block.last_op, ReturnOp):
            Rewriter.erase_op(last)
        Rewriter.inline_block(block, InsertPoint.before(call), list(call.arguments))
        Rewriter.erase_op(call)


def fold_sections(function: FuncOp) -> None:
    """Replaces accesses to sections by accesses to the buffers that they are boxes of.

    What stays are sections whose addresses instructions take, of buffers that are no sections.
    """
    for op in list(function.walk()):
        if isinstance(op, IndexedOp):
            while isinstance(section := op.buffer.owner, te.SectionOp):
                _fold(op, section)
        if isinstance(op, te.SectionOp):
            # A parameter's type says nothing of the strides and the space of what is given for it.
            source = cast(te.BufferType, op.buffer.type)
            type_ = section_type(source, op.result.type.get_shape())
            if type_ != op.result.type:
                Rewriter.replace_value_with_new_type(op.result, type_)
    sections = [op for op in function.walk() if isinstance(op, te.SectionOp)]
    for section in reversed(sections):
        if not section.result.first_use:
            Rewriter.erase_op(section)


def _fold(op: IndexedOp, section: te.SectionOp) -> None:
    variables = list(op.indices)
    shape = section.result.type.get_shape()
    coordinate = coordinates_of(op.index_map.results, shape)
    positions: list[AffineExpr] = []
    for variable in section.indices:
        if variable not in variables:
            variables.append(variable)
        positions.append(AffineExpr.dimension(variables.index(variable)))
    starts = [start.replace_dims_and_symbols(positions, []) for start in section.index_map.results]
    moved = tuple(start + index for start, index in zip(starts, coordinate, strict=True))
    op.move(section.buffer, variables, AffineMap(len(variables), 0, moved))


@dataclass(frozen=True)
class TeInlinePass(ModulePass):
    """Replaces calls of ``te`` functions by their bodies, and sections by indices.

    After it there is no ``te.call``, no ``te.section`` but as an address for a ``te.asm``, and
    functions that were called are gone.

    Before::

        func.func @f(%A: !te.buffer<64x32xf32>) {
          te.par %i = 4 {
            %s = te.section %A[%i * 16, 0]
              : !te.buffer<64x32xf32> -> !te.buffer<16x32xf32, (16,32):(32,1)>
            te.call @clear(%s) : !te.buffer<16x32xf32, (16,32):(32,1)>
          }
          func.return
        }

    After::

        func.func @f(%A: !te.buffer<64x32xf32>) {
          te.par %i = 4 {
            te.par %r = 16 {
              te.par %c = 32 {
                %zero = arith.constant 0.0 : f32
                te.bind %zero, %A[%i * 16 + %r, %c] : !te.buffer<64x32xf32>
              }
            }
          }
          func.return
        }
    """

    name = "te-inline"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Runs the pass."""
        functions = [one for one in op.ops if isinstance(one, FuncOp)]
        for function in functions:
            if not _is_private(function):
                inline_calls(function)
                fold_sections(function)
        for function in functions:
            if _is_private(function):
                Rewriter.erase_op(function)


def _is_private(function: FuncOp) -> bool:
    visibility = function.sym_visibility
    return visibility is not None and visibility.data == "private"
