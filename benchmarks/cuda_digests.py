"""Prints, as JSON, a digest of what every MLIR file of a folder is as CUDA.

    PYTHONHASHSEED=7 python -m benchmarks.cuda_digests FOLDER [ARCH]

``planning.py --hash-seeds`` runs it with different hash seeds and compares.
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
from pathlib import Path

from mugraph.codegen.cuda import CudaTarget
from mugraph.passes.transpile import TranspilePass
from mugraph.reading import make_context, read_module


def cuda_text(path: Path, arch: str) -> str:
    """What ``mg-opt --transpile -t cuda`` prints for a file."""
    context = make_context()
    module = read_module(str(path), context)
    TranspilePass(arch=arch).apply(context, module)
    output = io.StringIO()
    CudaTarget().emit(context, module, output)
    return output.getvalue()


def main() -> int:
    """Prints the digests by file name."""
    folder, arch = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "sm_90a"
    digests = {
        path.name: hashlib.sha256(cuda_text(path, arch).encode()).hexdigest()
        for path in sorted(folder.glob("*.mlir"))
    }
    json.dump(digests, sys.stdout, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
