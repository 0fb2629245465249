"""``--f16-products``: few rows of bf16 are multiplied by numbers of f8 as f16.

f16 holds all numbers of f8, and one instruction converts a pair of them. A pair of bf16 takes four,
of which a product of few rows mostly consists.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import bf16, f16, f32
from xdsl.ir import Attribute, Operation, SSAValue

from mugraph.dialects import tb
from mugraph.dialects.element_types import F8_TYPES
from mugraph.dialects.elementwise import Epilogue, EpilogueAttr, ScalarFunction
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.locations import Rewriter, inherit_location
from mugraph.dialects.tensor_types import element_type_of, shape_of
from mugraph.passes.each import GraphPass

MOST_ROWS = 8
"""Rows of the left matrix up to which such products were timed."""
DOWN = 2.0**-14
"""Of the power of two below the largest number of a row, what its numbers are divided by: that one
becomes one of 2^14 to 2^15, and f16 rounds the others by at most 2^-39 of it."""


def _typed(value: SSAValue, element: Attribute) -> tb.STensorType:
    """The type of a tile with another element type."""
    return tb.STensorType(shape_of(value.type), element)


def products_by_f8(graph: CustomizedOp) -> Iterator[tb.MatmulOp]:
    """Products of few rows of bf16 by numbers of f8 that are converted for them alone."""
    for op in graph.body.block.ops:
        if not isinstance(op, tb.MatmulOp) or op.sliced is not None or tb.epilogue_of(op):
            continue
        if element_type_of(op.lhs.type) != bf16 or shape_of(op.lhs.type)[-2] > MOST_ROWS:
            continue
        cast = op.rhs.owner
        if not isinstance(cast, tb.CastOp) or tb.epilogue_of(cast) or len(list(op.rhs.uses)) != 1:
            continue
        if element_type_of(cast.input.type) in F8_TYPES:
            yield op


def is_from_0_to_1(value: SSAValue) -> bool:
    """Whether a tile has exponentials of numbers less their maximum, and nothing else."""
    exponential = value.owner
    if not isinstance(exponential, tb.ExpOp) or tb.epilogue_of(exponential):
        return False
    below = exponential.input.owner
    if not isinstance(below, tb.SubOp) or tb.epilogue_of(below):
        return False
    largest = below.rhs.owner
    return (
        isinstance(largest, tb.ReductionMaxOp)
        and largest.maximum is below.rhs
        and largest.input is below.lhs
    )


def holds_weights(op: tb.MatmulOp) -> bool:
    """Whether the left matrix has numbers from 0 to 1, and nothing else than sums reads it."""
    summed = (tb.ReductionOp, tb.AccumulatorOp)
    users = [use.operation for use in op.lhs.uses]
    return is_from_0_to_1(op.lhs) and all(user is op or isinstance(user, summed) for user in users)


def is_held(op: tb.MatmulOp) -> bool:
    """Whether the loop does not move the left matrix."""
    load = op.lhs.owner
    return isinstance(load, tb.InputOp) and load.fordim is None


def multiply_weights(op: tb.MatmulOp) -> None:
    """Makes a left matrix of numbers from 0 to 1 one of f16."""
    exponential = op.lhs.owner
    assert isinstance(exponential, tb.ExpOp)
    weights = tb.ExpOp(exponential.input, _typed(op.lhs, f16))
    inherit_location([weights], exponential)
    Rewriter.replace_op(exponential, weights)
    _replace(op, _in_f16(op, weights.result, op.result.type))


def multiply_held(op: tb.MatmulOp) -> None:
    """Divides the rows of a left matrix by powers of two, so that f16 holds them, and multiplies
    those of the product by these."""
    shape = shape_of(op.lhs.type)
    rows = tb.STensorType((*shape[:-1], 1), f32)
    sizes = tb.UNARY_OPERATORS["abs"](op.lhs)
    largest = tb.ReductionMaxOp(sizes.result, len(shape) - 1, [rows, rows])
    scale = tb.MulScalarOp(largest.maximum, rows, [DOWN])
    scale.properties["epilogue"] = EpilogueAttr(Epilogue((ScalarFunction("power_below"),)))
    halves = tb.DivOp(op.lhs, scale.result, _typed(op.lhs, f16))
    product = _in_f16(op, halves.result, _typed(op.result, f32))
    scaled = tb.MulOp(product[-1].results[0], scale.result, op.result.type)
    _replace(op, [sizes, largest, scale, halves, *product, scaled])


def _in_f16(op: tb.MatmulOp, lhs: SSAValue, result: Attribute) -> list[Operation]:
    """The product of a left matrix of f16 by the same numbers of f8."""
    cast = op.rhs.owner
    assert isinstance(cast, tb.CastOp)
    rhs = tb.CastOp(cast.input, _typed(op.rhs, f16))
    return [rhs, tb.MatmulOp(lhs, rhs.result, result)]


def _replace(op: tb.MatmulOp, written: list[Operation]) -> None:
    """Puts operators, of which the last one gives the result, in the place of a product, and of
    the conversion that it alone used."""
    cast = op.rhs.owner
    assert isinstance(cast, tb.CastOp)
    inherit_location(written, op)
    Rewriter.replace_op(op, written)
    Rewriter.erase_op(cast)


class F16ProductsPass(GraphPass):
    """Multiplies few rows of bf16 by numbers of f8 as f16, in kernels with a loop.

    f16 holds all numbers of f8, which are converted to it by fewer instructions than to bf16. The
    left matrix has numbers from 0 to 1, such as the weights of a softmax; or the loop does not move
    it, so that its rows are divided by powers of two before the loop, of which each product is then
    multiplied by its own. Where another product of the kernel has neither, all stay as they are:
    with a factor for each weight, decode attention took 10.1 us and not 10.0 on an H200. f16 rounds
    less than bf16 but for weights below 2^-16.

    Pre-condition: ``--online-softmax``.

    Before::

        %k16 = tb.cast %k : !tb.stensor<64x64xf8E4M3FN> -> !tb.stensor<64x64xbf16>
        %s = tb.matmul %q, %k16 : (...) -> !tb.stensor<4x64xbf16>

    After::

        %size = tb.abs %q : !tb.stensor<4x64xbf16> -> !tb.stensor<4x64xbf16>
        %most, %_ = tb.reduction_max %size dim 1 : !tb.stensor<4x64xbf16> -> (...)
        %scale = tb.mul_scalar %most by 6.10351562e-05 then [power_below] : (...)
        %q16 = tb.div %q, %scale : (...) -> !tb.stensor<4x64xf16>
        %k16 = tb.cast %k : !tb.stensor<64x64xf8E4M3FN> -> !tb.stensor<64x64xf16>
        %p = tb.matmul %q16, %k16 : (...) -> !tb.stensor<4x64xf32>
        %s = tb.mul %p, %scale : (...) -> !tb.stensor<4x64xbf16>
    """

    name = "f16-products"

    def run(self, graph: CustomizedOp) -> None:
        """Rewrites a threadblock graph."""
        if graph.forloop_range == 1:
            return
        products = list(products_by_f8(graph))
        if not all(holds_weights(each) or is_held(each) for each in products):
            return
        for product in products:
            if holds_weights(product):
                multiply_weights(product)
            else:
                multiply_held(product)
