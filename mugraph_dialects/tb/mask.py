"""A constant in place of elements that do not exist, or whose places fail a condition."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import (
    AffineSetAttr,
    ArrayAttr,
    DenseArrayBase,
    Float32Type,
    FloatAttr,
    IntegerAttr,
    f32,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.assembly import Fp32Number, ThenEpilogue
from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.element_types import is_integer, verify_no_integers
from mugraph.dialects.elementwise import Epilogue, epilogue_attribute
from mugraph.dialects.interfaces import IndexKind, TileIndex
from mugraph.dialects.launch_extents import extents_of, integer_array
from mugraph.dialects.lengths import numbers_attribute, numbers_of
from mugraph.dialects.linear_forms import (
    LinearForm,
    fails_past,
    forms_of,
    of_lengths,
    verify_condition,
)
from mugraph.dialects.maps import AXES, Slicing
from mugraph.dialects.ragged import Padding, RaggedAttr, RaggedDim, ragged_error
from mugraph.dialects.tb.elementwise import ElementwiseOp
from mugraph.dialects.tb.moves import (
    NOT_SPLIT,
    enclosing_graph,
    fordim_attribute,
    forms_in_tiles,
    verify_numbers_of_lengths,
)
from mugraph.dialects.tb.operators import parallel_indices, verify_epilogue
from mugraph.dialects.tb.types import STensorType
from mugraph.dialects.tensor_types import element_type_of, op_label, shape_of


@irdl_op_definition
class MaskOp(ElementwiseOp):
    """The operand, with a constant in place of elements whose places fail a condition.

    Scores of queries that see no later keys, 64 queries a block and 128 keys an iteration::

        %y = tb.mask %x with -inf where affine_set<(i, j) : (i - j >= 0)> of [1024, 1024]
            imap [0, -1, -1] fordim 1 : !tb.stensor<64x128xf32> -> !tb.stensor<64x128xf32>

    The condition is on places in the tensor that all tiles together are, of which ``of`` has the
    extents; maps say how the tiles lie in it, as those of ``tb.input`` do.

    ``where affine_set<(i, j)[n] : (n - j - 1 >= 0)> at [0]``: the symbol is length 0 of the kernel.

    ``%y = tb.mask %x with 0.0 outside [#tb.ragged<...>] : ...``, made by ``--mask-ragged``, has the
    constant in memory where elements do not exist.  No elements are added: as a function of tensors
    it is the identity.
    """

    name = "tb.mask"

    input = operand_def(STensorType)
    value = prop_def(FloatAttr[Float32Type])
    outside = opt_prop_def(ArrayAttr[RaggedAttr])
    condition = opt_prop_def(AffineSetAttr)
    at = opt_prop_def(DenseArrayBase.constr(i64))
    extents = opt_prop_def(DenseArrayBase.constr(i64))
    imap = opt_prop_def(DenseArrayBase.constr(i64))
    fordim = opt_prop_def(IntegerAttr.constr(type=i64))

    assembly_format = (
        "$input `with` custom<Fp32Number>($value) (`outside` $outside^)? "
        "(`where` $condition^)? (`at` $at^)? (`of` $extents^ `imap` $imap)? (`fordim` $fordim^)? "
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
                "outside": ArrayAttr([RaggedAttr(entry) for entry in outside]) if outside else None,
                "epilogue": epilogue_attribute(epilogue),
            },
        )

    @classmethod
    def at_places(
        cls,
        operand: SSAValue,
        value: float,
        condition: AffineSetAttr,
        extents: Sequence[int],
        imap: Sequence[int],
        fordim: int,
        lengths: Sequence[int] = (),
    ) -> MaskOp:
        """A mask of places in a tensor of these extents, in which maps say how tiles lie.

        ``lengths`` are the numbers of those of the kernel that the condition's symbols are.
        """
        op = cls(operand, value, [], Epilogue(), operand.type)
        op.condition = condition
        op.at = numbers_attribute(lengths)
        op.cover(extents)
        op.lie(imap, fordim)
        return op

    @property
    def ragged(self) -> list[RaggedDim]:
        """Which elements exist."""
        return [] if self.outside is None else [entry.data for entry in self.outside.data]

    @property
    def constant(self) -> float:
        """What stands in place of the others."""
        return self.value.value.data

    @property
    def map_(self) -> tuple[int, ...]:
        """The dimension that each of x, y, z splits, or -1."""
        return (NOT_SPLIT,) * len(AXES) if self.imap is None else extents_of(self.imap)

    @property
    def loop_dim(self) -> int:
        """The dimension that the for-loop splits, or -1."""
        return NOT_SPLIT if self.fordim is None else self.fordim.value.data

    def lie(self, imap: Sequence[int], fordim: int) -> None:
        """Says how tiles lie in the tensor on whose places the condition is."""
        self.imap = integer_array(imap)
        self.fordim = fordim_attribute(fordim)

    def cover(self, extents: Sequence[int]) -> None:
        """Says what extents that tensor has."""
        self.extents = integer_array(extents)

    def slicing(self) -> Slicing:
        """How the maps cut that tensor into tiles of these extents."""
        assert self.extents is not None
        graph, tile = enclosing_graph(self), shape_of(self.result.type)
        return graph.slicing(extents_of(self.extents), self.map_, self.loop_dim, tile)

    def forms(self) -> list[LinearForm]:
        """The forms that are at least 0 where an element is kept.

        They are of places in the whole tensor, and then of the kernel's lengths.
        """
        if self.condition is None:
            return []
        count = len(enclosing_graph(self).held_lengths)
        return of_lengths(forms_of(self.condition.data), self.length_numbers, count)

    @property
    def length_numbers(self) -> tuple[int, ...]:
        """Which lengths of the kernel the condition's symbols are."""
        return numbers_of(self.at)

    def local_forms(self) -> list[LinearForm]:
        """The same of places in the tile, of block and iteration, and then of the lengths."""
        forms = self.forms()
        return forms_in_tiles(forms, self.slicing()) if forms else []

    @property
    def moves(self) -> bool:
        """Whether it does something else in each iteration."""
        return self.loop_dim >= 0 or any(entry.bound.moves for entry in self.ragged)

    def linear_in(self) -> Sequence[frozenset[int]]:
        """In its operand, if what does not count is 0."""
        return super().linear_in() if self.condition is None or self.constant == 0 else ()

    def result_padding(self, operands: Sequence[Padding]) -> Padding:
        """The constant, along the dimensions that are named, and one that no place fulfils."""
        named = dict.fromkeys((entry.dim for entry in self.ragged), self.constant)
        kept = {dim: value for dim, value in operands[0].items() if value == self.constant}
        return {**self._padding_of_places(), **kept, **named}

    def _padding_of_places(self) -> Padding:
        """The constant along a dimension past whose end the condition holds nowhere.

        Keys behind the last one are later than every query that exists.  One dimension at most:
        past the ends of two of them places may fulfil the condition again.
        """
        if self.condition is None:
            return {}
        slicing = self.slicing()
        for dim in range(len(slicing.shape)):
            split = slicing.split(dim)
            if split.bound() is None or not split.ends_with_tensor:
                continue
            if any(fails_past(form, dim, slicing.shape) for form in self.forms()):
                return {dim: self.constant}
        return {}

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
        """Checks extents, what is said of the elements that exist, conditions and their maps."""
        super().verify_()
        shape = shape_of(self.input.type)
        error = ragged_error(self.ragged, shape, enclosing_graph(self).grid_dim)
        if error is not None:
            raise VerifyException(f"{op_label(self)} {error}")
        if self.condition is None:
            if self.fordim is not None or self.outside is None or self.extents is not None:
                raise VerifyException(
                    f"{op_label(self)} has no condition; write 'where' and 'of', or leave it out"
                )
            return
        verify_no_integers(self, [self.input, self.result], "tb.cast")
        if math.isnan(self.constant):
            raise OperatorError("NaN is no constant to mask with")
        if self.extents is None or self.imap is None:
            raise VerifyException(
                f"{op_label(self)} has a condition on places; say in which tensor: 'of' its "
                "extents, and 'imap'"
            )
        verify_condition(self, self.condition.data, shape, len(self.length_numbers))
        verify_numbers_of_lengths(self, self.length_numbers)
        self.slicing().tile_shape()
