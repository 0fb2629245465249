"""Reductions and atomic operations on 16-bit elements, and sums whose order is not fixed."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from mugraph.codegen.cuda import print_module
from mugraph.passes.texpr.te_lower import TeLowerPass
from mugraph.runtime.interpreter.arithmetic import Precision
from mugraph.runtime.interpreter.texpr import run_texpr
from mugraph.texpr import read_texpr


def lowered(body: str, element: str = "f32") -> ModuleOp:
    text = f"fn f(x: {element}[4, 64]): {element}[4, 64] {{\n{body}\n}}"
    module = read_texpr(text, "sums.te", {})
    TeLowerPass().apply(Context(), module)
    module.verify()
    return module


BLOCK = "par 4 b #grid {{ {} }}"
SHARED = (
    "new s: f32[32] #shared  par 32 i #block { s[i] = 0.0 } "
    "par 64 i #block { UPDATE }  par 32 i #block { result[b, i] = s[i] }"
)


@pytest.mark.parametrize(
    ("body", "count"),
    [
        # Two threads of a block add to an element.
        (BLOCK.format(SHARED.replace("UPDATE", "red s[i / 2] += x[b, i]")), 1),
        (BLOCK.format(SHARED.replace("UPDATE", "atomic s[i / 2] += x[b, i]")), 1),
        # The larger of two is the same in any order.
        (BLOCK.format(SHARED.replace("UPDATE", "red s[i / 2] max= x[b, i]")), 0),
        # Each thread has an element of its own, in its block ...
        (BLOCK.format("par 64 i #block { red result[b, 63 - i] += x[b, i] }"), 0),
        # ... but not among blocks.
        (BLOCK.format("par 64 i #block { red result[0, i] += x[b, i] }"), 1),
        # A number of the block is summed up by a tree.
        (
            BLOCK.format(
                "new t: f32 t = 0.0 par 64 i #block { red t += x[b, i] } "
                "par 64 i #block { result[b, i] = t }"
            ),
            0,
        ),
    ],
)
def test_sums_in_any_order_are_remarked(
    body: str, count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    lowered(body)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == count
    for line in lines:
        assert line.startswith("sums.te:2:")
        assert "remark: several threads add to an element of" in line


def test_integers_are_the_same_in_any_order(capsys: pytest.CaptureFixture[str]) -> None:
    lowered(BLOCK.format("par 64 i #block { red result[0, i / 2] += x[b, i] }"), "i32")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_a_number_of_16_bits_is_summed_up_in_f32(element: str) -> None:
    body = BLOCK.format(
        f"new t: {element} t = 2048.0 par 64 i #block {{ red t += x[b, i] }} "
        "par 64 i #block { result[b, i] = t }"
    )
    module = lowered(body, element)
    function = module.body.block.first_op
    assert isinstance(function, FuncOp)
    x = np.ones((4, 64), np.float16 if element == "f16" else ml_dtypes.bfloat16)
    (found,) = run_texpr(function, [x], precision=Precision.STORAGE).outputs.values()
    # One at a time, each 1 would be rounded away.
    assert np.all(found.astype(np.float64) == 2112.0)


@pytest.mark.parametrize("element", ["f16", "bf16"])
@pytest.mark.parametrize(("operator", "name"), [("+=", "add"), ("max=", "max"), ("min=", "min")])
def test_16_bit_elements_change_in_one_step(element: str, operator: str, name: str) -> None:
    body = BLOCK.format(f"par 64 i #block {{ red result[0, i / 2] {operator} x[b, i] }}")
    module = lowered(body, element)
    assert f"mugraph::te::atomic_{name}(&result[" in print_module(module)
