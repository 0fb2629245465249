"""A kernel that finds the largest elements along a dimension."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, TensorType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.device_cuts import DeviceCut, HasDeviceCuts
from mugraph.dialects.element_types import PLACES, verify_no_integers, verify_values
from mugraph.dialects.interfaces import HasLayoutConstraints
from mugraph.dialects.kn.kernel import prefer_same_innermost
from mugraph.dialects.kn.overlap import CanOverlap
from mugraph.dialects.kn.workspace import WorkspaceOp
from mugraph.dialects.layout_problem import LayoutProblem
from mugraph.dialects.reductions import ReducesDimension
from mugraph.dialects.tb.operators import all_but
from mugraph.dialects.tensor_types import dims, element_type_of, op_label, shape_of, value_label


@irdl_op_definition
class TopKOp(ReducesDimension, WorkspaceOp, HasLayoutConstraints, CanOverlap, HasDeviceCuts):
    """The largest elements along a dimension, the largest first, and their places.

    How many follows from the results' extents.  Of equal elements the first one counts, and a NaN
    is larger than all numbers, as for ``kn.arg_max``.  Elements stay as they are; places are of i32
    or i64.
    ``%v, %i = kn.top_k %x dim 1 : (tensor<4x1000xf16>) -> (tensor<4x8xf16>, tensor<4x8xi32>)``.
    """

    name = "kn.top_k"

    input = operand_def(TensorType)
    values = result_def(TensorType)
    places = result_def(TensorType)
    traits = traits_def(Pure())

    assembly_format = (
        "$input `dim` $dim (`workspace` $workspace^)? attr-dict "
        "`:` functional-type(operands, results)"
    )

    def __init__(self, operand: SSAValue, dim: int, result_types: Sequence[Attribute]) -> None:
        super().__init__(
            operands=[operand],
            result_types=result_types,
            properties={"dim": IntegerAttr(dim, i64)},
        )

    @property
    def count(self) -> int:
        """How many elements of each run are found."""
        return shape_of(self.values.type)[self.reduced_dim]

    def verify_(self) -> None:
        """Checks the workspace, the results' extents and the element types."""
        super().verify_()
        verify_values(self, [self.input, *self.results])
        verify_no_integers(self, [self.input], "kn.cast")
        shape, dim = self.shape_with_dimension(), self.reduced_dim
        for result in self.results:
            found = shape_of(result.type)
            count = found[dim] if len(found) == len(shape) else 1
            expected = (*shape[:dim], count, *shape[dim + 1 :])
            if found != expected or not 1 <= count <= shape[dim]:
                raise OperatorError(
                    f"{value_label(result)} has {dims(found)}, expected {dims(shape)} with 1 to "
                    f"{shape[dim]} elements along dimension {dim}"
                )
        self._verify_pair()

    def _verify_pair(self) -> None:
        """Checks that a place belongs to each element, and what both are of."""
        values, places = (shape_of(result.type) for result in self.results)
        if values != places:
            raise OperatorError(
                f"the elements have {dims(values)} and their places {dims(places)}; each element "
                "has one place"
            )
        source, kept, place = (
            element_type_of(value.type) for value in (self.input, self.values, self.places)
        )
        if source != kept:
            raise VerifyException(
                f"{op_label(self)} moves elements as they are, but {value_label(self.input)} has "
                f"{source} and {value_label(self.values)} {kept}; insert a 'kn.cast' to convert one"
            )
        if place not in PLACES:
            raise OperatorError(
                f"places are of i32 or i64, but {value_label(self.places)} has elements of {place}"
            )

    def device_cuts(self) -> Sequence[DeviceCut]:
        """Other dimensions than that which is searched."""
        dims = all_but(len(shape_of(self.input.type)), self.reduced_dim)
        return [DeviceCut((dim,), (dim, dim)) for dim in dims]

    def add_layout_constraints(self, problem: LayoutProblem) -> None:
        """Operand and results share their innermost dimension, unless it is searched."""
        for result in self.results:
            prefer_same_innermost(problem, self, self.input, result, [self.reduced_dim])
