"""The program of each device as functions of one device, and the collectives between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from mugraph.dialects import kn
from mugraph.dialects.cute import Layout
from mugraph.dialects.device_cuts import device_cuts
from mugraph.dialects.sharding import Axes, DeviceProgram
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


class Exchange(NamedTuple):
    """A tensor that the devices of a group lay out for one another; then they meet.

    Behind it each device may read what the others laid out.
    """

    value: SSAValue
    axes: Axes
    peers: tuple[kn.PeerOp, ...]


class Meeting(NamedTuple):
    """The devices of a group wait until all of them have done what stands before."""

    axes: Axes


Step = Segment | kn.CollectiveOp | Exchange | Meeting


def segments_of(program: DeviceProgram) -> list[Segment | kn.CollectiveOp | Exchange]:
    """What a device does, in order: as much as it can between collectives.

    Tensors that are exchanged, or handed from one function to another, are row-major without holes,
    unless a layout is written.  What reads the memory of other devices is a function of its own,
    in which each element is read once.
    """
    *operators, last = program.function.body.block.ops
    found: list[Segment | kn.CollectiveOp | Exchange] = []
    left: list[Operation] = list(operators)
    known = set[SSAValue](program.function.args)
    while left:
        ready = _ready(left, known)
        if ready:
            local = _reading(ready) or ready
            later = [op for op in (*left, last) if op not in local]
            number = sum(isinstance(each, Segment) for each in found)
            found.append(_segment(program.function, number, local, later))
            known.update(result for op in local for result in op.results)
            left = [op for op in left if op not in local]
            if _ready(left, known):
                continue
        meeting = [
            op for op in left if isinstance(op, kn.CollectiveOp) and known.issuperset(op.operands)
        ]
        found += _exchanges(meeting)
        known.update(op.result for op in meeting)
        left = [op for op in left if op not in meeting]
    return found


def first_alike(segments: Sequence[Segment]) -> list[int]:
    """For each function the number of the first one that differs from it in names alone.

    The layers of a model are so.
    """
    known: dict[str, int] = {}
    return [known.setdefault(_without_names(s.module), n) for n, s in enumerate(segments)]


def _without_names(module: ModuleOp) -> str:
    """The text of a function as it would be whatever its values were called."""
    copy = module.clone()
    for op in copy.walk():
        if isinstance(op, FuncOp):
            op.sym_name = StringAttr("f")
        blocks = [block for region in op.regions for block in region.blocks]
        for value in (*op.results, *(argument for block in blocks for argument in block.args)):
            value.name_hint = None
    return str(copy)


def _exchanges(operators: Sequence[kn.CollectiveOp]) -> list[kn.CollectiveOp | Exchange]:
    """Collectives in order; tensors of other devices that are the same exchange together."""
    peers: dict[tuple[SSAValue, Axes], list[kn.PeerOp]] = {}
    others: list[kn.CollectiveOp | Exchange] = []
    for op in operators:
        if isinstance(op, kn.PeerOp):
            peers.setdefault((op.input, op.grid_axes), []).append(op)
        else:
            others.append(op)
    exchanges = [Exchange(value, axes, tuple(ops)) for (value, axes), ops in peers.items()]
    return [*exchanges, *others]


def is_far(value: SSAValue) -> bool:
    """Whether a tensor lies in the memory of another device, all of it or a part."""
    if isinstance(value.owner, kn.AllSliceOp):
        return is_far(value.owner.input)
    return isinstance(value.owner, kn.PeerOp)


def _reading(operators: Sequence[Operation]) -> list[Operation]:
    """Those that read other devices' memory, and what follows from it alone up to a product."""
    reading: list[Operation] = []
    waiting = {result for op in operators for result in op.results}
    touched = set[SSAValue]()
    for op in operators:
        touches = any(operand in touched or is_far(operand) for operand in op.operands)
        if touches and waiting.isdisjoint(op.operands) and not reads_again(op):
            reading.append(op)
            touched.update(op.results)
            waiting.difference_update(op.results)
    return reading


def reads_again(op: Operation) -> bool:
    """Whether an operator's work reads elements of its operands more than once, as products do.

    Composite operators are made of others that share a kernel, and of no products.
    """
    if isinstance(op, kn.CompositeOp):
        return False
    cuts = device_cuts(op)
    return not cuts or (len(op.operands) > 1 and any(cut.combiner is not None for cut in cuts))


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
