"""Rows that a kernel alone looks up are read where they lie: ``tb.input`` through their numbers.

What ``kn.gather`` would write is as large as what the kernel then reads of it, so that a launch and
two thirds of the bytes are saved.  Tiles of several rows, which lie apart, cannot come by TMA,
however, so that such a kernel does without it and the products that need it: where products take
longer than the gathering, it stays.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from xdsl.dialects.builtin import i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, SSAValue

from mugraph.dialects import kn, tb
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.tensor_types import element_type_of, layout_of, shape_of
from mugraph.passes.program.fuse_kernels.times import fastest_cycles, time_as_written
from mugraph.passes.targets import Target


def inputs_of(value: SSAValue) -> list[tb.InputOp] | None:
    """The inputs of custom kernels that alone use a tensor; ``None`` where others do."""
    found: list[tb.InputOp] = []
    for use in value.uses:
        graph = use.operation
        if not isinstance(graph, kn.CustomizedOp):
            return None
        for inner in graph.body.block.args[use.index].uses:
            load = inner.operation
            if not isinstance(load, tb.InputOp) or load.through is not None or load.windows:
                return None
            found.append(load)
    return found


def _kernels(value: SSAValue) -> Iterator[kn.CustomizedOp]:
    graphs = dict.fromkeys(use.operation for use in value.uses)
    yield from (graph for graph in graphs if isinstance(graph, kn.CustomizedOp))


def _product_time(graph: kn.CustomizedOp, target: Target) -> float:
    """Nanoseconds at least of the products of a kernel, in all blocks and iterations."""
    times = math.prod(graph.grid_dim) * graph.forloop_range
    products = (op for op in graph.body.block.ops if isinstance(op, tb.MatmulOp))
    cycles = sum(fastest_cycles(op, target) for op in products) * times
    return cycles / target.multiprocessors / target.clock_ghz


def can_read_in_place(op: kn.GatherOp, target: Target) -> bool:
    """Choice: whether the kernels that use the rows read them where they lie."""
    loads = inputs_of(op.result)
    if not loads or element_type_of(op.rows.type) != i32 or layout_of(op.result.type) is not None:
        return False
    if any(load.ends for load in loads):
        return False  # in rows that are read through numbers no load ends
    numbers = len(shape_of(op.rows.type))
    if any(bound is not None for load in loads for bound in load.bounds()[:numbers]):
        return False
    if all(extent == 1 for load in loads for extent in shape_of(load.result.type)[:numbers]):
        return True
    products = sum(_product_time(graph, target) for graph in _kernels(op.result))
    return products < time_as_written(op, target)


def read_in_place(op: kn.GatherOp) -> None:
    """Rewrite: the kernels get the table and the numbers for the rows."""
    for graph in list(_kernels(op.result)):
        block, operands = graph.body.block, list(graph.inputs)
        table = _argument(graph, op.table, operands)
        numbers = _argument(graph, op.rows, operands)
        gathered = [
            argument
            for argument, value in zip(block.args, graph.inputs, strict=False)
            if value is op.result
        ]
        for argument in gathered:
            for use in tuple(argument.uses):
                load = use.operation
                assert isinstance(load, tb.InputOp)  # as of all that is chosen
                new = tb.InputOp(table, load.map_, load.loop_dim, load.result.type, numbers)
                new.result.name_hint = load.result.name_hint
                Rewriter.replace_op(load, new)
        held = [(block.args[length.argument], length) for length in graph.held_lengths]
        for argument in gathered:
            del operands[argument.index]
            block.erase_arg(argument)
        lengths = [length._replace(argument=argument.index) for argument, length in held]
        body = graph.detach_region(graph.body)
        types = [result.type for result in graph.results]
        new_graph = kn.CustomizedOp(
            *(operands, types, graph.grid_dim, graph.block_dim),
            *(graph.forloop_range, body, graph.decided, lengths),
        )
        new_graph.attributes |= graph.attributes
        Rewriter.replace_op(graph, new_graph)
    Rewriter.erase_op(op)


def _argument(graph: kn.CustomizedOp, value: SSAValue, operands: list[SSAValue]) -> BlockArgument:
    """The body's argument for a tensor, which is appended where it is no operand."""
    block = graph.body.block
    if value in operands:
        return block.args[operands.index(value)]
    operands.append(value)
    argument = block.insert_arg(value.type, len(block.args))
    argument.name_hint = value.name_hint
    return argument


def read_rows_in_place(function: FuncOp, target: Target) -> None:
    """Leaves out what only gathers rows for kernels that can read them where they lie."""
    for op in list(function.body.block.ops):
        if isinstance(op, kn.GatherOp) and can_read_in_place(op, target):
            read_in_place(op)
