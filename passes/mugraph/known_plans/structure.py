"""What a kernel is, as a digest: the same for kernels that differ in names alone.

Operators, their properties, extents and element types count, and the parts of the plan that are
written.  What is around the kernel does not: a kernel whose rows a call says is the same as one
that always has as many rows as that has at most.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence, Set

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.hints import isa

from mugraph.dialects.cute import make_row_major_layout
from mugraph.dialects.kn import CERTIFICATE, CustomizedOp
from mugraph.dialects.tensor_types import layout_of, shape_of

DIGITS = 32
"""Of the digest, in hexadecimal."""


def structure_of(graph: CustomizedOp) -> str:
    """The digest of a kernel."""
    return _digest(_lines(graph, {}))


def likeness_of(graph: CustomizedOp) -> tuple[str, tuple[int, ...]]:
    """A digest that kernels of other extents share, and the extents of its tensors.

    How it is cut as it is written does not count, nor do extents and strides in types, so that rows
    of another alignment count as alike; 0 and 1 do, as rows that are broadcast are another
    function.  Numbers in operators count, such as the width of a norm.
    """
    lines = (_EXTENT.sub("?", line) for line in _lines(graph, {}, {CERTIFICATE, *_CUT}))
    extents = [shape_of(value.type) for value in (*graph.operands, *graph.results)]
    return _digest(lines), tuple(itertools.chain(*extents))


_CUT = ("grid", "block", "forloop")
"""What says how a kernel is cut."""
_EXTENT = re.compile(r"(?<=[<x])(?!1x)\d+(?=x)|(?<=[(,:])(?![01]\b)\d+(?=[,)])")
"""Of the type of a tensor: an extent, or a number of its layout."""


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:DIGITS]


def _lines(
    op: Operation,
    numbers: dict[SSAValue | Block, int],
    left_out: Set[str] = frozenset({CERTIFICATE}),
) -> Iterator[str]:
    """A line for each operator; values and blocks are numbered in the order that they are met."""
    said = {**op.properties, **op.attributes}
    parts = [f"{name}={said[name]}" for name in sorted(said) if name not in left_out]
    successors = [f"^{numbers.setdefault(block, len(numbers))}" for block in op.successors]
    results, operands = _typed(op.results, numbers), _typed(op.operands, numbers)
    yield f"{results} = {op.name} {operands} {successors} {parts}"
    for region in op.regions:
        for block in region.blocks:
            yield f"^{numbers.setdefault(block, len(numbers))} {_typed(block.args, numbers)}"
            for inner in block.ops:
                yield from _lines(inner, numbers, left_out)


def _typed(values: Sequence[SSAValue], numbers: dict[SSAValue | Block, int]) -> list[str]:
    return [
        f"%{numbers.setdefault(each, len(numbers))}: {_type_text(each.type)}" for each in values
    ]


def _type_text(type_: Attribute) -> str:
    """A type; row-major tensors are the same whether their layout is written or not."""
    if isa(type_, TensorType) and layout_of(type_) == make_row_major_layout(type_.get_shape()):
        return str(TensorType(type_.element_type, type_.shape.data))
    return str(type_)
