"""The gated MLP of a decode step, layer after layer in a CUDA graph, by several plans.

    python -m benchmarks.decode_mlp --only late --output build/decode_mlp

Both kernels of the MLP of Llama-3.2-1B (one row, bf16), and each alone, in a chain of 16 layers
with weights of their own.  Rates are of the bytes of weights, beside a copy of as many.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import mugraph.build as mi
from benchmarks.cases import OURS, Built, Case, Comparison, compiled, main
from benchmarks.h200.device import DEVICE
from benchmarks.narrow import COPY, copy_of_half
from mugraph.dialects.plan import Plan

LAYERS, WIDTH, HIDDEN = 16, 2048, 8192
EPSILON = 1e-5
TOLERANCE = 2e-2
"""Of the largest result: sums in f32, rounded to bf16 once a kernel."""
PARTS = {"gate and up": 4 * WIDTH * HIDDEN, "down": 2 * WIDTH * HIDDEN, "both": 6 * WIDTH * HIDDEN}
"""What is timed, and the bytes of its weights."""


@dataclass(frozen=True)
class Variant:
    """A plan of the kernels, and whether the first one divides by a norm of what it reads."""

    name: str
    plan: Plan
    has_norm: bool = True


LATE = Plan(pdl="late")
VARIANTS = [
    Variant("as planned", Plan()),
    Variant("next begins late", LATE),
    Variant("next begins early", Plan(pdl="early")),
    Variant("late, 4 warps multiply", replace(LATE, block=(128,))),
    Variant("late, 8 warps multiply", replace(LATE, block=(256,))),
    Variant("late, 32 columns a block", replace(LATE, tile=(1, 32), block=(128,))),
    Variant("late, cp.async, 8 warps", replace(LATE, loads="cp_async", block=(256,))),
    Variant("late, no norm", LATE, has_norm=False),
    Variant("late, no norm, 4 warps multiply", replace(LATE, block=(128,)), has_norm=False),
]


def gate_up(*, has_norm: bool) -> mi.KernelGraph:
    """``silu(n @ gate^T) * (n @ up^T)``, where n is x (1, width) or its norm.

    Weights are [out, in].
    """
    graph = mi.new_kernel_graph("gate_up")
    x = graph.new_input((1, WIDTH), dtype=mi.bfloat16)
    scale = graph.new_input((1, WIDTH), dtype=mi.bfloat16, constant=True) if has_norm else None
    gate, up = (
        graph.new_input((HIDDEN, WIDTH), dtype=mi.bfloat16, constant=True) for _ in range(2)
    )
    if scale is not None:
        wide = mi.cast(x, mi.float32)
        mean = mi.mean(mi.square(wide), 1)
        x = scale * mi.cast(wide * mi.rsqrt(mean + EPSILON), mi.bfloat16)
    gated = graph.matmul(x, mi.transpose(gate))
    graph.mark_output(mi.silu(gated) * graph.matmul(x, mi.transpose(up)))
    return graph


def down() -> mi.KernelGraph:
    """``x + h @ down^T`` of h (1, hidden)."""
    graph = mi.new_kernel_graph("down")
    h = graph.new_input((1, HIDDEN), dtype=mi.bfloat16)
    weight = graph.new_input((WIDTH, HIDDEN), dtype=mi.bfloat16, constant=True)
    x = graph.new_input((1, WIDTH), dtype=mi.bfloat16)
    graph.mark_output(x + graph.matmul(h, mi.transpose(weight)))
    return graph


@dataclass(frozen=True)
class Layer:
    """The tensors of a layer: what it reads, a scale, gate, up and down weights, h and y."""

    x: Any
    scale: Any
    gate: Any
    up: Any
    down: Any
    h: Any
    y: Any


def new_layer(seed: int) -> Layer:
    """Weights that keep the sizes of what they multiply."""
    import torch

    random = torch.Generator(DEVICE).manual_seed(seed)

    def drawn(*shape: int, over: float = 1.0) -> Any:
        numbers = torch.randn(shape, generator=random, device=DEVICE)
        return (numbers / over).to(torch.bfloat16)

    return Layer(
        x=drawn(1, WIDTH),
        scale=drawn(1, WIDTH).abs(),
        gate=drawn(HIDDEN, WIDTH, over=WIDTH**0.5),
        up=drawn(HIDDEN, WIDTH, over=WIDTH**0.5),
        down=drawn(WIDTH, HIDDEN, over=4 * HIDDEN**0.5),
        h=drawn(1, HIDDEN),
        y=drawn(1, WIDTH),
    )


def exact_of(layer: Layer, part: str, *, has_norm: bool) -> Any:
    """What a part computes, in float64."""
    import torch

    x = normed = layer.x.double()
    if part == "down":
        return x + layer.h.double() @ layer.down.double().T
    if has_norm:
        normed = x * torch.rsqrt(x.square().mean(1, keepdim=True) + EPSILON) * layer.scale.double()
    gated = torch.nn.functional.silu(normed @ layer.gate.double().T)
    h = gated * (normed @ layer.up.double().T)
    return h if part == "gate and up" else x + h @ layer.down.double().T


@dataclass(frozen=True)
class Chain(Case):
    """A part of a layer by a plan, one layer after another."""

    variant: Variant
    part: str

    @property
    def name(self) -> str:
        """The plan and the part."""
        return f"{self.variant.name}, {self.part}"

    @property
    def group(self) -> str:
        """Parts of different plans."""
        return self.part

    def build(self, arch: str) -> tuple[Built, Built]:
        """Both kernels."""
        plan = self.variant.plan
        wide = compiled(gate_up(has_norm=self.variant.has_norm), arch, plan)
        return wide, compiled(down(), arch, plan)

    def comparison(self, built: tuple[Built, Built]) -> Comparison:
        """Beside a copy of as many bytes."""
        wide, narrow = (each.kernel() for each in built)
        # What a layer reads is what the one before it wrote, but for the first one.
        layers = [new_layer(seed) for seed in range(LAYERS)]
        has_norm, part = self.variant.has_norm, self.part
        exact = exact_of(layers[0], part, has_norm=has_norm)

        def ours(at: int) -> Any:
            layer, before = layers[at], layers[at - 1].y if at else layers[0].x
            if part != "down":
                scale = (layer.scale,) if has_norm else ()
                wide(before, *scale, layer.gate, layer.up, out=layer.h)
            if part == "gate and up":
                return layer.h
            return narrow(layer.h, layer.down, before, out=layer.y)

        def error(result: Any) -> float:
            return ((result.double() - exact).abs().max() / exact.abs().max()).item()

        weights = [[layer.gate, layer.up, layer.down] for layer in layers]
        return Comparison(
            [[at] for at in range(LAYERS)],
            {
                OURS: ours,
                COPY: lambda at: [copy_of_half(each) for each in weights[at][: MOVED[part]]],
            },
            error,
            TOLERANCE,
            float(PARTS[part]),
            unchecked=frozenset({COPY}),
        )


MOVED = {"gate and up": 2, "down": 1, "both": 3}
"""How many matrices a part reads."""

CASES = [Chain(variant, part) for variant in VARIANTS for part in PARTS]

if __name__ == "__main__":
    raise SystemExit(main("The MLP of a decode step", __doc__, CASES, output="build/decode_mlp"))
