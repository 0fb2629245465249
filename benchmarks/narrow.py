"""Products of f8 and i8 on a GPU: checked against float64, and timed beside torch's.

    python -m benchmarks.narrow --only 8192 --output benchmarks/results/narrow_h200

The floor is a copy of half of the weights: as many bytes in all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mugraph.build as mi
from benchmarks.cases import OURS, Built, Call, Case, Comparison, compiled, main
from benchmarks.h200.device import DEVICE
from benchmarks.h200.statistics import set_count
from mugraph.dialects.plan import Plan

CHECKED_ROWS = 256
BLOCK = 128
"""Neighbours along k that share a scale of ``blocks``, and the weights' rows that do."""
COPY = "copy of as many bytes"


def copy_of_half(stored: Any) -> Any:
    """Reads one half of a tensor's bytes and writes as many."""
    import torch

    halves = stored.view(torch.uint8).flatten()
    return halves[: len(halves) // 2].clone()


@dataclass(frozen=True)
class Linear(Case):
    """A linear layer: ``x (m, k)`` times the transpose of ``w (n, k)`` and scales, into bf16."""

    rows: int
    columns: int
    depth: int
    kind: str
    by: str
    promote: bool = True
    by_columns: bool = False
    """Whether scales of x lie by columns, as torch takes those of ``blocks``."""

    @property
    def name(self) -> str:
        """As it is printed."""
        fast = "" if self.promote else ", sums of few bits"
        scales = f"scales of {self.by}" + (", x by columns" if self.by_columns else "")
        return f"{self.kind} {self.rows}x{self.columns}x{self.depth}, {scales}{fast}"

    @property
    def scale_shapes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Of x and of w: of ``tensors``, of ``rows`` of both, or of ``blocks``.

        Blocks are 128 neighbours of a row of x, and squares of 128 of w.
        """
        if self.by == "blocks":
            groups = self.depth // BLOCK
            return (self.rows, groups), (self.columns // BLOCK, groups)
        return ((self.rows, 1), (1, self.columns)) if self.by == "rows" else ((1, 1), (1, 1))

    def build(self, arch: str) -> Built:
        """The layer's kernel."""
        graph = mi.new_kernel_graph("linear")
        dtype = mi.int8 if self.kind == "s8" else mi.float8_e4m3fn
        x = graph.new_input((self.rows, self.depth), dtype=dtype)
        w = graph.new_input((self.columns, self.depth), dtype=dtype)
        of_x, of_w = self.scale_shapes
        strides = (1, self.rows) if self.by_columns else None
        scales = [
            graph.new_input(of_x, strides, mi.float32),
            graph.new_input(of_w, dtype=mi.float32),
        ]
        if self.by == "blocks":
            wide = [mi.dequantize(*each) for each in zip((x, w), scales, strict=True)]
            graph.mark_output(wide[0] @ mi.transpose(wide[1]))
            return compiled(graph, arch)
        if self.kind == "s8":
            sums = mi.cast(graph.matmul(x, mi.transpose(w)), mi.float32)
        else:
            sums = graph.matmul(x, mi.transpose(w), dtype=mi.float32)
        graph.mark_output(mi.cast(sums * scales[0] * scales[1], mi.bfloat16))
        return compiled(graph, arch, None if self.promote else Plan(promote=False))

    def inputs(self, seed: int) -> list[Any]:
        """Random inputs, and what cuBLAS takes of them in bf16."""
        import torch

        random = torch.Generator(DEVICE).manual_seed(seed)
        tensors: list[Any] = []
        for shape in ((self.rows, self.depth), (self.columns, self.depth)):
            if self.kind == "s8":
                drawn = torch.randint(-128, 128, shape, generator=random, device=DEVICE)
                tensors.append(drawn.to(torch.int8))
            else:
                drawn = torch.randn(shape, generator=random, device=DEVICE)
                tensors.append(drawn.to(torch.float8_e4m3fn))
        for shape in self.scale_shapes:
            tensors.append(torch.rand(shape, generator=random, device=DEVICE) + 0.5)
        if self.by_columns:
            tensors[2] = tensors[2].T.contiguous().T
        return [*tensors, *(each.to(torch.bfloat16) for each in tensors[:2])]

    def error(self, result: Any, x: Any, w: Any, scale_x: Any, scale_w: Any) -> float:
        """The largest error of some rows against float64, in parts of the sum of absolutes."""
        rows = min(CHECKED_ROWS, self.rows)
        ours, theirs = x[:rows].double(), w.double().T
        if self.by == "blocks":
            ours = ours * scale_x[:rows].double().repeat_interleave(BLOCK, 1)
            of_squares = scale_w.double().repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)
            theirs, scales = theirs * of_squares.T, 1.0
        else:
            scales = scale_x[: rows if len(scale_x) > 1 else 1].double() * scale_w.double()
        exact, most = ours @ theirs * scales, ours.abs() @ theirs.abs() * scales
        # bf16 rounds the result by 2^-9 of it.
        rest = ((result[:rows].double() - exact).abs() - 2.0**-8 * exact.abs()).clamp(min=0)
        return (rest / most).max().item()

    def comparison(self, built: Built) -> Comparison:
        """Beside torch on the same numbers, and cuBLAS in bf16."""
        import torch

        count = set_count((self.rows + self.columns) * self.depth)
        sets = [self.inputs(seed) for seed in range(count)]
        if self.by == "blocks":  # torch takes scales of x by columns
            for each in sets:
                each.append(each[2].T.contiguous().T)
        kernel = built.kernel()
        systems: dict[str, Call] = {OURS: lambda *given: kernel(*given[:4])}
        others = {COPY: lambda _x, w, *_: copy_of_half(w), "cuBLAS bf16": lambda *g: g[4] @ g[5].T}
        if self.kind == "e4m3":
            systems["torch._scaled_mm"] = self.scaled_product
        elif self.rows > 16:
            others["torch._int_mm, no scales"] = lambda x, w, *_: torch._int_mm(x, w.T)
        return Comparison(
            sets,
            systems | others,
            lambda result: self.error(result, *sets[0][:4]),
            allowed=2e-2 if self.kind == "e4m3" else 1e-6,
            work=2.0 * self.rows * self.columns * self.depth,
            unit="TFLOP/s",
            unchecked=frozenset(others),
        )

    def scaled_product(self, x: Any, w: Any, scale_x: Any, scale_w: Any, *rest: Any) -> Any:
        """What torch makes of it."""
        import torch

        if self.by == "tensors":
            scale_x, scale_w = scale_x[0, 0], scale_w[0, 0]
        if self.by == "blocks":
            scale_x, scale_w = rest[-1], scale_w.T
        fast, dtype = not self.promote, torch.bfloat16
        return torch._scaled_mm(x, w.T, scale_x, scale_w, out_dtype=dtype, use_fast_accum=fast)


LAYERS = ((14336, 4096), (4096, 14336), (6144, 4096), (8192, 8192))
CASES = [
    *(Linear(n, n, n, "e4m3", by) for n in (4096, 8192) for by in ("tensors", "rows", "blocks")),
    *(Linear(n, n, n, "e4m3", "blocks", by_columns=True) for n in (4096, 8192)),
    *(Linear(n, n, n, "e4m3", "rows", promote=False) for n in (4096, 8192)),
    *(Linear(n, n, n, "s8", "rows") for n in (4096, 8192)),
    *(Linear(m, n, k, "e4m3", "rows") for n, k in LAYERS for m in (1, 16, 64, 128)),
    *(Linear(m, 14336, 4096, "s8", "rows") for m in (16, 128)),
]

if __name__ == "__main__":
    raise SystemExit(main("Products of f8 and i8", __doc__, CASES, output="build/narrow"))
