"""What lies behind a named extent is kept out of sums and maxima.

Tensors have room for the extent's largest value.  Where an operator combines elements along such a
dimension, a ``kn.mask`` puts the identity of the combination in place of those behind the value,
unless data flow shows that it stands there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import singledispatch

from xdsl.dialects.builtin import UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint

from mugraph.dialects import kn
from mugraph.dialects.interfaces import HasTileIndices, IndexKind
from mugraph.dialects.linear_forms import LinearForm
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.named_extents import NamedExtent, Names
from mugraph.dialects.reductions import Combiner
from mugraph.dialects.tensor_types import shape_of


@singledispatch
def identity_of(op: Operation) -> float | None:
    """What changes no result of an operator that combines elements; ``None`` where nothing does."""
    return None


@identity_of.register
def _(op: kn.SoftmaxOp) -> float | None:
    return -math.inf


@identity_of.register
def _(op: kn.MatmulOp) -> float | None:
    return 0.0


@identity_of.register
def _(op: kn.ReductionOp) -> float | None:
    if shape_of(op.result.type)[op.reduced_dim] != 1:
        return None  # which elements are in one run would depend on the extent
    return 0.0 if op.combination is Combiner.SUM else -math.inf


def combined_dims(op: Operation, operand: int) -> Sequence[int]:
    """The dimensions of an operand along which an operator combines elements."""
    if isinstance(op, kn.SoftmaxOp):
        return [op.reduced_dim]
    if not isinstance(op, HasTileIndices):
        return []
    dims = ((index.kind, index.operands[operand]) for index in op.tile_indices())
    return [dim for kind, dim in dims if dim is not None and kind is not IndexKind.PARALLEL]


def mask_behind_ends(
    function: FuncOp,
    names: Mapping[SSAValue, Names],
    extents: Mapping[str, NamedExtent],
    holder_of: Callable[[NamedExtent], SSAValue],
) -> None:
    """Puts masks before the operands of which a static function's operators combine elements.

    ``names`` are those of the dimensions of its tensors.  Of the ``extents`` tensors have room for
    the largest value; ``holder_of`` one is a tensor that holds its value.
    """
    behind: dict[SSAValue, kn.Constants] = {}
    known: dict[tuple[SSAValue, int, float], SSAValue] = {}
    for op in tuple(function.body.block.ops) if extents else ():
        for operand, value in enumerate(op.operands):
            for dim in combined_dims(op, operand):
                name, identity = names[value][dim], identity_of(op)
                if name not in extents or behind.get(value, {}).get(dim) == identity:
                    continue
                assert identity is not None  # or the program was refused
                if (value, dim, identity) not in known:
                    mask = mask_behind(
                        value, dim, extents[name], identity, holder_of(extents[name])
                    )
                    Rewriter.insert_op(mask, InsertPoint.before(op))
                    known[value, dim, identity] = mask.result
                    behind[mask.result] = {dim: identity}
                    if identity == -math.inf:
                        _use_in_functions(mask, op)
                op.operands[operand] = known[value, dim, identity]
        if isinstance(op, kn.SoftmaxOp) and kn.may_be_empty(op.input, op.reduced_dim):
            op.or_zero = UnitAttr()
        constants = kn.constants_behind(op, [behind.get(value, {}) for value in op.operands])
        behind.update(dict.fromkeys(op.results, constants))


def _use_in_functions(mask: kn.MaskOp, op: Operation) -> None:
    """Lets functions behind an operator take masked elements, too, as those of a softmax do.

    Kernels find the maximum of what they subtract it from.
    """
    for use in tuple(mask.input.uses):
        user = use.operation
        if isinstance(user, kn.ElementwiseOp) and op.is_before_in_block(user):
            user.operands[use.index] = mask.result


def mask_behind(
    value: SSAValue, dim: int, extent: NamedExtent, constant: float, holder: SSAValue
) -> kn.MaskOp:
    """A tensor with a constant in place of what lies behind an extent along a dimension."""
    *coordinates, length = LinearForm.coordinates(len(shape_of(value.type)) + 1)
    form = length - coordinates[dim] - 1
    mask = kn.MaskOp(value, [form], constant, None, [holder], [extent.largest])
    mask.result.name_hint = value.name_hint
    return mask
