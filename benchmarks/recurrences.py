"""Recurrences on a GPU, found from plain programs, beside their chunked forms by torch.compile.

    python -m benchmarks.recurrences --only delta --output benchmarks/results/recurrences_h200

Every case is checked against the recurrence step by step in float64.  Cases are a cumulative sum
over 65,536 numbers, linear attention with decay, Mamba-2's scan and the gated delta rule, at 16
heads and 4,096 tokens.  Peers are ``torch.cumsum``, the chunked forms below by torch.compile, and
the kernels of ``flash-linear-attention`` where its wheel is installed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, ClassVar

import mugraph.build as mi
from benchmarks.cases import OURS, Built, Case, Comparison, compiled, error_against, main
from benchmarks.h200.device import DEVICE
from benchmarks.h200.statistics import set_count
from mugraph.build import DTensor, KernelGraph

HEADS, TOKENS, CHUNK = 16, 4096, 64
LARGEST_ERROR = 2e-2
"""Of the norm of the result; chunked forms round states and scores to bf16."""


class Recurrence(Case):
    """A recurrence, as a program and in torch."""

    @abstractmethod
    def graph(self) -> KernelGraph:
        """The program."""

    @abstractmethod
    def inputs(self, torch: Any) -> list[Any]:
        """Random arguments."""

    @abstractmethod
    def reference(self, torch: Any, *inputs: Any) -> Any:
        """The result in float64, step by step."""

    @abstractmethod
    def peers(self, torch: Any) -> dict[str, Callable[..., Any]]:
        """What else computes it."""

    def build(self, arch: str) -> Built:
        """The program's kernels."""
        return compiled(self.graph(), arch)

    def comparison(self, built: Built) -> Comparison:
        """On random numbers."""
        torch: Any = import_module("torch")

        torch.manual_seed(1)
        torch.set_float32_matmul_precision("high")
        inputs = self.inputs(torch)
        error = error_against(self.reference(torch, *inputs))
        count = set_count(sum(x.numel() * x.element_size() for x in inputs))
        sets = [inputs, *([x.clone() for x in inputs] for _ in range(count - 1))]
        return Comparison(sets, {OURS: built.kernel(), **self.peers(torch)}, error, LARGEST_ERROR)


@dataclass(frozen=True)
class CumulativeSum(Recurrence):
    """The sums so far of rows of 65,536 numbers."""

    rows: int
    length: int = 65536

    @property
    def name(self) -> str:
        """As it is printed."""
        return f"cumulative sum {self.rows}x{self.length}"

    def graph(self) -> KernelGraph:
        """The program."""
        graph = mi.new_kernel_graph("sums")
        graph.mark_output(mi.cumsum(graph.new_input((self.rows, self.length), dtype=mi.float32)))
        return graph

    def inputs(self, torch: Any) -> list[Any]:
        """Numbers about 0."""
        return [torch.randn((self.rows, self.length), device=DEVICE)]

    def reference(self, torch: Any, *inputs: Any) -> Any:
        """The sums in float64."""
        return inputs[0].double().cumsum(-1)

    def peers(self, torch: Any) -> dict[str, Callable[..., Any]]:
        """Torch's own."""

        def sums(x: Any) -> Any:
            return torch.cumsum(x, -1)

        return {"torch.cumsum": sums, "torch.compile": torch.compile(sums)}


@dataclass(frozen=True)
class LinearAttention(Recurrence):
    """S_t = a_t S_(t-1) + k_t v_t, o_t = q_t S_t, of logarithms of a."""

    width: int
    TITLE: ClassVar[str] = "linear attention"

    @property
    def name(self) -> str:
        """As it is printed."""
        return f"{self.TITLE} d {self.width}"

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Of queries, keys, values and logarithms."""
        return [*[(HEADS, TOKENS, self.width)] * 3, (HEADS, TOKENS)]

    def graph(self) -> KernelGraph:
        """The program."""
        graph = mi.new_kernel_graph("attention")
        q, k, v = (graph.new_input(shape, dtype=mi.bfloat16) for shape in self.shapes[:3])
        logarithms = graph.new_input(self.shapes[3], dtype=mi.float32)
        decays = mi.exp(self.column(logarithms))
        added = graph.mul(self.column(k), self.row(v), dtype=mi.float32)
        state = mi.scan(added, decays, dim=1)
        graph.mark_output(self.read(state, q))
        return graph

    @staticmethod
    def column(x: DTensor) -> DTensor:
        """A matrix of one column for each head and token."""
        return mi.reshape(x, (HEADS, TOKENS, -1, 1))

    @staticmethod
    def row(x: DTensor) -> DTensor:
        """A matrix of one row for each head and token."""
        return mi.reshape(x, (HEADS, TOKENS, 1, -1))

    def read(self, state: DTensor, queries: DTensor) -> DTensor:
        """The products of queries and states."""
        sums = mi.reduction(state * self.column(queries), dim=2)
        return mi.cast(mi.reshape(sums, queries.shape), mi.bfloat16)

    def inputs(self, torch: Any) -> list[Any]:
        """Queries and keys of length 1, decays from 0.8 to 1."""
        q, k, v = (torch.randn(shape, device=DEVICE) for shape in self.shapes[:3])
        q, k = (torch.nn.functional.normalize(x, dim=-1) for x in (q, k))
        logarithms = -0.2 * torch.rand(self.shapes[3], device=DEVICE)
        return [*(x.bfloat16() for x in (q, k, v)), logarithms]

    def reference(self, torch: Any, *inputs: Any) -> Any:
        """Token by token."""
        q, k, v, logarithms = (x.double() for x in inputs)
        decays, out = logarithms.exp(), torch.empty_like(v)
        state = torch.zeros((HEADS, self.width, self.width), dtype=v.dtype, device=v.device)
        for t in range(TOKENS):
            state = decays[:, t, None, None] * state + k[:, t, :, None] * v[:, t, None, :]
            out[:, t] = torch.einsum("hd,hde->he", q[:, t], state)
        return out

    def peers(self, torch: Any) -> dict[str, Callable[..., Any]]:
        """The chunked form, and ``flash-linear-attention``'s."""
        compiled = torch.compile(partial(chunked_attention, torch))
        peers: dict[str, Callable[..., Any]] = {"torch.compile": compiled}
        fla = wheel("fla.ops.simple_gla")
        if fla is not None:

            def kernels(q: Any, k: Any, v: Any, g: Any) -> Any:
                q, k, v, g = (x.transpose(0, 1)[None] for x in (q, k, v, g))
                return fla.chunk_simple_gla(q, k, v, g=g, scale=1.0)[0][0].transpose(0, 1)

            peers["flash-linear-attention"] = kernels
        return peers


@dataclass(frozen=True)
class Mamba2(Recurrence):
    """Mamba-2's scan: heads share their keys and queries, steps scale decays and what is added."""

    width: int

    @property
    def name(self) -> str:
        """As it is printed."""
        return f"Mamba-2 d {self.width}"

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Of x, keys, queries, steps, their bias, and logarithms of rates."""
        narrow = (TOKENS, self.width)
        return [(TOKENS, HEADS, self.width), narrow, narrow, (TOKENS, HEADS), (HEADS,), (HEADS,)]

    def graph(self) -> KernelGraph:
        """The program."""
        graph = mi.new_kernel_graph("mamba2")
        x, keys, queries = (graph.new_input(shape, dtype=mi.bfloat16) for shape in self.shapes[:3])
        dt, bias, rates = (graph.new_input(shape, dtype=mi.float32) for shape in self.shapes[3:])
        steps = mi.softplus(dt + mi.reshape(bias, (1, HEADS)))
        decays = mi.exp(steps * (mi.exp(mi.reshape(rates, (1, HEADS))) * -1.0))
        of_heads = (TOKENS, HEADS, 1, 1)
        rows = mi.reshape(x, (TOKENS, HEADS, 1, self.width))
        scaled = graph.mul(rows, mi.reshape(steps, of_heads), dtype=mi.float32)
        columns = (TOKENS, 1, self.width, 1)
        added = graph.mul(mi.reshape(keys, columns), scaled, dtype=mi.float32)
        state = mi.scan(added, mi.reshape(decays, of_heads), dim=0)
        sums = mi.reduction(state * mi.reshape(queries, columns), dim=2)
        graph.mark_output(mi.cast(mi.reshape(sums, x.shape), mi.bfloat16))
        return graph

    def inputs(self, torch: Any) -> list[Any]:
        """Steps about a tenth."""
        x, keys, queries = (torch.randn(shape, device=DEVICE) for shape in self.shapes[:3])
        keys, queries = (torch.nn.functional.normalize(each, dim=-1) for each in (keys, queries))
        dt, bias, rates = (0.3 * torch.randn(shape, device=DEVICE) for shape in self.shapes[3:])
        return [*(each.bfloat16() for each in (x, keys, queries)), dt, bias - 2, rates]

    @staticmethod
    def steps_and_logarithms(torch: Any, dt: Any, bias: Any, rates: Any) -> tuple[Any, Any]:
        """Steps, and the logarithms of the decays."""
        steps = torch.nn.functional.softplus(dt + bias)
        return steps, -steps * rates.exp()

    def reference(self, torch: Any, *inputs: Any) -> Any:
        """Token by token."""
        x, keys, queries, *numbers = (each.double() for each in inputs)
        steps, logarithms = self.steps_and_logarithms(torch, *numbers)
        decays, out = logarithms.exp(), torch.empty_like(x)
        state = torch.zeros((HEADS, self.width, self.width), dtype=x.dtype, device=x.device)
        for t in range(TOKENS):
            added = keys[t, :, None] * (steps[t, :, None] * x[t])[:, None]
            state = decays[t, :, None, None] * state + added
            out[t] = torch.einsum("d,hde->he", queries[t], state)
        return out

    def peers(self, torch: Any) -> dict[str, Callable[..., Any]]:
        """The chunked form, and ``mamba_ssm``'s kernels."""

        def chunked(x: Any, keys: Any, queries: Any, *numbers: Any) -> Any:
            steps, logarithms = self.steps_and_logarithms(torch, *numbers)
            scaled = (x * steps[..., None]).to(x.dtype).transpose(0, 1)
            out = chunked_attention(torch, queries[None], keys[None], scaled, logarithms.T)
            return out.transpose(0, 1)

        peers: dict[str, Callable[..., Any]] = {"torch.compile": torch.compile(chunked)}
        mamba = wheel("mamba_ssm.ops.triton.ssd_combined")
        if mamba is not None:

            def kernels(x: Any, keys: Any, queries: Any, dt: Any, bias: Any, rates: Any) -> Any:
                keys, queries = (each[None, :, None] for each in (keys, queries))
                options = {"dt_bias": bias, "dt_softplus": True}
                return mamba.mamba_chunk_scan_combined(
                    x[None], dt[None], -rates.exp(), keys, queries, 256, **options
                )[0]

            peers["mamba_ssm"] = kernels
        return peers


@dataclass(frozen=True)
class GatedDeltaRule(LinearAttention):
    """S_t = a_t (1 - b_t k_t k_tT) S_(t-1) + b_t k_t v_t, o_t = q_t S_t (Qwen3-Next's layers)."""

    TITLE: ClassVar[str] = "gated delta rule"

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Of queries, keys, values, logarithms and rates."""
        return [*super().shapes, (HEADS, TOKENS)]

    def graph(self) -> KernelGraph:
        """The program."""
        graph = mi.new_kernel_graph("delta_rule")
        q, k, v = (graph.new_input(shape, dtype=mi.bfloat16) for shape in self.shapes[:3])
        logarithms, b = (graph.new_input(shape, dtype=mi.float32) for shape in self.shapes[3:])
        decays, rates = mi.exp(self.column(logarithms)), self.column(b)
        added = graph.mul(self.column(k), self.row(v) * rates, dtype=mi.float32)
        removed = graph.mul(self.column(k), self.row(k) * (decays * rates * -1.0), dtype=mi.float32)
        state = mi.scan(added, decays, dim=1, matrix=removed)
        graph.mark_output(self.read(state, q))
        return graph

    def inputs(self, torch: Any) -> list[Any]:
        """As of linear attention; rates from 0 to 1."""
        return [*super().inputs(torch), torch.rand(self.shapes[4], device=DEVICE)]

    def reference(self, torch: Any, *inputs: Any) -> Any:
        """Token by token."""
        q, k, v, logarithms, rates = (x.double() for x in inputs)
        decays, out = logarithms.exp(), torch.empty_like(v)
        state = torch.zeros((HEADS, self.width, self.width), dtype=v.dtype, device=v.device)
        for t in range(TOKENS):
            state = decays[:, t, None, None] * state
            error = v[:, t] - torch.einsum("hd,hde->he", k[:, t], state)
            state = state + k[:, t, :, None] * (rates[:, t, None] * error)[:, None]
            out[:, t] = torch.einsum("hd,hde->he", q[:, t], state)
        return out

    def peers(self, torch: Any) -> dict[str, Callable[..., Any]]:
        """The chunked form, and ``flash-linear-attention``'s."""
        compiled = torch.compile(partial(chunked_delta_rule, torch))
        peers: dict[str, Callable[..., Any]] = {"torch.compile": compiled}
        fla = wheel("fla.ops.gated_delta_rule")
        if fla is not None:

            def kernels(*inputs: Any) -> Any:
                q, k, v, g, b = (x.transpose(0, 1)[None] for x in inputs)
                result = fla.chunk_gated_delta_rule(q, k, v, g=g, beta=b, scale=1.0)
                return result[0][0].transpose(0, 1)

            peers["flash-linear-attention"] = kernels
        return peers


def wheel(module: str) -> Any | None:
    """A module of a peer, where it is installed."""
    try:
        return import_module(module)
    except ImportError:
        return None


def in_chunks(x: Any) -> Any:
    """Tokens in chunks: ``[heads, chunks, CHUNK, ...]``."""
    return x.reshape(x.shape[0], -1, CHUNK, *x.shape[2:])


def decays_between(torch: Any, logarithms: Any) -> tuple[Any, Any]:
    """Sums so far of logarithms along the last axis, and exp(G_i - G_j) where j <= i."""
    sums = logarithms.cumsum(-1)
    below = torch.ones([sums.shape[-1]] * 2, dtype=torch.bool, device=sums.device).tril()
    difference = sums[..., :, None] - sums[..., None, :]
    return sums, difference.masked_fill(~below, -torch.inf).exp()


def chunked_attention(torch: Any, q: Any, k: Any, v: Any, logarithms: Any) -> Any:
    """Linear attention with decay in chunks, all of them at once; as Mamba-2's listing has it."""
    q, k, v = (in_chunks(x) for x in (q, k, v))
    sums, between = decays_between(torch, in_chunks(logarithms))
    whole = sums[..., -1]
    inside = ((q @ k.mT).float() * between).to(v.dtype) @ v
    left = (k * (whole[..., None] - sums).exp()[..., None]).to(v.dtype).mT @ v
    # Of the chunks before each one.
    _, later = decays_between(torch, torch.nn.functional.pad(whole, (1, 0)))
    before = torch.einsum("hzc,hcde->hzde", later[:, :-1, 1:].to(v.dtype), left)
    out = inside + (q @ before).float() * sums.exp()[..., None]
    return out.to(v.dtype).flatten(1, 2)


def chunked_delta_rule(torch: Any, q: Any, k: Any, v: Any, logarithms: Any, rates: Any) -> Any:
    """The gated delta rule in chunks: a triangle is solved in each, and a loop goes over them."""
    q, k, v, rates = (in_chunks(x) for x in (q, k, v, rates))
    sums, between = decays_between(torch, in_chunks(logarithms))
    alike = (k @ k.mT).float() * between * rates[..., None]
    lower = torch.eye(CHUNK, device=q.device) + alike.tril(-1)
    keys = k * (rates * sums.exp())[..., None]
    both = torch.cat((v * rates[..., None], keys), -1)
    solved = torch.linalg.solve_triangular(lower, both, upper=False, unitriangular=True)
    added, read = solved.to(v.dtype).split([v.shape[-1], k.shape[-1]], -1)
    scores = ((q @ k.mT).float() * between).to(v.dtype)
    queries = (q * sums.exp()[..., None]).to(v.dtype)
    whole = sums[..., -1]
    kept = (k * (whole[..., None] - sums).exp()[..., None]).to(v.dtype).mT
    whole = whole.exp()[..., None, None]
    state = torch.zeros((*q.shape[:1], k.shape[-1], v.shape[-1]), device=q.device)
    chunks: list[Any] = []
    for i in range(q.shape[1]):
        rounded = state.to(v.dtype)
        updates = added[:, i] - read[:, i] @ rounded
        chunks.append(queries[:, i] @ rounded + scores[:, i] @ updates)
        state = state * whole[:, i] + (kept[:, i] @ updates).float()
    return torch.stack(chunks, 1).flatten(1, 2)


CASES = [
    *(CumulativeSum(rows) for rows in (1, 16, 256)),
    *(kind(width) for kind in (LinearAttention, Mamba2, GatedDeltaRule) for width in (64, 128)),
]


if __name__ == "__main__":
    raise SystemExit(main("Recurrences", __doc__, CASES, output="build/recurrences"))
