"""Windows of tensors: convolutions of the builder, what kernels load, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from emulated_programs import emulated, graph_of
from fuzz.contractions import Convolution
from xdsl.parser import Parser
from xdsl.passes import PassPipeline
from xdsl.utils.exceptions import VerifyException

import mugraph.build as mi
from mugraph.dialects import kn, tb
from mugraph.passes.compile import compile_pipeline
from mugraph.passes.program.read_windows import ReadWindowsPass
from mugraph.reading import make_context

CASES = [
    Convolution(2, (5, 6), 16, 24, (3, 2), (2, 1), (1, 1), (1, 2)),
    Convolution(1, (4, 3, 5), 3, 10, (2, 2, 3), (1, 2, 1), (1, 0, 2), (1, 1, 1)),
]
"""Channels in vectors of 16 bytes, and one by one."""


def test_generated_kernels_find_windows(needs_emulator: None) -> None:
    """Both convolutions as one program, by cp.async and by loads."""
    given = [one.tensors() for one in CASES]
    found = emulated(
        lambda *tensors: [
            mi.convolution(*tensors[2 * at : 2 * at + 2], one.strides, one.padding, one.dilations)
            for at, one in enumerate(CASES)
        ],
        *(tensor for tensors, _ in given for tensor in tensors),
    )
    for result, (_, exact) in zip(found, given, strict=True):
        np.testing.assert_allclose(result, exact, atol=2e-3 * np.abs(exact).max())


def test_a_kernel_of_a_convolution_loads_windows() -> None:
    """One kernel, and nothing writes the windows."""
    x, w = CASES[0].tensors()[0]
    graph = graph_of(lambda x, w: mi.convolution(x, w, (2, 1), 1, (1, 2)), x, w)
    module, context = graph.module(), make_context()
    steps = compile_pipeline("sm_90a")
    last = next(at for at, one in enumerate(steps) if isinstance(one, ReadWindowsPass))
    PassPipeline(steps[: last + 1]).apply(context, module)
    graphs = [op for op in module.walk() if isinstance(op, kn.CustomizedOp)]
    loads = [op for op in module.walk() if isinstance(op, tb.InputOp)]
    assert len(graphs) == 1
    assert [load.windows is not None for load in loads].count(True) == 1
    assert not any(isinstance(op, kn.WindowsOp) for op in module.walk())


def parsed(modes: str, origin: str, shape: str = "16x9") -> None:
    text = f"""
func.func @f(%x: tensor<2x4x4x3xf16>) -> tensor<{shape}xf16> {{
  %a = kn.windows %x modes {modes} origin {origin}
    : tensor<2x4x4x3xf16> -> tensor<{shape}xf16>
  func.return %a : tensor<{shape}xf16>
}}"""
    Parser(make_context(), text).parse_module().verify()


@pytest.mark.parametrize(
    ("modes", "origin", "sentence"),
    [
        ("[array<i64: 16, 1, 1>]", "[0, 0]", "the origin has 2 numbers, the tensor 4 dimensions"),
        ("[array<i64: 16, 4, 1>]", "[0, 0, 0, 0]", "along dimension 4 of a tensor of 4"),
        ("[array<i64: 16, 1, -1>]", "[0, 0, 0, 0]", "16 places -1 apart"),
        ("[array<i64: 16, 1>]", "[0, 0, 0, 0]", "three numbers each"),
        ("[array<i64: 8, 1, 1>]", "[0, 0, 0, 0]", "8"),
    ],
)
def test_modes_that_do_not_fit(modes: str, origin: str, sentence: str) -> None:
    with pytest.raises(VerifyException, match=sentence) as error:
        parsed(modes, origin, "16")
    assert "'kn.windows' %a" in str(error.value)


def test_convolutions_that_do_not_fit() -> None:
    graph = mi.new_kernel_graph("f")
    x, w = graph.new_input((2, 5, 5, 8)), graph.new_input((4, 3, 3, 8))
    for arguments, sentence in (
        ((graph.new_input((4, 3, 3, 16)),), "images of 8 channels, filters of 16"),
        ((graph.new_input((4, 3, 8)),), "of equal ranks"),
        ((w, (1, 1, 1)), "expected 2 numbers from 1 on"),
        ((w, 1, 0, 3), "are larger than images"),
    ):
        with pytest.raises(mi.BuildError, match=sentence):
            mi.convolution(x, *arguments)
