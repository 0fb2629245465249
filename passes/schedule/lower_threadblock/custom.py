"""How the operators that users write as tensor expressions are written in a schedule."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects import sched, tb, te
from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.elementwise import Epilogue
from mugraph.dialects.locations import Rewriter, place_in
from mugraph.dialects.partition import LinearPartition, choose_lanes, result_order
from mugraph.dialects.tb.layouts import partitioned_operand
from mugraph.dialects.tensor_types import (
    AnyLayout,
    element_type_of,
    resolved_layout_of,
    shape_of,
    value_label,
)
from mugraph.passes.schedule.lower_threadblock.builder import KernelBuilder
from mugraph.passes.schedule.lower_threadblock.operators import schedule_operator

# What tensor expressions need takes a while to load; it is imported where there are operators.
if TYPE_CHECKING:
    from mugraph.passes.texpr.te_block import Program, Reduction


def program_of(op: tb.CustomOp, builder: KernelBuilder) -> tuple[Program, dict[SSAValue, SSAValue]]:
    """The program of an operator, laid out, and the shared buffer of each of its buffers."""
    from mugraph.passes.texpr.te_block import block_program, lay_out

    program = block_program(op.function(), op.label, builder.threads)
    buffers: dict[SSAValue, SSAValue] = {}
    for parameter, value in zip(program.parameters, op.inputs, strict=True):
        buffers[parameter] = builder.buffer(value)
    for parameter, value in zip(program.results, op.outputs, strict=True):
        buffers[parameter] = builder.allocate(value)
    layouts: dict[SSAValue, AnyLayout] = {
        parameter: resolved_layout_of(value) for parameter, value in buffers.items()
    }
    laid_out, became = lay_out(program, layouts)
    placed = {became[parameter]: buffer for parameter, buffer in buffers.items()}
    for new in laid_out.buffers:
        placed[new.result] = _allocate(new.result, builder)
    return laid_out, placed


def _allocate(buffer: SSAValue, builder: KernelBuilder) -> SSAValue:
    type_ = buffer.type
    assert isinstance(type_, te.BufferType) and isinstance(type_.layout, LayoutAttr)
    shared = sched.SharedType.of(type_.get_shape(), type_.element_type, type_.layout)
    alloc = sched.AllocOp(shared)
    alloc.result.name_hint = buffer.name_hint
    builder.top.append(alloc)
    return alloc.result


def _reduce(
    reduction: Reduction, buffers: Mapping[SSAValue, SSAValue], builder: KernelBuilder
) -> sched.ReduceOp:
    """A reduction by all threads: neighbouring lanes share a row."""
    source, destination = buffers[reduction.source], buffers[reduction.destination]
    results = shape_of(destination.type)
    extent = shape_of(source.type)[reduction.dim]
    lanes = choose_lanes(math.prod(results), extent, builder.threads)
    return sched.ReduceOp(
        source,
        destination,
        reduction.dim,
        Epilogue(accumulates=reduction.accumulates),
        sched.Combiner.MAX if reduction.largest else sched.Combiner.SUM,
        lanes=lanes,
        partition=LinearPartition(
            builder.threads, 1, result_order(partitioned_operand(destination))
        ),
    )


@schedule_operator.register
def _(op: tb.CustomOp, builder: KernelBuilder) -> None:
    from mugraph.passes.texpr.te_block import Reduction, make_step

    program, buffers = program_of(op, builder)
    stored: dict[SSAValue, Attribute] = {
        parameter: element_type_of(buffer.type) for parameter, buffer in buffers.items()
    }
    results = [builder.buffer(value) for value in op.outputs]
    written = {value: np.zeros(math.prod(shape_of(value.type)), np.bool_) for value in results}
    for item in program.items:
        if isinstance(item, Reduction):
            builder.here.append(_reduce(item, buffers, builder))
            continue
        step = make_step(item, builder.threads, stored)
        title = f"{op.function_name}: {step.title}"
        operands = [buffers[value] for value in step.buffers]
        made = sched.CustomOp(title, builder.threads, operands, step.body)
        builder.here.append(made)
        for operand, value in enumerate(made.buffers):
            if value in written:
                written[value] |= made.footprints.written(operand, shape_of(value.type))
    for value, elements in written.items():
        if not elements.all():
            missing = np.unravel_index(int(np.argmin(elements)), shape_of(value.type))
            raise PassFailedException(
                f"{op.label}: its function never writes element {[int(one) for one in missing]} of "
                f"its result {value_label(value)}; a result is written whole"
            )


def check_operators(module: ModuleOp) -> None:
    """Raises ``PassFailedException`` where an operator's function has a race or leaves a buffer."""
    operators = [op for op in module.walk() if isinstance(op, tb.CustomOp)]
    if not operators:
        return
    from mugraph.passes.texpr.te_check import TexprError, check_function

    for function, op in {op.function(): op for op in operators}.items():
        try:
            check_function(function)
        except TexprError as error:
            where = "" if (place := place_in(error)) is None else f"{place}: "
            raise PassFailedException(f"{op.label}: {where}{error}") from error


def erase_unused_functions(module: ModuleOp) -> None:
    """Erases private tensor expressions that nothing refers to any more."""
    while True:
        used = {
            name
            for op in module.walk()
            if isinstance(op, tb.CustomOp | te.CallOp)
            for name in [op.callee.string_value()]
        }
        unused = [
            op
            for op in module.ops
            if isinstance(op, FuncOp)
            and te.is_texpr(op)
            and op.sym_visibility is not None
            and op.sym_name.data not in used
        ]
        if not unused:
            return
        for op in unused:
            Rewriter.erase_op(op)
