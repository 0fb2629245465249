"""Kernels whose warps have roles, on the CPU: rings that wrap around, inputs that come once.

Bulk copies land when a consumer waits for them in one launch, and at once in the next; a schedule
without one of its steps deadlocks, or computes something else.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from fuzz.emulated import check_together, emulating_compiler
from fuzz.properties import Case, Compiled, PropertyError, parse
from mugraph.codegen.cuda import print_module
from mugraph.passes.transpile import transpile_pipeline
from mugraph.runtime.interpreter import run_function
from mugraph.runtime.toolchain import ToolchainError
from mugraph.tools.modules import make_context

INPUTS = Path(__file__).parents[1] / "filecheck" / "passes" / "Inputs"
ALLOWED = 1 / 256
"""Errors, as a part of the greatest result."""


def compiled_with_channels(text: str) -> Compiled:
    """A µGraph scheduled with channels, its inputs and what it should compute."""
    module = parse(text)
    random = np.random.default_rng(7)
    shapes = re.search(r"func\.func @\w+\((.*?)\) ->", text)
    assert shapes is not None
    inputs = [
        random.uniform(0.25, 1, tuple(map(int, dims.rstrip("x").split("x")))).astype(np.float16)
        for dims in re.findall(r"tensor<((?:\d+x)+)f16", shapes.group(1))
    ]
    expected = run_function(module, None, inputs)
    context = make_context()
    for step in transpile_pipeline("sm_90a", pipeline="channels"):
        step.apply(context, module)
        module.verify()
    case = Case(inputs, expected, [ALLOWED * float(np.abs(one).max()) for one in expected])
    return Compiled(case, module, cuda_of(module))


def cuda_of(module: ModuleOp) -> str:
    """The module's CUDA, which must have channels."""
    text = print_module(module)
    assert "tb::Channel<" in text
    return text


@pytest.fixture(scope="module")
def kernels() -> list[Compiled]:
    if shutil.which("g++") is None:
        pytest.skip("no g++ on this machine: no generated kernel was executed")
    try:
        emulating_compiler()
    except ToolchainError as error:
        pytest.skip(f"no generated kernel was executed: {error}")
    paths = sorted(INPUTS.glob("channels*.mlir"))
    assert len(paths) > 1
    return [compiled_with_channels(path.read_text(encoding="utf-8")) for path in paths]


def without(one: Compiled, pattern: str) -> Compiled:
    """The same kernel without the lines that match."""
    text, count = re.subn(pattern, ";", one.cuda)
    assert count
    return Compiled(one.case, one.module, text)


def test_kernels_with_channels(kernels: list[Compiled], tmp_path: Path) -> None:
    failures = check_together(kernels, tmp_path)
    assert [failure for failure in failures if failure is not None] == []


def test_every_step_of_a_channel_is_needed(kernels: list[Compiled], tmp_path: Path) -> None:
    one = next(kernel for kernel in kernels if "ring.acquire" in kernel.cuda)
    steps = [
        r"ring\.consume\(it\);",
        r"if \(it - 1 >= 0\) ring\.release\(it - 1, thread\);",
        r"ring\.publish\(it [^;]*;",
        r"ring\.acquire\(it [^;]*;",
    ]
    broken = [without(one, step) for step in steps]
    failures = check_together(broken, tmp_path)
    assert all(isinstance(failure, PropertyError) for failure in failures), failures
