"""The program of each device as functions of one device, and the collectives between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from mugraph.dialects import kn
from mugraph.dialects.cute import Layout
from mugraph.dialects.sharding import DeviceProgram
from mugraph.dialects.tensor_types import (
    layout_of,
    row_major_strides,
    shape_of,
    with_layout,
)


class Segment(NamedTuple):
    """A function of one device, and the values that it takes and gives."""

    module: ModuleOp
    takes: tuple[SSAValue, ...]
    gives: tuple[SSAValue, ...]


def segments_of(program: DeviceProgram) -> list[Segment | kn.CollectiveOp]:
    """What a device does, in order: as much as it can between collectives.

    Tensors that are exchanged, or handed from one function to another, are row-major without holes,
    unless a layout is written.
    """
    *operators, last = program.function.body.block.ops
    found: list[Segment | kn.CollectiveOp] = []
    left, known = operators, set[SSAValue](program.function.args)
    while left:
        local = _ready(left, known)
        if local:
            later = [op for op in (*left, last) if op not in local]
            number = sum(isinstance(each, Segment) for each in found)
            found.append(_segment(program.function, number, local, later))
            known.update(result for op in local for result in op.results)
        left = [op for op in left if op not in local]
        meeting = [
            op for op in left if isinstance(op, kn.CollectiveOp) and known.issuperset(op.operands)
        ]
        found += meeting
        known.update(op.result for op in meeting)
        left = [op for op in left if op not in meeting]
    return found


def _ready(operators: Sequence[Operation], known: set[SSAValue]) -> list[Operation]:
    """The operators of one device that wait for no collective."""
    there = set(known)
    ready: list[Operation] = []
    for op in operators:
        if not isinstance(op, kn.CollectiveOp) and there.issuperset(op.operands):
            ready.append(op)
            there.update(op.results)
    return ready


def _segment(
    function: FuncOp, number: int, operators: Sequence[Operation], later: Sequence[Operation]
) -> Segment:
    made = {result for op in operators for result in op.results}
    operands = [operand for op in operators for operand in op.operands]
    takes = tuple(dict.fromkeys(value for value in operands if value not in made))
    needed = {operand for op in later for operand in op.operands}
    gives = tuple(result for op in operators for result in op.results if result in needed)
    types = [_with_layout(value) for value in takes]
    block = Block(arg_types=types)
    copies: dict[SSAValue, SSAValue] = dict(zip(takes, block.args, strict=True))
    for value, argument in zip(takes, block.args, strict=True):
        argument.name_hint = value.name_hint
    block.add_ops([op.clone(copies) for op in operators])
    last = ReturnOp(*(copies[value] for value in gives))
    block.add_op(last)
    segment = FuncOp(f"{function.sym_name.data}_{number}", (types, []), Region(block))
    module = ModuleOp([segment])
    for value in last.operands:
        kn.lay_out_row_major(value)
    segment.update_function_type()
    return Segment(module, takes, gives)


def _with_layout(value: SSAValue) -> Attribute:
    """A value's type with a layout: row-major, unless it has one."""
    if layout_of(value.type) is not None:
        return value.type
    shape = shape_of(value.type)
    return with_layout(value.type, Layout(shape, row_major_strides(shape)))
