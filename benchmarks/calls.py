"""What compiling and calling cost: mugraph beside Triton and ``torch.compile``, in one process.

The function is rms_norm(x) · w with x 16x4096 and w 4096x6144 in fp16.  Measured are, in seconds,
a first compilation with an empty cache (cold), one with the compiled kernel on disk (warm), and,
in µs, what a call costs on the CPU: the mean of many calls that are queued while the GPU is busy
with a long kernel, so that launches return as soon as they are made.  Triton's function is a kernel
that adds two vectors of the size of the output, since only its launch is looked at.  Prints a
Markdown table; ``--json FILE`` writes it as JSON too.

Needs a GPU, PyTorch and Triton.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples" / "torch"))

SHAPE = (16, 4096, 6144)


def seconds(function: Callable[[], object]) -> float:
    """The time of one call."""
    start = perf_counter()
    function()
    return perf_counter() - start


def call_microseconds(function: Callable[[], object], calls: int = 200, samples: int = 15) -> float:
    """The CPU time of one call, while the GPU has enough to do to take them all in."""
    import torch

    times: list[float] = []
    for _ in range(samples):
        torch.cuda.synchronize()
        torch.cuda._sleep(40_000_000)
        start = perf_counter()
        for _ in range(calls):
            function()
        times.append((perf_counter() - start) / calls * 1e6)
    torch.cuda.synchronize()
    return statistics.median(times)


def mugraph_times() -> dict[str, float]:
    """Compilation and call of mugraph."""
    import torch
    from transformer_block import rms_norm_linear

    import mugraph
    import mugraph.torch
    from mugraph.jit import CudaKernel

    graph = rms_norm_linear(*SHAPE)
    times = {"cold s": seconds(lambda: mugraph.compile(graph))}
    times["warm s"] = seconds(lambda: mugraph.compile(graph))
    kernel = mugraph.compile(graph)
    operator = mugraph.torch.op(kernel, "benchmarked")
    assert isinstance(kernel, CudaKernel)
    x = torch.randn(SHAPE[0], SHAPE[1], dtype=torch.float16, device="cuda")
    w = torch.randn(SHAPE[1], SHAPE[2], dtype=torch.float16, device="cuda")
    kernel(x, w)
    times["call µs"] = call_microseconds(lambda: kernel(x, w))
    out = kernel(x, w)
    times["call with out= µs"] = call_microseconds(lambda: kernel(x, w, out=out))
    pointers = [x.data_ptr(), w.data_ptr(), out.data_ptr()]
    stream = torch.cuda.current_stream().cuda_stream
    times["C function alone µs"] = call_microseconds(lambda: kernel.launch(pointers, 0, stream))
    times["call as torch op µs"] = call_microseconds(lambda: operator(x, w))
    return times


def torch_compile_times() -> dict[str, float]:
    """Compilation and call of torch.compile."""
    import torch
    from transformer_block import reference_rms_norm_linear

    x = torch.randn(SHAPE[0], SHAPE[1], dtype=torch.float16, device="cuda")
    w = torch.randn(SHAPE[1], SHAPE[2], dtype=torch.float16, device="cuda")
    with torch.inference_mode():
        compiled = torch.compile(reference_rms_norm_linear)
        times = {"cold s": seconds(lambda: compiled(x, w))}
        torch.compiler.reset()
        again = torch.compile(reference_rms_norm_linear)
        times["warm s"] = seconds(lambda: again(x, w))
        times["call µs"] = call_microseconds(lambda: again(x, w))
    return times


def triton_times() -> dict[str, float]:
    """Compilation and call of a Triton kernel."""
    import torch
    import triton
    from triton_add import add

    x = torch.randn(SHAPE[0], SHAPE[2], dtype=torch.float16, device="cuda")
    y, out = torch.randn_like(x), torch.empty_like(x)
    grid = (triton.cdiv(x.numel(), 1024),)
    times = {"cold s": seconds(lambda: add[grid](x, y, out, x.numel(), 1024))}
    add.device_caches.clear()
    times["warm s"] = seconds(lambda: add[grid](x, y, out, x.numel(), 1024))
    times["call µs"] = call_microseconds(lambda: add[grid](x, y, out, x.numel(), 1024))
    return times


SYSTEMS: dict[str, Callable[[], dict[str, float]]] = {
    "mugraph": mugraph_times,
    "torch.compile": torch_compile_times,
    "Triton": triton_times,
}


def measure_all() -> dict[str, dict[str, float]]:
    """Each system in a process of its own with empty caches, so that none warms another's."""
    results: dict[str, dict[str, float]] = {}
    for name in SYSTEMS:
        with tempfile.TemporaryDirectory() as folder:
            caches = {
                "XDG_CACHE_HOME": folder,
                "TRITON_CACHE_DIR": f"{folder}/triton",
                "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
            }
            command = [sys.executable, __file__, "--only", name]
            done = subprocess.run(
                command, env={**os.environ, **caches}, capture_output=True, text=True
            )
        if done.returncode != 0:
            print(f"{name} failed:\n{done.stderr[-2000:]}", file=sys.stderr)
            continue
        results[name] = json.loads(done.stdout.splitlines()[-1])
    return results


def table(results: dict[str, dict[str, float]]) -> str:
    """The results as Markdown."""
    columns = list(dict.fromkeys(key for times in results.values() for key in times))
    lines = ["| system | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for name, times in results.items():
        cells = [f"{times[key]:.2f}" if key in times else "" for key in columns]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=list(SYSTEMS), help="one system, as JSON on one line")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results here too")
    options = parser.parse_args()
    if options.only:
        # torch is imported and the GPU woken before any time is taken.
        import torch

        torch.zeros(1, device="cuda")
        print(json.dumps(SYSTEMS[options.only]()))
        return
    results: dict[str, Any] = measure_all()
    print(table(results))
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
