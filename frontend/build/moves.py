"""The operators of whole tensors that move elements as they are."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType

from mugraph.build.elementwise import GraphOperators
from mugraph.build.errors import BuildError, build_errors, require_integers
from mugraph.build.tensors import DTensor
from mugraph.dialects import kn
from mugraph.dialects.tensor_types import shape_of
from mugraph.dialects.windows import Mode, Windows


class MovingOperators(GraphOperators[DTensor]):
    """Other extents, other orders, parts, and rows by their numbers.

    Negative dimensions count from the last.
    """

    def gather(self, table: DTensor, rows: DTensor, *, name: str | None = None) -> DTensor:
        """The rows of a table that a tensor of integers names; its extents, then those of a row.

        Numbers of rows are int32 or int64.
        """
        values = self._value(table), self._value(rows)
        with build_errors():
            op = kn.GatherOp(*values)
        return self._add(op, name)

    def windows(
        self,
        x: DTensor,
        modes: Sequence[Sequence[tuple[int, int, int]]],
        origin: Sequence[int],
        *,
        name: str | None = None,
    ) -> DTensor:
        """The elements of ``x`` in an order of modes, zeros outside of it (``kn.windows``).

        Each dimension of the result has modes, the first of which counts fastest: how many places,
        along which dimension of ``x``, how many elements apart.  The first place is ``origin``.
        """
        value = self._value(x)
        seen = Windows(
            tuple(tuple(Mode(*mode) for mode in each) for each in modes),
            tuple(require_integers("windows", origin)),
        )
        with build_errors():
            if (defect := seen.defect(x.stand_ins)) is not None:
                raise BuildError(f"windows: {defect}")
            op = kn.WindowsOp(value, seen)
        return self._add(op, name)

    def scatter(
        self, values: DTensor, table: DTensor, rows: DTensor, dim: int, *, name: str | None = None
    ) -> DTensor:
        """A table with new rows along a dimension, at the places that a tensor of integers names.

        Numbers of rows are int32 or int64, those below 0 count from the end.  A result of the graph
        may be written to the table itself where nothing else reads that: pass it as ``out``.
        """
        operands = self._value(values), self._value(table), self._value(rows)
        with build_errors():
            op = kn.ScatterOp(*operands, dim % max(len(table.shape), 1))
        return self._add(op, name)

    def chunk(self, x: DTensor, chunk_size: int, dim: int) -> list[DTensor]:
        """``chunk_size`` equal parts along a dimension."""
        extent = x.shape[self.dim("chunk", x, dim)]
        if chunk_size < 1 or extent % chunk_size:
            raise BuildError(
                f"chunk: dimension {dim} of {x!r} does not fall into {chunk_size} equal parts"
            )
        return self._parts("chunk", x, [extent // chunk_size] * chunk_size, dim)

    def slice(
        self, x: DTensor, start: Sequence[int], shape: Sequence[int], *, name: str | None = None
    ) -> DTensor:
        """The part of these extents that starts at a coordinate; ``x[:, 2:5]`` says the same."""
        value = self._value(x)
        with build_errors():
            op = kn.SliceOp(value, require_integers("slice", start), self._type_of(shape, x.dtype))
        return self._add(op, name)

    def reshape(self, x: DTensor, shape: Sequence[int], *, name: str | None = None) -> DTensor:
        """The elements in row-major order under other extents; one of them may be -1: what fits."""
        value, shape = self._value(x), list(require_integers("reshape", shape))
        if shape.count(-1) == 1:
            known = -math.prod(shape)
            elements = math.prod(shape_of(value.type))
            if known < 1 or elements % known:
                raise BuildError(
                    f"reshape: no extent for -1 in {shape} gives the elements of {x!r}"
                )
            shape[shape.index(-1)] = elements // known
        if any(extent < 1 for extent in shape):
            raise BuildError(f"reshape: extents {shape}; expected numbers of at least 1, or one -1")
        if tuple(shape) == x.stand_ins:
            return x
        return self._add(kn.ReshapeOp(value, self._type_of(shape, x.dtype)), name)

    def broadcast_to(self, x: DTensor, shape: Sequence[int], *, name: str | None = None) -> DTensor:
        """The tensor with its extents of 1, and those that it lacks in front, repeated."""
        self._value(x)
        shape = require_integers("broadcast_to", shape)
        if len(shape) > len(x.shape):
            x = self.reshape(x, (*[1] * (len(shape) - len(x.shape)), *x.shape))
        if tuple(shape) == x.stand_ins:
            return x
        return self._add(kn.BroadcastOp(x.value, self._type_of(shape, x.dtype)), name)

    def repeat(self, x: DTensor, count: int, dim: int, *, name: str | None = None) -> DTensor:
        """Each element ``count`` times, side by side along a dimension: heads for their groups."""
        self._value(x)
        dim = self.dim("repeat", x, dim)
        if require_integers("repeat: count", [count])[0] < 1:
            raise BuildError(f"repeat: count {count}; expected a number of at least 1")
        before, after = x.shape[: dim + 1], x.shape[dim + 1 :]
        apart = self.reshape(x, (*before, 1, *after))
        repeated = self.broadcast_to(apart, (*before, count, *after))
        return self.reshape(
            repeated, self._with_extent("repeat", x, dim, x.shape[dim] * count), name=name
        )

    def transpose(
        self, x: DTensor, dims: Sequence[int] | None = None, *, name: str | None = None
    ) -> DTensor:
        """The dimensions in another order; without one the last two change places."""
        value, rank = self._value(x), len(x.shape)
        if dims is None:
            dims = [*range(rank - 2), rank - 1, rank - 2] if rank > 1 else [0]
        order = [self.dim("transpose", x, dim) for dim in require_integers("transpose", dims)]
        type_ = TensorType(x.dtype, [x.stand_ins[dim] for dim in order])
        return self._add(kn.TransposeOp(value, order, type_), name)
