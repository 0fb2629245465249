"""Operators that are made of other kernel-level operators."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from xdsl.dialects.builtin import TensorType, f32
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mugraph.dialects.kn.compute import BINARY_OPERATORS, UNARY_OPERATORS
from mugraph.dialects.kn.customized import match_arguments
from mugraph.dialects.kn.kernel import KernelOp
from mugraph.dialects.kn.reduce import ReductionOp
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.reductions import Combiner
from mugraph.dialects.shapes import broadcast_shape
from mugraph.dialects.tensor_types import shape_of


@dataclass
class Expansion:
    """The operators that one is made of, in order; what is between them is f32."""

    operations: list[Operation] = field(default_factory=list[Operation])

    def add(self, op: Operation) -> SSAValue:
        """Adds an operator; its first result."""
        self.operations.append(op)
        return op.results[0]

    def apply(
        self,
        function: str,
        *operands: SSAValue,
        constants: Sequence[float] = (),
        type_: Attribute | None = None,
    ) -> SSAValue:
        """A scalar function of each element."""
        if type_ is None:
            type_ = TensorType(f32, broadcast_shape([shape_of(value.type) for value in operands]))
        if len(operands) == 1:
            return self.add(UNARY_OPERATORS[function](operands[0], type_, constants))
        lhs, rhs = operands
        return self.add(BINARY_OPERATORS[function](lhs, rhs, type_))

    def reduce(
        self,
        operand: SSAValue,
        dims: Sequence[int],
        combiner: Combiner = Combiner.SUM,
    ) -> SSAValue:
        """The sum, or the largest element, along dimensions, whose extents become 1."""
        for dim in dims:
            shape = shape_of(operand.type)
            type_ = TensorType(f32, (*shape[:dim], 1, *shape[dim + 1 :]))
            operand = self.add(ReductionOp(operand, dim, type_, combiner))
        return operand

    def mean(
        self, operand: SSAValue, dims: Sequence[int], type_: Attribute | None = None
    ) -> SSAValue:
        """The mean along dimensions, whose extents become 1."""
        count = math.prod(shape_of(operand.type)[dim] for dim in dims)
        total = self.reduce(operand, dims)
        return self.apply("mul_scalar", total, constants=(1 / count,), type_=type_)


class CompositeOp(KernelOp):
    """An operator that others say: ``--decompose-program`` puts them in its place.

    It is compared by ``mg-check`` as those, and evaluated as those unless there is a kernel for it.
    """

    HAS_KERNEL: ClassVar[bool] = False
    """Whether there is a kernel for it, so that it need not be taken apart."""
    BY_LIBRARY: ClassVar[bool] = False
    """Whether a library computes it, so that it is never taken apart to be compiled."""

    @abstractmethod
    def expand(self, parts: Expansion) -> SSAValue:
        """Adds the operators that it is made of; the last one's result, of the result's type."""

    def replace(self) -> Sequence[Operation]:
        """Puts the operators that it is made of in its place; returns them."""
        parts = Expansion()
        result = self.expand(parts)
        result.name_hint = self.result.name_hint
        Rewriter.replace_op(self, parts.operations, [result])
        match_arguments(result)
        return parts.operations

    def expanded(self) -> Block:
        """A function's body that computes it, of operators that are not composite."""
        block = Block(arg_types=[operand.type for operand in self.operands])
        alone = self.clone(dict(zip(self.operands, block.args, strict=True)))
        block.add_ops([alone, ReturnOp(alone.result)])
        pending: list[Operation] = [alone]
        for op in pending:
            if isinstance(op, CompositeOp):
                pending += op.replace()
        return block
