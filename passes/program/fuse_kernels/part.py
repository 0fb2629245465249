"""Operators of a program alone, to make a kernel of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from mugraph.dialects.kn.customized import match_arguments
from mugraph.dialects.locations import Rewriter


def block_of(loaded: Sequence[SSAValue]) -> Block:
    """An empty body whose arguments are some tensors."""
    block = Block(arg_types=[value.type for value in loaded])
    for argument, value in zip(block.args, loaded, strict=True):
        argument.name_hint = value.name_hint
    return block


@dataclass
class Part:
    """A function's body of operators, perhaps with views before and after them."""

    block: Block
    operators: Sequence[Operation]
    stored: Sequence[SSAValue]
    """The operators' results that the body returns, or views of them; in the operators' order."""
    sources: Sequence[int] | None = None
    """Of each argument the number of the tensor that it is, where some are one tensor."""

    @classmethod
    def of(
        cls, operators: Sequence[Operation], loaded: Sequence[SSAValue], stored: Sequence[SSAValue]
    ) -> Part:
        """Operators as they are."""
        block = block_of(loaded)
        values: dict[SSAValue, SSAValue] = dict(zip(loaded, block.args, strict=True))
        own = [op.clone(values) for op in operators]
        results = [values[value] for value in stored]
        block.add_ops([*own, ReturnOp(*results)])
        return cls(block, own, results)

    def __post_init__(self) -> None:
        places: dict[object, int] = {op: place for place, op in enumerate(self.operators)}
        self.stored = sorted(self.stored, key=lambda result: places.get(result.owner, -1))

    def replace(self, kernel: Operation) -> None:
        """Puts a kernel that stores the same in the place of the operators."""
        Rewriter.insert_op(kernel, InsertPoint.after(self.operators[-1]))
        for old, new in zip(self.stored, kernel.results, strict=True):
            old.replace_all_uses_with(new)
        for op in reversed(self.operators):
            Rewriter.erase_op(op)

    def insert(
        self, loaded: Sequence[SSAValue], stored: Sequence[SSAValue], point: InsertPoint
    ) -> list[SSAValue]:
        """Copies the body to where tensors are, and puts what it returns in the place of others.

        What that is now, of each.
        """
        if self.sources is not None:
            loaded = [loaded[source] for source in self.sources]
        values: dict[SSAValue, SSAValue] = dict(zip(self.block.args, loaded, strict=True))
        placed: list[SSAValue] = []
        for op in self.block.ops:
            if isinstance(op, ReturnOp):
                for old, returned in zip(stored, op.operands, strict=True):
                    new = values[returned]
                    new.name_hint = old.name_hint
                    old.replace_all_uses_with(new)
                    match_arguments(new)
                    placed.append(new)
            else:
                Rewriter.insert_op(op.clone(values), point)
        return placed
