"""From a band to what each thread of a block does of it, in the layouts that its buffers have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from xdsl.dialects.arith import TruncFOp
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects import te
from mugraph.dialects.cute import Layout
from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.tensor_types import (
    AnyLayout,
    base_layout,
    leading_strides,
    row_major_strides,
)
from mugraph.passes.texpr.analysis.bijections import mapping_errors
from mugraph.passes.texpr.te_block.distribute import Reduction
from mugraph.passes.texpr.te_block.program import Program
from mugraph.passes.texpr.te_map.bands import Band, band_at
from mugraph.passes.texpr.te_map.choice import candidates_of, choose
from mugraph.passes.texpr.te_map.family import BandMapping
from mugraph.passes.texpr.te_map.steps import band_step
from mugraph.passes.texpr.te_map.types import retype
from mugraph.passes.texpr.te_vectorize import (
    access_neighbours_at_once,
    mark_unrolled,
    remove_unused_indices,
)

_INDEX = IndexType()


@dataclass(frozen=True)
class Step:
    """What each thread does of a band: a region, and the buffers of the program it touches.

    The region's first argument is the thread's number; then comes one a buffer.
    """

    title: str
    body: Block
    buffers: tuple[SSAValue, ...]


def lay_out(
    program: Program, layouts: Mapping[SSAValue, AnyLayout]
) -> tuple[Program, dict[SSAValue, SSAValue]]:
    """Gives a program's buffers the layouts that they have, and all others row-major ones.

    Returns the program, and what became of each buffer and parameter: its type is another.  A
    dimension of a layout that is nested counts with its first stride, as far as mappings are
    compared.
    """
    became: dict[SSAValue, SSAValue] = {}
    news = [op.result for op in program.buffers]
    for value in (*program.parameters, *program.results, *news):
        type_ = value.type
        assert isinstance(type_, te.BufferType)
        shape = type_.get_shape()
        given = layouts.get(value)
        strides = row_major_strides(shape) if given is None else leading_strides(given)
        plain = given if given is not None and base_layout(given).depth <= 1 else None
        layout = LayoutAttr(plain or Layout(shape, strides))
        placed = te.BufferType.of(shape, type_.element_type, layout, te.Space.SHARED)
        became[value] = Rewriter.replace_value_with_new_type(value, placed)
    items = [
        replace(item, source=became[item.source], destination=became[item.destination])
        if isinstance(item, Reduction)
        else item
        for item in program.items
    ]
    return (
        Program(
            program.function,
            tuple(became[value] for value in program.parameters),
            tuple(became[value] for value in program.results),
            tuple(items),
        ),
        became,
    )


def choose_mapping(band: Band, threads: int, spaces: Mapping[SSAValue, te.Space]) -> BandMapping:
    """Who does what of a band: the fewest wavefronts of shared memory, then instructions."""
    known = dict(spaces)
    candidates = candidates_of([band], threads, known, None)
    return choose([[band]], [candidates], known).mappings[0]


def make_step(
    loop: te.ParOp,
    threads: int,
    stored: Mapping[SSAValue, Attribute],
    mapping: BandMapping | None = None,
) -> Step:
    """What each of ``threads`` threads does of a band, whose body is used up.

    ``stored`` are element types of buffers that hold wider numbers than the program has there:
    what is read of them is rounded first.
    """
    band = band_at(loop)
    spaces = spaces_of(band)
    if mapping is None:
        mapping = choose_mapping(band, threads, spaces)
    holder = Block(arg_types=[IndexType()])
    step = band_step(band, mapping, holder.args[0], [None] * len(band.extents))
    holder.add_op(step)
    prove_mapping(step, mapping, holder)
    body = Block(arg_types=[IndexType()])
    body.args[0].name_hint = "thread"
    holder.args[0].replace_all_uses_with(body.args[0])
    for op in list(step.body.block.ops):
        op.detach()
        body.add_op(op)
    for new in [op for op in body.walk() if isinstance(op, te.NewOp)]:
        retype(new.result, new.result.type.with_space(te.Space.REGISTER))
    for inner in [op for op in body.walk() if isinstance(op, te.SeqOp)]:
        access_neighbours_at_once(inner)
    buffers = tuple(value for value in spaces if spaces[value] is te.Space.SHARED)
    for value in buffers:
        _make_parameter(value, body, stored.get(value))
    for op in list(body.ops):
        remove_unused_indices(op)
    _mark(body)
    return Step(step.title.data, body, buffers)


_PROVED: set[BandMapping] = set()
"""The mappings that isl has proved already."""


def prove_mapping(step: te.StepOp, mapping: BandMapping, threads: Block) -> None:
    """Proves that each iteration runs once; ``threads`` is the block around the step.

    Raises ``PassFailedException`` with a witness where one does not.
    """
    if mapping in _PROVED:
        return
    kernel = te.KernelOp(
        "step", 1, Block([te.ThreadsOp(mapping.threads, threads)], arg_types=[_INDEX])
    )
    for error in mapping_errors(kernel):
        raise PassFailedException(f"'{step.title.data}': {error.message}")
    _PROVED.add(mapping)


def _mark(body: Block) -> None:
    for op in body.ops:
        mark_unrolled(op)


def spaces_of(band: Band) -> dict[SSAValue, te.Space]:
    """Where the buffers that a band touches are: its own in registers, others in shared memory."""
    found: dict[SSAValue, te.Space] = {}
    own = {op.result for op in band.loops[0].walk() if isinstance(op, te.NewOp)}
    for op in band.loops[0].walk():
        if isinstance(op, te.AccessOp):
            found[op.buffer] = te.Space.REGISTER if op.buffer in own else te.Space.SHARED
    return found


def _make_parameter(value: SSAValue, body: Block, stored: Attribute | None) -> None:
    """Replaces a buffer of the program in a step by a parameter of its region."""
    type_ = value.type
    assert isinstance(type_, te.BufferType)
    element = stored or type_.element_type
    plain = te.BufferType.of(type_.get_shape(), element, None, te.Space.SHARED)
    parameter = body.insert_arg(plain, len(body.args))
    parameter.name_hint = value.name_hint
    for op in [op for op in body.walk() if isinstance(op, te.AccessOp) and op.buffer is value]:
        place = op.operands.index(value)
        op.operands[place] = parameter
        if stored is not None and stored != type_.element_type and isinstance(op, te.ViewOp):
            view = te.ViewOp(parameter, list(op.indices), op.map)
            Rewriter.replace_op(op, [view, TruncFOp(view.result, type_.element_type)])
