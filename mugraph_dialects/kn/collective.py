"""Kernels of several GPUs together."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType, UnitAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, opt_prop_def

from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.kn.kernel import KernelOp, prefer_same_innermost
from mugraph.dialects.layout_problem import LayoutProblem


@irdl_op_definition
class AllReduceOp(KernelOp):
    """The sum over all GPUs of the tensor that each of them holds, on every GPU.

    ``inplace`` says that the result may take the operand's memory.  No code is generated for it:
    neither the CUDA target nor the interpreter runs a µGraph on several GPUs.
    """

    name = "kn.all_reduce"

    input = operand_def(TensorType)
    inplace = opt_prop_def(UnitAttr)

    assembly_format = (
        "$input (`inplace` $inplace^)? (`workspace` $workspace^)? attr-dict "
        "`:` type($input) `->` type($result)"
    )

    def __init__(
        self, operand: SSAValue, result_type: Attribute | None = None, *, inplace: bool = False
    ) -> None:
        super().__init__(
            operands=[operand],
            result_types=[result_type or operand.type],
            properties={"inplace": UnitAttr() if inplace else None},
        )

    def add_layout_constraints(self, problem: LayoutProblem) -> None:
        """Operand and result share their innermost dimension."""
        prefer_same_innermost(problem, self, self.input, self.result)
