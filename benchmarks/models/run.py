"""Checks models against eager PyTorch in float64 and, on a GPU, times them."""

from __future__ import annotations

import math
import platform
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

import mugraph.torch
from benchmarks import pages
from benchmarks.facts import facts_of_this_run, installed, revision
from benchmarks.h200.checking import distance
from benchmarks.h200.timing import Captured, interleaved, prepared
from benchmarks.models.zoo import MODELS, Case
from mugraph.passes.targets import gpu_named, target_named
from mugraph.torch.translation import PROGRAM

EAGER, INDUCTOR, OURS = "eager", "torch.compile", "mugraph"

ALLOWED = 1.1
"""How many times eager's error ours may have; both are of the same element type."""

INPUT_SETS = 4
"""Drawn inputs that timed calls go round."""


@dataclass
class Record:
    """What is known of a model."""

    name: str
    dtype: str
    error: float
    """Of ours against float64, relative to the norm of all results."""
    eager_error: float
    islands: int
    operators: int
    """That became programs."""
    stayed: dict[str, int]
    """Operators that stay in torch, with the reason, and how many there are."""
    seconds: float
    """From the first call to its result: everything is compiled."""
    floor: float | None = None
    """Microseconds in which a GPU's memory gives what a call reads at least."""
    microseconds: dict[str, float] = field(default_factory=dict[str, float])
    kernels: dict[str, tuple[int, float]] = field(default_factory=dict[str, tuple[int, float]])
    """Of a call of ours, by the kernel's name: how often it runs, and microseconds of all runs."""

    @property
    def right(self) -> bool:
        """Whether it is about as near to float64 as eager is."""
        return math.isfinite(self.error) and self.error <= ALLOWED * self.eager_error

    @property
    def kernel_share(self) -> float | None:
        """The part of the time in kernels that is spent in mugraph's; ``None`` on a CPU."""
        total = sum(time for _, time in self.kernels.values())
        own = sum(time for name, (_, time) in self.kernels.items() if _is_ours(name))
        return own / total if total else None

    @property
    def operator_share(self) -> float:
        """The part of all operators that became programs."""
        return self.operators / max(1, self.operators + sum(self.stayed.values()))


def measure(
    name: str, *, device: str, small: bool, dtype: str, seeds: Sequence[int] = (0,), batch: int = 1,
    weights: str = "", layers: int = 0,
) -> Record:  # fmt: skip
    """Compiles a model and compares its results, of all seeds together, with eager's.

    ``batch``, ``weights`` and ``layers`` are those of ``Model.case``.
    """
    errors, eager_errors = [0.0], [0.0]
    report, seconds = mugraph.torch.Report(), 0.0

    def backend(graph: Any, examples: Sequence[Any]) -> Callable[..., Any]:
        return mugraph.torch.backend(graph, examples, report=report)

    torch.compiler.reset()
    with torch.no_grad():
        for seed in seeds:
            report.islands.clear()
            report.stayed.clear()
            torch.compiler.reset()
            case = MODELS[name].case(
                small=small, dtype=getattr(torch, dtype), device=device, seed=seed, batch=batch,
                weights=weights, layers=layers,
            )  # fmt: skip
            exact = case.exactly()
            eager = case.module(*case.inputs).clone()
            case.rewind()
            start = perf_counter()
            fast = torch.compile(case.module, backend=backend, dynamic=False)
            ours = fast(*case.inputs)
            seconds = perf_counter() - start
            eager_errors.append(distance(torch, eager, exact).relative_error)
            errors.append(distance(torch, ours, exact).relative_error)
        called = name + (f", batch {batch}" if batch > 1 else "")
        called += f", {layers} layers" if layers else ""
        record = Record(
            called, f"{dtype} {weights}".strip(), math.hypot(*errors), math.hypot(*eager_errors),
            len(report.islands),
            sum(sum(island.operators.values()) for island in report.islands),
            {
                f"{operator}: {_without_place(why)}": count
                for (operator, why), count in report.stayed.items()
            },
            seconds,
        )  # fmt: skip
        if device == "cuda":
            target = target_named(gpu_named(torch.cuda.get_device_name()))
            record.floor = case.bytes_read / target.memory_bytes_per_ns * 1e-3
        if device == "cuda" and record.right:
            _time(record, case, fast)
    return record


def _without_place(why: str) -> str:
    """A reason without the file that this machine keeps of what failed."""
    return re.sub(r" \(kept as [^)]*\):?", "", why)


def _time(record: Record, case: Case, fast: Callable[..., Any]) -> None:
    """Medians of CUDA graphs, which go round drawn inputs, and the share of our kernels."""
    sets = [_redrawn(case, seed) for seed in range(INPUT_SETS)]
    systems = {
        EAGER: case.module,
        INDUCTOR: torch.compile(case.module, dynamic=False),
        OURS: fast,
    }

    def call(function: Callable[..., Any]) -> Callable[[int], Any]:
        def enqueue(index: int) -> Any:
            case.rewind()
            return function(*sets[index])

        return enqueue

    captured = {name: _captured(call(function)) for name, function in systems.items()}
    graphs = {name: graph for name, graph in captured.items() if graph is not None}
    samples = interleaved([*graphs.values()], lambda _: None)
    for name, values in zip(graphs, samples, strict=True):
        record.microseconds[name] = values.median
    record.kernels = _kernels(lambda: call(fast)(0))


def _captured(call: Callable[[int], Any]) -> Captured | None:
    """The graph of calls; ``None`` where torch captures none, as a call copies from the CPU."""
    try:
        return prepared(call, INPUT_SETS)
    except RuntimeError as error:
        if "CUDA graph capture" not in str(error):
            raise
        return None


def _redrawn(case: Case, seed: int) -> tuple[torch.Tensor, ...]:
    """Inputs like those of a case: its own in another order."""
    generator = torch.Generator().manual_seed(seed)

    def shuffled(x: torch.Tensor) -> torch.Tensor:
        order = torch.randperm(x.numel(), generator=generator).to(x.device)
        return x.flatten()[order].reshape(x.shape)

    return tuple(map(shuffled, case.inputs))


def _kernels(call: Callable[[], object]) -> dict[str, tuple[int, float]]:
    """What runs on the GPU in a call: how often, and the microseconds of all runs together."""
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        call()
        torch.cuda.synchronize()
    events = [each for each in profile.key_averages() if each.self_device_time_total]
    return {each.key: (each.count, each.self_device_time_total) for each in events}


def _is_ours(name: str) -> bool:
    return PROGRAM in name or "mugraph::" in name


def run(
    names: Sequence[str], *, device: str, small: bool, dtype: str, seeds: Sequence[int],
    output: Path | None, batch: int = 1, weights: str = "", layers: int = 0,
) -> list[Record]:  # fmt: skip
    """Measures models one after another, says a line of each, and writes OUTPUT after each."""
    records: list[Record] = []
    facts = facts_of_this_run("native") if device == "cuda" else _facts_of_cpu()
    for name in names:
        record = measure(
            name,
            device=device,
            small=small,
            dtype=dtype,
            seeds=seeds,
            batch=batch,
            weights=weights,
            layers=layers,
        )
        records.append(record)
        print(summary(record), flush=True)
        if output is not None:
            content = {"facts": facts, "records": [asdict(each) for each in records]}
            pages.write(output, content, page(records, facts))
    return records


def _facts_of_cpu() -> dict[str, str]:
    return {
        "cpu": platform.machine(),
        "date": date.today().isoformat(),
        "commit": revision(),
        "torch": installed("torch"),
        "transformers": installed("transformers"),
    }


def summary(record: Record) -> str:
    """A line of a model, and one for each kind of operator that stays in torch."""
    times = "".join(f", {name} {time:.0f} µs" for name, time in record.microseconds.items())
    times += "" if record.floor is None else f", floor {record.floor:.0f} µs"
    share = "" if record.kernel_share is None else f", {record.kernel_share:.0%} in our kernels"
    lines = [
        f"{record.name}: {'right' if record.right else 'WRONG'}, error {record.error:.2e} "
        f"(eager {record.eager_error:.2e}), {record.operator_share:.0%} of operators in "
        f"{record.islands} programs, compiled in {record.seconds:.1f} s{times}{share}"
    ]
    lines += [f"    {count} {what}" for what, count in sorted(record.stayed.items())]
    return "\n".join(lines)


COLUMNS = (
    "model", "type", "error:", "eager's:", "programs:", "operators:", "compiled, s:",
    "eager, µs:", "torch.compile, µs:", "mugraph, µs:", "floor, µs:", "time in our kernels:",
    "stays in torch",
)  # fmt: skip


def page(records: Sequence[Record], facts: dict[str, str]) -> list[str]:
    """The table of a run."""
    return [
        *pages.head("Models by torch.compile(model, backend=\"mugraph\")", facts),
        "Errors are against eager PyTorch in float64, relative to the norm of all results;",
        "*operators* is the part of them in mugraph's programs. Times are medians of CUDA graphs.",
        "*Floor*: weights and caches are read once, at the rate of the GPU's data sheet.",
        "",
        *pages.table(COLUMNS, map(_cells, records)),
        *(line for record in records if record.kernels for line in _breakdown(record)),
    ]  # fmt: skip


LISTED = 0.01
"""The part of a model's time from which on a kernel has a line of its own."""


def _breakdown(record: Record) -> list[str]:
    """Where the time of a call goes, by kernel; those that take little are one line."""
    total = sum(time for _, time in record.kernels.values())
    rows = sorted(((time, count, name) for name, (count, time) in record.kernels.items()))[::-1]
    listed = [each for each in rows if each[0] >= LISTED * total]
    left = rows[len(listed) :]
    if left:
        others = (sum(each[0] for each in left), sum(each[1] for each in left), "others")
        listed.append(others)
    cells = [
        [name.partition("(")[0].partition("<")[0], count, f"{time:.1f}", f"{time / total:.1%}"]
        for time, count, name in listed
    ]
    return [
        f"\n## {record.name}: kernels of one call\n",
        *pages.table(("kernel", "runs:", "all runs, µs:", "share:"), cells),
    ]


def _cells(record: Record) -> list[object]:
    times = [*(record.microseconds.get(name) for name in (EAGER, INDUCTOR, OURS)), record.floor]
    share = record.kernel_share
    return [
        record.name if record.right else f"{record.name} (wrong)",
        record.dtype,
        f"{record.error:.1e}",
        f"{record.eager_error:.1e}",
        record.islands,
        f"{record.operator_share:.0%}",
        f"{record.seconds:.1f}",
        *(None if time is None else f"{time:.0f}" for time in times),
        None if share is None else f"{share:.0%}",
        "; ".join(f"{count} {what}" for what, count in sorted(record.stayed.items())),
    ]
