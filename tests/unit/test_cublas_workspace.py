"""Products that cuBLAS computes without a workspace, if it can."""

from __future__ import annotations

import numpy as np
import pytest
from emulated_programs import emulated

import mugraph.build as mi


@pytest.mark.parametrize("depth", [3, 4])
def test_a_product_that_fails_without_a_workspace_gets_one(depth: int) -> None:
    """The emulator's cuBLAS refuses an odd depth without, as cuBLAS may refuse some products."""
    x = (np.arange(65 * depth) % 7 - 3).reshape(65, depth).astype(np.float16)
    w = (np.arange(depth * 8) % 5 - 2).reshape(depth, 8).astype(np.float16)
    (product,) = emulated(mi.matmul, x, w)
    np.testing.assert_array_equal(product, x @ w)
