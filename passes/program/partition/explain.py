"""``--explain-partition``: how devices share a program, what each collective sends, and why."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass

from mugraph.dialects.device_cuts import DeviceCut
from mugraph.dialects.functions import is_foreign
from mugraph.dialects.sharding import Axes, Mesh, Sharding, is_per_device, part_type
from mugraph.dialects.tensor_types import dims, element_type_of, op_label, shape_of, value_label
from mugraph.passes.program.partition import Partition, partition_program
from mugraph.passes.program.partition.conversions import Conversions, ConversionStep
from mugraph.passes.program.partition.search import Conversion, Decision
from mugraph.passes.program.partition.strategies import Choice, Strategy


def explanation(partition: Partition) -> str:
    """What each device does of each operator, and the collectives before it."""
    function, mesh, plan = partition.function, partition.mesh, partition.plan
    *operators, last = function.body.block.ops
    sent, count = plan.cost.sent, plan.cost.collectives
    searched = "no way takes less time" if plan.is_exact else "of the ways that were looked at"
    lines = [
        f"@{function.sym_name.data} on {mesh} devices: each sends {_bytes(sent)} in {count} "
        f"collective{'' if count == 1 else 's'} ({searched}); {_bytes(_whole(partition))} with "
        "all arguments gathered first"
    ]
    for op, decision in zip((*operators, last), plan.decisions, strict=True):
        for conversion in decision.conversions:
            lines += _collectives(conversion, op, decision, mesh)
        if decision.strategy is not None:
            lines.append(f"  {op_label(op)}: {_shared(decision.strategy)}")
    return "\n".join([*lines, ""])


def _bytes(count: int) -> str:
    return f"{count:,} B"


def _whole(partition: Partition) -> int:
    """What it takes to have all arguments whole on each device."""
    conversions = Conversions(partition.mesh)
    total = 0
    pairs = zip(partition.function.args, partition.arguments, strict=True)
    for argument, sharding in pairs:
        whole = conversions.number_of(Sharding.replicated(len(shape_of(argument.type))))
        ways = conversions.ways(argument.type, conversions.number_of(sharding))
        total += ways[whole].cost.sent
    return total


def _axes(axes: Sequence[int]) -> str:
    return f"axes {' and '.join(map(str, axes))}" if len(axes) > 1 else f"axis {axes[0]}"


def _collectives(
    conversion: Conversion, user: Operation, decision: Decision, mesh: Mesh
) -> list[str]:
    """A line a collective, and one that says why they stand there."""
    value, sharding = conversion.value, conversion.source
    lines: list[str] = []
    for step in conversion.way.steps:
        part = part_type(value.type, sharding, mesh)
        cost = step.cost(part, mesh)
        operator = step.name
        lines.append(
            f"  {operator} of {value_label(value)}, {dims(shape_of(part))} of "
            f"{element_type_of(part)}, along {_axes(step.axes)}: "
            f"{_bytes(cost.sent)} sent by each device"
        )
        sharding = step.to
    wants = _wanted(value, user, decision, conversion.way.steps[-1])
    lines.append(f"    {_made(value, conversion.source)}; {wants}")
    return lines


def _made(value: SSAValue, sharding: Sharding) -> str:
    if isinstance(value, BlockArgument):
        return f"the argument {_lies(sharding)}"
    assert isinstance(value.owner, Operation)
    return f"after {op_label(value.owner)} it {_lies(sharding)}"


def _lies(sharding: Sharding) -> str:
    said = [
        f"is cut along dimension {dim} by {_axes(axes)}"
        for dim, axes in enumerate(sharding.split_axes)
        if axes
    ]
    if sharding.partial:
        kind = "sum" if sharding.combiner == "sum" else "maximum"
        said.append(f"is a partial {kind} along {_axes(sharding.partial)}")
    return " and ".join(said) or "is whole on each device"


def _wanted(value: SSAValue, user: Operation, decision: Decision, last: ConversionStep) -> str:
    if decision.strategy is None:
        return f"as a result it {_lies(last.to)}"
    return f"{op_label(user)} needs one that {_lies(last.to)}"


def _shared(strategy: Strategy) -> str:
    """What devices do of an operator."""
    by: dict[Choice, list[int]] = {}
    for axis, choice in enumerate(strategy.choices):
        by.setdefault(choice, []).append(axis)
    said = [_choice(choice, tuple(axes)) for choice, axes in by.items()]
    return "; ".join(said)


def _choice(choice: Choice, axes: Axes) -> str:
    if choice is None:
        return f"the same on all devices along {_axes(axes)}"
    if not isinstance(choice, DeviceCut):
        numbers = " and ".join(map(str, sorted(choice.operands)))
        return f"a partial {choice.combiner} of operand {numbers} along {_axes(axes)}"
    result = next((dim for dim in choice.results if dim is not None), None)
    if result is not None:
        return f"dimension {result} of its result shared along {_axes(axes)}"
    operand, dim = next((n, d) for n, d in enumerate(choice.operands) if d is not None)
    return (
        f"dimension {dim} of operand {operand} shared along {_axes(axes)}, which leaves a partial "
        f"{choice.combiner}"
    )


@dataclass(frozen=True)
class ExplainPartitionPass(ModulePass):
    """Prints what ``--partition`` would do with each program, to standard error.

    It prints, for each operator, how devices share it; for each collective, the bytes that each
    device sends, the sharding before it, and the operator that needs another one. Bytes are those
    of a ring, or of direct copies: (n - 1) / n of a tensor to gather it or to add up a part of it,
    twice that to add it up on every device. The module stays unchanged.
    """

    name = "explain-partition"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Prints a paragraph a function."""
        for function in op.clone().walk():
            if isinstance(function, FuncOp) and not (
                is_foreign(function) or is_per_device(function)
            ):
                print(explanation(partition_program(function)), end="", file=sys.stderr)
