"""What a kernel is, as a digest: the same for kernels that differ in names alone.

Operators, their properties, extents and element types count, and the parts of the plan that are
written.  What is around the kernel does not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from xdsl.ir import Block, Operation, SSAValue

from mugraph.dialects.kn import CERTIFICATE, CustomizedOp

DIGITS = 32
"""Of the digest, in hexadecimal."""


def structure_of(graph: CustomizedOp) -> str:
    """The digest of a kernel."""
    text = "\n".join(_lines(graph, {}, (CERTIFICATE,)))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def _lines(
    op: Operation, numbers: dict[SSAValue | Block, int], besides: tuple[str, ...] = ()
) -> Iterator[str]:
    """A line for each operator; values and blocks are numbered in the order that they are met."""

    def number(value: SSAValue | Block) -> int:
        return numbers.setdefault(value, len(numbers))

    said = {**op.properties, **op.attributes}
    parts = [f"{name}={said[name]}" for name in sorted(said) if name not in besides]
    operands = [f"{number(value)}: {value.type}" for value in op.operands]
    results = [f"{number(value)}: {value.type}" for value in op.results]
    successors = [f"^{number(block)}" for block in op.successors]
    yield f"{results} = {op.name} {operands} {successors} {parts}"
    for region in op.regions:
        for block in region.blocks:
            yield f"^{number(block)} {[f'{number(each)}: {each.type}' for each in block.args]}"
            for inner in block.ops:
                yield from _lines(inner, numbers)
