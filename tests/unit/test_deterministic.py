"""The same input gives the same IR and CUDA, byte by byte, whatever Python's hash seed is."""

import os
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
PATHS = [
    EXAMPLES / f"{name}.mlir" for name in ("attention_split_kv", "gated_mlp", "rmsnorm_in_loop")
]
SEEDS = ("0", "4711")
COMPILE = """
import sys
from mugraph.reading import make_context, read_module
from mugraph.runtime.cuda import generate_cuda
for path in sys.argv[1:]:
    context = make_context()
    module = read_module(path, context)
    print(generate_cuda(module, context, "sm_90a").source, module)
"""


def compiled(seed: str) -> bytes:
    """CUDA and schedules of the examples, by a process with this hash seed."""
    done = subprocess.run(
        [sys.executable, "-c", COMPILE, *PATHS],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": seed},
    )
    return done.stdout


def test_hash_seeds_do_not_change_what_is_compiled() -> None:
    texts = {compiled(seed) for seed in SEEDS}
    assert len(texts) == 1
    text = texts.pop()
    assert text.count(b"#include") >= len(PATHS) and text.count(b"layout_certificate") >= len(PATHS)
