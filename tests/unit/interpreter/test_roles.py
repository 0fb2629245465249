"""Kernels with roles in both interpreters: right ones, stuck ones, and those with races."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from interpreter_programs import parse

from mugraph.runtime.interpreter import ExecutionError, execute_by_address, run_function
from mugraph.runtime.interpreter.address_level import Landing

Array = npt.NDArray[Any]

INPUTS = Path(__file__).parents[2] / "filecheck" / "passes" / "Inputs"
MATMUL = (INPUTS / "channel-matmul.mlir").read_text(encoding="utf-8")
SUM = (INPUTS / "channel-sum.mlir").read_text(encoding="utf-8")
ORDERS: list[str | int] = ["together", "forward", "reversed", 0, 1, 2]
RUNS = [(order, landing) for order in ORDERS for landing in Landing]


def inputs_of(text: str) -> list[Array]:
    random = np.random.default_rng(3)
    extents = [(16, 256), (256, 64)] if text is MATMUL else [(32, 256), (32, 64)]
    return [random.integers(-4, 5, extent).astype(np.float16) / 4 for extent in extents]


def expected(text: str) -> Array:
    x, other = (array.astype(np.float64) for array in inputs_of(text))
    if text is MATMUL:
        return x @ other
    return x.reshape(32, 4, 64).sum(axis=1) + 4 * other


def without(text: str, line: str) -> str:
    return "\n".join(each for each in text.splitlines() if not each.strip().startswith(line))


@pytest.mark.parametrize("text", [MATMUL, SUM], ids=["matmul", "sum"])
def test_logical_values(text: str) -> None:
    for precision in ("storage", "float64"):
        (result,) = run_function(parse(text), None, inputs_of(text), precision)
        np.testing.assert_allclose(result, expected(text), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("text", [MATMUL, SUM], ids=["matmul", "sum"])
def test_the_same_bits_in_every_order_and_landing(text: str) -> None:
    module, inputs = parse(text), inputs_of(text)
    runs = [
        execute_by_address(module, None, inputs, order=order, landing=landing).outputs[0]
        for order, landing in RUNS
    ]
    np.testing.assert_allclose(runs[0], expected(text), rtol=1e-3, atol=1e-2)
    for run in runs[1:]:
        np.testing.assert_array_equal(run, runs[0])


@pytest.mark.parametrize("level", ["logical", "address"])
def test_roles_that_wait_for_each_other(level: Any) -> None:
    text = without(MATMUL, "sched.release")
    with pytest.raises(ExecutionError) as error:
        run_function(parse(text), None, inputs_of(MATMUL), level=level)
    assert str(error.value) == (
        "'sched.kernel' @channel_matmul cannot go on: role \"consumers\" waits in 'sched.consume' "
        "of %ring of iteration 3 for stage 0 of %ring to be full with iteration 3; role "
        "\"producer\" waits in 'sched.acquire' of %ring of iteration 0 for stage 0 of %ring to be "
        "released by the readers of iteration 0"
    )


def goes_wrong(text: str, original: str) -> bool:
    """Whether some order and landing gives another result than it should."""
    inputs = inputs_of(original)
    right = execute_by_address(parse(original), None, inputs).outputs[0]
    for order, landing in RUNS:
        try:
            run = execute_by_address(parse(text), None, inputs, order=order, landing=landing)
        except ExecutionError:
            return True
        if not np.array_equal(run.outputs[0], right):
            return True
    return False


@pytest.mark.parametrize("text", [MATMUL, SUM], ids=["matmul", "sum"])
@pytest.mark.parametrize(
    "line", ["sched.consume %ring", "sched.acquire", "sched.publish", "sched.bulk_copy %x_tile"]
)
def test_a_missing_step_goes_wrong(text: str, line: str) -> None:
    assert goes_wrong(without(text, line), text)


def test_a_missing_barrier_of_a_role_goes_wrong() -> None:
    # The one of the block stays.
    head, tail = MATMUL.split("sched.epilogue")
    assert goes_wrong(f"{head}sched.epilogue{tail.replace('sched.barrier', '')}", MATMUL)


def test_what_overlaps_the_words_of_a_channel_is_found() -> None:
    text = SUM.replace("offset 8192", "offset 0")
    with pytest.raises(ExecutionError, match=r"the full mbarrier of stage 0 of %ring, at byte 0"):
        run_function(parse(text), None, inputs_of(SUM), level="address")


def test_bulk_stores() -> None:
    lines = SUM.splitlines()
    at = next(i for i, line in enumerate(lines) if line.strip().startswith("sched.copy %d"))
    lines[at] = (
        "sched.bulk_copy %d to %o_tile : !sched.shared<16x64xf16, (16,64):(64,1)> to "
        "!sched.global<16x64xf16, (16,64):(64,1)>\n sched.bulk_wait"
    )
    lines[at - 1] = f"sched.proxy_fence\n{lines[at - 1]}"
    text = "\n".join(lines)
    for order, landing in RUNS:
        run = execute_by_address(parse(text), None, inputs_of(SUM), order=order, landing=landing)
        np.testing.assert_allclose(run.outputs[0], expected(SUM), rtol=1e-3, atol=1e-2)
    (result,) = run_function(parse(text), None, inputs_of(SUM))
    np.testing.assert_allclose(result, expected(SUM), rtol=1e-3, atol=1e-2)
    unfinished = execute_by_address(parse(without(text, "sched.bulk_wait")), None, inputs_of(SUM))
    assert np.isnan(unfinished.outputs[0]).all()
