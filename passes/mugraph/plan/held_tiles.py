"""Which kernels have tiles that threads hold whole, and from which operator to which."""

from __future__ import annotations

from typing import NamedTuple

from xdsl.ir import SSAValue

from mugraph.dialects import tb
from mugraph.dialects.programming_model import REGISTER_BYTES
from mugraph.dialects.tensor_types import element_bytes_of, shape_of
from mugraph.passes.costs.work import ROW_VECTOR
from mugraph.passes.mugraph.retile.dimensions import TileSpace


class Span(NamedTuple):
    """A tile that threads hold, and the operators between which they need it."""

    tile: SSAValue
    element_bytes: int
    first: int
    last: int


REDUCED = (tb.ReductionOp, tb.ReductionMaxOp)
ELEMENT_BY_ELEMENT = (tb.InputOp, tb.OutputOp, tb.ElementwiseOp, tb.ForloopAccumOp, tb.MaskOp)
"""What threads compute of what they hold."""


def reduces_rows(space: TileSpace) -> bool:
    """Whether threads can hold all tiles, as far as operators tell: rows, and numbers of rows."""
    operators = list(space.graph.body.block.ops)
    reduced = [op for op in operators if isinstance(op, REDUCED)]
    return (
        bool(reduced)
        and all(op.reduced_dim == len(shape_of(op.input.type)) - 1 for op in reduced)
        and all(isinstance(op, (*REDUCED, *ELEMENT_BY_ELEMENT)) for op in operators)
        and all(op.through is None for op in operators if isinstance(op, tb.InputOp))
    )


def spans_of(space: TileSpace) -> tuple[Span, ...]:
    """When threads of a kernel without a loop hold each tile, by the numbers of its operators.

    All loads come first.  What one operator reads before the next reduction takes as it is made;
    what is read again behind it is computed again, where it is computed of narrower numbers
    (``promote_registers/recompute.py``) and rows are whole vectors: of 50,257 columns one kernel
    spills, and two are faster.
    """
    number = {op: place for place, op in enumerate(space.graph.body.block.ops)}
    reductions = [place for op, place in number.items() if isinstance(op, REDUCED)]
    spans: dict[SSAValue, Span] = {}
    for op, place in number.items():
        loaded = isinstance(op, tb.InputOp)
        for value in op.results:
            readers = sorted(number[use.operation] for use in value.uses)
            reduced = next((each for each in reductions if each > place), len(number))
            if not readers or (not loaded and len(readers) == 1 and readers[0] <= reduced):
                continue
            # Masked numbers have room where they were loaded.
            keeps_type = loaded or isinstance(op, tb.MaskOp)
            size = element_bytes_of(value.type) if keeps_type else REGISTER_BYTES
            shape = shape_of(value.type)
            whole = [held for held in op.operands if shape_of(held.type) == shape]
            again = not loaded and readers[0] <= reduced < readers[-1]
            again = again and _has_whole_vectors(space, value)
            again = again and all(held in spans for held in whole)
            if again and sum(spans[held].element_bytes for held in whole) < size:
                for held in whole:
                    last = max(spans[held].last, readers[-1])
                    spans[held] = spans[held]._replace(last=last)
                continue
            spans[value] = Span(value, size, 0 if loaded else place, readers[-1])
    return tuple(spans.values())


def _has_whole_vectors(space: TileSpace, value: SSAValue) -> bool:
    """Whether rows of a tile are whole vectors of a thread."""
    number = space.numbers[value][-1]
    return number is None or space.dimensions[number].extent % ROW_VECTOR == 0
