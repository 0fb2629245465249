"""Writes the program of each device that a plan says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import FunctionType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from mugraph.dialects.locations import inherit_location
from mugraph.dialects.sharding import (
    Mesh,
    Sharding,
    part_type,
    set_per_device,
    with_shardings,
)
from mugraph.passes.program.partition.search import Conversion, Decision, ShardingPlan


@dataclass
class Writer:
    """Writes operators on parts in the place of those on whole tensors."""

    mesh: Mesh
    block: Block
    parts: dict[tuple[SSAValue, Sharding], SSAValue] = field(
        default_factory=dict[tuple[SSAValue, Sharding], SSAValue]
    )

    def convert(self, conversion: Conversion, user: Operation) -> None:
        """Writes the collectives of a conversion."""
        value, source = conversion.value, conversion.source
        part = self.parts[value, source]
        for step in conversion.way.steps:
            op = step.operator(part, part_type(value.type, step.to, self.mesh))
            inherit_location(op, user)
            self.block.add_op(op)
            op.result.name_hint = value.name_hint
            part = self.parts.setdefault((value, step.to), op.result)

    def share(self, op: Operation, decision: Decision) -> None:
        """Writes an operator on parts, and before it what makes those of its operands."""
        for conversion in decision.conversions:
            self.convert(conversion, op)
        strategy = decision.strategy
        assert strategy is not None
        operands = list(zip(op.operands, strategy.operands, strict=True))
        results = list(zip(op.results, strategy.results, strict=True))
        if any(sharding.axes for _, sharding in (*operands, *results)):
            new = type(op).create(
                operands=[self.parts[each] for each in operands],
                result_types=[part_type(each.type, to, self.mesh) for each, to in results],
                properties=op.properties.copy(),
                attributes=op.attributes.copy(),
            )
        else:
            new = op.clone({value: self.parts[value, sharding] for value, sharding in operands})
        inherit_location(new, op)
        self.block.add_op(new)
        for (result, sharding), part in zip(results, new.results, strict=True):
            part.name_hint = result.name_hint
            self.parts[result, sharding] = part


def write_device_program(
    function: FuncOp, mesh: Mesh, arguments: Sequence[Sharding], plan: ShardingPlan
) -> None:
    """Puts the program of each device in the place of a function's body."""
    types = [part_type(a.type, s, mesh) for a, s in zip(function.args, arguments, strict=True)]
    writer = Writer(mesh, Block(arg_types=types))
    for whole, sharding, part in zip(function.args, arguments, writer.block.args, strict=True):
        part.name_hint = whole.name_hint
        writer.parts[whole, sharding] = part
    *operators, last = function.body.block.ops
    *decisions, at_end = plan.decisions
    for op, decision in zip(operators, decisions, strict=True):
        writer.share(op, decision)
    for conversion in at_end.conversions:
        writer.convert(conversion, last)
    returned = [writer.parts[each] for each in zip(last.operands, plan.results, strict=True)]
    writer.block.add_op(ReturnOp(*returned))
    region = Region(writer.block)
    old = function.body
    function.detach_region(old)
    old.drop_all_references()
    old.erase()
    function.add_region(region)
    function.function_type = FunctionType.from_lists(types, [value.type for value in returned])
    function.arg_attrs = with_shardings(function.arg_attrs, arguments)
    function.res_attrs = with_shardings(function.res_attrs, plan.results)
    set_per_device(function)
