"""Every element type through every pass, at both levels of the interpreter, and as CUDA."""

from __future__ import annotations

import re

import numpy as np
import pytest
from schedules import passes_as_written
from thorough import inputs

from fuzz.emulated import MUGRAPHS
from fuzz.properties import Compiled, compile_checked, parse, require_close
from fuzz.typed_cases import all_cases
from mugraph.codegen.cuda import print_module
from mugraph.passes.schedule.analysis.hazards import find_hazards
from mugraph.passes.schedule.check_hazards import scheduled_kernels
from mugraph.passes.sequence import verifying
from mugraph.reading import make_context
from mugraph.runtime.compile import calls_cublas, compile_cubin
from mugraph.runtime.interpreter import run_function
from mugraph.runtime.toolchain import ToolchainError, find_toolchain

CASES = all_cases()


@pytest.fixture(scope="module")
def compiled() -> dict[str, Compiled]:
    return {name: compile_checked(text) for name, text in CASES.items()}


@pytest.mark.parametrize("name", CASES)
def test_bytes_and_addresses_give_what_the_µgraph_means(
    name: str, compiled: dict[str, Compiled]
) -> None:
    one = compiled[name]
    for order in ("together", "reversed"):
        results = run_function(one.module, None, one.case.inputs, level="address", order=order)
        require_close(f"addresses, {order}", results, one.case.expected, one.case.errors)


def test_integers_are_exact(compiled: dict[str, Compiled]) -> None:
    for name in ("product_i8", "product_few_threads_i8", "integer_sums", "library_i8"):
        one = compiled[name]
        for result, expected in zip(
            run_function(one.module, None, one.case.inputs), one.case.expected, strict=True
        ):
            np.testing.assert_array_equal(result, expected)


def test_no_races(compiled: dict[str, Compiled]) -> None:
    for name, one in compiled.items():
        for kernel in scheduled_kernels(one.module):
            assert find_hazards(kernel) == [], name


@pytest.mark.usefixtures("needs_emulator")
def test_kernels_compute_what_the_interpreter_does(compiled: dict[str, Compiled]) -> None:
    MUGRAPHS.add(*compiled.values())


@pytest.mark.one_in(2)
@pytest.mark.parametrize("arch", ["sm_90a", "sm_80"])
def test_nvcc_compiles_every_type(arch: str) -> None:
    try:
        toolchain = find_toolchain()
    except ToolchainError as error:
        pytest.skip(f"nothing was compiled: {error}")
    parts = ['#include "runtime.h"', '#include "channels.h"', "using namespace cute;"]
    names = list(CASES)
    first = {name.rpartition("_")[2]: name for name in reversed(names)}
    for number, (name, case) in enumerate(CASES.items()):
        # All cases of a type take the same headers; g++ compiles all cases for the emulator.
        every = inputs(len(names), 1)
        if number % every and name not in first.values():
            continue
        module = parse(case)
        verifying(passes_as_written(arch, check_hazards=False)).apply(make_context(), module)
        cuda = print_module(module)
        if calls_cublas(cuda) and toolchain.cublas is None:
            continue
        lines = [
            line for line in cuda.splitlines() if not line.startswith(("#", "using namespace"))
        ]
        text = "\n".join(lines)
        parts.append(re.sub(r"\b(_init|_execute_mugraph|\w+_custom\d+)\b", rf"\1_{number}", text))
    compile_cubin("\n".join(parts), arch)
