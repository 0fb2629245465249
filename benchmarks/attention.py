"""Attention with masks, found from plain programs, beside SDPA's backends on one GPU.

    python -m benchmarks.attention --only causal --output benchmarks/results/attention_h200

``--list`` says the cases.  Rates count the scores that a mask keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mugraph.build as mi
from benchmarks.cases import OURS, Built, Case, Comparison, compiled, error_against, main
from benchmarks.h200.device import DEVICE
from benchmarks.h200.measure import SEED
from benchmarks.h200.peers import SDPA_BACKENDS
from benchmarks.h200.statistics import set_count
from mugraph.build import DTensor

PEERS = ("cudnn", "flash")
REFERENCE_HEADS = 2
"""How many heads are computed in float64: the scores of one of 16,384 keys have 2 GiB."""


@dataclass(frozen=True)
class Attention(Case):
    """Self-attention of some heads over as many queries as keys, in bf16."""

    heads: int
    keys: int
    depth: int
    mask: str = "none"
    window: int | None = None

    @property
    def name(self) -> str:
        """As ``--only`` looks in it."""
        return f"{self.mask}_{self.keys}_d{self.depth}_h{self.heads}"

    @property
    def group(self) -> str:
        """Cases with the same mask."""
        return self.mask

    @property
    def shape(self) -> tuple[int, int, int]:
        """That of queries, keys and values."""
        return self.heads, self.keys, self.depth

    @property
    def kept(self) -> int:
        """How many scores of a head count."""
        if self.mask == "none":
            return self.keys * self.keys
        width = self.window or self.keys
        return sum(min(row + 1, width) for row in range(self.keys))

    def build(self, arch: str) -> Built:
        """The program's kernel."""
        graph = mi.new_kernel_graph(self.name)
        q, k, v = (graph.new_input(self.shape, dtype=mi.bfloat16) for _ in range(3))
        scores = q @ mi.transpose(k) * self.depth**-0.5
        graph.mark_output(mi.softmax(self._masked(scores)) @ v)
        return compiled(graph, arch)

    def _masked(self, scores: DTensor) -> DTensor:
        if self.mask == "none":
            return scores
        if (width := self.window) is None:
            return mi.causal_mask(scores)
        return mi.mask(scores, lambda _, i, j: [i - j, j - i + (width - 1)])

    def reference(self, q: Any, k: Any, v: Any) -> Any:
        """The first heads in float64."""
        import torch

        q, k, v = (x[:REFERENCE_HEADS].double() for x in (q, k, v))
        scores = q @ k.transpose(1, 2) * self.depth**-0.5
        if self.mask != "none":
            place = torch.arange(self.keys, device=q.device)
            distance = place[:, None] - place[None, :]
            kept = (distance >= 0) & (distance < (self.window or self.keys))
            scores.masked_fill_(~kept, float("-inf"))
        return torch.softmax(scores, -1) @ v

    def peer(self, backend: str) -> Callable[..., Any]:
        """SDPA by one backend."""

        def attend(q: Any, k: Any, v: Any) -> Any:
            import torch
            from torch.nn.attention import SDPBackend, sdpa_kernel

            with sdpa_kernel([getattr(SDPBackend, SDPA_BACKENDS[backend])]):
                return torch.nn.functional.scaled_dot_product_attention(
                    q[None], k[None], v[None], is_causal=self.mask == "causal"
                )[0]

        return attend

    def comparison(self, built: Built) -> Comparison:
        """Beside SDPA, which has no window."""
        import torch

        generator = torch.Generator(DEVICE).manual_seed(SEED)

        def drawn() -> Sequence[Any]:
            options: dict[str, Any] = {"device": DEVICE, "dtype": torch.bfloat16}
            return [torch.randn(self.shape, generator=generator, **options) for _ in range(3)]

        sets = [drawn() for _ in range(set_count(8 * self.heads * self.keys * self.depth))]
        error = error_against(self.reference(*sets[0]))
        peers = {name: self.peer(name) for name in PEERS if self.window is None}
        return Comparison(
            sets,
            {OURS: built.kernel(), **peers},
            lambda result: error(result[:REFERENCE_HEADS]),
            allowed=1e-2,
            work=4.0 * self.heads * self.kept * self.depth,
            unit="TFLOP/s",
        )


CASES = [
    case
    for keys, depth in ((4096, 64), (4096, 128), (16384, 64), (16384, 128), (1009, 64))
    for case in (
        Attention(32, keys, depth),
        Attention(32, keys, depth, "causal"),
        *([Attention(32, keys, depth, "window", 1024)] if keys == 16384 else []),
    )
]

if __name__ == "__main__":
    raise SystemExit(main("Attention in bf16", __doc__, CASES, output="build/attention"))
