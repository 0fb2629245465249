"""``--store-named-rows``: kernels store rows where a gather behind them would put them.

A gather by a list of places is a launch that reads and writes every row again.  If no two rows have
one place, the list can be inverted: then it says where each row goes, and the kernel that computes
the rows stores them there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from mugraph.dialects import kn, tb
from mugraph.dialects.indirect import MakesDistinctNumbers
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.named_extents import named_extents
from mugraph.dialects.tensor_types import bytes_of, element_bytes_of, shape_of
from mugraph.passes.costs.kernels import LAUNCH_NS
from mugraph.passes.costs.memory import device_ns
from mugraph.passes.each import FunctionPass, TargetPass
from mugraph.passes.targets import Target

LEAST_ROWS = 128
"""Tiles of fewer rows of 16 bits were slower, or not measured."""
LAUNCHES = 4
"""As long as so many launches gathers must take."""


@dataclass(frozen=True)
class GatheredRows:
    """Rows that a kernel computes, and that gathers behind it put in another order."""

    kernel: kn.CustomizedOp
    output: tb.OutputOp
    between: tuple[Operation, ...]
    """What stands between the kernel and the last gather: views and gathers, the last one first."""
    lists: tuple[SSAValue, ...]
    """The places that gathers take rows from, those of the last gather first."""
    result: SSAValue
    numbers: tuple[int, ...]
    """The extents of the rows' numbers: the kernel's result has these, and then those of a row."""


def name_distinct_rows(numbers: SSAValue, count: int) -> bool:
    """Analysis: whether each number of a list names one of ``count`` rows, and no two the same.

    A gather takes the nearest row for a number that names none, so that two may take one.
    """
    owner = numbers.owner
    if isinstance(owner, kn.GatherOp):
        listed = shape_of(owner.table.type)[0]
        return name_distinct_rows(owner.table, count) and name_distinct_rows(owner.rows, listed)
    if not isinstance(owner, MakesDistinctNumbers):
        return False
    return owner.distinct_lists().get(numbers, math.inf) <= count


def rows_behind(gather: kn.GatherOp) -> GatheredRows | None:
    """Analysis: the rows of a kernel that a gather alone reads, each of them at one place."""
    between: list[Operation] = []
    lists: list[SSAValue] = []
    value: SSAValue = gather.result
    row = shape_of(value.type)[1:]
    count = 0
    while isinstance(owner := value.owner, kn.GatherOp | kn.ViewOp):
        if value is not gather.result and not value.has_one_use():
            return None
        if isinstance(owner, kn.ViewOp) and not kn.is_reshape(owner):
            return None
        between.append(owner)
        if isinstance(owner, kn.GatherOp):
            count, *inner = shape_of(owner.table.type)
            is_list = len(shape_of(owner.rows.type)) == 1 and tuple(inner) == row
            if not is_list or not name_distinct_rows(owner.rows, count):
                return None
            lists.append(owner.rows)
        value = owner.operands[0]
    if not isinstance(owner, kn.CustomizedOp) or not value.has_one_use():
        return None
    if len(owner.results) > 1 or not kn.may_be_row_major(gather.result):
        return None
    shape = shape_of(value.type)
    numbers = shape[: len(shape) - len(row)]
    output = next(op for op in owner.body.block.ops if isinstance(op, tb.OutputOp))
    in_rows = shape[len(numbers) :] == row and math.prod(numbers) == count
    stores_once = output.loop_dim == tb.NOT_SPLIT and output.through is None
    is_table = len(numbers) in (1, 2) and not any(output.bounds()[: len(numbers)])
    if not (in_rows and stores_once and is_table):
        return None
    return GatheredRows(owner, output, tuple(between), tuple(lists), gather.result, numbers)


def find_named_rows(function: FuncOp) -> Iterator[GatheredRows]:
    """Analysis: of each kernel the rows that gathers put in another order."""
    for op in function.walk():
        is_last = isinstance(op, kn.GatherOp) and not any(
            isinstance(use.operation, kn.GatherOp) and use.index == 0 for use in op.result.uses
        )
        if isinstance(op, kn.GatherOp) and is_last and (found := rows_behind(op)) is not None:
            yield found


def saves_time(found: GatheredRows, target: Target) -> bool:
    """Choice: whether gathers take longer than inverting their lists, and large tiles are stored.

    To invert them takes a launch more than there are gathers, each of which moves all rows.  On an
    H200 tiles of 128 rows gained 5 to 10 % with gathers of 7 us and more; tiles of 16 rows lost 3 %
    with gathers of 1.2 us (``benchmarks/results/held_lengths_h200.md``).
    """
    moved = 2 * bytes_of(found.result.type) * len(found.lists)
    rows = shape_of(found.output.stensor.type)[len(found.numbers) - 1]
    in_halves = element_bytes_of(found.result.type) == 2
    return in_halves and rows >= LEAST_ROWS and device_ns(moved, target) > LAUNCHES * LAUNCH_NS


def store_where_named(found: GatheredRows) -> None:
    """Rewrite: the kernel stores each row where the gathers put it, and they go."""
    kernel, last = found.kernel, found.between[0]
    kernel.detach()
    Rewriter.insert_op(kernel, InsertPoint.before(last))
    steps: list[Operation] = []
    places, *others = found.lists[::-1]
    for rows in others:
        steps.append(kn.GatherOp(places, rows))
        places = steps[-1].results[0]
    steps.append(kn.InvertPlacesOp(places, found.numbers))
    Rewriter.insert_op(steps, InsertPoint.before(kernel))
    numbers = steps[-1].results[0]
    argument = kernel.body.block.insert_arg(numbers.type, len(kernel.body.block.args))
    kernel.operands = [*kernel.inputs, numbers]
    old = found.output
    type_ = cast(TensorType[Attribute], found.result.type)
    stored = tb.OutputOp(old.stensor, old.map_, type_, ends=old.ends, through=argument)
    result = Rewriter.replace_value_with_new_type(old.dtensor, type_)
    Rewriter.replace_op(old, stored, [])
    result.name_hint = found.result.name_hint
    found.result.replace_all_uses_with(result)
    for op in found.between:
        Rewriter.erase_op(op)


@dataclass(frozen=True)
class StoreNamedRowsPass(TargetPass, FunctionPass):
    """Lets kernels store rows where gathers behind them would put them.

    It is so for rows of a ``kn.customized`` of which ``kn.gather`` takes each at most once: those
    at places of ``kn.group_tiles`` and ``kn.sort_groups``, and at such places of such places, where
    the kernel computes as many rows as these may name.
    ``kn.invert_places`` says where each row goes, and the kernel stores through that: ``tb.output
    %o through %rows``.
    Functions with named extents stay as they are; so do, unless ``everywhere``, small tiles and
    rows of so few bytes that launches take longer than to move them.

    Pre-condition: kernels are cut (``--retile``); run it before ``--resolve-layout``.
    """

    name = "store-named-rows"

    everywhere: bool = True

    def run(self, function: FuncOp) -> None:
        """Treats a µGraph."""
        for found in [] if named_extents(function) else list(find_named_rows(function)):
            if self.everywhere or saves_time(found, self.target):
                store_where_named(found)
