"""What a kernel is, as a digest: the same for kernels that differ in names alone.

Operators, their properties, extents and element types count, and the parts of the plan that are
written.  What is around the kernel does not: a kernel whose rows a call says is the same as one
that always has as many rows as that has at most.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.hints import isa

from mugraph.dialects.cute import make_row_major_layout
from mugraph.dialects.kn import CERTIFICATE, CustomizedOp
from mugraph.dialects.tensor_types import layout_of

DIGITS = 32
"""Of the digest, in hexadecimal."""


def structure_of(graph: CustomizedOp) -> str:
    """The digest of a kernel."""
    text = "\n".join(_lines(graph, {}))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def _lines(op: Operation, numbers: dict[SSAValue | Block, int]) -> Iterator[str]:
    """A line for each operator; values and blocks are numbered in the order that they are met."""
    said = {**op.properties, **op.attributes}
    parts = [f"{name}={said[name]}" for name in sorted(said) if name != CERTIFICATE]
    successors = [f"^{numbers.setdefault(block, len(numbers))}" for block in op.successors]
    results, operands = _typed(op.results, numbers), _typed(op.operands, numbers)
    yield f"{results} = {op.name} {operands} {successors} {parts}"
    for region in op.regions:
        for block in region.blocks:
            yield f"^{numbers.setdefault(block, len(numbers))} {_typed(block.args, numbers)}"
            for inner in block.ops:
                yield from _lines(inner, numbers)


def _typed(values: Sequence[SSAValue], numbers: dict[SSAValue | Block, int]) -> list[str]:
    return [
        f"%{numbers.setdefault(each, len(numbers))}: {_type_text(each.type)}" for each in values
    ]


def _type_text(type_: Attribute) -> str:
    """A type; row-major tensors are the same whether their layout is written or not."""
    if isa(type_, TensorType) and layout_of(type_) == make_row_major_layout(type_.get_shape()):
        return str(TensorType(type_.element_type, type_.shape.data))
    return str(type_)
