"""Weights of fewer bits than activations, and caches of f8: checked against float64, and timed.

    python -m benchmarks.narrow_weights --only "w4 " --output benchmarks/results/narrow_weights

The floor is a copy of half of the stored bytes: as many in all.  What torch has of its own is timed
where it runs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mugraph.build as mi
from benchmarks.cases import OURS, Built, Call, Case, Comparison, compiled, main, sentence
from benchmarks.h200.device import DEVICE
from benchmarks.h200.statistics import set_count
from benchmarks.narrow import COPY, copy_of_half

GROUP = 128
"""Neighbours along k that share a scale."""
NIBBLE = 4
"""Bits of a number of which two are in a byte."""
TRACE = 1e-4
"""The error of fp32 sums, in parts of the sum of absolute products, that is allowed."""


class Stored(Case):
    """A program of which most is read from memory."""

    @property
    @abstractmethod
    def stored_bytes(self) -> int:
        """Of weights or caches."""

    @abstractmethod
    def graph(self) -> mi.KernelGraph:
        """The program."""

    @abstractmethod
    def inputs(self, seed: int) -> list[Any]:
        """Random inputs on the GPU, what is stored first."""

    @abstractmethod
    def error(self, result: Any, inputs: Sequence[Any]) -> float:
        """How far a result is from float64, in parts of what is allowed."""

    @abstractmethod
    def peers(self, sets: list[list[Any]]) -> dict[str, Call]:
        """Calls of torch for the same, on numbers of its own, which are not checked.

        What they take besides is appended to the sets.
        """

    def build(self, arch: str) -> Built:
        """The program's kernels."""
        return compiled(self.graph(), arch)

    def comparison(self, built: Built) -> Comparison:
        """Beside torch and a copy."""
        sets = [self.inputs(seed) for seed in range(set_count(self.stored_bytes))]
        given = [*sets[0]]
        kernel = built.kernel()
        others = {COPY: lambda w, *_: copy_of_half(w), **self.peers(sets)}
        return Comparison(
            sets,
            {OURS: lambda *each: kernel(*each[: len(given)]), **others},
            lambda result: self.error(result, given),
            allowed=1.0,
            work=float(self.stored_bytes),
            unchecked=frozenset(others),
        )


@dataclass(frozen=True)
class Linear(Stored):
    """``x (m, k)`` times the transpose of stored ``w (n, k)`` with scales of rows or groups."""

    rows: int
    columns: int
    depth: int
    bits: int
    grouped: bool = True
    storage: str = "plain"

    @property
    def name(self) -> str:
        """As it is printed."""
        by = f"groups of {GROUP}" if self.grouped else "rows"
        stored = ", prepared" if self.is_prepared else ""
        return f"w{self.bits} {self.rows}x{self.columns}x{self.depth}, scales of {by}{stored}"

    @property
    def is_prepared(self) -> bool:
        """Whether bytes and scales lie as kernels read them fastest: scales (k / group, n)."""
        return self.storage == "halves"

    @property
    def stored_bytes(self) -> int:
        """Of the weights."""
        return self.columns * self.depth * self.bits // 8

    def graph(self) -> mi.KernelGraph:
        """The program."""
        graph = mi.new_kernel_graph("linear")
        per_byte = 8 // self.bits
        w = graph.new_input((self.columns, self.depth // per_byte), dtype=mi.int8)
        groups = self.depth // GROUP if self.grouped else 1
        given = (groups, self.columns) if self.is_prepared else (self.columns, groups)
        scales = graph.new_input(given, dtype=mi.bfloat16)
        x = graph.new_input((self.rows, self.depth), dtype=mi.bfloat16)
        format = "int4" if self.bits == NIBBLE else None
        of_rows = mi.transpose(scales) if self.is_prepared else scales
        stored = self.storage if self.bits == NIBBLE else "plain"
        wide = mi.dequantize(w, of_rows, format=format, dim=1, storage=stored)
        graph.mark_output(x @ mi.transpose(wide))
        return graph

    def inputs(self, seed: int) -> list[Any]:
        """Bytes of any bits, scales, and activations."""
        import torch

        random = torch.Generator(DEVICE).manual_seed(seed)
        per_byte = 8 // self.bits
        shape = (self.columns, self.depth // per_byte)
        w = torch.randint(-128, 128, shape, generator=random, device=DEVICE, dtype=torch.int8)
        groups = self.depth // GROUP if self.grouped else 1
        scales = torch.rand((self.columns, groups), generator=random, device=DEVICE) + 0.5
        x = torch.randn((self.rows, self.depth), generator=random, device=DEVICE)
        scales = scales.bfloat16()
        return [w, scales.T.contiguous() if self.is_prepared else scales, x.bfloat16()]

    def weights(self, w: Any, scales: Any, dtype: Any) -> Any:
        """What is stored, as numbers."""
        import torch

        if self.bits == NIBBLE:
            low, high = w << 4 >> 4, w >> 4
            if self.storage == "halves":
                low, high = (each.reshape(self.columns, -1, GROUP // 2) for each in (low, high))
                w = torch.stack([low, high], -2).reshape(self.columns, self.depth)
            else:
                w = torch.stack([low, high], -1).reshape(self.columns, self.depth)
        scales = scales.T if self.is_prepared else scales
        scale = scales.to(dtype).repeat_interleave(self.depth // scales.shape[1], 1)
        return w.to(dtype) * scale

    def error(self, result: Any, inputs: Sequence[Any]) -> float:
        """Of some columns: bf16 rounds a result by 2^-9 of it, fp32 sums add a trace."""
        import torch

        w, scales, x = inputs
        weights = self.weights(w, scales, torch.float64).T[:, :1024]
        ours = x.double()
        exact, most = ours @ weights, ours.abs() @ weights.abs()
        allowed = 2.0**-8 * exact.abs() + TRACE * most
        return ((result[:, :1024].double() - exact).abs() / allowed).max().item()

    def peers(self, sets: list[list[Any]]) -> dict[str, Call]:
        """cuBLAS on the weights in bf16, and torch's kernels for such weights."""
        import torch

        for each in sets:
            each.append(self.weights(each[0], each[1], torch.bfloat16))
        peers: dict[str, Call] = {"cuBLAS bf16": lambda _w, _scales, x, wide, *_: x @ wide.T}
        if self.bits == NIBBLE and self.grouped and self.storage == "plain":
            try:
                for each in sets:
                    each += self._int4pack(each[0], each[1])
            except RuntimeError as problem:
                print(f"{self.name}: {sentence(problem)}")
            else:
                product = torch._weight_int4pack_mm
                # Its numbers are from 0 to 15 less 8.
                peers["torch._weight_int4pack_mm"] = lambda *g: product(g[2], g[4], GROUP, g[5])
        if self.bits == 8 and not self.grouped:
            peers["torch._weight_int8pack_mm"] = lambda w, scales, x, *_: torch._weight_int8pack_mm(
                x, w, scales[:, 0]
            )
        return peers

    def _int4pack(self, w: Any, scales: Any) -> list[Any]:
        """Weights and scales as torch's own product takes them."""
        import torch

        byte = w.view(torch.uint8) ^ 0x88
        high_first = (byte << 4 | byte >> 4).contiguous()
        packed = torch._convert_weight_to_int4pack(high_first, 8)
        return [
            packed,
            torch.stack([scales, torch.zeros_like(scales)], -1).transpose(0, 1).contiguous(),
        ]


@dataclass(frozen=True)
class Decode(Stored):
    """Attention of a query for each of four heads that share a cache of ``kind``."""

    batch: int
    heads: int
    keys: int
    kind: str
    by: str = "head"
    queries: int = 4
    depth: int = 128

    @property
    def name(self) -> str:
        """As it is printed."""
        scales = "" if self.kind == "bf16" else f", scales of {self.by}s"
        return f"cache {self.kind} {self.batch}x{self.heads}x{self.keys}{scales}"

    @property
    def stored_bytes(self) -> int:
        """Of keys and values."""
        size = 2 if self.kind == "bf16" else 1
        return 2 * size * self.batch * self.heads * self.keys * self.depth

    @property
    def scale_shape(self) -> tuple[int, ...]:
        """The extents of the scales of keys, and of those of values."""
        if self.by == "head":
            return (1, self.heads, 1, 1)
        return (self.batch, self.heads, self.keys, 1)

    def graph(self) -> mi.KernelGraph:
        """The program."""
        graph = mi.new_kernel_graph("decode")
        cache = (self.batch, self.heads, self.keys, self.depth)
        types = {"bf16": mi.bfloat16, "e4m3": mi.float8_e4m3fn, "s8": mi.int8}
        k, v = (graph.new_input(cache, dtype=types[self.kind]) for _ in range(2))
        scales: list[Any] = []
        if self.kind != "bf16":
            scales = [graph.new_input(self.scale_shape, dtype=mi.float32) for _ in range(2)]
        q = graph.new_input((self.batch, self.heads, self.queries, self.depth), dtype=mi.bfloat16)
        if self.kind == "bf16":
            graph.mark_output(mi.softmax(q @ mi.transpose(k) * self.depth**-0.5) @ v)
            return graph
        k, v = (mi.cast(each, mi.bfloat16) for each in (k, v))
        scores = q @ mi.transpose(k) * (mi.transpose(scales[0]) * self.depth**-0.5)
        weights = mi.softmax(scores)
        if self.by == "head":
            graph.mark_output((weights @ v) * scales[1])
        else:
            graph.mark_output((weights * mi.transpose(scales[1])) @ v)
        return graph

    def inputs(self, seed: int) -> list[Any]:
        """Keys, values, scales, and queries."""
        import torch

        random = torch.Generator(DEVICE).manual_seed(seed)
        cache = (self.batch, self.heads, self.keys, self.depth)
        made: list[Any] = []
        for _ in range(2):
            if self.kind == "s8":
                made.append(
                    torch.randint(
                        -128, 128, cache, generator=random, device=DEVICE, dtype=torch.int8
                    )
                )
            else:
                numbers = torch.randn(cache, generator=random, device=DEVICE)
                made.append(
                    numbers.to(torch.bfloat16 if self.kind == "bf16" else torch.float8_e4m3fn)
                )
        if self.kind != "bf16":
            most = 1 / 64 if self.kind == "s8" else 1.0
            for _ in range(2):
                scale = torch.rand(self.scale_shape, generator=random, device=DEVICE)
                made.append((scale + 0.5) * most)
        queries = (self.batch, self.heads, self.queries, self.depth)
        return [*made, torch.randn(queries, generator=random, device=DEVICE).bfloat16()]

    def error(self, result: Any, inputs: Sequence[Any]) -> float:
        """In parts of 2% of the largest magnitude: scores and weights are rounded to bf16."""
        import torch

        k, v, *scales, q = (each.double() for each in inputs)
        if scales:
            k, v = k * scales[0], v * scales[1]
        weights = torch.softmax(q @ k.transpose(-1, -2) * self.depth**-0.5, -1)
        exact = weights @ v
        distance = (result.double() - exact).abs().max() / exact.abs().max()
        return distance.item() / 2e-2

    def peers(self, sets: list[list[Any]]) -> dict[str, Call]:
        """Torch's attention on a cache of bf16."""
        import torch

        del sets
        attend = torch.nn.functional.scaled_dot_product_attention
        return {"torch sdpa": lambda k, v, q: attend(q, k, v)} if self.kind == "bf16" else {}


LAYERS = ((14336, 4096), (4096, 14336), (8192, 8192))
CASES: list[Case] = [
    *(
        Linear(m, n, k, 4, storage=storage)
        for n, k in LAYERS
        for m in (1, 16, 64)
        for storage in ("halves", "plain")
    ),
    *(Linear(m, n, k, 8, grouped) for n, k in LAYERS for m in (1, 16, 64) for grouped in (False,)),
    *(Linear(m, 8192, 8192, 8, storage=s) for m in (1, 16, 64) for s in ("halves", "plain")),
    *(
        Decode(batch, 8, keys, kind, by)
        for batch in (1, 16)
        for keys in (8192, 32768)
        for kind, by in (("bf16", "head"), ("e4m3", "head"), ("e4m3", "token"), ("s8", "token"))
    ),
]


if __name__ == "__main__":
    title = "Weights of few bits, and caches of f8"
    raise SystemExit(main(title, __doc__, CASES, output="build/narrow_weights"))
