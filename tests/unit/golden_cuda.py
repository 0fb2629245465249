"""The CUDA of five workloads as it should be printed, in ``tests/golden``.

``python tests/unit/golden_cuda.py`` writes the files anew; ``make golden`` does that.  The change
of the text is then part of the commit.
"""

from io import StringIO
from pathlib import Path

from xdsl.passes import PassPipeline

from mugraph.codegen.cuda import CudaTarget
from mugraph.passes.transpile import transpile_pipeline
from mugraph.reading import make_context, read_module

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
MUGRAPHS = ROOT / "benchmarks" / "h200" / "mugraphs"
WORKLOADS = ("ntrans_bs8", "rmsnorm_bs8", "gated_mlp", "gemm4096_f16", "prefill")
"""Rows in registers; ``cp.async`` and ``mma.sync``; TMA for few rows; WGMMA in persistent blocks; a
chain of products."""


def generated(workload: str) -> str:
    """What is printed for a workload on an H200."""
    context = make_context()
    module = read_module(str(MUGRAPHS / f"{workload}.mlir"), context)
    PassPipeline(tuple(transpile_pipeline("h200"))).apply(context, module)
    text = StringIO()
    CudaTarget().emit(context, module, text)
    return text.getvalue()


def golden_file(workload: str) -> Path:
    """Where the text of a workload stands."""
    return GOLDEN / f"{workload}.cu"


if __name__ == "__main__":
    for name in WORKLOADS:
        golden_file(name).write_text(generated(name), encoding="utf-8")
