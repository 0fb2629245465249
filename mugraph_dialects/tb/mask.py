"""What stands in memory where a ragged tile has no elements."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, Float32Type, FloatAttr, f32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, prop_def
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.assembly import Fp32Number, ThenEpilogue
from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.element_types import is_integer
from mugraph.dialects.elementwise import Epilogue, epilogue_attribute
from mugraph.dialects.interfaces import IndexKind, TileIndex
from mugraph.dialects.ragged import Padding, RaggedAttr, RaggedDim, ragged_error
from mugraph.dialects.tb.elementwise import ElementwiseOp
from mugraph.dialects.tb.memory import enclosing_graph
from mugraph.dialects.tb.operators import parallel_indices, verify_epilogue
from mugraph.dialects.tb.types import STensorType
from mugraph.dialects.tensor_types import element_type_of, op_label, shape_of


@irdl_op_definition
class MaskOp(ElementwiseOp):
    """The operand, with a constant in memory where its elements do not exist.

    ``%y = tb.mask %x with 0.0 outside [#tb.ragged<...>] : ...``, made by ``--mask-ragged``.  The
    elements that exist are the operand's, and no others are added: as a function of tensors it is
    the identity.
    """

    name = "tb.mask"

    input = operand_def(STensorType)
    value = prop_def(FloatAttr[Float32Type])
    outside = prop_def(ArrayAttr[RaggedAttr])

    assembly_format = (
        "$input `with` custom<Fp32Number>($value) `outside` $outside "
        "custom<ThenEpilogue>($epilogue) attr-dict `:` type($input) `->` type($result)"
    )
    custom_directives = (Fp32Number, ThenEpilogue)

    def __init__(
        self,
        operand: SSAValue,
        value: float,
        outside: Sequence[RaggedDim],
        epilogue: Epilogue,
        result_type: Attribute,
    ) -> None:
        super().__init__(
            operands=[operand],
            result_types=[result_type],
            properties={
                "value": FloatAttr(value, f32),
                "outside": ArrayAttr([RaggedAttr(entry) for entry in outside]),
                "epilogue": epilogue_attribute(epilogue),
            },
        )

    @property
    def ragged(self) -> list[RaggedDim]:
        """Which elements exist."""
        return [entry.data for entry in self.outside.data]

    @property
    def constant(self) -> float:
        """What stands in place of the others."""
        return self.value.value.data

    def result_padding(self, operands: Sequence[Padding]) -> Padding:
        """The constant, along the dimensions that are named."""
        named = dict.fromkeys((entry.dim for entry in self.ragged), self.constant)
        kept = {dim: value for dim, value in operands[0].items() if value == self.constant}
        return {**kept, **named}

    def tile_indices(self) -> Sequence[TileIndex]:
        """The dimensions that are named are cut as is said of them."""
        rank = len(shape_of(self.result.type))
        named = sorted(entry.dim for entry in self.ragged)
        others = [dim for dim in range(rank) if dim not in named]
        return [
            *parallel_indices(rank, 1, others),
            *(TileIndex(IndexKind.WHOLE, (dim,), dim) for dim in named),
        ]

    def verify_types(self) -> None:
        """Of any element type, which the result has too unless an epilogue follows."""
        source, target = (element_type_of(value.type) for value in (self.input, self.result))
        if is_integer(source) != is_integer(target) or (is_integer(source) and source != target):
            raise VerifyException(
                f"{op_label(self)} masks elements of {source}, but its result has {target}; insert "
                "a 'tb.cast'"
            )
        verify_epilogue(self, self.result)

    def verify_(self) -> None:
        """Checks extents, and what is said of the elements that exist."""
        super().verify_()
        grid = enclosing_graph(self).grid_dim
        error = ragged_error(self.ragged, shape_of(self.input.type), grid)
        if error is not None:
            raise VerifyException(f"{op_label(self)} {error}")
