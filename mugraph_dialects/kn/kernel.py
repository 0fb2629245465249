"""What pre-defined kernels have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import result_def, traits_def
from xdsl.traits import Pure

from mugraph.dialects.definition import OperatorError
from mugraph.dialects.device_cuts import MovesWholeElements
from mugraph.dialects.element_types import verify_values
from mugraph.dialects.interfaces import HasLayoutConstraints
from mugraph.dialects.kn.overlap import CanJoin, CanOverlap
from mugraph.dialects.kn.workspace import WorkspaceOp
from mugraph.dialects.layout_problem import LayoutProblem
from mugraph.dialects.pieces import Move
from mugraph.dialects.shapes import broadcast_shape
from mugraph.dialects.tensor_types import (
    dims,
    op_label,
    shape_of,
    value_label,
)


class KernelOp(WorkspaceOp, HasLayoutConstraints):
    """A pre-defined kernel with one result."""

    result = result_def(TensorType)
    traits = traits_def(Pure())

    def expected_shape(self) -> tuple[int, ...]:
        """The extents the result must have; raises ``ShapeError`` where operands do not fit."""
        return broadcast_shape([shape_of(operand.type) for operand in self.operands])

    def verify_(self) -> None:
        """Checks the result's extents, the workspace and that element types are known."""
        WorkspaceOp.verify_(self)
        verify_values(self, [*self.operands, self.result])
        expected = self.expected_shape()
        if shape_of(self.result.type) != expected:
            raise OperatorError(
                f"the result has {dims(shape_of(self.result.type))}, expected {dims(expected)}"
            )
        if isinstance(self, CanJoin):
            self.verify_joined()

    def add_layout_constraints(self, problem: LayoutProblem) -> None:
        """Operands and result share their innermost dimension, unless a user fixed them otherwise.

        A tensor that is broadcast along a dimension is not restricted there.  Such a kernel reads
        any layout, so layouts that a user fixed differently are slower but no error.
        """
        for operand in self.operands:
            prefer_same_innermost(problem, self, operand, self.result)


class MovesElements(WorkspaceOp, HasLayoutConstraints, CanOverlap, MovesWholeElements):
    """A kernel that moves elements as they are: all its tensors have one element type."""

    @abstractmethod
    def moves(self) -> Sequence[Move]:
        """Source, destination, and where the smaller of the two starts in the larger one.

        Each is one copy of the smaller tensor's extents; together they write all results.
        """

    def verify_(self) -> None:
        """Checks the workspace, and that element types are known."""
        super().verify_()
        verify_values(self, [*self.operands, *self.results])

    def add_layout_constraints(self, problem: LayoutProblem) -> None:
        """Operands and results share their innermost dimension where they can."""
        for source, destination, _ in self.moves():
            prefer_same_innermost(problem, self, source, destination)


def prefer_same_innermost(
    problem: LayoutProblem,
    op: Operation,
    operand: SSAValue,
    result: SSAValue,
    but_for: Sequence[int] = (),
) -> None:
    """Asks that ``operand`` be innermost where ``result`` is, in the last dimensions of both.

    Dimensions of extent 1 in the operand, and those of ``but_for``, are left out.
    """
    before = len(shape_of(result.type)) - len(shape_of(operand.type))
    for dim, extent in enumerate(shape_of(operand.type)):
        if extent > 1 and dim not in but_for:
            problem.prefer_any(
                problem.innermost(result, before + dim).negated(),
                problem.innermost(operand, dim),
                reason=(
                    f"{op_label(op)} is fastest where {value_label(operand)} and the "
                    "result have the same innermost dimension"
                ),
            )
