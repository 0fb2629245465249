"""Compiles every example for every architecture that CI covers, and counts.

An example is a µGraph in ``examples/*.mlir``.  One fails if a pass fails, if nvcc fails, or if nvcc
has a warning; it is skipped where it calls cuBLAS and that is not installed.  The last line is
``N passed, N failed``.

The headers take nvcc longer than a kernel does.  So all examples are compiled as one file for each
architecture, and each alone only where that fails.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from mugraph.reading import make_context, read_module
from mugraph.runtime.batch import batch_source
from mugraph.runtime.compile import calls_cublas, compile_cubin, compile_log
from mugraph.runtime.cuda import generate_cuda
from mugraph.runtime.toolchain import find_toolchain
from mugraph.tools.diagnostics import describe_error

ARCHITECTURES = ("sm_80", "sm_90a")
EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@dataclass
class Example:
    """A µGraph, what was generated of it, and what became of that."""

    name: str
    source: str = ""
    verdict: str = ""
    """Empty until there is one."""
    reason: str = ""


def generated(path: Path, arch: str) -> Example:
    """An example as it goes to nvcc; with a verdict where it does not."""
    context = make_context()
    try:
        module = read_module(os.fspath(path), context)
        source = generate_cuda(module, context, arch).source
        if calls_cublas(source) and find_toolchain().cublas is None:
            reason = "It calls cuBLAS, whose headers are not here."
            return Example(path.name, source, "skipped", reason)
    except Exception as error:
        return Example(path.name, "", "failed", describe_error(error))
    return Example(path.name, source)


def said_by_nvcc(source: str, arch: str) -> str:
    """Its errors or its warnings; empty where there are none."""
    try:
        return compile_log(compile_cubin(source, arch)).strip()
    except Exception as error:
        return describe_error(error)


def compile_together(examples: list[Example], arch: str) -> None:
    """Gives a verdict on each, from one compilation where that says nothing."""
    together = said_by_nvcc(batch_source([each.source for each in examples]), arch)
    for each in examples:
        each.reason = said_by_nvcc(each.source, arch) if together else ""
        each.verdict = "failed" if each.reason else "passed"
    if together and not any(each.reason for each in examples):
        for each in examples:
            each.verdict, each.reason = "failed", f"Together, not alone: {together}"


def main() -> int:
    """Compile all; 1 if any failed, or if none passed."""
    counts: Counter[str] = Counter()
    for arch in ARCHITECTURES:
        start = time.perf_counter()
        examples = [generated(path, arch) for path in sorted(EXAMPLES.glob("*.mlir"))]
        waiting = [each for each in examples if not each.verdict]
        if waiting:
            compile_together(waiting, arch)
        for each in examples:
            print(f"{each.verdict} {each.name} {arch}")
            if each.reason:
                print(each.reason)
            counts[each.verdict] += 1
        print(f"{arch}: {time.perf_counter() - start:.1f} s")
    print(f"{counts['passed']} passed, {counts['failed']} failed")
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
