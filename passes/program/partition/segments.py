"""The program of each device as functions of one device, and the collectives between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from mugraph.dialects import kn
from mugraph.dialects.alignment import ALIGNMENT
from mugraph.dialects.constant import CONSTANT
from mugraph.dialects.cute import Layout
from mugraph.dialects.device_cuts import device_cuts
from mugraph.dialects.sharding import PART, Axes, DeviceProgram, Part, part_of
from mugraph.dialects.tensor_types import (
    layout_of,
    row_major_strides,
    shape_of,
    with_layout,
)
from mugraph.passes.program.partition.delivered import is_delivered


class Segment(NamedTuple):
    """A function of one device, and the values that it takes and gives."""

    module: ModuleOp
    takes: tuple[SSAValue, ...]
    gives: tuple[SSAValue, ...]
    part: Part | None = None
    """Whose part of something it computes."""


class Exchange(NamedTuple):
    """A tensor that the devices of a group lay out for one another; then they meet.

    Behind it each device may read what the others laid out.
    """

    value: SSAValue
    axes: Axes
    peers: tuple[kn.PeerOp, ...]
    beside: bool = False
    """Whether copies from other devices wait for it alone, and functions go on."""


class Meeting(NamedTuple):
    """The devices of a group wait until all of them have done what stands before."""

    axes: Axes
    beside: bool = False
    """Whether copies to other devices wait for it alone, and functions go on."""


class Delivery(NamedTuple):
    """Parts that were written into the memory of the devices that they are for; then these meet.

    Behind it each device may read what the others wrote for it.
    """

    op: kn.AllToAllOp

    @property
    def value(self) -> SSAValue:
        """What a device has got, one part after the other."""
        return self.op.result

    @property
    def axes(self) -> Axes:
        """The axes along which devices differ that deliver to one another."""
        return self.op.grid_axes


class View(NamedTuple):
    """A range of a tensor, where it lies."""

    op: kn.SliceOp


class Fetch(NamedTuple):
    """A copy from the memory of another device, while this one goes on."""

    op: kn.CopyOp
    part: Part


class Join(NamedTuple):
    """Parts one after the other, which were written where they belong."""

    op: kn.ConcatOp


Step = Segment | kn.CollectiveOp | Exchange | Meeting | Delivery | View | Fetch | Join


def segments_of(program: DeviceProgram) -> list[Step]:
    """What a device does, in order: as much as it can between collectives.

    Tensors that are exchanged, or handed from one function to another, are row-major without holes,
    unless a layout is written.  What reads the memory of other devices is a function of its own,
    in which each element is read once; so is what computes a part of something.
    """
    *operators, last = program.function.body.block.ops
    found: list[Step] = []
    needed = _wanted(operators, [*operators, last])
    left = [op for op in operators if op in needed or not _is_kernel(op)]
    known = set[SSAValue](program.function.args)
    while left:
        done, steps = _next(program.function, found, [*left, last], known)
        found += steps
        known.update(result for op in done for result in op.results)
        left = [op for op in left if op not in done]
    return found


def _next(
    function: FuncOp, found: Sequence[Step], left: Sequence[Operation], known: set[SSAValue]
) -> tuple[Sequence[Operation], Sequence[Step]]:
    """Operators that can run, of those that are left, and the steps that they are."""
    parts = dict.fromkeys(part_of(op) for op in left)
    number = sum(isinstance(each, Segment) for each in found)
    moved = [op for op in left if _is_moved(op) and known.issuperset(op.operands)]
    meeting = [
        op for op in left if isinstance(op, kn.CollectiveOp) and known.issuperset(op.operands)
    ]
    # What is copied, or added up to be copied, goes on while parts are computed.
    begins = bool(moved) or any(map(_is_between_parts, meeting))
    for part in (None, *(part for part in parts if part is not None)):
        if part is not None and begins:
            break
        ready = _ready([op for op in left if part_of(op) == part], known)
        beside = _wanted(ready, left) if part is None else _with_users(ready)
        local = _reading(ready) or beside
        if local:
            later = [op for op in left if op not in local]
            return local, [_segment(function, number, local, later)]
    if moved:
        return moved, [step for op in moved for step in _moves(op)]
    return meeting, _exchanges(meeting)


def _is_between_parts(op: kn.CollectiveOp) -> bool:
    """Whether parts were delivered, or another device's is copied beside what this one computes."""
    users = [use.operation for use in op.result.uses]
    return is_delivered(op.result) or (isinstance(op, kn.PeerOp) and all(map(_is_moved, users)))


def _wanted(ready: Sequence[Operation], left: Sequence[Operation]) -> list[Operation]:
    """Those that lead to what is no function of one device, or is returned.

    Anything else waits for the function that takes it: a weight's transpose shares a kernel with
    the product behind the exchange.
    """
    others = [op for op in left if not _is_kernel(op) or part_of(op) is not None]
    wanted = {operand for op in others for operand in op.operands}
    found: list[Operation] = []
    for op in reversed(ready):
        if not wanted.isdisjoint(op.results):
            found.append(op)
            wanted.update(op.operands)
    return found[::-1]


def _with_users(ready: Sequence[Operation]) -> list[Operation]:
    """Operators of a part; other extents of an argument wait for what takes them in the part."""
    found = [*ready]
    for op in reversed(ready):
        users = [use.operation for result in op.results for use in result.uses]
        if isinstance(op, kn.RegroupOp) and not any(
            user in found or not _is_kernel(user) or part_of(user) != part_of(op) for user in users
        ):
            found.remove(op)
    return found


def _is_kernel(op: Operation) -> bool:
    """Whether an operator is computed by kernels of one device."""
    return not isinstance(op, kn.CollectiveOp | ReturnOp) and not _is_moved(op)


def _is_moved(op: Operation) -> bool:
    """Whether an operator is no kernel: its result is a range of memory that is there."""
    match op:
        case kn.CopyOp():
            return part_of(op) is not None and is_far(op.input)
        case kn.SliceOp():
            return part_of(op) is not None or is_delivered(op.input)
        case kn.ConcatOp():
            return _is_for_others(op) or all(
                isinstance(piece.owner, Operation) and part_of(piece.owner) is not None
                for piece in op.inputs
            )
        case _:
            return False


def _moves(op: Operation) -> list[Step]:
    """What an operator is that is no kernel; nothing for what is delivered in parts."""
    match op:
        case kn.CopyOp():
            part = part_of(op)
            assert part is not None
            return [Fetch(op, part)]
        case kn.SliceOp():
            return [View(op)]
        case kn.ConcatOp() if not _is_for_others(op):
            return [Join(op)]
        case _:
            return []


def _is_for_others(op: kn.ConcatOp) -> bool:
    """Whether parts are not put together, but delivered."""
    return any(is_delivered(result) for use in op.result.uses for result in use.operation.results)


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


def _exchanges(operators: Sequence[kn.CollectiveOp]) -> list[Step]:
    """Collectives in order; tensors of other devices that are the same exchange together."""
    peers: dict[tuple[SSAValue, Axes], list[kn.PeerOp]] = {}
    others: list[Step] = []
    for op in operators:
        if isinstance(op, kn.PeerOp):
            peers.setdefault((op.input, op.grid_axes), []).append(op)
        elif isinstance(op, kn.AllToAllOp) and op.delivered is not None:
            others.append(Delivery(op))
        else:
            others.append(op)
    exchanges = [Exchange(value, axes, tuple(ops)) for (value, axes), ops in peers.items()]
    return [*exchanges, *others]


def is_far(value: SSAValue) -> bool:
    """Whether a tensor lies in the memory of another device, all of it or a part."""
    return peer_of(value) is not None


def peer_of(value: SSAValue) -> kn.PeerOp | None:
    """What takes a tensor, or the one that it is a part of, from another device, if any does."""
    if isinstance(value.owner, kn.AllSliceOp):
        return peer_of(value.owner.input)
    return value.owner if isinstance(value.owner, kn.PeerOp) else None


def _reading(operators: Sequence[Operation]) -> list[Operation]:
    """Those that read other devices' memory, and what follows from it up to a product.

    Beside these what they take is made of what is there by operators that are no products: the
    weight of a norm in other extents, say.
    """
    makers: dict[SSAValue, Operation] = {result: op for op in operators for result in op.results}
    touched = set[Operation]()
    beside = set[Operation]()
    reading = set[Operation]()
    for op in operators:
        if reads_again(op):
            continue
        before = {makers[operand] for operand in op.operands if operand in makers}
        if any(map(is_far, op.operands)) or not touched.isdisjoint(before):
            if before <= touched | beside:
                touched.add(op)
                reading |= {op} | before
        elif before <= beside:
            beside.add(op)
    for op in reversed(operators):
        if op in reading:
            reading |= {makers[operand] for operand in op.operands if operand in makers}
    for op in reversed(operators):
        if op in reading and _may_wait(op, reading):
            reading.remove(op)
    return [op for op in operators if op in reading]


def _may_wait(op: Operation, function: set[Operation]) -> bool:
    """Whether other extents of what a function gives are for those that take it to see.

    Each of several products that take the same rows has its own reshape of them: as results of the
    function they would be as many tensors, which no kernel could load once.
    """
    if not isinstance(op, kn.RegroupOp) or op.input.owner not in function:
        return False
    users = [use.operation for use in op.result.uses]
    return not any(each in function or not _is_kernel(each) or part_of(each) for each in users)


def reads_again(op: Operation) -> bool:
    """Whether an operator's work reads elements of its operands more than once, as products do.

    Composite operators are made of others that share a kernel, and but for recurrences and
    ``kn.matmul_add`` of no products.
    """
    if isinstance(op, kn.CompositeOp):
        return isinstance(op, kn.RecurrenceOp | kn.MatmulAddOp)
    cuts = device_cuts(op)
    return not cuts or (len(op.operands) > 1 and any(cut.combiner is not None for cut in cuts))


def _ready(operators: Sequence[Operation], known: set[SSAValue]) -> list[Operation]:
    """The operators of one device that wait for no collective."""
    there = set(known)
    ready: list[Operation] = []
    for op in operators:
        if _is_kernel(op) and there.issuperset(op.operands):
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
    for op in operators:
        copy = op.clone(copies)
        copy.attributes.pop(PART, None)
        block.add_op(copy)
    last = ReturnOp(*(copies[value] for value in gives))
    block.add_op(last)
    segment = FuncOp(f"{function.sym_name.data}_{number}", (types, []), Region(block))
    segment.arg_attrs = ArrayAttr([_promises(function, value) for value in takes])
    module = ModuleOp([segment])
    for value in last.operands:
        kn.lay_out_row_major(value)
    segment.update_function_type()
    return Segment(module, takes, gives, part_of(operators[0]))


def _promises(function: FuncOp, value: SSAValue) -> DictionaryAttr:
    """What a program says of an argument's memory, which holds in its functions, too."""
    if function.arg_attrs is None or value not in function.args:
        return DictionaryAttr({})
    known = function.arg_attrs.data[function.args.index(value)].data
    return DictionaryAttr({name: known[name] for name in (CONSTANT, ALIGNMENT) if name in known})


def _with_layout(value: SSAValue) -> Attribute:
    """A value's type with a layout: row-major, unless it has one."""
    if layout_of(value.type) is not None:
        return value.type
    shape = shape_of(value.type)
    return with_layout(value.type, Layout(shape, row_major_strides(shape)))
