"""Kernels that later passes refuse: their operators make others, and the rest stays fused."""

from __future__ import annotations

import math
from collections.abc import Callable

from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Region, SSAValue

from mugraph.dialects.tensor_types import op_label
from mugraph.passes.program.fuse_kernels.attempts import Attempt
from mugraph.passes.program.fuse_kernels.choice import Found
from mugraph.passes.program.fuse_kernels.groups import Group, bits
from mugraph.passes.program.fuse_kernels.merging import merged
from mugraph.passes.program.fuse_kernels.part import Part
from mugraph.passes.program.fuse_kernels.times import time_as_written

Refusal = Callable[[ModuleOp], str | None]
"""Why a program of one kernel does not compile; ``None`` where it does."""

_SHOWN = 4


def without_refused(found: Found, refusal: Refusal) -> tuple[Found, list[str]]:
    """The same kernels, but for those that are refused, and a sentence on each of these.

    Operators of a refused kernel share others as far as that takes less time, also with those of
    other kernels; where these are refused, too, they stand apart.  Each kernel that is left was
    asked for, once for all that are alike.
    """
    fusion = found.fusion
    name = fusion.function.sym_name.data
    known: dict[int, tuple[Part, str | None]] = {}
    groups, sentences = [*found.groups], list[str]()

    def reason_of(group: Group) -> str | None:
        part = fusion.attempted(group).part
        if part is None:
            return None
        if id(part) not in known:
            known[id(part)] = part, refusal(_alone(name, part))
        return known[id(part)][1]

    may_join = True
    while refused := {group: why for group in groups if (why := reason_of(group)) is not None}:
        for group, reason in refused.items():
            members = fusion.program.members(group)
            alone = len(members) == 1
            none = Attempt(time_as_written(members[0], fusion.target) if alone else math.inf)
            fusion.attempts[group] = none
            fusion.known.attempts[fusion.structures.of(group).structure] = none
            labels = [op_label(op) for op in members]
            more = f" and {len(labels) - _SHOWN} more" if len(labels) > _SHOWN else ""
            shown, verb = ", ".join(labels[:_SHOWN]), "is" if alone else "share"
            sentences.append(f"@{name}: {shown}{more} {verb} no kernel: {reason}")
        apart = [[1 << number for number in bits(g)] if g in refused else [g] for g in groups]
        groups = [group for each in apart for group in each]
        groups, may_join = merged(fusion, groups) if may_join else groups, False
    return Found(fusion, groups, found.sequential), sentences


def _alone(name: str, part: Part) -> ModuleOp:
    """A program of one kernel, with its tensors as arguments and results."""
    block = Block(arg_types=[argument.type for argument in part.block.args])
    values: dict[SSAValue, SSAValue] = dict(zip(part.block.args, block.args, strict=True))
    block.add_ops([op.clone(values) for op in part.block.ops])
    returned = block.last_op
    assert returned is not None
    types = [value.type for value in returned.operands]
    signature = FunctionType.from_lists([*block.arg_types], types)
    return ModuleOp([FuncOp(name, signature, Region(block))])
