"""Kernels that compute again what others would store for them: exponentials of a long row, say."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from mugraph.dialects.kn import ElementwiseOp
from mugraph.passes.program.fuse_kernels.times import moved_bytes


def recompute(function: FuncOp, kernels: Sequence[int]) -> bool:
    """Gives kernels operators of their own in the place of tensors that other kernels store.

    ``kernels`` has the number of the kernel of each operator of the function, in order.  An
    element-wise operator is computed again where it takes no more bytes from memory than what it
    makes.  Whether there was one; the program computes the same.
    """
    operators = list(function.body.block.ops)[: len(kernels)]
    kernel_of = dict(zip(operators, kernels, strict=True))
    changed = False
    for op in operators:
        for value in op.results if isinstance(op, ElementwiseOp) else ():
            users = [use.operation for use in value.uses]
            for kernel in sorted({kernel_of[u] for u in users if u in kernel_of} - {kernel_of[op]}):
                chain = _chain(op, kernel_of)
                sources = {v for each in chain for v in each.operands if v.owner not in chain}
                if moved_bytes(sources) <= moved_bytes([value]):
                    own = [user for user in users if kernel_of.get(user) == kernel]
                    _give_own(value, chain, own)
                    changed = True
    for op in reversed(operators):
        if isinstance(op, ElementwiseOp) and not any(result.uses for result in op.results):
            op.detach()
            op.erase()
    return changed


def _chain(op: Operation, kernel_of: dict[Operation, int]) -> list[Operation]:
    """An operator behind the element-wise ones of its kernel that it follows from, in order."""
    found: list[Operation] = []
    for value in op.operands:
        source = value.owner
        if isinstance(source, ElementwiseOp) and kernel_of.get(source) == kernel_of[op]:
            found += (each for each in _chain(source, kernel_of) if each not in found)
    return [*found, op]


def _give_own(value: SSAValue, chain: Sequence[Operation], users: Sequence[Operation]) -> None:
    """Computes a value by a chain of operators again, before its users, for these."""
    block = users[0].parent
    assert block is not None
    first = next(op for op in block.ops if op in users)
    copies: dict[SSAValue, SSAValue] = {}
    for op in chain:
        copy = op.clone(copies)
        block.insert_op_before(copy, first)
        copies.update(zip(op.results, copy.results, strict=True))
    for user in users:
        for place, operand in enumerate(user.operands):
            if operand is value:
                user.operands[place] = copies[value]
