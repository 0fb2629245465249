"""One function a kind of operator of ``linalg`` or ``tensor``: what it is in ``kn``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import cast

from xdsl.dialects import tensor
from xdsl.dialects.builtin import TensorType, f16, f32
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap

from mugraph.dialects import kn
from mugraph.dialects.element_types import HALF_TYPES
from mugraph.dialects.precision import Precision
from mugraph.dialects.reductions import Combiner
from mugraph.dialects.shapes import broadcast_shape
from mugraph.dialects.tensor_types import dims, element_type_of, shape_of, value_label
from mugraph.passes.program.convert_linalg_to_kn.bodies import (
    Body,
    UnconvertibleError,
    body_of,
    constant_of,
    is_of_8_bits,
    widest,
)
from mugraph.passes.program.convert_linalg_to_kn.emit import (
    Emitter,
    Tensors,
    is_within,
    require_tensor,
)
from mugraph.passes.program.convert_linalg_to_kn.expressions import (
    Argument,
    Call,
    Constant,
    Expression,
    arguments_of,
    call,
    substituted,
)
from mugraph.passes.program.convert_linalg_to_kn.views import arranged, reshaped

Dims = Sequence[int | None]
"""The loop dimension at each place of a tensor; ``None`` for its only element."""


@singledispatch
def convert(op: Operation, tensors: Tensors) -> Sequence[SSAValue]:
    """What replaces each result of an operator.

    Raises :class:`UnconvertibleError` where kn has nothing for it.  A conversion may give values
    the layout that their memory has.
    """
    raise UnconvertibleError(
        f"'{op.name}' has no counterpart in kn; compute it in another function, or write it with "
        "the operators that have one"
    )


@dataclass(frozen=True)
class Loops:
    """A structured operator: loops over a body that reads and writes an element of each tensor."""

    inputs: Sequence[SSAValue]
    outputs: Sequence[SSAValue]
    maps: Sequence[Dims]
    """Of the inputs, then of the outputs."""
    reduced: Sequence[int]
    """The loop dimensions that results are reduced over."""
    block: Block
    results: Sequence[SSAValue]

    @property
    def operands(self) -> Sequence[SSAValue]:
        """The body's arguments are an element of each."""
        return [*self.inputs, *self.outputs]

    def extents(self) -> list[int]:
        """How many iterations each loop has."""
        found: dict[int, int] = {}
        for value, places in zip(self.operands, self.maps, strict=True):
            shape = shape_of(value.type) if places else ()
            found |= {d: e for d, e in zip(places, shape, strict=True) if d is not None}
        return [found[dim] for dim in sorted(found)]

    def source(
        self, index: int, order: Dims, tensors: Tensors
    ) -> tuple[SSAValue, list[int | None]]:
        """The tensor whose elements an operand has, and where loop dimensions stand in it."""
        own = self.seen_through(index, tensors)
        places = [own.index(dim) if dim is not None and dim in own else None for dim in order]
        return tensors.source_of(self.operands[index]), places

    def seen_through(self, index: int, tensors: Tensors) -> Dims:
        """An operand's map without the loop dimensions along which its elements are repeated."""
        value = require_tensor(self.operands[index])
        shapes = (shape_of(each.type) for each in (value, tensors.source_of(value)))
        return [
            None if extent < wide else dim
            for dim, wide, extent in zip(self.maps[index], *shapes, strict=True)
        ]

    def composed(
        self, expression: Expression, order: Dims, tensors: Tensors
    ) -> tuple[Expression, list[Attribute], list[SSAValue]]:
        """The expression of whole tensors, with loop dimensions in that order.

        Also the types that they are computed in, and the tensors themselves, so arranged.
        """
        wanted = arguments_of(expression)
        arguments: list[Expression] = []
        types: list[Attribute] = []
        arranged_: list[SSAValue] = []
        for index, value in enumerate(self.operands):
            number = constant_of(value)
            if index not in wanted or number is not None:
                arguments.append(Constant(number or 0.0))
                continue
            seen = arranged(*self.source(index, order, tensors), tensors)
            arguments.append(tensors.expression_of(seen))
            types.append(tensors.width_of(seen))
            arranged_.append(seen)
        return substituted(expression, arguments), types, arranged_


def _dims_of(map_: AffineMap, value: SSAValue) -> Dims:
    """The loop dimension at each place of a map; ``None`` for a constant 0."""
    found: list[int | None] = []
    for expression in map_.results:
        match expression:
            case AffineDimExpr():
                found.append(expression.position)
            case AffineConstantExpr(value=0):
                found.append(None)
            case _:
                raise UnconvertibleError(
                    f"{value_label(value)} is indexed by {expression}, and kn has no windows; "
                    "write a convolution as a product of matrices"
                )
    numbers = [dim for dim in found if dim is not None]
    if len(set(numbers)) < len(numbers):
        raise UnconvertibleError(f"{value_label(value)} is indexed by one dimension twice")
    return found


@convert.register
def _(op: LinalgStructuredOperation, tensors: Tensors) -> Sequence[SSAValue]:
    values = [*op.inputs, *op.outputs]
    maps = [
        _dims_of(map_.data, value)
        for map_, value in zip(op.get_indexing_maps(), values, strict=True)
    ]
    kinds = [kind.data for kind in op.get_iterator_types()]
    reduced = [dim for dim, kind in enumerate(kinds) if kind is not IteratorType.PARALLEL]
    return _loops(Loops(op.inputs, op.outputs, maps, reduced, op.body.block, op.res), tensors)


@convert.register
def _(op: linalg.ReduceOp, tensors: Tensors) -> Sequence[SSAValue]:
    reduced = cast(Sequence[int], op.dimensions.get_values())
    every = range(len(shape_of(op.input.type)))
    maps = [list(every), [dim for dim in every if dim not in reduced]]
    return _loops(Loops([op.input], [op.init], maps, reduced, op.region.block, op.result), tensors)


@convert.register
def _(op: linalg.BroadcastOp, tensors: Tensors) -> Sequence[SSAValue]:
    every = range(len(shape_of(op.init.type)))
    kept = [dim for dim in every if dim not in op.dimensions.get_values()]
    block = op.hidden_region.block
    return _loops(Loops([op.input], [op.init], [kept, list(every)], [], block, op.result), tensors)


def _loops(loops: Loops, tensors: Tensors) -> Sequence[SSAValue]:
    if not loops.results:
        raise UnconvertibleError("it works on memrefs; kn has tensors: bufferize after mugraph")
    for result in loops.results:
        require_tensor(result)
    body = body_of(loops.block)
    if loops.reduced:
        return [_reduction(loops, body, tensors)]
    return [
        _elementwise(loops, body, index, result, tensors)
        for index, result in enumerate(loops.results)
    ]


def _elementwise(
    loops: Loops, body: Body, index: int, result: SSAValue, tensors: Tensors
) -> SSAValue:
    """One of the results of loops that are all parallel."""
    written = loops.maps[len(loops.inputs) + index]
    if {dim for dim in written if dim is not None} != set(range(len(loops.extents()))):
        raise UnconvertibleError(f"{value_label(result)} is written several times")
    expression, types, _ = loops.composed(body.results[index], written, tensors)
    computed = [] if body.element_type is None else [body.element_type]
    return tensors.materialize(expression, result, [*types, *computed])


def _reduction(loops: Loops, body: Body, tensors: Tensors) -> SSAValue:
    """What an output is made of over the reduction dimensions: a product, a sum, or a maximum."""
    if len(loops.results) > 1:
        raise UnconvertibleError(
            f"it reduces to {len(loops.results)} results at once, such as a maximum and its place; "
            "write one operator a result"
        )
    old = Argument(len(loops.inputs))
    match body.results[0]:
        case Call(function="add", operands=operands) if operands.count(old) == 1:
            function, combiner, start_of_all = "add", Combiner.SUM, 0.0
            term = call("add", Constant(0.0), *(part for part in operands if part != old))
        case Call(function="maximum", operands=(one, other)) if (one == old) != (other == old):
            function, combiner, start_of_all = "maximum", Combiner.MAX, -math.inf
            term = other if one == old else one
        case _:
            raise UnconvertibleError(
                "its body adds nothing to its output; sums and maxima along dimensions are all "
                "that kn has"
            )
    if old.index in arguments_of(term):
        raise UnconvertibleError("its body computes with the sum so far; write that behind the sum")
    total = _product(loops, term, tensors) if combiner is Combiner.SUM else None
    if total is None:
        total = _combined(loops, term, combiner, body, tensors)
    (start,), (result,) = loops.outputs, loops.results
    number = constant_of(start)
    if number == start_of_all:
        return total
    first = Constant(number) if number is not None else tensors.expression_of(require_tensor(start))
    whole = call(function, tensors.expression_of(total), first)
    return tensors.materialize(whole, result, [element_type_of(total.type)])


def _combined(
    loops: Loops, term: Expression, combiner: Combiner, body: Body, tensors: Tensors
) -> SSAValue:
    """One kn.reduction a dimension of the terms of a sum, or of what one is the largest of."""
    (result,) = loops.results
    extents = loops.extents()
    expression, types, operands = loops.composed(term, range(len(extents)), tensors)
    shape = broadcast_shape([shape_of(value.type) for value in operands] or [[1] * len(extents)])
    if not operands or not is_within(shape, operands):
        raise UnconvertibleError(
            f"it sums {dims(shape)} terms, more than an operand has elements, and is no product of "
            "two matrices; write such products, and sums of one operand"
        )
    is_sum = combiner is Combiner.SUM
    repeats = math.prod(extents[dim] // shape[dim] for dim in loops.reduced) if is_sum else 1
    computed = [] if body.element_type is None else [body.element_type]
    emitter = Emitter(tensors, widest([*types, *computed, element_type_of(result.type)]))
    value = emitter.emit(call("mul", Constant(float(repeats)), expression))
    for dim in loops.reduced:
        own = list(shape_of(value.type))
        own[dim] = 1
        type_ = element_type_of(result.type) if dim == loops.reduced[-1] else f32
        value = tensors.add(kn.ReductionOp(value, dim, TensorType(type_, own), combiner))
    return arranged(value, loops.maps[-1], tensors)


def _product(loops: Loops, term: Expression, tensors: Tensors) -> SSAValue | None:
    """A matrix product, whatever the order of the operands' dimensions, if the terms are of one."""
    match term:
        case Call(function="mul", operands=(Argument(index=one), Argument(index=other))):
            pass
        case _:
            return None
    if one == other or max(one, other) >= len(loops.inputs):
        return None
    left, right = (loops.seen_through(index, tensors) for index in (one, other))
    written = loops.maps[-1]
    kept = [dim for dim in written if dim is not None]
    batch = [dim for dim in kept if dim in left and dim in right]
    rows = [dim for dim in kept if dim not in right]
    columns = [dim for dim in kept if dim not in left]
    if any(dim not in left or dim not in right for dim in loops.reduced):
        return None
    extents = loops.extents()

    def factor(index: int, *groups: Sequence[int]) -> SSAValue:
        order = [dim for group in groups for dim in group or [None]]
        value = arranged(*loops.source(index, order, tensors), tensors)
        return _merged(value, [max(len(group), 1) for group in groups], tensors)

    batches = [[dim] for dim in batch]
    lhs = factor(one, *batches, rows, loops.reduced)
    rhs = factor(other, *batches, loops.reduced, columns)
    value = _matmul(lhs, rhs, element_type_of(loops.results[0].type), tensors)
    value = reshaped(value, [extents[dim] for dim in (*batch, *rows, *columns)], tensors)
    order = [*batch, *rows, *columns]
    return arranged(value, [None if dim is None else order.index(dim) for dim in written], tensors)


def _merged(value: SSAValue, counts: Sequence[int], tensors: Tensors) -> SSAValue:
    """The value with so many neighbouring dimensions merged into each of its new ones."""
    shape, merged = list(shape_of(value.type)), list[int]()
    for count in counts:
        extent = 1
        for _ in range(count):
            extent *= shape.pop(0)
        merged.append(extent)
    return reshaped(value, merged, tensors)


def _matmul(lhs: SSAValue, rhs: SSAValue, wanted: Attribute, tensors: Tensors) -> SSAValue:
    """The product in an element type; products of narrow elements are exact, sums are f32.

    f32 is multiplied as it is, unless TF32 is asked for; narrower elements are no less in TF32.
    """
    types = [element_type_of(value.type) for value in (lhs, rhs)]
    if all(map(is_of_8_bits, types)):
        lhs, rhs = (tensors.cast(value, f16) for value in (lhs, rhs))
        types = [f16, f16]
    type_, precision = types[0], None
    if types[0] != types[1] or type_ not in HALF_TYPES:
        lhs, rhs = (tensors.cast(value, f32) for value in (lhs, rhs))
        precision = Precision.IEEE if f32 in types and not tensors.tf32 else None
        type_ = f32
    stored = wanted if wanted == type_ else f32
    shape = (*shape_of(lhs.type)[:-1], shape_of(rhs.type)[-1])
    product = tensors.add(kn.MatmulOp(lhs, rhs, TensorType(stored, shape), None, precision))
    return tensors.cast(product, wanted)


@convert.register
def _(op: tensor.ExpandShapeOp | tensor.CollapseShapeOp, tensors: Tensors) -> Sequence[SSAValue]:
    require_tensor(op.result)
    return [reshaped(require_tensor(op.src), shape_of(op.result.type), tensors)]


@convert.register
def _(op: tensor.CastOp, tensors: Tensors) -> Sequence[SSAValue]:
    require_tensor(op.dest)
    return [require_tensor(op.source)]


@convert.register
def _(op: tensor.ConcatOp, tensors: Tensors) -> Sequence[SSAValue]:
    inputs = [require_tensor(value) for value in op.inputs]
    return [tensors.add(kn.ConcatOp(inputs, op.dim.value.data, op.result.type))]


@convert.register
def _(op: tensor.ExtractSliceOp, tensors: Tensors) -> Sequence[SSAValue]:
    if op.offsets or op.sizes or op.strides:
        raise UnconvertibleError("its offsets or sizes are not static; write them as numbers")
    offsets, sizes, steps = (
        cast(Sequence[int], attribute.get_values())
        for attribute in (op.static_offsets, op.static_sizes, op.static_strides)
    )
    if any(step != 1 for step in steps):
        raise UnconvertibleError("it takes steps; kn takes neighbouring elements")
    require_tensor(op.result)
    value = require_tensor(op.source)
    if tuple(sizes) != shape_of(value.type):
        value = tensors.add(
            kn.SliceOp(value, offsets, TensorType(element_type_of(value.type), sizes))
        )
    return [reshaped(value, shape_of(op.result.type), tensors)]
