"""Kernel-level sums, norms and rearrangements against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from mugraph.reading import make_context
from mugraph.runtime.interpreter import ExecutionError, run_function

X = np.random.default_rng(0).uniform(-1, 1, (10, 8, 3))
WEIGHT = np.random.default_rng(1).uniform(-1, 1, (8, 3))


def module_of(body: str, types: str) -> ModuleOp:
    text = f"func.func @f(%x: tensor<10x8x3xf32>, %w: tensor<8x3xf32>) -> {types} {{ {body} }}"
    module = Parser(make_context(), text).parse_module()
    module.verify()
    return module


def computed(op: str, types: str) -> list[npt.NDArray[Any]]:
    names = ", ".join(f"%r{index}" for index in range(types.count("tensor")))
    listed = types.strip("()")
    module = module_of(f"{names} = {op} -> {types} func.return {names} : {listed}", types)
    inputs = [X.astype(np.float32), WEIGHT.astype(np.float32)]
    return run_function(module, None, inputs, "float64")


def test_reduction_sums_runs_of_neighbours() -> None:
    (result,) = computed("kn.reduction %x dim 1 : tensor<10x8x3xf32>", "tensor<10x2x3xf32>")
    x = X.astype(np.float32).astype(np.float64)
    np.testing.assert_allclose(result[:, 0], x[:, :4].sum(axis=1))
    np.testing.assert_allclose(result[:, 1], x[:, 4:].sum(axis=1))


@pytest.mark.parametrize("epsilon", [0.0, 0.5])
def test_rms_norm_is_over_the_last_dimensions(epsilon: float) -> None:
    (result,) = computed(
        f"kn.rms_norm %x weight %w over [8, 3] epsilon {epsilon} : "
        "(tensor<10x8x3xf32>, tensor<8x3xf32>)",
        "tensor<10x8x3xf32>",
    )
    x = X.astype(np.float32).astype(np.float64)
    mean = np.square(x).mean(axis=(1, 2), keepdims=True)
    np.testing.assert_allclose(result, x / np.sqrt(mean + epsilon) * WEIGHT.astype(np.float32))


def test_parts_and_their_concatenation() -> None:
    first, second = computed(
        "kn.split %x dim 1 : (tensor<10x8x3xf32>)", "(tensor<10x5x3xf32>, tensor<10x3x3xf32>)"
    )
    np.testing.assert_array_equal(np.concatenate([first, second], axis=1), X.astype(np.float32))
    (joined,) = computed(
        "kn.concat %x, %x dim 2 : (tensor<10x8x3xf32>, tensor<10x8x3xf32>)", "tensor<10x8x6xf32>"
    )
    np.testing.assert_array_equal(joined, np.concatenate([X, X], axis=2).astype(np.float32))


def test_all_reduce_is_not_executed() -> None:
    with pytest.raises(ExecutionError, match=r"'kn.all_reduce' %r0 cannot be executed"):
        computed("kn.all_reduce %x : tensor<10x8x3xf32>", "tensor<10x8x3xf32>")
