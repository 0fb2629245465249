"""``--convert-linalg-to-kn``: tensor programs of other front ends become kernel graphs."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import tensor
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects.locations import Rewriter
from mugraph.dialects.tensor_types import op_label
from mugraph.passes.program.convert_linalg_to_kn.bodies import UnconvertibleError
from mugraph.passes.program.convert_linalg_to_kn.convert import convert
from mugraph.passes.program.convert_linalg_to_kn.emit import Tensors

__all__ = ["ConvertLinalgToKnPass", "convert_linalg_to_kn"]

_SOURCE_DIALECTS = ("linalg", "tensor")
_MAKES_OPERANDS = (linalg.FillOp, tensor.EmptyOp, ConstantOp)
"""What only makes what others start from; it goes when nothing uses it any more."""


def convert_linalg_to_kn(function: FuncOp, *, tf32: bool = False) -> list[str]:
    """Converts what it can; returns a sentence for every operator that stays, saying why.

    ``tf32`` lets products of f32 round their operands to TF32.
    """
    tensors = Tensors(tf32)
    reasons: dict[Operation, UnconvertibleError] = {}
    for op in tuple(function.body.ops if len(function.body.blocks) == 1 else ()):
        if op.dialect_name() not in _SOURCE_DIALECTS or isinstance(op, _MAKES_OPERANDS):
            continue
        tensors.here = op
        try:
            values = convert(op, tensors)
        except UnconvertibleError as reason:
            reasons[op] = reason
            continue
        for result, value in zip(op.results, values, strict=True):
            tensors.rename(result, value)
        hints = [result.name_hint for result in op.results]
        Rewriter.replace_op(op, [], values)
        for value, hint in zip(values, hints, strict=True):
            value.name_hint = value.name_hint or hint
    _remove_unused(function)
    function.update_function_type()
    return [
        f"{op_label(op)} stays, because {reason}"
        for op, reason in reasons.items()
        if op.parent is not None
    ]


def _remove_unused(function: FuncOp) -> None:
    """Removes operators on tensors that nothing uses any more."""
    for op in reversed(tuple(function.walk())):
        unused = not any(tuple(result.uses) for result in op.results)
        if unused and (isinstance(op, _MAKES_OPERANDS) or _is_on_tensors(op)):
            Rewriter.erase_op(op)


def _is_on_tensors(op: Operation) -> bool:
    """Whether an operator only computes tensors from tensors; then it may go when unused."""
    known = op.dialect_name() in (*_SOURCE_DIALECTS, "kn")
    values = (*op.operands, *op.results)
    return known and bool(op.results) and all(_is_no_memref(value) for value in values)


def _is_no_memref(value: SSAValue) -> bool:
    return not isinstance(value.type, MemRefType)


@dataclass(frozen=True)
class ConvertLinalgToKnPass(ModulePass):
    """Converts ``linalg`` operators, generics and ``tensor`` operators to ``kn``.

    It converts all structured operators, named or generic, on static shapes and floating-point
    elements: products of matrices and vectors (any order of dimensions, batches), sums and maxima
    over dimensions, and element-wise operators. Scalar expressions are normalised, so that relu,
    gelu, silu, sigmoid and clamp are recognised, also where a front end spreads them over several
    operators. Operators that only repeat elements or cast them exactly are skipped.
    Transposes, ``tensor.expand_shape`` and ``collapse_shape`` become ``kn.view``, which fixes the
    layout of what they look at to row-major; ``tensor.concat`` and ``tensor.extract_slice`` are
    converted as well.

    Products of f16 and bf16 are exact, and their sums f32 where the result is.  Products of f32 get
    ``precision ieee``, as PyTorch computes them unless told otherwise; with ``tf32=true`` their
    operands may be rounded to TF32, which is faster.  Element-wise results are computed in the
    widest type that the operators compute in, and rounded where they are stored: a rounding between
    two operators may be left out, except one to 8 bits.

    ``mg-opt`` reads what xDSL's ``linalg`` lacks of MLIR's: generics with several results, batched
    and vector products, and products and convolutions whose sums are wider than their operands.

    Everything else stays unchanged, including operators of other dialects. A note on stderr names
    each such operator and the reason; with ``strict=true`` the first is an error.

    Before::

        %0 = linalg.matmul ins(%x, %w : tensor<4x8xf16>, tensor<8x2xf16>)
                           outs(%zeros : tensor<4x2xf16>) -> tensor<4x2xf16>

    After::

        %0 = kn.matmul %x, %w : (tensor<4x8xf16>, tensor<8x2xf16>) -> tensor<4x2xf16>
    """

    name = "convert-linalg-to-kn"

    strict: bool = False
    tf32: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Converts in every function of the module."""
        for function in op.walk():
            if isinstance(function, FuncOp) and not function.is_declaration:
                left = convert_linalg_to_kn(function, tf32=self.tf32)
                if left and self.strict:
                    raise PassFailedException(f"--{self.name}: {left[0]}")
                for sentence in left:
                    print(f"--{self.name}: note: {sentence}", file=sys.stderr)
