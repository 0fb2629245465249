"""What a program is: a function of tensors that three libraries compute.

The function takes a library as its first argument: ``mugraph.build``, which makes operators,
:mod:`~benchmarks.programs.on_torch`, which is the peer, or
:mod:`~benchmarks.programs.on_numpy`, which in float64 says what is right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute

import mugraph.build as mi
from benchmarks.h200.workloads import WORKLOADS, Workload
from benchmarks.programs import on_numpy
from mugraph.build import KernelGraph

Function = Callable[..., Any]
"""A library and tensors to a tensor or several."""

Array = npt.NDArray[Any]
Sizes = Mapping[str, int]
Extent = str | int
"""A number, or the name of a size."""

ROWS = (1, 16, 64)
MEASURED: Sizes = {
    "width": 2048,
    "hidden": 8192,
    "inner": 128,
    "layer_heads": 16,
    "head": 128,
    "heads": 8,
    "keys": 1024,
    "depth": 64,
    "tokens": 128,
    "centroids": 512,
    "channels": 2048,
    "pixels": 16,
    "vocabulary": 128256,
    "compressed": 576,
}
"""What sizes are if a program has no others."""

SMALL: Sizes = {
    "rows": 4,
    "width": 64,
    "hidden": 256,
    "inner": 16,
    "columns": 32,
    "layer_heads": 4,
    "head": 16,
    "heads": 2,
    "queries": 16,
    "keys": 64,
    "depth": 16,
    "tokens": 32,
    "centroids": 32,
    "channels": 64,
    "pixels": 16,
    "vocabulary": 192,
    "compressed": 144,
}
"""What they are in tests."""


@dataclass(frozen=True)
class Input:
    """A tensor of f16: normal random numbers times ``scale``, plus ``shift``."""

    extents: tuple[Extent, ...]
    scale: float | None = 1.0
    """``None`` is one over the root of the first extent: that of a weight."""
    shift: float = 0.0
    columns: Extent | None = None
    """Of places: how many each row of the matrix has."""

    def of(self, sizes: Sizes) -> Given:
        """The input at such sizes."""

        def number(extent: Extent) -> int:
            return extent if isinstance(extent, int) else sizes[extent]

        shape = tuple(map(number, self.extents))
        scale = shape[0] ** -0.5 if self.scale is None else self.scale
        return Given(
            shape, scale, self.shift, None if self.columns is None else number(self.columns)
        )


def tensor(*extents: Extent, scale: float = 1.0) -> Input:
    """Numbers of mean 0."""
    return Input(extents, scale)


def weight(*extents: Extent) -> Input:
    """A matrix whose product with numbers of variance 1 has variance 1."""
    return Input(extents, None)


def near(number: float, *extents: Extent) -> Input:
    """Numbers a tenth from another one or so, such as the factors of a norm."""
    return Input(extents, 0.1, number)


def places(rows: Extent, columns: Extent) -> Input:
    """One element of each row of a matrix, by its place among all: numbers of int32."""
    return Input((rows,), columns=columns)


@dataclass(frozen=True)
class Given:
    """An input of a program: its extents are numbers."""

    shape: tuple[int, ...]
    scale: float
    shift: float
    columns: int | None

    @property
    def element_type(self) -> Attribute:
        """f16, or i32 of places."""
        return mi.float16 if self.columns is None else mi.int32

    def random(self, generator: np.random.Generator) -> Array:
        """Its elements in a run."""
        if self.columns is None:
            normal = generator.standard_normal(self.shape, np.float32)
            return (normal * self.scale + self.shift).astype(np.float16)
        starts = np.arange(self.shape[0]) * self.columns
        return (starts + generator.integers(self.columns, size=self.shape)).astype(np.int32)


@dataclass(frozen=True)
class Program:
    """A program of fixed sizes."""

    name: str
    family: Family
    sizes: Sizes

    @property
    def inputs(self) -> tuple[Given, ...]:
        """What it takes."""
        return tuple(each.of(self.sizes) for each in self.family.inputs)

    @property
    def fewest(self) -> int:
        """With how few launches it can be computed (:attr:`Family.fewest`)."""
        return self.family.more.get(self.name, self.family.fewest)

    @property
    def by_hand(self) -> Workload | None:
        """The µGraph for it that was written by hand, if there is one."""
        return WORKLOADS.get(self.name)

    def build(self, graph: KernelGraph) -> None:
        """Adds inputs, operators and outputs to a graph."""
        inputs = (graph.new_input(each.shape, dtype=each.element_type) for each in self.inputs)
        for result in several(self.family.function(mi, *inputs)):
            graph.mark_output(result)

    def module(self) -> ModuleOp:
        """The program as a module of one function."""
        graph = mi.new_kernel_graph(self.name)
        self.build(graph)
        return graph.module()

    def random_inputs(self, seed: int) -> list[Array]:
        """Inputs of a run."""
        generator = np.random.default_rng(seed)
        return [each.random(generator) for each in self.inputs]

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The results in float64."""
        wide = (x if x.dtype == np.int32 else x.astype(np.float64) for x in inputs)
        return several(self.family.function(on_numpy, *wide))

    def torch_function(self) -> Callable[..., Any]:
        """The same as a function of torch's tensors."""
        from benchmarks.programs import on_torch

        function = self.family.function

        def compute(*inputs: Any) -> Any:
            return function(on_torch, *inputs)

        return compute


@dataclass(frozen=True)
class Family:
    """A program as a function of sizes."""

    function: Function
    inputs: tuple[Input, ...]
    fewest: int
    """With how few launches it can be computed, and no large tensor read by many kernels' blocks
    again and again; written down before anything was found."""
    because: str
    measured: Mapping[str, Sizes]
    """The names of its programs, and their sizes that are not those of :data:`MEASURED`."""
    more: Mapping[str, int]
    """The fewest launches of programs that need more than the others, by their names."""

    @property
    def name(self) -> str:
        """That of the function."""
        return self.function.__name__

    def programs(self) -> tuple[Program, ...]:
        """The programs that are measured."""
        return tuple(
            Program(name, self, {**MEASURED, **sizes}) for name, sizes in self.measured.items()
        )

    @property
    def least(self) -> Program:
        """The program for tests."""
        return Program(self.name, self, SMALL)


FAMILIES: list[Family] = []
"""All of them, in the order in which they are written."""


def family(
    *inputs: Input,
    because: str,
    fewest: int = 1,
    measured: Mapping[str, Sizes] | None = None,
    more: Mapping[str, int] | None = None,
) -> Callable[[Function], Function]:
    """Makes a family of the function below it.

    ``measured`` has the names of its programs, and sizes that are not those of :data:`MEASURED`;
    without it there are programs of 1, 16 and 64 ``rows``.  ``more`` has the names of those that
    need more launches, with how many.
    """

    def add(function: Function) -> Function:
        by_rows = {f"{function.__name__}_{rows}": {"rows": rows} for rows in ROWS}
        own = measured or by_rows
        FAMILIES.append(Family(function, inputs, fewest, because, own, more or {}))
        return function

    return add


def several(results: Any) -> tuple[Any, ...]:
    """The results of a function that gives a tensor or several."""
    return cast("tuple[Any, ...]", results) if isinstance(results, tuple) else (results,)


ONE_SWEEP = "a block has some rows of Q and goes once over keys and values, with a running maximum"
