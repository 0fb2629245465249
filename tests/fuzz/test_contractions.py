"""Random contractions and convolutions as kernels on CuTe tensors, against float64."""

from __future__ import annotations

import numpy as np
import pytest
from thorough import inputs
from unit.test_cute_kernels import kernel_of

from fuzz.contractions import drawn
from mugraph.passes.texpr.analysis.hazards import find_texpr_hazards


@pytest.mark.parametrize("number", range(inputs(10, 100)))
def test_kernels(number: int) -> None:
    """By numpy, or by the interpreter where threads hand over; recorded without hazards."""
    launch, tensors, exact = drawn(number).launched()
    launch.run()
    np.testing.assert_allclose(tensors[-1], exact, atol=2e-3 * max(1.0, np.abs(exact).max()))
    kernel = kernel_of(launch)
    if number < 4:
        assert find_texpr_hazards(kernel) == []
