"""A kernel that puts an extent which a call says where other kernels read it."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import (
    IndexType,
    StringAttr,
    TensorType,
    i32,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.irdl import opt_operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from mugraph.dialects.arguments import append_argument
from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.interfaces import HasLayoutConstraints
from mugraph.dialects.kn.overlap import CanOverlap
from mugraph.dialects.kn.workspace import WorkspaceOp
from mugraph.dialects.named_extents import EXTENT, argument_names
from mugraph.dialects.tensor_types import element_type_of, shape_of


@irdl_op_definition
class ExtentOp(WorkspaceOp, HasLayoutConstraints, CanOverlap):
    """The value of a named extent that a call says, as the length that masks depend on: one i32.

    ``--bucket-extents`` writes it where operators combine elements along the extent:
    ``%n = kn.extent "m" : tensor<1xi32>``.  ``--lower-threadblock`` adds the number that the call
    gives the function: ``kn.extent "m" of %m``.
    """

    name = "kn.extent"

    extent = prop_def(StringAttr)
    number = opt_operand_def(IndexType)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    assembly_format = (
        "$extent (`of` $number^)? (`workspace` $workspace^)? attr-dict `:` type($result)"
    )

    def __init__(self, extent: str) -> None:
        super().__init__(
            operands=[None],
            result_types=[TensorType(i32, [1])],
            properties={"extent": StringAttr(extent)},
        )

    def verify_(self) -> None:
        """Checks that the result is one i32."""
        super().verify_()
        if shape_of(self.result.type) != (1,) or element_type_of(self.result.type) != i32:
            raise OperatorError("the result must be one i32")


def give_numbers(function: FuncOp, names: Iterable[str]) -> dict[str, SSAValue]:
    """The arguments for the values of extents that a call says; those not there are added.

    Operators that make tensors of the values get them.
    """
    known = {
        argument_names(function, argument.index): argument
        for argument in function.args
        if isinstance(argument.type, IndexType)
    }
    numbers = {name: known.get((name,)) or _append_number(function, name) for name in names}
    for op in function.body.block.ops:
        if isinstance(op, ExtentOp) and op.number is None:
            op.operands = [numbers[op.extent.data]]
    return numbers


def _append_number(function: FuncOp, name: str) -> SSAValue:
    argument = append_argument(function, IndexType(), {EXTENT: StringAttr(name)})
    argument.name_hint = name
    return argument
