"""From a seed to shapes: the n-th is the same however many are drawn.

Seed 0 draws nothing: its shapes are three layers of one model over rows (:data:`LAYERS`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp

import mugraph.build as mi
from benchmarks.programs.families import several
from benchmarks.shapes.kinds import AS_TORCH, KINDS, Drawn, Kind, Operand
from benchmarks.shapes.models import MODELS
from mugraph.errors import UserError

Array = npt.NDArray[Any]

MOST_FLOP = 2 * 10**12
"""A shape takes 3 ms or so at most: one of more is drawn again."""
MOST_ELEMENTS = 2**30
"""Of all inputs and the largest result together: in float64, in which references are, 8 GiB."""
ELEMENT_TYPES = {"f16": mi.float16, "bf16": mi.bfloat16}

LAYERS_SEED = 0
LAYERS = (
    ("linear", "attention output", ("residual",)),
    ("norm + linear", "qkv", ("rms norm",)),
    ("gated MLP", "up", ("silu",)),
)
"""Kind, layer and options of what seed 0 has, of the first model in bf16."""
LAYER_ROWS = (1, 4, 16, 64, 128, 512, 2048, 8192)
"""Of each of them."""


@dataclass(frozen=True)
class Shape:
    """One drawn layer: a function of tensors of fixed sizes."""

    seed: int
    index: int
    kind: Kind
    drawn: Drawn
    element_type: str

    @property
    def name(self) -> str:
        """Seed and number, and in words what it is."""
        sizes = "_".join(f"{name}{size}" for name, size in self.drawn.sizes.items())
        kind = re.sub(r"\W+", "_", self.kind.name)
        return f"s{self.seed}_{self.index:03d}_{kind}_{sizes}_{self.element_type}".lower()

    @property
    def operands(self) -> tuple[Operand, ...]:
        """Its inputs."""
        return self.kind.operands(self.drawn.sizes, self.drawn.options)

    @property
    def flop(self) -> int:
        """Floating-point operations of its products."""
        return self.kind.flop(self.drawn.sizes)

    @property
    def least_flop(self) -> int:
        """Those that no kernel can leave out."""
        return self.kind.least_flop(self.drawn.sizes, self.drawn.options)

    @property
    def group(self) -> str:
        """The line of the summary that it counts for."""
        return self.kind.group(self.drawn.sizes)

    @property
    def facts(self) -> dict[str, str]:
        """What it is, for tables."""
        options = ", ".join(self.drawn.options)
        return {"group": self.group, "model": self.drawn.model, "options": options}

    @property
    def small(self) -> Shape:
        """The same function at sizes for an interpreter."""
        sizes = self.kind.small(self.drawn.sizes)
        return replace(self, drawn=replace(self.drawn, sizes=sizes))

    def compute(self, library: Any, *inputs: Any) -> Any:
        """The function, by one of the libraries."""
        return self.kind.compute(library, self.drawn.options, *inputs)

    def of_torch(self) -> Callable[..., Any]:
        """The function of torch's tensors."""
        from benchmarks.programs import on_torch

        def compute(*inputs: Any) -> Any:
            return self.compute(on_torch, *inputs)

        return compute

    def module(self) -> ModuleOp:
        """The plain program."""
        graph = mi.new_kernel_graph(self.name)
        dtype = ELEMENT_TYPES[self.element_type]
        inputs = [graph.new_input(each.shape, dtype=dtype) for each in self.operands]
        for result in several(self.compute(mi, *inputs)):
            graph.mark_output(result)
        return graph.module()

    def reference(self, *inputs: Array) -> list[Array]:
        """The results on numpy's arrays, in their type."""
        from benchmarks.programs import on_numpy

        return [*several(self.compute(on_numpy, *inputs))]

    def random_inputs(self, seed: int) -> list[Array]:
        """Inputs in fp32, for small shapes."""
        generator = np.random.default_rng(seed)
        return [
            generator.standard_normal(each.shape, np.float32) * each.scale + each.shift
            for each in self.operands
        ]


def layer_over_rows(index: int) -> Shape:
    """The shape of this number of seed 0; ``UserError`` where there are not so many."""
    layer, place = divmod(index, len(LAYER_ROWS))
    if layer >= len(LAYERS):
        raise UserError(f"seed {LAYERS_SEED} has {len(LAYERS) * len(LAYER_ROWS)} shapes.")
    kind, name, further = LAYERS[layer]
    model = MODELS[0]
    k, n = model.linear_layers()[name]
    options = (name, AS_TORCH, *further)
    drawn = Drawn(model.name, {"m": LAYER_ROWS[place], "n": n, "k": k}, options)
    return Shape(LAYERS_SEED, index, KINDS[kind], drawn, "bf16")


def shape_of(seed: int, index: int) -> Shape:
    """The shape of this number."""
    if seed == LAYERS_SEED:
        return layer_over_rows(index)
    random = Random(f"{seed} {index}")
    kinds = [*KINDS.values()]
    kind = random.choices(kinds, [kind.weight for kind in kinds])[0]
    element_type = random.choice([*ELEMENT_TYPES])
    while True:
        shape = Shape(seed, index, kind, kind.draw(random), element_type)
        if shape.flop <= MOST_FLOP and elements_of(shape) <= MOST_ELEMENTS:
            return shape


def elements_of(shape: Shape) -> int:
    """Elements of all inputs, and of a result as large as rows by columns say."""
    sizes = shape.drawn.sizes
    return sum(math.prod(each.shape) for each in shape.operands) + sizes.get("m", 0) * sizes.get(
        "n", 0
    )


def shapes(seed: int, count: int) -> list[Shape]:
    """The first shapes of a seed.  Odd seeds are for development, even ones for the record."""
    return [shape_of(seed, index) for index in range(count)]


def shape_named(name: str) -> Shape:
    """The shape that has a name; ``UserError`` where none has, as after another way of drawing."""
    match = re.match(r"s(\d+)_(\d+)_", name)
    shape = None if match is None else shape_of(int(match[1]), int(match[2]))
    if shape is None or shape.name != name:
        raise UserError(f"no shape is called {name!r}: it was drawn in another way.")
    return shape
