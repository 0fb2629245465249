"""Operators that go along a dimension step by step, and keep a state."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, TensorType, UnitAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, opt_operand_def, opt_prop_def

from mugraph.dialects.accessors import is_given
from mugraph.dialects.element_types import verify_no_integers
from mugraph.dialects.kn.kernel import KernelOp
from mugraph.dialects.reductions import ReducesDimension


class StepsOp(ReducesDimension, KernelOp):
    """A linear recurrence: h_t = a_t h_(t-1) + ..., of floating-point numbers.

    Without a decay a is 1.  An ``exclusive`` one gives h_(t-1) in the place of h_t, and 0 first.
    """

    input = operand_def(TensorType)
    decay = opt_operand_def(TensorType)
    exclusive = opt_prop_def(UnitAttr)

    def __init__(
        self,
        operands: Sequence[SSAValue | None],
        dim: int,
        result_type: Attribute,
        *,
        exclusive: bool,
    ) -> None:
        super().__init__(
            operands=operands,
            result_types=[result_type],
            properties={
                "dim": IntegerAttr(dim, i64),
                "exclusive": UnitAttr() if exclusive else None,
            },
        )

    is_exclusive = is_given("exclusive")
    """Whether a step has no part in its own result."""

    def verify_(self) -> None:
        """As any kernel; of floating-point numbers."""
        super().verify_()
        verify_no_integers(self, [*self.operands, self.result], "kn.cast")
