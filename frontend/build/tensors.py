"""Handles of the tensors of a graph that is being built."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Attribute, SSAValue

from mugraph.dialects.tensor_types import dims, element_type_of, layout_of, shape_of, strides_of


@dataclass(frozen=True)
class DTensor:
    """A tensor in device memory: an input of a kernel graph, or the result of an operator."""

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

    @property
    def strides(self) -> tuple[int, ...] | None:
        """Strides in elements where they are fixed; ``None`` where the compiler will choose."""
        layout = layout_of(self.value.type)
        return None if layout is None else strides_of(layout)

    def __repr__(self) -> str:
        return f"DTensor({dims(self.shape)}x{self.dtype})"


@dataclass(frozen=True)
class STensor:
    """A tile in a block's shared memory: a value of a threadblock graph."""

    value: SSAValue
    graph: object

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the tile."""
        return shape_of(self.value.type)

    @property
    def dtype(self) -> Attribute:
        """The element type."""
        return element_type_of(self.value.type)

    def __repr__(self) -> str:
        return f"STensor({dims(self.shape)}x{self.dtype})"
