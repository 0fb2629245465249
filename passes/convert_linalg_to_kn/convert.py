"""One function an operator of ``linalg`` or ``tensor``: what it is in ``kn``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import cast

from xdsl.dialects import tensor
from xdsl.dialects.builtin import AnyFloat, TensorType
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap
from xdsl.utils.hints import isa

from mugraph.dialects import kn
from mugraph.dialects.tensor_types import element_type_of, shape_of
from mugraph.passes.convert_linalg_to_kn.bodies import (
    UnconvertibleError,
    constant_of,
    expression_of,
)
from mugraph.passes.convert_linalg_to_kn.emit import Emitter, Tensors
from mugraph.passes.convert_linalg_to_kn.expressions import (
    Argument,
    Call,
    Constant,
    Expression,
    call,
    substituted,
)
from mugraph.passes.convert_linalg_to_kn.views import arranged, reshaped

_Named = linalg.AddOp | linalg.SubOp | linalg.MulOp | linalg.ExpOp | linalg.LogOp | linalg.SqrtOp

Conversion = tuple[list[Operation], list[SSAValue]]
"""New operators in order, and what replaces each result of the old one."""


@singledispatch
def convert(op: Operation, tensors: Tensors) -> Conversion:
    """The operators that compute what ``op`` does.

    Raises :class:`UnconvertibleError` where kn has none.  A conversion may give values the layout
    that their memory has.
    """
    raise UnconvertibleError(f"'{op.name}' has no counterpart")


def require_static_floats(op: Operation) -> None:
    """Raises where a tensor has a dynamic extent or elements that are no floating-point numbers."""
    for value in (*op.operands, *op.results):
        if not isa(value.type, TensorType[Attribute]) or constant_of(value) is not None:
            continue
        shape, element_type = value.type.get_shape(), value.type.element_type
        if any(extent < 0 for extent in shape):
            raise UnconvertibleError("it has a dynamic extent; µGraphs need static ones")
        if not isinstance(element_type, AnyFloat):
            raise UnconvertibleError(f"it has elements of type {element_type}")
        if not shape:
            raise UnconvertibleError("it has a tensor of rank 0")


def is_zero(value: SSAValue) -> bool:
    """Whether a value is a tensor filled with zeros."""
    owner = value.owner
    if isinstance(owner, Operation) and owner.name == linalg.FillOp.name:
        return constant_of(owner.operands[0]) == 0.0
    return constant_of(value) == 0.0


def _dims_of(map_: AffineMap) -> list[int | None]:
    """The loop dimension at each place of a map; ``None`` for a constant 0."""
    dims: list[int | None] = []
    for expression in map_.results:
        match expression:
            case AffineDimExpr():
                dims.append(expression.position)
            case AffineConstantExpr(value=0):
                dims.append(None)
            case _:
                raise UnconvertibleError(f"it is indexed by {expression}")
    if len({dim for dim in dims if dim is not None}) != sum(dim is not None for dim in dims):
        raise UnconvertibleError("an operand is indexed by one dimension twice")
    return dims


def _places(dims: Sequence[int | None], wanted: Sequence[int]) -> list[int | None]:
    """Where each wanted loop dimension stands among an operand's."""
    return [dims.index(dim) if dim in dims else None for dim in wanted]


def _elementwise(
    expression: Expression,
    inputs: Sequence[SSAValue],
    result: SSAValue,
    before: list[Operation],
    tensors: Tensors,
) -> Conversion:
    """Operators for a scalar expression of tensors that are arranged as the result already."""
    element_type = element_type_of(result.type)
    numbers = [constant_of(operand) for operand in inputs]
    types = {
        element_type_of(operand.type)
        for operand, number in zip(inputs, numbers, strict=True)
        if number is None
    }
    if types - {element_type}:
        raise UnconvertibleError("its operands and result have different element types")
    arguments = [
        tensors.expression_of(operand) if number is None else Constant(number)
        for operand, number in zip(inputs, numbers, strict=True)
    ]
    composed = substituted(expression, arguments)
    # Also where it cannot be computed alone: what uses it may be recognised as a whole.
    tensors.expressions[result] = composed
    emitter = Emitter(tensors, element_type)
    value = emitter.emit(composed)
    if shape_of(value.type) != shape_of(result.type):
        raise UnconvertibleError("its result is larger than what it computes; kn has no broadcast")
    emitter.commit()
    return [*before, *emitter.operators], [value]


@convert.register
def _(op: linalg.GenericOp, tensors: Tensors) -> Conversion:
    kinds = [kind.data for kind in op.iterator_types]
    maps = [_dims_of(map_.data) for map_ in op.indexing_maps]
    if len(op.outputs) != 1 or len(op.res) != 1:
        raise UnconvertibleError("it has more than one output, or works on memrefs")
    *read, written = maps
    if all(kind is IteratorType.PARALLEL for kind in kinds):
        if written != list(range(len(kinds))):
            raise UnconvertibleError("its output is not indexed by all dimensions in order")
        expression = expression_of(op.body.block, len(op.inputs))
        views: list[Operation] = []
        inputs = [
            value
            if constant_of(value) is not None
            else arranged(value, _places(dims, range(len(kinds))), views, tensors)
            for value, dims in zip(op.inputs, read, strict=True)
        ]
        return _elementwise(expression, inputs, op.res[0], views, tensors)
    return _contraction(op, kinds, read, written, tensors)


def _contraction(
    op: linalg.GenericOp,
    kinds: Sequence[IteratorType],
    read: Sequence[Sequence[int | None]],
    written: Sequence[int | None],
    tensors: Tensors,
) -> Conversion:
    """A sum of an operand, or of the products of two, over the reduction dimensions."""
    reduced = [dim for dim, kind in enumerate(kinds) if kind is IteratorType.REDUCTION]
    if not is_zero(op.outputs[0]):
        raise UnconvertibleError("it adds to an output that does not start at zero")
    # The output stands after the inputs in the body: a sum is output + term.
    expression = expression_of(op.body.block, len(op.inputs) + 1)
    old = Argument(len(op.inputs))
    if expression == call("add", old, Argument(0)) and len(op.inputs) == 1:
        if list(written) != [dim for dim in range(len(kinds)) if dim not in reduced]:
            raise UnconvertibleError("its output is not indexed by all other dimensions in order")
        operators: list[Operation] = []
        value = arranged(op.inputs[0], _places(read[0], range(len(kinds))), operators, tensors)
        return _sum(value, reduced, op.res[0], operators, tensors)
    if expression == call("add", old, call("mul", Argument(0), Argument(1))):
        return _product(op, reduced, read, written, tensors)
    raise UnconvertibleError("its body is neither a sum nor a sum of products")


def _sum(
    value: SSAValue,
    dims: Sequence[int],
    result: SSAValue,
    operators: list[Operation],
    tensors: Tensors,
) -> Conversion:
    """One kn.reduction a dimension, then the tensor without them."""
    for dim in dims:
        shape = list(shape_of(value.type))
        shape[dim] = 1
        reduction = kn.ReductionOp(value, dim, TensorType(element_type_of(value.type), shape))
        operators.append(reduction)
        value = reduction.result
    return operators, [reshaped(value, shape_of(result.type), operators, tensors)]


def _product(
    op: linalg.GenericOp,
    reduced: Sequence[int],
    read: Sequence[Sequence[int | None]],
    written: Sequence[int | None],
    tensors: Tensors,
) -> Conversion:
    """A matrix product, whatever the order of the operands' dimensions."""
    left, right = read
    batch = [dim for dim in written if dim in left and dim in right]
    rows = [dim for dim in written if dim in left and dim not in right]
    columns = [dim for dim in written if dim in right and dim not in left]
    if len(reduced) != 1 or len(rows) != 1 or len(columns) != 1 or None in written:
        raise UnconvertibleError("it is no product of matrices with one summed dimension")
    order = [*batch, *rows, *columns]
    if list(written) != order:
        raise UnconvertibleError("its output is not indexed by batch, row, column in that order")
    operators: list[Operation] = []
    wanted_left = cast(list[int], [*batch, *rows, *reduced])
    wanted_right = cast(list[int], [*batch, *reduced, *columns])
    lhs = arranged(op.inputs[0], _places(left, wanted_left), operators, tensors)
    rhs = arranged(op.inputs[1], _places(right, wanted_right), operators, tensors)
    return _matmul(lhs, rhs, op.outputs[0], op.res[0], operators)


def _matmul(
    lhs: SSAValue,
    rhs: SSAValue,
    start: SSAValue,
    result: SSAValue,
    operators: list[Operation],
) -> Conversion:
    """The product, added to what the output held before."""
    types = {element_type_of(value.type) for value in (lhs, rhs, result)}
    if len(types) > 1:
        raise UnconvertibleError("its operands and result have different element types")
    product = kn.MatmulOp(lhs, rhs, result.type)
    operators.append(product)
    if is_zero(start):
        return operators, [product.result]
    total = kn.AddOp(product.result, start, result.type)
    return [*operators, total], [total.result]


@convert.register
def _(op: linalg.MatmulOp, tensors: Tensors) -> Conversion:
    maps = [_dims_of(map_.data) for map_ in op.get_indexing_maps()]
    if maps != [[0, 2], [2, 1], [0, 1]]:
        raise UnconvertibleError("it transposes an operand")
    return _matmul(op.inputs[0], op.inputs[1], op.outputs[0], op.res[0], [])


_FUNCTIONS: dict[type[Operation], str] = {
    linalg.AddOp: "add",
    linalg.SubOp: "sub",
    linalg.MulOp: "mul",
    linalg.ExpOp: "exp",
    linalg.LogOp: "log",
    linalg.SqrtOp: "sqrt",
}
"""What the named element-wise operators compute."""


def _named(op: _Named, tensors: Tensors) -> Conversion:
    arguments = [Argument(index) for index in range(len(op.inputs))]
    function = call(_FUNCTIONS[type(op)], *arguments)
    return _elementwise(function, op.inputs, op.res[0], [], tensors)


for _kind in _FUNCTIONS:
    convert.register(_kind, _named)


@convert.register
def _(op: linalg.TransposeOp, tensors: Tensors) -> Conversion:
    operators: list[Operation] = []
    permutation = cast(Sequence[int], op.permutation.get_values())
    return operators, [arranged(op.inputs[0], list(permutation), operators, tensors)]


@convert.register
def _(op: linalg.ReduceOp, tensors: Tensors) -> Conversion:
    if not is_zero(op.init):
        raise UnconvertibleError("it adds to an output that does not start at zero")
    if expression_of(op.region.block, 2) != Call("add", (Argument(0), Argument(1))):
        raise UnconvertibleError("it reduces by something else than a sum")
    dims = cast(Sequence[int], op.dimensions.get_values())
    return _sum(op.input, dims, op.result[0], [], tensors)


@convert.register
def _(op: tensor.ExpandShapeOp, tensors: Tensors) -> Conversion:
    operators: list[Operation] = []
    return operators, [reshaped(op.src, shape_of(op.result.type), operators, tensors)]


@convert.register
def _(op: tensor.CollapseShapeOp, tensors: Tensors) -> Conversion:
    operators: list[Operation] = []
    return operators, [reshaped(op.src, shape_of(op.result.type), operators, tensors)]


@convert.register
def _(op: tensor.ConcatOp, tensors: Tensors) -> Conversion:
    join = kn.ConcatOp(op.inputs, op.dim.value.data, op.result.type)
    return [join], [join.result]


@convert.register
def _(op: tensor.ExtractSliceOp, tensors: Tensors) -> Conversion:
    if op.offsets or op.sizes or op.strides:
        raise UnconvertibleError("its offsets or sizes are not static")
    offsets, sizes, steps = (
        cast(Sequence[int], attribute.get_values())
        for attribute in (op.static_offsets, op.static_sizes, op.static_strides)
    )
    shape = shape_of(op.source.type)
    cut = [dim for dim in range(len(shape)) if sizes[dim] != shape[dim]]
    if any(step != 1 for step in steps) or len(cut) > 1:
        raise UnconvertibleError("it takes steps, or cuts more than one dimension")
    if len(shape_of(op.result.type)) != len(shape):
        raise UnconvertibleError("it drops dimensions")
    if not cut:
        return [], [op.source]
    (dim,) = cut
    extents = [offsets[dim], sizes[dim], shape[dim] - offsets[dim] - sizes[dim]]
    types = [
        TensorType(element_type_of(op.source.type), (*shape[:dim], extent, *shape[dim + 1 :]))
        for extent in extents
        if extent > 0
    ]
    parts = kn.SplitOp(op.source, dim, types)
    return [parts], [parts.results[1 if offsets[dim] > 0 else 0]]
