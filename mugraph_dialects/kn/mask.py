"""A kernel that keeps elements whose coordinates meet a condition."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import (
    AffineSetAttr,
    DenseArrayBase,
    Float32Type,
    FloatAttr,
    TensorType,
    f32,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, opt_prop_def, prop_def, var_operand_def

from mugraph.dialects.assembly import Fp32Number
from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.device_cuts import DeviceCut, HasDeviceCuts
from mugraph.dialects.element_types import verify_no_integers
from mugraph.dialects.elementwise import round_to_fp32
from mugraph.dialects.indirect import ReadsLengths
from mugraph.dialects.interfaces import HasTileIndices, IndexKind, TileIndex
from mugraph.dialects.kn.kernel import KernelOp, prefer_same_innermost
from mugraph.dialects.kn.overlap import CanOverlap
from mugraph.dialects.layout_problem import LayoutProblem
from mugraph.dialects.lengths import numbers_attribute, numbers_of, verify_lengths
from mugraph.dialects.linear_forms import (
    LinearForm,
    all_at_least_0,
    coordinates_of,
    forms_of,
    set_of,
    verify_condition,
)
from mugraph.dialects.tensor_types import dims, shape_of


@irdl_op_definition
class MaskOp(KernelOp, CanOverlap, HasTileIndices, HasDeviceCuts, ReadsLengths):
    """The elements whose coordinates are in a set, and a constant in place of the others.

    Each condition of the set is linear in the coordinates.  Scores of queries that see no later
    keys, of which there are four more: ``%y = kn.mask %x where affine_set<(i, j) :
    (i - j + 4 >= 0)> else -inf : tensor<8x12xf16> -> tensor<8x12xf16>``.

    Symbols of a condition are lengths: numbers that tensors of one i32 or i64 hold.  Of a cache
    with room for 12 keys, the first %n count::

        %y = kn.mask %x where affine_set<(i, j)[n] : (n - j - 1 >= 0)> at %n up_to [12] else -inf
            : tensor<8x12xf16>, tensor<1xi32> -> tensor<8x12xf16>

    ``at %n up_to [12] per [0]``, of eight numbers: one for each place along dimension 0.
    """

    name = "kn.mask"

    input = operand_def(TensorType)
    lengths = var_operand_def(TensorType)
    condition = prop_def(AffineSetAttr)
    up_to = opt_prop_def(DenseArrayBase.constr(i64))
    per = opt_prop_def(DenseArrayBase.constr(i64))
    value = prop_def(FloatAttr[Float32Type])

    assembly_format = (
        "$input `where` $condition (`at` $lengths^ `up_to` $up_to)? "
        "(`per` $per^)? `else` custom<Fp32Number>($value) (`workspace` $workspace^)? attr-dict "
        "`:` type($input) (`,` type($lengths)^)? `->` type($result)"
    )
    custom_directives = (Fp32Number,)

    def __init__(
        self,
        operand: SSAValue,
        forms: Sequence[LinearForm],
        value: float,
        result_type: Attribute | None = None,
        lengths: Sequence[SSAValue] = (),
        up_to: Sequence[int] = (),
        per: Sequence[int] = (),
    ) -> None:
        """The last coordinates of ``forms`` are ``lengths``, which go ``up_to`` numbers.

        ``per`` has the dimension for whose places each has a number, or -1 where there is one.
        """
        super().__init__(
            operands=[operand, lengths],
            result_types=[result_type or operand.type],
            properties={
                "up_to": numbers_attribute(up_to),
                "per": numbers_attribute(per) if max(per, default=-1) >= 0 else None,
                "condition": AffineSetAttr(set_of(forms, len(shape_of(operand.type)))),
                "value": FloatAttr(round_to_fp32(value), f32),
            },
        )

    @property
    def constant(self) -> float:
        """What stands in place of the elements outside."""
        return self.value.value.data

    def forms(self) -> list[LinearForm]:
        """The forms that are at least 0, all of them, where an element is kept.

        They are of the coordinates, and then of the lengths.
        """
        return forms_of(self.condition.data)

    def depends_on(self, dim: int) -> bool:
        """Whether it matters to the condition where an element stands along a dimension."""
        return dim in self.dims_of_lengths or any(form.coefficients[dim] for form in self.forms())

    @property
    def largest(self) -> tuple[int, ...]:
        """What each length is at most."""
        return numbers_of(self.up_to)

    def largest_length(self, operand: int) -> int | None:
        """Of all operands but the first."""
        return self.largest[operand - 1] if operand else None

    @property
    def dims_of_lengths(self) -> tuple[int, ...]:
        """The dimension for whose places each length has a number; -1 where there is one."""
        return numbers_of(self.per) or (-1,) * len(self.lengths)

    def inside(self, lengths: Sequence[npt.NDArray[np.int64]] = ()) -> npt.NDArray[np.bool_]:
        """Which elements are kept, given the numbers of each length."""
        shape = shape_of(self.input.type)
        own = [
            numbers.reshape([-1 if each == dim else 1 for each in range(len(shape))])
            for numbers, dim in zip(lengths, self.dims_of_lengths, strict=True)
        ]
        return all_at_least_0(self.forms(), [*coordinates_of(shape), *own])

    def expected_shape(self) -> tuple[int, ...]:
        """The operand's."""
        return shape_of(self.input.type)

    def verify_(self) -> None:
        """As any kernel; of floating-point numbers, under linear conditions on the coordinates."""
        super().verify_()
        verify_no_integers(self, [self.input, self.result], "kn.cast")
        if math.isnan(self.constant):
            raise OperatorError("NaN is no constant to mask with")
        shape, dims_ = shape_of(self.input.type), self.dims_of_lengths
        if len(dims_) != len(self.lengths) or any(not -1 <= dim < len(shape) for dim in dims_):
            raise OperatorError(
                f"per {list(dims_)} must have a dimension of {dims(shape)}, or -1, for each of "
                f"{len(self.lengths)} lengths"
            )
        counts = [1 if dim < 0 else shape[dim] for dim in dims_]
        types = [length.type for length in self.lengths]
        verify_lengths(self, types, self.largest, counts)
        verify_condition(self, self.condition.data, shape, len(self.lengths))

    def tile_indices(self) -> Sequence[TileIndex]:
        """One a dimension."""
        rank = len(shape_of(self.result.type))
        return [
            TileIndex(IndexKind.PARALLEL, (dim, *self._dims_along(dim)), dim) for dim in range(rank)
        ]

    def _dims_along(self, dim: int) -> list[int | None]:
        """The dimension of each length's numbers that a dimension of the operand runs through."""
        return [0 if own == dim else None for own in self.dims_of_lengths]

    def linear_in(self) -> Sequence[frozenset[int]]:
        """In its operand, if what is not kept is 0."""
        return (frozenset({0}),) if self.constant == 0 else ()

    def device_cuts(self) -> Sequence[DeviceCut]:
        """Dimensions that the condition does not look at: places count from 0 on each device."""
        rank, forms = len(shape_of(self.result.type)), self.forms()
        free = [dim for dim in range(rank) if not any(form.coefficients[dim] for form in forms)]
        return [DeviceCut((dim, *self._dims_along(dim)), (dim,)) for dim in free]

    def add_layout_constraints(self, problem: LayoutProblem) -> None:
        """Operand and result share their innermost dimension."""
        prefer_same_innermost(problem, self, self.input, self.result)
