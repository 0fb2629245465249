"""Recurrences whose state is a matrix that each step multiplies by another one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.irdl import AttrSizedOperandSegments, operand_def, opt_operand_def

from mugraph.dialects import tb
from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.elementwise import ScalarFunction
from mugraph.dialects.kn.composite import CompositeOp, Expansion
from mugraph.dialects.kn.customized import CustomizedOp
from mugraph.dialects.kn.reshape import BroadcastOp, ReshapeOp, TransposeOp
from mugraph.dialects.kn.steps import StepsOp
from mugraph.dialects.maps import AXES
from mugraph.dialects.shapes import ShapeError, broadcast_shape
from mugraph.dialects.tensor_types import dims, element_type_of, shape_of, value_label

THREADS = 128
MOST_COLUMNS = 64
"""Columns of a state that a block has at first; ``--plan`` chooses others."""


@irdl_op_definition
class RecurrenceOp(StepsOp, CompositeOp):
    """A recurrence of matrices: h_t = a_t h_(t-1) + M_t h_(t-1) + x_t along a dimension.

    Matrices are the last two dimensions; M is square, and h is 0 before the first step.  Without a
    decay a is 1.  Decays and M have the operand's extents along the other dimensions, or 1 where
    they are the same; decays have one row or as many as the state, and one column.  An
    ``exclusive`` recurrence gives h_(t-1) in the place of h_t.

    The state is f32, and rounded to M's type where M multiplies it, as by ``kn.matmul``.  It is
    made of a loop that takes one step after another, whose blocks have some columns of a state.
    ``--chunk-scans`` finds faster ways for matrices that are products of columns and rows, as of
    the delta rule, S_t = a_t (1 - b_t k_t k_tT) S_(t-1) + b_t k_t v_t.

    With ``columns`` h_t = a_t h_(t-1) + C_t (x_t + M_t h_(t-1)): M has as many rows as C has
    columns, and the loop multiplies twice, by matrices that may be smaller than one would be.

    ``%h = kn.recurrence %x plus %m decay %a : tensor<2x8x1x1xf32> dim 1 :
    (tensor<2x8x16x32xf32>, tensor<2x8x16x16xf16>) -> tensor<2x8x16x32xf32>``.
    """

    name = "kn.recurrence"

    # Operands are in the order of the class that defines them, so all stand here.
    input = operand_def(TensorType)
    matrix = operand_def(TensorType)
    decay = opt_operand_def(TensorType)
    columns = opt_operand_def(TensorType)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$input `plus` $matrix (`decay` $decay^ `:` type($decay))? "
        "(`columns` $columns^ `:` type($columns))? (`exclusive` $exclusive^)? `dim` $dim "
        "(`workspace` $workspace^)? attr-dict "
        "`:` `(` type($input) `,` type($matrix) `)` `->` type($result)"
    )

    def __init__(
        self,
        operand: SSAValue,
        dim: int,
        result_type: Attribute,
        matrix: SSAValue,
        decay: SSAValue | None = None,
        columns: SSAValue | None = None,
        *,
        exclusive: bool = False,
    ) -> None:
        operands = [operand, matrix, decay, columns]
        super().__init__(operands, dim, result_type, exclusive=exclusive)

    def expected_shape(self) -> tuple[int, ...]:
        """The operand's extents; with columns as many rows as those have."""
        shape = self.shape_with_dimension()
        if self.reduced_dim >= len(shape) - 2:
            raise ShapeError(
                f"steps go along dimension {self.reduced_dim} of {dims(shape)}, whose last two are "
                "those of the matrices; choose one before them"
            )
        *outer, count, width = shape
        rows = count
        if self.columns is not None:
            rows = (shape_of(self.columns.type) or (0, 0))[-2:][0]
            self._require("columns", self.columns, outer, (rows, count))
        self._require("matrix", self.matrix, outer, (count, rows))
        if self.decay is not None:
            one_row = shape_of(self.decay.type)[-2:-1] == (1,)
            self._require("decay", self.decay, outer, (1 if one_row else rows, 1))
        return (*outer, rows, width)

    @staticmethod
    def _require(what: str, value: SSAValue, outer: Sequence[int], inner: Sequence[int]) -> None:
        """Raises ``ShapeError`` unless a tensor has some extents, or 1 in outer dimensions."""
        own, wanted = shape_of(value.type), (*outer, *inner)
        fits = len(own) == len(wanted) and own[-2:] == (*inner,)
        if not fits or any(one not in (1, all_) for one, all_ in zip(own, wanted, strict=True)):
            raise ShapeError(
                f"the {what} {value_label(value)} has {dims(own)}, expected {dims(wanted)}, or 1 "
                "in dimensions before the last two"
            )

    def expand(self, parts: Expansion) -> SSAValue:
        """A kernel whose loop takes one step after another; before and after it views.

        Of more dimensions than a grid can cut the kernel sees one.
        """
        shape, dim = shape_of(self.input.type), self.reduced_dim
        outer = [each for each in range(len(shape) - 2) if each != dim]
        if len(outer) < len(AXES):
            body = _Body(dim, outer)
            return parts.add(body.kernel(self, [*self.operands], self.result.type))
        order = [*outer, dim, len(shape) - 2, len(shape) - 1]
        element, whole = element_type_of(self.result.type), [shape[each] for each in outer]
        operands = [_joined(value, order, whole, parts) for value in self.operands]
        shape = shape_of(self.result.type)
        type_ = TensorType(element, (math.prod(whole), shape[dim], *shape[-2:]))
        states = parts.add(_Body(1, [0]).kernel(self, operands, type_))
        apart = TensorType(element, [shape[each] for each in order])
        states = parts.add(ReshapeOp(states, apart))
        places = [order.index(each) for each in range(len(shape))]
        return parts.add(TransposeOp(states, places, self.result.type))


def _joined(
    value: SSAValue, order: Sequence[int], whole: Sequence[int], parts: Expansion
) -> SSAValue:
    """A tensor whose outer dimensions are one, or 1 where it is the same along all of them."""
    shape, element = shape_of(value.type), element_type_of(value.type)
    *outer, steps, rows, columns = (shape[each] for each in order)
    inner, count = (steps, rows, columns), 1
    if math.prod(outer) > 1:
        count = math.prod(whole)
        value = parts.add(TransposeOp(value, order))
        value = parts.add(BroadcastOp(value, TensorType(element, (*whole, *inner))))
    return parts.add(ReshapeOp(value, TensorType(element, (count, *inner))))


@dataclass
class _Body:
    """The loop's body; ``dim`` is the dimension of steps, ``outer`` are those that blocks cut."""

    dim: int
    outer: Sequence[int]
    block: Block = field(default_factory=Block)

    def add(self, op: Operation) -> SSAValue:
        """Appends an operator; its first result."""
        self.block.add_op(op)
        return op.results[0]

    def tile(self, value: SSAValue, columns: int | None) -> SSAValue:
        """What a step has of a tensor; its ``columns`` are cut, or none are."""
        shape = shape_of(value.type)
        cut = [each if shape[each] > 1 else -1 for each in self.outer]
        cut.append(-1 if columns is None else len(shape) - 1)
        map_ = (*cut, *(-1,) * (len(AXES) - len(cut)))
        extents = [1] * (len(shape) - 2) + [*shape[-2:]]
        if columns is not None:
            extents[-1] = columns
        fordim = self.dim if shape[self.dim] > 1 else -1
        argument = self.block.insert_arg(value.type, len(self.block.args))
        argument.name_hint = value.name_hint
        type_ = tb.STensorType(extents, element_type_of(value.type))
        return self.add(tb.InputOp(argument, map_, fordim, type_))

    def apply(self, function: str, *tiles: SSAValue) -> SSAValue:
        """A scalar function of each element, in f32."""
        shape = broadcast_shape([shape_of(tile.type) for tile in tiles])
        return self.add(tb.elementwise(ScalarFunction(function), tiles, tb.STensorType(shape, f32)))

    def cast(self, tile: SSAValue, type_: Attribute) -> SSAValue:
        """The tile in an element type."""
        if element_type_of(tile.type) == type_:
            return tile
        return self.add(tb.CastOp(tile, tb.STensorType(shape_of(tile.type), type_)))

    def product(self, left: SSAValue, right: SSAValue) -> SSAValue:
        """A product in f32; the right factor is rounded to the left one's type."""
        right = self.cast(right, element_type_of(left.type))
        shape = (*shape_of(left.type)[:-1], shape_of(right.type)[-1])
        return self.add(tb.MatmulOp(left, right, tb.STensorType(shape, f32)))

    def kernel(
        self, op: RecurrenceOp, operands: Sequence[SSAValue], type_: Attribute
    ) -> CustomizedOp:
        """The kernel on tensors that the recurrence's operands are seen as."""
        seen: dict[SSAValue, SSAValue] = dict(zip(op.operands, operands, strict=True))
        shape = shape_of(type_)
        width = shape[-1]
        cut = next(n for n in range(min(width, MOST_COLUMNS), 0, -1) if width % n == 0)
        added, matrix = self.tile(seen[op.input], cut), self.tile(seen[op.matrix], None)
        factors = [] if op.decay is None else [self.tile(seen[op.decay], None)]
        extents = (*(1,) * (len(shape) - 2), shape[-2], cut)
        state = self.add(tb.CarriedOp(tb.STensorType(extents, f32)))
        change = self.apply("add", self.product(matrix, state), added)
        if op.columns is not None:
            change = self.product(self.tile(seen[op.columns], None), change)
        kept = self.apply("mul", state, *factors) if factors else state
        after = self.apply("add", kept, change)
        last = self.add(tb.CarryOp(after, state))
        state.name_hint, after.name_hint, last.name_hint = "state", op.result.name_hint, "last"
        stored = self.cast(state if op.is_exclusive else after, element_type_of(type_))
        axes = (*self.outer, len(shape) - 1)
        map_ = (*axes, *(-1,) * (len(AXES) - len(axes)))
        self.block.add_op(tb.OutputOp(stored, map_, type_, self.dim))
        grid = [*(shape[each] for each in self.outer), width // cut]
        grid += [1] * (len(AXES) - len(grid))
        return CustomizedOp(operands, [type_], grid, (THREADS, 1, 1), shape[self.dim], self.block)
