"""Compiles every example for every architecture that CI covers, and counts.

An example is a µGraph in ``examples/*.mlir``.  One fails if a pass fails, if nvcc fails, or if nvcc
has a warning; it is skipped where it calls cuBLAS and that is not installed.  The last line is
``N passed, N failed``.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from pathlib import Path

from mugraph.reading import make_context, read_module
from mugraph.runtime.compile import calls_cublas, compile_cubin, compile_log
from mugraph.runtime.cuda import generate_cuda
from mugraph.runtime.toolchain import find_toolchain
from mugraph.tools.diagnostics import describe_error

ARCHITECTURES = ("sm_80", "sm_90a")
EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def compile_example(path: Path, arch: str) -> tuple[str, str]:
    """The verdict on one example for one architecture, and the reason for it if it did not pass."""
    context = make_context()
    try:
        module = read_module(os.fspath(path), context)
        program = generate_cuda(module, context, arch)
        if calls_cublas(program.source) and find_toolchain().cublas is None:
            return "skipped", "It calls cuBLAS, whose headers are not here."
        warnings = compile_log(compile_cubin(program.source, arch)).strip()
    except Exception as error:
        return "failed", describe_error(error)
    return ("failed", warnings) if warnings else ("passed", "")


def main() -> int:
    """Compile all; 1 if any failed, or if none passed."""
    counts: Counter[str] = Counter()
    for path in sorted(EXAMPLES.glob("*.mlir")):
        for arch in ARCHITECTURES:
            start = time.perf_counter()
            verdict, reason = compile_example(path, arch)
            seconds = time.perf_counter() - start
            print(f"{verdict} {path.name} {arch} {seconds:.1f} s")
            if reason:
                print(reason)
            counts[verdict] += 1
    print(f"{counts['passed']} passed, {counts['failed']} failed")
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
