"""Schedules on bytes and addresses: equal to logical values, and wrong where the plan is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from address_programs import PIPELINE, STEP, SW_TYPE, SX_TYPE
from interpreter_programs import context, integers, normal, parse, relative_error
from saved_mugraphs_of_few_heads import SAVED, first_of
from schedules import passes_as_written
from thorough import THOROUGH
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.parser import Parser

from benchmarks.saved_mugraphs import workload_of
from mugraph.dialects.sched import MmaOp
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.sequence import verifying
from mugraph.reading import make_context
from mugraph.runtime.interpreter import ExecutionError, execute_by_address, run_function
from mugraph.tools.random_inputs import random_inputs

Array = npt.NDArray[Any]
ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "examples").glob("*.mlir"))
ORDERS: list[str | int] = ["forward", "reversed", *range(16)]
LANDINGS = ["latest", "earliest"]
BLOCKS = 6
"""Of each grid, so that the full-size examples are quick."""


def transpiled(module: ModuleOp) -> ModuleOp:
    verifying(passes_as_written()).apply(make_context(), module)
    return module


def inputs_of(module: ModuleOp, scale: float = 0.1) -> list[Array]:
    function = next(op for op in module.ops if isinstance(op, FuncOp))
    return random_inputs(function, [scale], seed=5)


def assert_levels_agree(module: ModuleOp, inputs: list[Array], blocks: int | None) -> None:
    """The sums of a product are added in another order, so the last bits of fp16 may differ."""
    logical = run_function(module, None, inputs)
    execution = execute_by_address(module, None, inputs, blocks=blocks)
    for output, written, expected in zip(
        execution.outputs, execution.written, logical, strict=True
    ):
        assert written.any()
        assert np.isfinite(expected).all()
        reference = expected[written].astype(np.float64)
        assert relative_error(output[written], reference) < 2e-4
        assert np.isnan(output[~written]).all()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example(path: Path) -> None:
    """One of them in all blocks."""
    module = transpiled(parse(path.read_text(encoding="utf-8")))
    blocks = None if path.stem == "rmsnorm_linear" else BLOCKS
    assert_levels_agree(module, inputs_of(module), blocks)


@pytest.mark.skipif(not SAVED.is_dir(), reason=f"no saved µGraphs at {SAVED.parent.name}/mugraphs")
@pytest.mark.parametrize("path", sorted(SAVED.glob("*.json")), ids=lambda path: path.stem)
def test_the_first_of_each_file_of_saved_mugraphs(path: Path) -> None:
    """In all blocks where there are few heads of them."""
    module = transpiled(first_of(path))
    function = next(op for op in module.ops if isinstance(op, FuncOp))
    inputs = random_inputs(function, workload_of(path).scales, seed=5)
    has_heads = inputs[0].ndim == 3
    assert_levels_agree(module, inputs, None if has_heads or THOROUGH else BLOCKS)


# A pipeline of three stages, right and wrong.

X, W = normal((32, 192), seed=1), normal((192, 48), seed=2)


def runs(
    text: str, orders: Sequence[str | int] = ORDERS
) -> Iterator[tuple[tuple[str | int, str], Array | str]]:
    """The result under these orders of warps and every landing of copies, or the error."""
    module = parse_unverified(text)
    for order in orders:
        for landing in LANDINGS:
            try:
                (result,) = run_function(
                    module, None, [X, W], level="address", order=order, landing=landing
                )
            except ExecutionError as error:
                yield (order, landing), str(error)
                continue
            yield (order, landing), result


def parse_unverified(text: str) -> ModuleOp:
    """A module with a plan that the verifier may refuse."""
    return Parser(context(), text).parse_module()


def right() -> Array:
    (result,) = run_function(parse(PIPELINE), None, [X, W], level="address")
    return result


def test_the_pipeline_is_right_in_every_order() -> None:
    (logical,) = run_function(parse(PIPELINE), None, [X, W])
    expected = right()
    assert relative_error(expected, logical.astype(np.float64)) < 1e-4
    for run, result in runs(PIPELINE):
        np.testing.assert_array_equal(result, expected, err_msg=str(run))


def test_whole_numbers_are_exact() -> None:
    x, w = integers((32, 192)), integers((192, 48), seed=3)
    (logical,) = run_function(parse(PIPELINE), None, [x, w])
    (result,) = run_function(parse(PIPELINE), None, [x, w], level="address")
    np.testing.assert_array_equal(result, logical)
    exact = (x.astype(np.float64) @ w.astype(np.float64) * 0.5).astype(np.float16)
    np.testing.assert_array_equal(result, exact)


MMA_OPERANDS = "sched.mma %sx, %sw to %acc_4"


def with_alias(text: str, swizzle: str) -> str:
    """The product reads x with another swizzle than the copies write it."""
    type_ = f"!sched.shared<32x32xf16, {swizzle}(32,32):(32,1)>"
    text = text.replace(
        "  %so = ", f"  %sy = sched.alloc stages 3 offset 0 : {type_}\n  %so = "
    ).replace(MMA_OPERANDS, "sched.mma %sy, %sw to %acc_4")
    return text.replace(f"[true, true] : {SX_TYPE}", f"[true, true] : {type_}")


def without_last(text: str, part: str) -> str:
    head, tail = text.rsplit(part, 1)
    return head + tail


WRONG = {
    "an offset that overlaps the neighbour": PIPELINE.replace("offset 6144", "offset 4096"),
    "an offset that overlaps by one line": PIPELINE.replace("offset 6144", "offset 6016"),
    "two stages for copies two ahead": PIPELINE.replace(
        "%sw = sched.alloc stages 3", "%sw = sched.alloc stages 2"
    ),
    "stages swapped in the prologue": PIPELINE.replace(
        STEP.replace("STAGE", "iteration 0"), STEP.replace("STAGE", "iteration 2")
    ),
    "a copy of the wrong iteration": PIPELINE.replace(
        f"%sw {STEP.split('%sw ')[1].split(' STAGE')[0]} ahead 2",
        f"%sw {STEP.split('%sw ')[1].split(' STAGE')[0]} ahead 1",
    ),
    "no wait": PIPELINE.replace("sched.wait pending 1\n", ""),
    "a wait for one group less": PIPELINE.replace("pending 1", "pending 2"),
    "a wait after the barrier": PIPELINE.replace(
        "sched.wait pending 1\n    sched.barrier", "sched.barrier\n    sched.wait pending 1"
    ),
    "no commit in the loop": without_last(PIPELINE, "sched.commit"),
    "no barrier in the loop": PIPELINE.replace("pending 1\n    sched.barrier", "pending 1"),
    "no barrier before the result is stored": PIPELINE.replace(
        "sched.epilogue {\n    sched.barrier", "sched.epilogue {"
    ),
    "no barrier before the result is copied": without_last(PIPELINE, "sched.barrier"),
    "no swizzle on one side": with_alias(PIPELINE, ""),
    "another swizzle on one side": with_alias(PIPELINE, "S<1,3,3> o "),
    "an iteration less": PIPELINE.replace("forloop 6", "forloop 5"),
    "an iteration more": PIPELINE.replace("forloop 6", "forloop 7"),
    "an accumulator that nobody cleared": re.sub(r".*sched\.fill .*\n", "", PIPELINE).replace(
        "sched.yield %acc_2", "sched.yield %acc"
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_gives_wrong_numbers(name: str) -> None:
    text, expected = WRONG[name], right()
    assert text != PIPELINE
    assert any(not np.array_equal(result, expected) for _run, result in runs(text))


def test_a_missing_barrier_shows_only_in_an_order() -> None:
    text = WRONG["no barrier before the result is copied"]
    (together,) = run_function(parse(text), None, [X, W], level="address")
    np.testing.assert_array_equal(together, right())
    results = dict(runs(text, ["forward"]))
    for landing in LANDINGS:
        forward = results["forward", landing]
        assert isinstance(forward, np.ndarray) and not np.array_equal(forward, right())


def test_a_missing_wait_shows_only_if_copies_land_late() -> None:
    results = dict(runs(WRONG["no wait"].replace("sched.commit", ""), ["forward"]))
    assert np.isnan(np.asarray(results["forward", "latest"], np.float64)).any()
    np.testing.assert_array_equal(results["forward", "earliest"], right())


def test_random_orders_are_the_same_each_time() -> None:
    text = WRONG["no barrier in the loop"]
    first, again = (
        run_function(parse(text), None, [X, W], level="address", order=3)[0] for _ in range(2)
    )
    np.testing.assert_array_equal(first, again)


# Samples of blocks.


def test_a_sample_of_blocks() -> None:
    execution = execute_by_address(parse(PIPELINE), None, [X, W], blocks=2)
    assert execution.blocks == {"kernel": [(0, 0, 0), (2, 0, 0)]}
    (output,), (written,) = execution.outputs, execution.written
    np.testing.assert_array_equal(written[0], np.repeat([True, False, True], 16))
    np.testing.assert_array_equal(output[written], right()[written])
    assert np.isnan(output[~written]).all()
    whole = execute_by_address(parse(PIPELINE), None, [X, W], blocks=100)
    assert len(whole.blocks["kernel"]) == 3 and whole.written[0].all()


def test_what_other_blocks_write_for_the_next_operator_is_there() -> None:
    text = PIPELINE.replace(
        "  func.return %o : tensor<32x48xf16>",
        "  %p = kn.exp %o : tensor<32x48xf16> -> tensor<32x48xf16>\n"
        "  func.return %p, %o : tensor<32x48xf16>, tensor<32x48xf16>",
    ).replace(
        "%w: tensor<192x48xf16>) -> tensor<32x48xf16>",
        "%w: tensor<192x48xf16>) -> (tensor<32x48xf16>, tensor<32x48xf16>)",
    )
    module = parse(text)
    execution = execute_by_address(module, None, [X / 16, W / 16], blocks=1)
    exponential, result = execution.outputs
    assert np.isfinite(exponential).all() and execution.written[0].all()
    np.testing.assert_array_equal(np.isnan(result), ~execution.written[1])
    assert execution.written[1].mean() == pytest.approx(1 / 3)
    (wanted, _) = run_function(module, None, [X / 16, W / 16])
    assert relative_error(exponential, wanted.astype(np.float64)) < 1e-3


# Errors.


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("smem 9216 ", "", r"@kernel has no shared-memory plan; run --plan-stensor-memory first"),
        ("stages 3 offset 6144", "stages 3", r"%sw has no offset in shared memory; run --plan"),
        (
            "smem 9216",
            "smem 9088",
            r"'sched.copy' of %wt: 'cp.async.16' of %sw touches bytes 8192 to 9215 of the block's "
            r"shared memory, which has 9088 bytes",
        ),
        (
            "forloop 6",
            "forloop 8",
            r"'sched.copy' of %xt: 'cp.async.16' of %xt touches bytes 384 to 12351 of the tensor "
            r"in device memory, which has 12288 bytes",
        ),
        ("offset 6144", "offset 6152", r"moves 16 bytes from a start that is not aligned to them"),
        (
            "  sched.epilogue {",
            f"%c = sched.channel %sx : {SX_TYPE}\n sched.epilogue {{",
            r"%c has no offset in shared memory; run --plan-stensor-memory first",
        ),
    ],
)
def test_what_cannot_run(old: str, new: str, message: str) -> None:
    text = PIPELINE.replace(old, new, 1)
    assert text != PIPELINE
    with pytest.raises(ExecutionError, match=message):
        run_function(parse_unverified(text), None, [X, W], level="address")


def test_a_threadblock_graph_has_no_addresses() -> None:
    text = (ROOT / "examples" / "rmsnorm_linear.mlir").read_text("utf-8")
    module = parse(text)
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    zeros = [np.zeros(shape_of(type_), np.float16) for type_ in function.function_type.inputs]
    with pytest.raises(ExecutionError, match=r"has no addresses before it is scheduled"):
        run_function(module, None, zeros, level="address")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": "bytes"}, r"there is no level 'bytes'; there are 'logical' and 'address'"),
        ({"blocks": 2}, r"are options of the level of addresses"),
        ({"order": 1}, r"are options of the level of addresses"),
        (
            {"level": "address", "precision": "float64"},
            r"its precision is 'storage', not 'float64'",
        ),
        ({"level": "address", "blocks": 0}, r"0 blocks cannot run"),
        ({"level": "address", "order": "random"}, r"there is no order 'random'"),
        ({"level": "address", "landing": "soon"}, r"there is no landing 'soon'"),
    ],
)
def test_options_that_do_not_exist(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ExecutionError, match=message):
        run_function(parse(PIPELINE), None, [X, W], **options)


def test_operands_loaded_one_by_one_are_the_same() -> None:
    text = PIPELINE.replace("ldmatrix [true, true]", "ldmatrix [false, false]")
    module = parse(text)
    assert [op.ldmatrix for op in module.walk() if isinstance(op, MmaOp)] == [(False, False)]
    (result,) = run_function(module, None, [X, W], level="address")
    np.testing.assert_array_equal(result, right())
    assert SW_TYPE in text
