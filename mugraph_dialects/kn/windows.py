"""Windows of a tensor, zeros outside of it: what convolutions multiply."""

from __future__ import annotations

from xdsl.dialects.builtin import DenseArrayBase, TensorType, i64
from xdsl.ir import SSAValue
from xdsl.irdl import operand_def, prop_def

from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.kn.kernel import KernelOp
from mugraph.dialects.layout_problem import LayoutProblem
from mugraph.dialects.pieces import verify_moved_types
from mugraph.dialects.tensor_types import element_type_of
from mugraph.dialects.windows import ModesAttr, Windows, verify_windows


@irdl_op_definition
class WindowsOp(KernelOp):
    """The elements of a tensor in an order of modes, with zeros outside of the tensor.

    Each dimension of the result has modes, three numbers each: how many places, along which
    dimension of the operand, how many elements apart.  The first mode counts fastest.  The element
    is the operand's at the origin and the sum over all modes.

    Rows of windows of 3 x 3 in two images of 5 x 5 with 8 channels, in a padding of 1::

        %w = kn.windows %x modes [array<i64: 5, 2, 1, 5, 1, 1, 2, 0, 1>,
                                  array<i64: 8, 3, 1, 3, 2, 1, 3, 1, 1>]
                           origin array<i64: 0, -1, -1, 0>
           : tensor<2x5x5x8xf16> -> tensor<50x72xf16>

    Kernels that alone use them read the tensor itself; else a kernel writes them
    (``--read-windows``).
    """

    name = "kn.windows"

    input = operand_def(TensorType)
    modes = prop_def(ModesAttr)
    origin = prop_def(DenseArrayBase.constr(i64))

    assembly_format = (
        "$input `modes` $modes `origin` $origin (`workspace` $workspace^)? attr-dict "
        "`:` type($input) `->` type($result)"
    )

    def __init__(self, operand: SSAValue, windows: Windows) -> None:
        modes, origin = windows.attributes()
        super().__init__(
            operands=[operand],
            result_types=[TensorType(element_type_of(operand.type), windows.shape)],
            properties={"modes": modes, "origin": origin},
        )

    @property
    def windows(self) -> Windows:
        """What it sees of the operand."""
        return Windows.of(self.modes, self.origin)

    def expected_shape(self) -> tuple[int, ...]:
        """The places of each dimension's modes, multiplied."""
        return self.windows.shape

    def verify_(self) -> None:
        """Checks the modes against the operand; elements stay as they are."""
        verify_windows(self, self.input, self.modes, self.origin)
        super().verify_()
        verify_moved_types(self)

    def add_layout_constraints(self, problem: LayoutProblem) -> None:
        """None: kernels read the tensor as it lies."""
