"""Kernels that later passes refuse: their operators stand apart, and the rest stays fused."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Region, SSAValue

from mugraph.dialects.tensor_types import op_label
from mugraph.passes.program.fuse_kernels.attempts import Attempt
from mugraph.passes.program.fuse_kernels.choice import Found
from mugraph.passes.program.fuse_kernels.groups import Group, bits
from mugraph.passes.program.fuse_kernels.part import Part
from mugraph.passes.program.fuse_kernels.times import time_as_written

Refusal = Callable[[ModuleOp], str | None]
"""Why a program of one kernel does not compile; ``None`` where it does."""

_SHOWN = 4


def without_refused(found: Found, refusal: Refusal) -> tuple[Found, list[str]]:
    """The same kernels, but for those that are refused, and a sentence on each of these.

    Kernels that are alike are asked for once.
    """
    fusion = found.fusion
    name = fusion.function.sym_name.data
    known: dict[int, str | None] = {}
    groups: list[Group] = []
    sentences: list[str] = []
    for group in found.groups:
        part = fusion.attempts[group].part
        if part is None:
            groups.append(group)
            continue
        if id(part) not in known:
            known[id(part)] = refusal(_alone(name, part))
        reason = known[id(part)]
        if reason is None:
            groups.append(group)
            continue
        members = fusion.program.members(group)
        for number, op in zip(bits(group), members, strict=True):
            single = 1 << number
            fusion.attempts[single] = Attempt(time_as_written(op, fusion.target))
            groups.append(single)
        labels = [op_label(op) for op in members]
        more = f" and {len(labels) - _SHOWN} more" if len(labels) > _SHOWN else ""
        sentences.append(f"@{name}: {', '.join(labels[:_SHOWN])}{more} share no kernel: {reason}")
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
