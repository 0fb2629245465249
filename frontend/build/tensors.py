"""Handles of the tensors of a graph that is being built."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Attribute, SSAValue

from mugraph.dialects.tensor_types import dims, element_type_of, layout_of, shape_of, strides_of


@dataclass(frozen=True)
class Handle:
    """A value of a graph, with what its type says of it."""

    value: SSAValue
    graph: object

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return shape_of(self.value.type)

    @property
    def dtype(self) -> Attribute:
        """The element type."""
        return element_type_of(self.value.type)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dims(self.shape)}x{self.dtype})"


@dataclass(frozen=True, repr=False)
class DTensor(Handle):
    """A tensor in device memory: an input of a kernel graph, or the result of an operator."""

    @property
    def strides(self) -> tuple[int, ...] | None:
        """Strides in elements where they are fixed; ``None`` where the compiler will choose."""
        layout = layout_of(self.value.type)
        return None if layout is None else strides_of(layout)


@dataclass(frozen=True, repr=False)
class STensor(Handle):
    """A tile in a block's shared memory: a value of a threadblock graph."""
