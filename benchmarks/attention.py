"""Attention with masks, found from plain programs, beside SDPA's backends on one GPU.

    python -m benchmarks.attention run --output benchmarks/results/attention_h200
    python -m benchmarks.attention list

``--cases`` takes names or starts of them, with commas between.  ``run`` needs the GPU; it keeps
the results that are in OUTPUT.json and replaces them case by case.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import mugraph
import mugraph.build as mi
from benchmarks import pages
from benchmarks.facts import facts_of_this_run
from benchmarks.h200.checking import distance
from benchmarks.h200.device import DEVICE
from benchmarks.h200.measure import SEED, settle
from benchmarks.h200.peers import SDPA_BACKENDS
from benchmarks.h200.statistics import set_count
from benchmarks.h200.timing import Captured, interleaved, prepared
from mugraph.build import DTensor, KernelGraph

OURS = "mugraph"
PEERS = ("cudnn", "flash")
REFERENCE_HEADS = 2
"""How many heads are computed in float64: the scores of one of 16,384 keys have 2 GiB."""


@dataclass(frozen=True)
class Case:
    """Self-attention of some heads over as many queries as keys, in bf16."""

    heads: int
    keys: int
    depth: int
    mask: str = "none"
    window: int | None = None

    @property
    def name(self) -> str:
        """As ``--cases`` calls it."""
        return f"{self.mask}_{self.keys}_d{self.depth}_h{self.heads}"

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

    def graph(self) -> KernelGraph:
        """The program."""
        graph = mi.new_kernel_graph(self.name)
        q, k, v = (graph.new_input(self.shape, dtype=mi.bfloat16) for _ in range(3))
        scores = q @ mi.transpose(k) * self.depth**-0.5
        graph.mark_output(mi.softmax(self._masked(scores)) @ v)
        return graph

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

    def peer(self, backend: str) -> Callable[..., Any] | None:
        """SDPA by one backend, which has no window."""
        if self.window is not None:
            return None

        def attend(q: Any, k: Any, v: Any) -> Any:
            import torch
            from torch.nn.attention import SDPBackend, sdpa_kernel

            with sdpa_kernel([getattr(SDPBackend, SDPA_BACKENDS[backend])]):
                return torch.nn.functional.scaled_dot_product_attention(
                    q[None], k[None], v[None], is_causal=self.mask == "causal"
                )[0]

        return attend


CASES: dict[str, Case] = {
    case.name: case
    for keys, depth in ((4096, 64), (4096, 128), (16384, 64), (16384, 128), (1009, 64))
    for case in (
        Case(32, keys, depth),
        Case(32, keys, depth, "causal"),
        *([Case(32, keys, depth, "window", 1024)] if keys == 16384 else []),
    )
}


@dataclass
class Result:
    """What was measured of a case: microseconds a call by system, and what is not right."""

    name: str
    microseconds: dict[str, float]
    errors: dict[str, float]
    wrong: dict[str, str]
    scores: int
    """How many scores all heads keep."""
    depth: int
    facts: dict[str, str]

    @property
    def rate(self) -> float | None:
        """TFLOP/s of ours, of the scores that count."""
        if (time := self.microseconds.get(OURS)) is None:
            return None
        return 4 * self.scores * self.depth / time / 1e6


def error_of(result: Any, expected: Any) -> float:
    """The error's norm by the norm of what is expected; raises where elements are not finite."""
    import torch

    if not bool(torch.isfinite(result).all()):
        raise ValueError("elements are not finite")
    return distance(torch, result[:REFERENCE_HEADS], expected).relative_error


def measure(case: Case, kernel: Callable[..., Any], facts: dict[str, str]) -> Result:
    """Checks and times one case and its peers on the GPU."""
    import torch

    generator = torch.Generator(DEVICE).manual_seed(SEED)

    def drawn() -> Any:
        options: dict[str, Any] = {"device": DEVICE, "dtype": torch.bfloat16}
        return torch.randn(case.shape, generator=generator, **options)

    inputs = tuple(drawn() for _ in range(3))
    sets = [inputs]
    while len(sets) < set_count(4 * 2 * inputs[0].numel()):
        sets.append(tuple(drawn() for _ in range(3)))
    expected = case.reference(*inputs)
    found = Result(case.name, {}, {}, {}, case.heads * case.kept, case.depth, facts)
    graphs: dict[str, Captured] = {}
    systems = {OURS: kernel, **{name: case.peer(name) for name in PEERS}}
    for name, function in systems.items():
        if function is None:
            continue
        try:
            found.errors[name] = error_of(function(*inputs), expected)
            graphs[name] = prepared(lambda at, f=function: f(*sets[at]), len(sets))
        except Exception as error:  # the others are measured nevertheless
            found.wrong[name] = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
            torch.cuda.synchronize()
    for name, samples in zip(
        graphs, interleaved(list(graphs.values()), lambda _: None), strict=True
    ):
        found.microseconds[name] = samples.median
    return found


def run(cases: Sequence[Case], arch: str, output: Path) -> list[Result]:
    """Measures cases one after another; writes OUTPUT.json and OUTPUT.md after each."""
    written = output.with_suffix(".json")
    known = json.loads(written.read_text(encoding="utf-8")) if written.exists() else []
    results = {each["name"]: Result(**each) for each in known}
    facts = facts_of_this_run(arch)
    settle()
    with ThreadPoolExecutor() as pool:
        kernels = [pool.submit(mugraph.compile, case.graph(), arch) for case in cases]
        for case, kernel in zip(cases, kernels, strict=True):
            result = results[case.name] = measure(case, kernel.result(), facts)
            print(result.name, result.microseconds, result.errors, result.wrong, flush=True)
            ordered = [results[name] for name in CASES if name in results]
            pages.write(output, [asdict(each) for each in ordered], page(ordered))
    return [results[case.name] for case in cases]


COLUMNS = (
    "case", "mugraph:", "cuDNN:", "flash:", "ours / best peer:", "TFLOP/s:",
    "of the unmasked:", "error:", "commit", "not right",
)  # fmt: skip


def page(results: Sequence[Result]) -> list[str]:
    """The table of a run."""
    facts = results[-1].facts
    times = {each.name: each.microseconds.get(OURS) for each in results}
    return [
        *pages.head(f"Attention in bf16 on {facts['gpu']}", facts),
        "µs a call, K as [heads, keys, d]. *Of the unmasked*: ours by the same without a mask.",
        "TFLOP/s count the scores that a mask keeps.",
        "",
        *pages.table(COLUMNS, (cells(each, times) for each in results)),
    ]


def cells(result: Result, times: dict[str, float | None]) -> list[object]:
    """A line of the table."""
    ours = result.microseconds.get(OURS)
    peers = [time for name in PEERS if (time := result.microseconds.get(name)) is not None]
    whole = times.get(f"none_{result.name.split('_', 1)[1]}")
    masked = not result.name.startswith("none")
    return [
        result.name,
        *(
            None if (time := result.microseconds.get(name)) is None else f"{time:.1f}"
            for name in (OURS, *PEERS)
        ),
        f"{ours / min(peers):.2f}" if ours and peers else None,
        None if result.rate is None else f"{result.rate:.0f}",
        f"{ours / whole:.3f}" if ours and whole and masked else None,
        None if OURS not in result.errors else f"{result.errors[OURS]:.1e}",
        result.facts["commit"],
        "; ".join(f"{name}: {reason}" for name, reason in result.wrong.items()),
    ]


def main() -> None:
    """The commands."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.attention", description="attention with masks beside SDPA"
    )
    parser.add_argument("command", choices=("list", "run"))
    parser.add_argument("--cases", default="", help="names or starts of them (all)")
    parser.add_argument("--arch", default="sm_90a", help="the architecture to compile for")
    parser.add_argument("--output", type=Path, default=Path("build/attention"))
    arguments = parser.parse_args()
    starts = tuple(arguments.cases.split(","))
    cases = [case for name, case in CASES.items() if name.startswith(starts)]
    if not cases:
        parser.error(f"no case is called {arguments.cases!r}; there are {', '.join(CASES)}")
    if arguments.command == "list":
        print(*CASES, sep="\n")
    else:
        results = run(cases, arguments.arch, arguments.output)
        raise SystemExit(any(OURS not in each.microseconds for each in results))


if __name__ == "__main__":
    main()
