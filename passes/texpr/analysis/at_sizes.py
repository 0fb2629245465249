"""Kernels whose sizes a call says, at some sizes: copies that can be followed step by step.

What a loop does shows in its first iterations and in how it ends.  So a size is followed at 1 to
five times what an iteration has of it, whole ones and half ones in turn, and at its largest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import AffineMapAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)
from xdsl.rewriter import InsertPoint, Rewriter

from mugraph.dialects import te
from mugraph.dialects.te.sizes import size_arguments, size_of

_TIMES = 5


@dataclass(frozen=True)
class KernelAtSizes:
    """A kernel at some sizes, and the operators that those of the copy stand for."""

    kernel: te.KernelOp
    sizes: Mapping[str, int]
    originals: Mapping[Operation, Operation]

    @property
    def when(self) -> str:
        """``, where m = 64, n = 128``: nothing where no call says sizes."""
        values = ", ".join(f"{name} = {value}" for name, value in self.sizes.items())
        return f", where {values}" if values else ""


def kernels_at_sizes(kernel: te.KernelOp) -> Iterator[KernelAtSizes]:
    """The kernel at each of some sizes; itself where no call says any."""
    function = kernel.parent_op()
    arguments = size_arguments(function) if isinstance(function, FuncOp) else {}
    if not arguments or not isinstance(function, FuncOp):
        yield KernelAtSizes(kernel, {}, {op: op for op in kernel.walk()})
        return
    values = {name: _values(kernel, value) for name, value in arguments.items()}
    for place in range(_TIMES + 1):
        sizes = {name: found[place] for name, found in values.items()}
        yield _copy_at(kernel, function, sizes)


def _copy_at(kernel: te.KernelOp, function: FuncOp, sizes: Mapping[str, int]) -> KernelAtSizes:
    copy = function.clone()
    pairs = {other: one for one, other in zip(function.walk(), copy.walk(), strict=True)}
    for name, argument in size_arguments(copy).items():
        number = AffineMapAttr(AffineMap(0, 0, (AffineExpr.constant(sizes[name]),)))
        value = te.ApplyOp([], number)
        Rewriter.insert_op(value, InsertPoint.at_start(copy.body.block))
        argument.replace_all_uses_with(value.result)
    found = next(other for other, one in pairs.items() if one is kernel)
    assert isinstance(found, te.KernelOp)
    return KernelAtSizes(found, sizes, pairs)


def _values(kernel: te.KernelOp, value: SSAValue) -> list[int]:
    """The numbers that a size is followed at, the largest last."""
    size = size_of(value)
    assert size is not None
    step = max([size.multiple, *_steps(kernel, value)])
    half = step // 2 // size.multiple * size.multiple
    found: list[int] = []
    for times in range(1, _TIMES + 1):
        wanted = times * step - (0 if times % 2 else half)
        found.append(min(-(-wanted // size.multiple) * size.multiple, size.largest))
    return [*found, size.largest]


def _steps(kernel: te.KernelOp, value: SSAValue) -> Iterator[int]:
    """How much of a size blocks and iterations of loops have."""
    for cut in kernel.cuts:
        if isinstance(value.owner, Block) and value.owner.args[cut.argument] is value:
            yield cut.step
    for op in kernel.walk():
        if isinstance(op, te.Conditional) and value in op.indices:
            operands = list(op.indices)
            of_loops = [
                place
                for place, one in enumerate(operands)
                if isinstance(one.owner, Block) and isinstance(one.owner.parent_op(), te.SeqOp)
            ]
            for expression, _equal in op.conditions():
                yield from _numbers(expression, operands.index(value), of_loops)


def _numbers(expression: AffineExpr, size: int, loops: Sequence[int]) -> Iterator[int]:
    """The divisors of a size in an expression, and the factors of loops' variables beside it."""
    dims = {one.position for one in expression.dfs() if isinstance(one, AffineDimExpr)}
    if size not in dims:
        return
    for part in expression.dfs():
        match part:
            case AffineBinaryOpExpr(
                kind=AffineBinaryOpKind.Mul,
                lhs=AffineDimExpr(position),
                rhs=AffineConstantExpr(factor),
            ) if position in loops:
                yield abs(factor)
            case AffineBinaryOpExpr(
                kind=AffineBinaryOpKind.FloorDiv, rhs=AffineConstantExpr(divisor)
            ):
                yield divisor
            case _:
                pass
