"""Random contractions and convolutions, on CuTe tensors and as µGraphs, against float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from thorough import inputs
from unit.test_cute_kernels import kernel_of
from xdsl.parser import Parser
from xdsl.passes import PassPipeline

from fuzz.contractions import Convolution, drawn, product_text
from mugraph.dialects import sched
from mugraph.passes.compile import compile_pipeline
from mugraph.passes.program.unfold_modes import UnfoldModesPass
from mugraph.passes.texpr.analysis.hazards import find_texpr_hazards
from mugraph.passes.transpile import transpile_pipeline
from mugraph.reading import make_context
from mugraph.runtime.interpreter import run_function


@pytest.mark.parametrize("number", range(inputs(10, 100)))
def test_kernels(number: int) -> None:
    """By the interpreter; recorded without hazards."""
    launch, tensors, exact = drawn(number).launched()
    launch.run()
    np.testing.assert_allclose(tensors[-1], exact, atol=2e-3 * max(1.0, np.abs(exact).max()))
    kernel = kernel_of(launch)
    if number < 4:
        assert find_texpr_hazards(kernel) == []


@pytest.mark.parametrize("number", range(1, inputs(10, 200), 2))
def test_windows(number: int) -> None:
    """Padded convolutions, as written and as kernels of windows, by values and by addresses."""
    one = drawn(number)
    assert isinstance(one, Convolution)
    tensors, exact = one.tensors()
    _, filters, results = one.matrices()
    given, wanted = [tensors[0], filters.of(tensors[1])], results.of(exact)
    context = make_context()
    module = Parser(context, one.program()).parse_module()
    module.verify()
    (found,) = run_function(module, None, given)
    np.testing.assert_allclose(found, wanted, atol=2e-3 * max(1.0, np.abs(exact).max()))
    PassPipeline(compile_pipeline("sm_90a")).apply(context, module)
    module.verify()
    assert any(isinstance(op, sched.LocalTileOp) and op.windows for op in module.walk())
    for level in ("logical", "address"):
        (found,) = run_function(module, None, given, level=level)
        np.testing.assert_allclose(found, wanted, atol=2e-3 * max(1.0, np.abs(exact).max()))


@pytest.mark.parametrize("number", range(inputs(10, 100)))
def test_nested_modes(number: int) -> None:
    """As products of matrices whose modes are nested: as written, unfolded, and transpiled."""
    one = drawn(number)
    if isinstance(one, Convolution):
        # A layout has no padding.
        one = replace(
            one,
            size=tuple(
                max(extent, dilation * (taps - 1) + 1)
                for extent, taps, dilation in zip(one.size, one.window, one.dilations, strict=True)
            ),
            padding=(0,) * len(one.size),
        )
    tensors, exact = one.tensors()
    matrices = one.matrices()
    given = [matrix.of(tensor) for matrix, tensor in zip(matrices, tensors, strict=False)]
    wanted = matrices[2].of(exact.astype(np.float16))
    context = make_context()
    module = Parser(context, product_text(*matrices)).parse_module()
    module.verify()
    for passes in ((), (UnfoldModesPass(),), transpile_pipeline("sm_90a")):
        PassPipeline(passes).apply(context, module)
        module.verify()
        (found,) = run_function(module, None, given)
        np.testing.assert_allclose(found, wanted, atol=2e-3 * max(1.0, np.abs(exact).max()))
