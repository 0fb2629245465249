"""The same input gives the same IR and CUDA, byte by byte, whatever Python's hash seed is."""

import os
import subprocess
import sys
from pathlib import Path

from mugraph.reading import make_context, read_module
from mugraph.runtime.cuda import generate_cuda

EXAMPLES = Path(__file__).parents[2] / "examples"
PATHS = [
    EXAMPLES / f"{name}.mlir" for name in ("attention_split_kv", "gated_mlp", "rmsnorm_in_loop")
]
SEED = "4711"
"""Of the other process; this one has another, which Python draws."""


def compiled(path: Path) -> str:
    """CUDA and schedule of an example."""
    context = make_context()
    module = read_module(str(path), context)
    return f"{generate_cuda(module, context, 'sm_90a').source} {module}"


def test_hash_seeds_do_not_change_what_is_compiled() -> None:
    done = subprocess.run(
        [sys.executable, __file__, *PATHS],
        capture_output=True,
        check=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": SEED},
    )
    text = "\n".join(map(compiled, PATHS))
    assert done.stdout == f"{text}\n"
    assert text.count("#include") >= len(PATHS) and text.count("layout_certificate") >= len(PATHS)


if __name__ == "__main__":
    print("\n".join(compiled(Path(path)) for path in sys.argv[1:]))
