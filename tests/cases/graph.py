"""Writes the text of a µGraph: tile extents and result types follow from the operands.

Text, not operator objects, so that every case also goes through the parser.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Tensor:
    """A DTensor: name, extents, element type, strides in elements where a user gives them."""

    name: str
    shape: tuple[int, ...]
    element: str = "f16"
    strides: tuple[int, ...] | None = None
    alignment: int | None = None
    """The bytes that its start is a multiple of, where that is promised of an argument."""

    @property
    def type(self) -> str:
        """The type as the µGraph's text has it."""
        extents = "".join(f"{extent}x" for extent in self.shape)
        if self.strides is None:
            return f"tensor<{extents}{self.element}>"
        shape, strides = (",".join(map(str, values)) for values in (self.shape, self.strides))
        return f"tensor<{extents}{self.element}, #cute.layout<({shape}):({strides})>>"


@dataclass(frozen=True)
class Tile:
    """An STensor."""

    name: str
    shape: tuple[int, ...]
    element: str = "f16"

    @property
    def type(self) -> str:
        """The type as the µGraph's text has it."""
        return f"!tb.stensor<{''.join(f'{extent}x' for extent in self.shape)}{self.element}>"


def broadcast(*shapes: Sequence[int]) -> tuple[int, ...]:
    """Extents of an element-wise result."""
    return tuple(max(extents) for extents in zip(*shapes, strict=True))


def replaced(shape: Sequence[int], dim: int, extent: int) -> tuple[int, ...]:
    """The same extents but for one dimension."""
    return (*shape[:dim], extent, *shape[dim + 1 :])


@dataclass
class Graph:
    """A function that grows by one operator a call."""

    inputs: list[Tensor] = field(default_factory=list[Tensor])
    lines: list[str] = field(default_factory=list[str])
    count: int = 0

    def fresh(self) -> str:
        """A new name of a value."""
        self.count += 1
        return f"%v{self.count}"

    def input(
        self,
        *shape: int,
        element: str = "f16",
        strides: Sequence[int] | None = None,
        alignment: int | None = None,
    ) -> Tensor:
        """An argument of the function."""
        layout = None if strides is None else tuple(strides)
        tensor = Tensor(f"%x{len(self.inputs)}", tuple(shape), element, layout, alignment)
        self.inputs.append(tensor)
        return tensor

    def op(
        self,
        name: str,
        operands: Sequence[Tensor],
        shape: Sequence[int],
        more: str = "",
        *,
        element: str | None = None,
        strides: Sequence[int] | None = None,
    ) -> Tensor:
        """A kernel-level operator with one result; ``more`` follows its operands."""
        layout = None if strides is None else tuple(strides)
        result = Tensor(self.fresh(), tuple(shape), element or operands[0].element, layout)
        self.lines.append(_line(f"kn.{name}", operands, [result], more))
        return result

    def op_of_many(
        self,
        name: str,
        operands: Sequence[Tensor],
        shapes: Sequence[Sequence[int]],
        more: str = "",
        *,
        elements: Sequence[str] = (),
    ) -> list[Tensor]:
        """A kernel-level operator with several results, all of the operand's type by default."""
        types = elements or [operands[0].element] * len(shapes)
        results = [
            Tensor(self.fresh(), tuple(shape), element)
            for shape, element in zip(shapes, types, strict=True)
        ]
        self.lines.append(_line(f"kn.{name}", operands, results, more))
        return results

    def functional(
        self,
        name: str,
        operands: Sequence[Tensor],
        shape: Sequence[int],
        more: str,
        *,
        element: str | None = None,
    ) -> Tensor:
        """An operator that names its first operand, then ``more``, with all types at the end."""
        result = Tensor(self.fresh(), tuple(shape), element or operands[0].element)
        types = ", ".join(operand.type for operand in operands)
        self.lines.append(
            f"  {result.name} = kn.{name} {operands[0].name} {more} : ({types}) -> {result.type}"
        )
        return result

    def unary(
        self,
        name: str,
        x: Tensor,
        more: str = "",
        *,
        element: str | None = None,
        strides: Sequence[int] | None = None,
    ) -> Tensor:
        """An element-wise function of one tensor."""
        return self.op(name, [x], x.shape, more, element=element, strides=strides)

    def binary(
        self,
        name: str,
        x: Tensor,
        y: Tensor,
        *,
        element: str | None = None,
        strides: Sequence[int] | None = None,
    ) -> Tensor:
        """An element-wise function of two tensors."""
        return self.op(name, [x, y], broadcast(x.shape, y.shape), element=element, strides=strides)

    def matmul(
        self,
        x: Tensor,
        y: Tensor,
        more: str = "",
        *,
        element: str | None = None,
        strides: Sequence[int] | None = None,
    ) -> Tensor:
        """The library's matrix product."""
        shape = (*x.shape[:-1], y.shape[-1])
        return self.op("matmul", [x, y], shape, more, element=element, strides=strides)

    def customized(
        self, grid: Sequence[int], block: Sequence[int], forloop: int = 1
    ) -> Threadblock:
        """A custom kernel; :meth:`Threadblock.close` adds it to the graph."""
        return Threadblock(self, tuple(grid), tuple(block), forloop)

    def text(self, *results: Tensor, alignment: int | None = None) -> str:
        """The µGraph that returns these values, all of them promised to be aligned so."""
        arguments = ", ".join(
            f"{tensor.name}: {tensor.type}{_promise(tensor.alignment)}" for tensor in self.inputs
        )
        types = ", ".join(tensor.type for tensor in results)
        promised = ", ".join(f"{tensor.type}{_promise(alignment)}" for tensor in results)
        names = ", ".join(tensor.name for tensor in results)
        head = f"func.func @case({arguments}) -> ({promised}) {{"
        return "\n".join([head, *self.lines, f"  func.return {names} : {types}", "}"]) + "\n"


@dataclass
class Threadblock:
    """The threadblock graph of a custom kernel."""

    graph: Graph
    grid: tuple[int, ...]
    block: tuple[int, ...]
    forloop: int
    operands: list[Tensor] = field(default_factory=list[Tensor])
    results: list[Tensor] = field(default_factory=list[Tensor])
    lines: list[str] = field(default_factory=list[str])

    def input(
        self,
        tensor: Tensor,
        imap: Sequence[int] = (-1, -1, -1),
        fordim: int = -1,
        through: Tensor | None = None,
    ) -> Tile:
        """A tile of a DTensor, or of its rows that numbers name.

        Partitions that do not divide give the larger tile.
        """
        tensors = [tensor] if through is None else [tensor, through]
        self.operands += [each for each in tensors if each not in self.operands]
        tile = [*tensor.shape] if through is None else [*through.shape, *tensor.shape[1:]]
        for axis, dim in enumerate(imap):
            if dim >= 0:
                tile[dim] = math.ceil(tile[dim] / self.grid[axis])
        if fordim >= 0:
            tile[fordim] = math.ceil(tile[fordim] / self.forloop)
        result = Tile(self.graph.fresh(), tuple(tile), tensor.element)
        loop = f" fordim {fordim}" if fordim >= 0 else ""
        self.lines.append(
            f"    {result.name} = tb.input {' through '.join(map(_inside, tensors))} "
            f"imap {_list(imap)}{loop} : {', '.join(each.type for each in tensors)} -> "
            f"{result.type}"
        )
        return result

    def op(
        self,
        name: str,
        operands: Sequence[Tile],
        shape: Sequence[int],
        more: str = "",
        element: str | None = None,
    ) -> Tile:
        """A threadblock operator with one result."""
        return self.op_of_many(name, operands, [shape], more, element)[0]

    def op_of_many(
        self,
        name: str,
        operands: Sequence[Tile],
        shapes: Sequence[Sequence[int]],
        more: str = "",
        element: str | None = None,
    ) -> list[Tile]:
        """A threadblock operator with several results."""
        kind = element or operands[0].element
        results = [Tile(self.graph.fresh(), tuple(shape), kind) for shape in shapes]
        self.lines.append("  " + _line(f"tb.{name}", operands, results, more))
        return results

    def unary(self, name: str, x: Tile, more: str = "", element: str | None = None) -> Tile:
        """An element-wise function of one tile."""
        return self.op(name, [x], x.shape, more, element)

    def binary(self, name: str, x: Tile, y: Tile, element: str | None = None) -> Tile:
        """An element-wise function of two tiles."""
        return self.op(name, [x, y], broadcast(x.shape, y.shape), element=element)

    def matmul(self, x: Tile, y: Tile, element: str | None = None) -> Tile:
        """The product of two tiles."""
        return self.op("matmul", [x, y], (*x.shape[:-1], y.shape[-1]), element=element)

    def accumulate(self, kind: str, x: Tile, element: str | None = None) -> Tile:
        """One of ``tb.forloop_accum``'s accumulators of one operand."""
        shape = x.shape if kind in ("none", "max") else (*x.shape[:-1], 1)
        return self.op(f"forloop_accum {kind}", [x], shape, element=element)

    def running_maximum(self, x: Tile, dim: int, element: str | None = None) -> tuple[Tile, Tile]:
        """The running maximum along a dimension, and how far below it the one before was."""
        shape = replaced(x.shape, dim, 1)
        maximum, fall = (Tile(self.graph.fresh(), shape, element or x.element) for _ in range(2))
        self.lines.append(
            f"    {maximum.name}, {fall.name} = tb.reduction_max {x.name} dim {dim} : {x.type} -> "
            f"({maximum.type}, {fall.type})"
        )
        return maximum, fall

    def rescale(self, kind: str, x: Tile, factor: Tile) -> Tile:
        """One of ``tb.forloop_accum_rescale``'s accumulators."""
        shape = x.shape if kind == "none" else (*x.shape[:-1], 1)
        result = Tile(self.graph.fresh(), shape, x.element)
        self.lines.append(
            f"    {result.name} = tb.forloop_accum_rescale {kind} {x.name} by {factor.name} : "
            f"({x.type}, {factor.type}) -> {result.type}"
        )
        return result

    def carried(self, shape: Sequence[int], element: str = "f32", start: float = 0.0) -> Tile:
        """The state that the iteration before has left, a number in the first one."""
        state = Tile(self.graph.fresh(), tuple(shape), element)
        first = f" from {start}" if start else ""
        self.lines.append(f"    {state.name} = tb.carried{first} : {state.type}")
        return state

    def carry(self, x: Tile, state: Tile) -> Tile:
        """Leaves a tile to the next iteration; the result is what the last one leaves."""
        return self.op("carry", [x, state], x.shape)

    def rms_norm(self, tiles: Sequence[Tile], epsilon: float = 0.0) -> Tile:
        """The norm of a tile along its last dimension, times a weight where there is a second."""
        result = Tile(self.graph.fresh(), tiles[0].shape, tiles[0].element)
        used = " weight ".join(tile.name for tile in tiles)
        more = f" epsilon {epsilon}" if epsilon else ""
        types = ", ".join(tile.type for tile in tiles)
        self.lines.append(
            f"    {result.name} = tb.rms_norm {used}{more} : {types} -> {result.type}"
        )
        return result

    def output(
        self,
        tile: Tile,
        omap: Sequence[int] = (-1, -1, -1),
        *,
        fordim: int = -1,
        shape: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        through: Tensor | None = None,
    ) -> Tensor:
        """Stores a tile; the DTensor's extents follow, unless they are given (ragged tiles)."""
        if shape is None:
            extents = list(tile.shape)
            for axis, dim in enumerate(omap):
                if dim >= 0:
                    extents[dim] *= self.grid[axis]
            if fordim >= 0:
                extents[fordim] *= self.forloop
            shape = extents
        layout = None if strides is None else tuple(strides)
        result = Tensor(self.graph.fresh(), tuple(shape), tile.element, layout)
        self.results.append(result)
        loop = f" fordim {fordim}" if fordim >= 0 else ""
        by, types = "", tile.type
        if through is not None:
            self.operands += [] if through in self.operands else [through]
            by, types = f" through {_inside(through)}", f"{tile.type}, {through.type}"
        self.lines.append(
            f"    tb.output {tile.name}{by} omap {_list(omap)}{loop} : {types} -> {result.type}"
        )
        return result

    def close(self) -> list[Tensor]:
        """Adds the kernel to the graph; returns its results, in the order of the outputs."""
        names, operands = (
            ", ".join(tensor.name for tensor in tensors)
            for tensors in (self.results, self.operands)
        )
        arguments = ", ".join(f"{_inside(tensor)}: {tensor.type}" for tensor in self.operands)
        types = ", ".join(tensor.type for tensor in self.operands)
        result_types = ", ".join(tensor.type for tensor in self.results)
        self.graph.lines += [
            f"  {names} = kn.customized {operands} grid {_list(self.grid)} "
            f"block {_list(self.block)} forloop {self.forloop} {{",
            f"  ^bb0({arguments}):",
            *self.lines,
            f"  }} : ({types}) -> ({result_types})",
        ]
        return self.results


def _promise(alignment: int | None) -> str:
    return "" if alignment is None else f" {{mugraph.alignment = {alignment} : i64}}"


def _inside(tensor: Tensor) -> str:
    """The name of a DTensor inside a custom kernel."""
    return f"%d{tensor.name[1:]}"


def _list(values: Sequence[int]) -> str:
    return f"[{', '.join(map(str, values))}]"


def _line(
    name: str,
    operands: Sequence[Tensor] | Sequence[Tile],
    results: Sequence[Tensor] | Sequence[Tile],
    more: str,
) -> str:
    """An operator; several operand or result types stand in parentheses."""
    used = ", ".join(value.name for value in operands)
    made = ", ".join(value.name for value in results)
    types = ", ".join(value.type for value in operands)
    result_types = ", ".join(value.type for value in results)
    if len(operands) > 1 or len(results) > 1:
        types = f"({types})"
    if len(results) > 1:
        result_types = f"({result_types})"
    if name == "tb.carry":
        used = " to ".join(value.name for value in operands)
    between = f" {more}" if more else ""
    return f"  {made} = {name} {used}{between} : {types} -> {result_types}"
