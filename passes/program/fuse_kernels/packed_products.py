"""Products whose parts meet again become products by parts of their matrix.

Weights that multiply the same rows are often stored side by side, such as gate and up: one product
is cut into their results.  A part of its columns is the product by the same columns of the matrix,
which lie where they are.  A kernel may then have what is computed of the parts together, and none
has the product whole.  Parts that lead to results of their own, such as heads of queries and keys,
would only share a launch, and a block would have columns of all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import NamedTuple

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.transforms.common_subexpression_elimination import cse
from xdsl.transforms.dead_code_elimination import region_dce

from mugraph.dialects import kn
from mugraph.dialects.cute import Layout
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.tensor_types import (
    element_type_of,
    has_nested_modes,
    resolved_layout_of,
    shape_of,
    strides_of,
    with_layout,
)
from mugraph.passes.program.fuse_kernels.groups import is_given


class PartRange(NamedTuple):
    """Some neighbouring elements along a dimension, and all along the others."""

    dim: int
    start: int
    extent: int

    def of(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The extents of the part of a tensor of some extents."""
        return (*shape[: self.dim], self.extent, *shape[self.dim + 1 :])


PartOf = Callable[[SSAValue, PartRange], SSAValue | None]
"""The part of an operand; ``None`` where it would have to be cut out."""


class CutPart(NamedTuple):
    """A part of a tensor that an operator cuts out."""

    result: SSAValue
    part: PartRange


def cuts_of(op: Operation) -> list[CutPart]:
    """Analysis: what an operator cuts out along one dimension, if it does nothing else."""
    if not isinstance(op, kn.SliceOp | kn.PartsOp):
        return []
    cuts: list[CutPart] = []
    for source, result, start in op.moves():
        own, wanted = shape_of(source.type), shape_of(result.type)
        cut = [dim for dim, extent in enumerate(own) if extent != wanted[dim]]
        if len(cut) != 1 or not kn.may_be_row_major(result):
            return []
        cuts.append(CutPart(result, PartRange(cut[0], start[cut[0]], wanted[cut[0]])))
    return cuts


def cuts_into(value: SSAValue) -> list[CutPart]:
    """Analysis: the parts that all uses of a tensor cut out, along one of its dimensions.

    Nothing where something else uses it.
    """
    cuts = [cuts_of(use.operation) for use in value.uses]
    dims = {cut.part.dim for own in cuts for cut in own}
    return [cut for own in cuts for cut in own] if all(cuts) and len(dims) == 1 else []


def meet(cuts: Sequence[CutPart]) -> bool:
    """Analysis: whether an element-wise operator has operands that are computed of two parts.

    Element by element: what a product or a sum makes of them is something else.
    """
    seen: set[Operation] = set()
    for cut in cuts:
        reached, left = set[Operation](), [cut.result]
        while left:
            for use in left.pop().uses:
                op = use.operation
                if isinstance(op, kn.ElementwiseOp | kn.RegroupOp) and op not in reached:
                    reached.add(op)
                    left.append(op.results[0])
        if reached & seen:
            return True
        seen |= reached
    return False


@singledispatch
def computed_part(op: Operation, part: PartRange, part_of: PartOf) -> Operation | None:
    """The operator that computes a part of the result of ``op`` alone.

    ``None`` where there is none; operators that have one register a function.
    """
    return None


def _smaller(op: Operation, operands: list[SSAValue], part: PartRange) -> Operation:
    """An operator on parts of its operands."""
    (result,) = op.results
    new = op.clone()
    new.operands = operands  # the same tensor may be an operand whole and in part
    type_ = TensorType(element_type_of(result.type), part.of(shape_of(result.type)))
    Rewriter.replace_value_with_new_type(new.results[0], type_)
    return new


@computed_part.register
def _(op: kn.ElementwiseOp, part: PartRange, part_of: PartOf) -> Operation | None:
    operands: list[SSAValue] = []
    for value in op.operands:
        own = value if shape_of(value.type)[part.dim] == 1 else part_of(value, part)
        if own is None:
            return None
        operands.append(own)
    return _smaller(op, operands, part)


@computed_part.register
def _(op: kn.MatmulOp, part: PartRange, part_of: PartOf) -> Operation | None:
    if part.dim != len(shape_of(op.result.type)) - 1:
        return None
    columns = part_of(op.rhs, part)
    return None if columns is None else _smaller(op, [op.lhs, columns], part)


@computed_part.register
def _(op: kn.TransposeOp, part: PartRange, part_of: PartOf) -> Operation | None:
    source = part_of(op.input, part._replace(dim=op.order[part.dim]))
    return None if source is None else kn.TransposeOp(source, op.order)


@computed_part.register
def _(op: kn.ReshapeOp, part: PartRange, part_of: PartOf) -> Operation | None:
    own = _before_reshape(shape_of(op.input.type), shape_of(op.result.type), part)
    source = None if own is None else part_of(op.input, own)
    if source is None:
        return None
    shape = part.of(shape_of(op.result.type))
    return kn.ReshapeOp(source, TensorType(element_type_of(op.result.type), shape))


def _before_reshape(
    own: tuple[int, ...], wanted: tuple[int, ...], part: PartRange
) -> PartRange | None:
    """What part of a tensor is one of its reshape; ``None`` where elements are no neighbours."""
    ours, theirs = (
        [dim for dim, extent in enumerate(shape) if extent > 1] for shape in (own, wanted)
    )
    for before, after in kn.regrouped([own[dim] for dim in ours], [wanted[dim] for dim in theirs]):
        outer, first = ours[before[0]], theirs[after[0]]
        if first != part.dim:
            continue
        inside = math.prod(wanted[theirs[dim]] for dim in after[1:])
        unit = math.prod(own[ours[dim]] for dim in before[1:])
        start, extent = part.start * inside, part.extent * inside
        if start % unit or extent % unit:
            return None
        return PartRange(outer, start // unit, extent // unit)
    return None


def _seen_part(argument: BlockArgument, part: PartRange) -> kn.ViewOp | None:
    """A part of an argument, where it lies."""
    if has_nested_modes(argument.type):
        return None
    whole = kn.lay_out_row_major(argument)
    strides = strides_of(resolved_layout_of(whole))
    shape = part.of(shape_of(whole.type))
    type_ = TensorType(element_type_of(whole.type), shape)
    return kn.ViewOp(
        whole, with_layout(type_, Layout(shape, strides)), part.start * strides[part.dim]
    )


class Unpacking:
    """Writes parts of what a function computes, before one of its operators."""

    def __init__(self, user: Operation) -> None:
        self.user = user
        self.takes_product = False
        """Whether a part of a product is among them."""

    def part_of(self, value: SSAValue, part: PartRange) -> SSAValue | None:
        """A part of a tensor; ``None`` where the whole would be computed as well."""
        if isinstance(value, BlockArgument):
            return self._written(_seen_part(value, part), value)
        is_needed = is_given(value) or value.has_one_use()
        return self.computed(value, part) if is_needed else None

    def computed(self, value: SSAValue, part: PartRange) -> SSAValue | None:
        """The same, whatever uses the whole."""
        assert isinstance(value.owner, Operation)
        return self._written(computed_part(value.owner, part, self.part_of), value)

    def _written(self, op: Operation | None, whole: SSAValue) -> SSAValue | None:
        if op is None:
            return None
        self.takes_product |= isinstance(op, kn.MatmulOp)
        op.results[0].name_hint = whole.name_hint
        Rewriter.insert_op(op, InsertPoint.before(self.user))
        return op.results[0]


def _unpack(value: SSAValue) -> bool:
    """Computes the parts of a tensor apart, if each has a part of a product; whether they do."""
    cuts, parts = cuts_into(value), list[SSAValue]()
    if not meet(cuts):
        return False
    for cut in cuts:
        assert isinstance(cut.result.owner, Operation)
        unpacking = Unpacking(cut.result.owner)
        part = unpacking.computed(value, cut.part)
        if part is None or not unpacking.takes_product:
            return False
        if part.type != cut.result.type:  # a result of the function has its layout
            part = Rewriter.replace_value_with_new_type(part, cut.result.type)
        parts.append(part)
    for cut, part in zip(cuts, parts, strict=True):
        cut.result.replace_all_uses_with(part)
    return True


def unpack_products(function: FuncOp) -> bool:
    """Rewrite: computes parts of products apart where all that is used are parts, which meet.

    Returns whether there are any.
    """
    found = [_unpack(result) for op in (*function.body.block.ops,) for result in op.results]
    cse(function.body)
    region_dce(function.body)
    function.update_function_type()
    return any(found)


def has_packed_products(function: FuncOp) -> bool:
    """Analysis: whether a function has products, and a tensor of which parts alone are used."""
    operators = [*function.body.block.ops]
    return any(isinstance(op, kn.MatmulOp) for op in operators) and any(
        meet(cuts_into(result)) for op in operators for result in op.results
    )
