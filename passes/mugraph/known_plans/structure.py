"""What a kernel is, as a digest: the same for kernels that differ in names alone.

Operators, their properties, extents and element types count, and the parts of the plan that are
written.  What is around the kernel does not: a kernel whose rows a call says is the same as one
that always has as many rows as that has at most.  Kernels of one *family* differ in numbers alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import partial

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.hints import isa

from mugraph.dialects.cute import make_row_major_layout
from mugraph.dialects.kn import CERTIFICATE, CustomizedOp
from mugraph.dialects.tb import STensorType
from mugraph.dialects.tensor_types import layout_of

DIGITS = 32
"""Of the digest, in hexadecimal."""


NUMBERS = re.compile(r"(?<![\w%^])\d+|(?<=\dx)\d+|\d+(?=x)")
"""Whole numbers in types and attributes; not those in names, such as ``f16``, or of values."""

OF_THE_CUT = ("grid", "block", "forloop", "imap", "omap", "fordim")
"""What says how a kernel is cut, beside the types of its tiles."""


def structure_of(graph: CustomizedOp) -> str:
    """The digest of a kernel."""
    return _digest("\n".join(_lines(graph, {}, (CERTIFICATE,))))


def family_of(graph: CustomizedOp) -> tuple[str, tuple[int, ...]]:
    """What a kernel is but for its extents and how it is cut, as a digest; and its extents.

    All numbers of its text that say nothing of the cut count as extents.
    """
    text = "\n".join(_lines(graph, {}, (CERTIFICATE, *OF_THE_CUT), tiles=False))
    return _digest(NUMBERS.sub("#", text)), tuple(map(int, NUMBERS.findall(text)))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def _lines(
    op: Operation,
    numbers: dict[SSAValue | Block, int],
    besides: tuple[str, ...] = (),
    *,
    tiles: bool = True,
) -> Iterator[str]:
    """A line for each operator; values and blocks are numbered in the order that they are met.

    Attributes ``besides`` are left out, in regions only where ``tiles`` are left out, too: of the
    types of these the elements then count alone.
    """
    said = {**op.properties, **op.attributes}
    parts = [f"{name}={said[name]}" for name in sorted(said) if name not in besides]
    typed = partial(_typed, numbers=numbers, tiles=tiles)
    successors = [f"^{numbers.setdefault(block, len(numbers))}" for block in op.successors]
    yield f"{typed(op.results)} = {op.name} {typed(op.operands)} {successors} {parts}"
    inside = () if tiles else besides
    for region in op.regions:
        for block in region.blocks:
            yield f"^{numbers.setdefault(block, len(numbers))} {typed(block.args)}"
            for inner in block.ops:
                yield from _lines(inner, numbers, inside, tiles=tiles)


def _typed(
    values: Sequence[SSAValue], numbers: dict[SSAValue | Block, int], *, tiles: bool
) -> list[str]:
    return [
        f"%{numbers.setdefault(each, len(numbers))}: {_type_text(each.type, tiles=tiles)}"
        for each in values
    ]


def _type_text(type_: Attribute, *, tiles: bool) -> str:
    """A type; row-major tensors are the same whether their layout is written or not."""
    if isinstance(type_, STensorType) and not tiles:
        return f"rank{len(type_.shape.data)} of {type_.element_type}"
    if isa(type_, TensorType) and layout_of(type_) == make_row_major_layout(type_.get_shape()):
        return str(TensorType(type_.element_type, type_.shape.data))
    return str(type_)
