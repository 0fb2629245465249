"""Random tensor expressions without races compute the same after every pass of ``--te-lower``."""

from __future__ import annotations

from functools import cache
from itertools import count, islice
from typing import cast

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.func import FuncOp

from fuzz.texpr_races import make
from mugraph.codegen.cuda import print_module
from mugraph.dialects.te import BufferType, input_parameters
from mugraph.passes.texpr.te_lower import TeLowerPass
from mugraph.runtime.interpreter.arithmetic import Precision
from mugraph.runtime.interpreter.texpr import run_texpr
from mugraph.texpr import read_texpr

COUNT = 22


@cache
def programs() -> list[str]:
    """The first random programs that have no race."""
    drawn = (make(seed) for seed in count())
    return list(islice((made[0] for made in drawn if made is not None and not made[1]), COUNT))


@pytest.mark.parametrize("seed", range(COUNT))
def test_lowering_keeps_what_is_computed(seed: int) -> None:
    module = read_texpr(programs()[seed], "random.te", {})
    function = cast(FuncOp, module.body.block.first_op)
    generator = np.random.default_rng(seed)
    given = function.function_type.inputs.data
    types = [cast(BufferType, given[position]) for position in input_parameters(function)]
    inputs = [generator.integers(-4, 5, one.get_shape()).astype(np.float32) for one in types]
    expected = run_texpr(function, inputs, precision=Precision.FLOAT64, seed=None).outputs
    for lowering in TeLowerPass().passes():
        lowering.apply(Context(), module)
        module.verify()
        found = run_texpr(function, inputs, precision=Precision.FLOAT64, seed=seed).outputs
        for one, other in zip(found.values(), expected.values(), strict=True):
            assert np.array_equal(one, other, equal_nan=True), lowering.name
    print_module(module)
