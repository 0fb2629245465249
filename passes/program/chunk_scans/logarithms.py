"""Logarithms of decays: what a program has that it takes the exponential of, or the like."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Operation, SSAValue

from mugraph.dialects import kn
from mugraph.dialects.kn.composite import Expansion
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.tensor_types import layout_of, shape_of


def has_logarithm(value: SSAValue) -> bool:
    """Analysis: whether a tensor is positive by what computes it, so that its logarithm is known.

    Exponentials and sigmoids are, products of such, and views of them.
    """
    op = value.owner
    if not isinstance(op, Operation) or layout_of(value.type) is not None:
        return False
    if isinstance(op, kn.ElementwiseOp) and op.FUNCTION in ("exp", "sigmoid"):
        return True
    is_product = isinstance(op, kn.ElementwiseOp) and op.FUNCTION in ("mul", "identity")
    is_seen = isinstance(op, (kn.BroadcastOp, kn.ReshapeOp, kn.TransposeOp))
    return (is_product or is_seen) and all(map(has_logarithm, op.operands))


def logarithm(value: SSAValue, parts: Expansion) -> SSAValue:
    """Rewrite: the logarithm of a tensor that has one, in fp32.

    It may have extents of 1 where the tensor is a broadcast.
    """
    op = value.owner
    assert isinstance(op, Operation)
    if isinstance(op, kn.BroadcastOp):
        return logarithm(op.input, parts)
    if isinstance(op, (kn.ReshapeOp, kn.TransposeOp)):
        own = logarithm(op.input, parts)
        if shape_of(own.type) != shape_of(op.input.type):
            own = parts.add(kn.BroadcastOp(own, TensorType(f32, shape_of(op.input.type))))
        seen = op.clone({op.input: own})
        Rewriter.replace_value_with_new_type(seen.results[0], TensorType(f32, shape_of(value.type)))
        return parts.add(seen)
    assert isinstance(op, kn.ElementwiseOp)
    if op.FUNCTION == "exp":
        return op.operands[0]
    if op.FUNCTION == "sigmoid":
        # log(1 / (1 + exp(-x))) is -log(1 + exp(-x)).
        negated = parts.apply("mul_scalar", op.operands[0], constants=(-1.0,))
        return parts.apply("mul_scalar", parts.apply("softplus", negated), constants=(-1.0,))
    logarithms = [logarithm(operand, parts) for operand in op.operands]
    return logarithms[0] if len(logarithms) == 1 else parts.apply("add", *logarithms)
