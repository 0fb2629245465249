"""Random loops that load ahead compute the same, with barriers that are needed and enough."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.func import FuncOp

from fuzz.texpr_prefetch import make_prefetching
from mugraph.dialects.te import KernelOp
from mugraph.passes.texpr.analysis.hazards import find_texpr_hazards, unneeded_texpr_barriers
from mugraph.passes.texpr.te_lower import TeLowerPass
from mugraph.runtime.interpreter.arithmetic import Precision
from mugraph.runtime.interpreter.texpr import run_texpr
from mugraph.texpr import read_texpr


@pytest.mark.parametrize("seed", range(8))
def test_loading_ahead_keeps_what_is_computed(seed: int) -> None:
    text, sizes = make_prefetching(seed)
    module = read_texpr(text, "random.te", {})
    function = cast(FuncOp, module.body.block.first_op)
    shape = (sizes["rows"], sizes["width"])
    x = np.random.default_rng(seed).integers(-9, 10, shape).astype(np.float32)
    (expected,) = run_texpr(function, [x], precision=Precision.FLOAT64, seed=None).outputs.values()
    for lowering in TeLowerPass(fragments=seed % 4 != 3).passes():
        lowering.apply(Context(), module)
        module.verify()
        (found,) = run_texpr(function, [x], precision=Precision.FLOAT64).outputs.values()
        assert np.array_equal(found, expected), lowering.name
    kernel = next(op for op in module.walk() if isinstance(op, KernelOp))
    assert find_texpr_hazards(kernel) == []
    assert unneeded_texpr_barriers(kernel) == []
