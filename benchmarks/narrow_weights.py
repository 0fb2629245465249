"""Weights of fewer bits than activations, and caches of f8: checked against float64, and timed.

``python -m benchmarks.narrow_weights`` takes about four minutes on a GPU, nvcc included;
``--only "w4 "`` takes the cases whose name has that, and ``--plans`` measures other plans of each
product, the fastest first, with nothing beside them.  Times are those of calls in a CUDA graph, of
several sets of inputs that a cache does not hold.  The floor is a copy of half of the stored bytes:
as many in all.  What torch has of its own is timed where it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any, Protocol

import mugraph
import mugraph.build as mi
from benchmarks.commands import case_parser, warm_all
from benchmarks.narrow import ARCH, CACHE_BYTES, CALLS, microseconds
from mugraph.dialects.plan import Plan

Peers = dict[str, list[Callable[[], Any]]]
GROUP = 128
"""Neighbours along k that share a scale."""
NIBBLE = 4
"""Bits of a number of which two are in a byte."""
TRACE = 1e-4
"""The error of fp32 sums, in parts of the sum of absolute products, that is allowed."""


PLANNED = ((64, 4), (128, 4), (128, 8), (256, 8))
"""Columns of a tile and warps of a block that are tried."""
FEWEST_ROWS_OF_GROUPS = 8
"""What warp groups multiply at least, with swapped operands."""


class Case(Protocol):
    """Something to check and to time."""

    @property
    def name(self) -> str:
        """As it is printed."""
        ...

    @property
    def stored_bytes(self) -> int:
        """Of weights or caches."""
        ...

    def graph(self) -> mi.KernelGraph:
        """The program."""
        ...

    def inputs(self, seed: int) -> list[Any]:
        """Random inputs on the GPU, what is stored first."""
        ...

    def error(self, result: Any, inputs: Sequence[Any]) -> float:
        """How far a result is from float64, in parts of what is allowed."""
        ...

    def peers(self, sets: Sequence[Sequence[Any]]) -> Peers:
        """Calls of torch for the same."""
        ...


@dataclass(frozen=True)
class Linear:
    """``x (m, k)`` times the transpose of stored ``w (n, k)`` with scales of rows or groups."""

    rows: int
    columns: int
    depth: int
    bits: int
    grouped: bool = True
    storage: str = "plain"
    plan: Plan | None = None

    def planned(self) -> list[Linear]:
        """The same under plans of its tiles and of who loads them."""
        groups = self.depth // GROUP if self.grouped else 0
        made: list[Linear] = []
        for columns, warps in PLANNED:
            blocks = -(-self.columns // columns)
            for split in sorted({max(1, each // blocks) for each in (132, 264, 528)}):
                for loads, swap in (("tma", None), ("tma", False), ("cp_async", None)):
                    if swap is not None and self.rows < FEWEST_ROWS_OF_GROUPS:
                        continue
                    loop = {"forloop": groups} if groups else {"loop_tile": 2 * GROUP}
                    parts: Any = {"split_k": split, "block": (32 * warps, 1, 1), "loads": loads}
                    tile = (0, 0, 0, columns) if groups else (0, columns)
                    plan = Plan(tile=tile, **loop, **parts, swap_ab=swap)
                    made.append(replace(self, plan=plan))
        return made

    @property
    def name(self) -> str:
        """As it is printed."""
        by = f"groups of {GROUP}" if self.grouped else "rows"
        stored = ", prepared" if self.is_prepared else ""
        name = f"w{self.bits} {self.rows}x{self.columns}x{self.depth}, scales of {by}{stored}"
        return name if self.plan is None else f"{name} {self.plan.parts()}"

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
        torch: Any = import_module("torch")
        random = torch.Generator("cuda").manual_seed(seed)
        per_byte = 8 // self.bits
        shape = (self.columns, self.depth // per_byte)
        w = torch.randint(-128, 128, shape, generator=random, device="cuda", dtype=torch.int8)
        groups = self.depth // GROUP if self.grouped else 1
        scales = torch.rand((self.columns, groups), generator=random, device="cuda") + 0.5
        x = torch.randn((self.rows, self.depth), generator=random, device="cuda")
        scales = scales.bfloat16()
        return [w, scales.T.contiguous() if self.is_prepared else scales, x.bfloat16()]

    def weights(self, w: Any, scales: Any, dtype: Any) -> Any:
        """What is stored, as numbers."""
        torch: Any = import_module("torch")
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
        torch: Any = import_module("torch")
        w, scales, x = inputs
        weights = self.weights(w, scales, torch.float64).T[:, :1024]
        ours = x.to(torch.float64)
        exact, most = ours @ weights, ours.abs() @ weights.abs()
        allowed = 2.0**-8 * exact.abs() + TRACE * most
        return ((result[:, :1024].to(torch.float64) - exact).abs() / allowed).max().item()

    def peers(self, sets: Sequence[Sequence[Any]]) -> Peers:
        """cuBLAS on the weights in bf16, and torch's kernels for such weights."""
        torch: Any = import_module("torch")
        wide = [(x, self.weights(w, scales, torch.bfloat16)) for w, scales, x in sets[:2]]
        found: Peers = {"cuBLAS bf16": [partial(torch.matmul, x, w.T) for x, w in wide]}
        if self.bits == NIBBLE and self.grouped and self.storage == "plain":
            found["torch._weight_int4pack_mm"] = [self._int4pack(*one) for one in sets]
        if self.bits == 8 and not self.grouped:
            found["torch._weight_int8pack_mm"] = [
                partial(torch._weight_int8pack_mm, x, w, scales[:, 0]) for w, scales, x in sets
            ]
        return found

    def _int4pack(self, w: Any, scales: Any, x: Any) -> Callable[[], Any]:
        """Torch's own product, whose numbers are from 0 to 15 less 8."""
        torch: Any = import_module("torch")
        byte = w.view(torch.uint8) ^ 0x88
        high_first = (byte << 4 | byte >> 4).contiguous()
        try:
            packed = torch._convert_weight_to_int4pack(high_first, 8)
        except RuntimeError as problem:
            return partial(_raise, problem)
        both = torch.stack([scales, torch.zeros_like(scales)], -1).transpose(0, 1).contiguous()
        return partial(torch._weight_int4pack_mm, x, packed, GROUP, both)


def _raise(problem: Exception) -> None:
    raise problem


@dataclass(frozen=True)
class Decode:
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
        torch: Any = import_module("torch")
        random = torch.Generator("cuda").manual_seed(seed)
        cache = (self.batch, self.heads, self.keys, self.depth)
        made: list[Any] = []
        for _ in range(2):
            if self.kind == "s8":
                made.append(
                    torch.randint(
                        -128, 128, cache, generator=random, device="cuda", dtype=torch.int8
                    )
                )
            else:
                numbers = torch.randn(cache, generator=random, device="cuda")
                made.append(
                    numbers.to(torch.bfloat16 if self.kind == "bf16" else torch.float8_e4m3fn)
                )
        if self.kind != "bf16":
            most = 1 / 64 if self.kind == "s8" else 1.0
            for _ in range(2):
                scale = torch.rand(self.scale_shape, generator=random, device="cuda")
                made.append((scale + 0.5) * most)
        queries = (self.batch, self.heads, self.queries, self.depth)
        return [*made, torch.randn(queries, generator=random, device="cuda").bfloat16()]

    def error(self, result: Any, inputs: Sequence[Any]) -> float:
        """In parts of 2% of the largest magnitude: scores and weights are rounded to bf16."""
        torch: Any = import_module("torch")
        k, v, *scales, q = (each.to(torch.float64) for each in inputs)
        if scales:
            k, v = k * scales[0], v * scales[1]
        weights = torch.softmax(q @ k.transpose(-1, -2) * self.depth**-0.5, -1)
        exact = weights @ v
        distance = (result.to(torch.float64) - exact).abs().max() / exact.abs().max()
        return distance.item() / 2e-2

    def peers(self, sets: Sequence[Sequence[Any]]) -> Peers:
        """Torch's attention on a cache of bf16."""
        if self.kind != "bf16":
            return {}
        torch: Any = import_module("torch")
        attend = torch.nn.functional.scaled_dot_product_attention
        return {"torch sdpa": [partial(attend, q, k, v) for k, v, q in sets]}


LAYERS = ((14336, 4096), (4096, 14336), (8192, 8192))
CASES: list[Linear | Decode] = [
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


def compiled(case: Case) -> Any:
    """The kernels of a case."""
    return mugraph.compile(case.graph(), ARCH, plan=getattr(case, "plan", None))


def warm(case: Case) -> str | None:
    """Compiles a case into the cache; what went wrong, where that did."""
    try:
        compiled(case)
    except Exception as problem:
        return f"{case.name}: {str(problem).splitlines()[0]}"
    return None


def inputs_of(case: Case) -> list[list[Any]]:
    """Sets of inputs that a cache does not hold together."""
    count = max(1, min(CALLS, CACHE_BYTES // case.stored_bytes + 1))
    return [case.inputs(seed) for seed in range(count)]


def checked(case: Case, sets: Sequence[Sequence[Any]]) -> tuple[list[Callable[[], Any]], float]:
    """Calls of the kernels of a case, and the error of the first."""
    torch: Any = import_module("torch")
    kernel = compiled(case)
    poison = torch.full((1 << 24,), float("nan"), device="cuda")
    del poison  # what the memory of results and of the workspace holds before
    return [partial(kernel, *one) for one in sets], case.error(kernel(*sets[0]), sets[0])


def timed(calls: Sequence[Callable[[], Any]]) -> float:
    """The microseconds of one of several calls."""
    return microseconds([calls[index % len(calls)] for index in range(CALLS)])


def run(case: Case) -> None:
    """Checks and times a case, and prints a line for each kernel."""
    sets = inputs_of(case)
    ours_of, error = checked(case, sets)
    print(f"\n{case.name}: {'right' if error <= 1 else 'WRONG'}, {error:.2f} of what is allowed")
    torch: Any = import_module("torch")
    halves = [one[0].view(torch.uint8).flatten().chunk(2) for one in sets]
    both = 2 if isinstance(case, Decode) else 1
    copies = [partial(_copy, half, both) for half in halves]
    calls = {"mugraph": ours_of, "copy of as many bytes": copies, **case.peers(sets)}
    ours = 0.0
    for name, each in calls.items():
        try:
            taken = timed(each)
        except Exception as problem:
            print(f"  {name}: {str(problem).splitlines()[0]}")
            continue
        ours = ours or taken
        rate = case.stored_bytes / taken / 1e6
        print(f"  {name}: {taken:.1f} us, {rate:.2f} TB/s, {taken / ours:.2f} of mugraph's")


def run_planned(case: Linear, shown: int) -> None:
    """Prints the plans of a product that take the least time."""
    sets = inputs_of(case)
    found: list[tuple[float, str]] = []
    failed: list[str] = []
    for each in case.planned():
        try:
            calls, error = checked(each, sets)
            if error > 1:
                failed.append(f"WRONG, {error:.2f}: {each.plan}")
            found.append((timed(calls), str(each.plan and each.plan.parts())))
        except Exception as problem:
            failed.append(str(problem).splitlines()[0][:160])
    print(f"\n{case.name}: {len(found)} plans, {len(failed)} failed")
    for problem in failed[:2]:
        print(f"  {problem}")
    for taken, plan in sorted(found)[:shown]:
        print(f"  {taken:.1f} us {plan}")


def _copy(half: Sequence[Any], times: int) -> None:
    for _ in range(times):
        half[1].copy_(half[0])


def main() -> None:
    """Compiles in parallel, then runs one case after another."""
    parser = case_parser(__doc__, jobs=16)
    parser.add_argument("--plans", type=int, default=0, help="how many of other plans to print")
    options = parser.parse_args()
    cases = [case for case in CASES if options.only in case.name]
    if options.plans:
        products = [case for case in cases if isinstance(case, Linear)]
        warm_all(
            warm, [each for case in products for each in case.planned()], options.jobs, "plans"
        )
        for case in () if options.compile else products:
            run_planned(case, options.plans)
        return
    for problem in warm_all(warm, cases, options.jobs, "programs"):
        if problem is not None:
            print(problem)
    for case in () if options.compile else cases:
        try:
            run(case)
        except Exception as problem:
            print(f"\n{case.name}: {type(problem).__name__}: {str(problem).splitlines()[0]}")


if __name__ == "__main__":
    main()
