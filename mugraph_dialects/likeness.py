"""What operators are alike in, whatever their values are called."""

from __future__ import annotations

from collections.abc import Collection, Hashable

from xdsl.ir import Block, Operation, SSAValue

Likeness = tuple[Hashable, ...]
"""Equal for operators that differ in names alone."""


def likeness_of(op: Operation, besides: Collection[str] = ()) -> Likeness:
    """What an operator is, with all operators inside of it.

    Values that it uses from outside are alike if their types are, and the same ones stand in the
    same places.  ``besides`` are attributes and properties of the operator itself that do not
    count, as the symbol of a kernel.
    """
    return _Numbering().operation(op, besides)


class _Numbering:
    """Numbers values and blocks in the order in which they are met."""

    def __init__(self) -> None:
        self.numbers: dict[SSAValue | Block, int] = {}

    def value(self, value: SSAValue) -> Likeness:
        return self.numbers.setdefault(value, len(self.numbers)), value.type

    def block(self, block: Block) -> Likeness:
        arguments = tuple(map(self.value, block.args))
        return arguments, tuple(self.operation(op) for op in block.ops)

    def operation(self, op: Operation, besides: Collection[str] = ()) -> Likeness:
        said = {**op.properties, **op.attributes}
        return (
            op.name,
            frozenset((name, each) for name, each in said.items() if name not in besides),
            tuple(map(self.value, op.operands)),
            tuple(map(self.value, op.results)),
            tuple(self.numbers.setdefault(block, len(self.numbers)) for block in op.successors),
            tuple(tuple(map(self.block, region.blocks)) for region in op.regions),
        )
