"""Chains of products in registers: both interpreters, and the generated CUDA on the CPU."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from schedules import passes_as_written
from thorough import THOROUGH
from xdsl.dialects.builtin import ModuleOp

from fuzz.emulated import MUGRAPHS
from fuzz.properties import (
    Case,
    Compiled,
    function_of,
    parse,
    require_close,
    require_same_function,
    require_same_text,
)
from mugraph.codegen.cuda import print_module
from mugraph.dialects import sched
from mugraph.dialects.plan import Plan
from mugraph.dialects.tensor_types import element_type_of, shape_of
from mugraph.passes.mugraph.online_softmax.kernel import custom_kernels
from mugraph.passes.mugraph.retile import RetilePass
from mugraph.passes.sequence import verifying
from mugraph.reading import make_context
from mugraph.runtime.interpreter import run_function
from mugraph.runtime.interpreter.arithmetic import Array, storage_dtype


@dataclass(frozen=True)
class Attention:
    """One block's attention of ``queries`` x ``width`` over ``loop`` tiles of ``keys``."""

    queries: int = 64
    keys: int = 32
    width: int = 32
    loop: int = 3
    threads: int = 64
    layout_of_keys: str = ""
    element: str = "f16"
    online: bool = False
    split: int = 1
    """Over how many blocks the loop is divided."""
    scale: float = 0.125
    inputs: float = 0.5
    norm: bool = False
    """Whether queries and values are divided by the norms of their rows first."""
    norm_values: bool = True
    """Whether the values, too, are."""
    blocks: int = 1
    """Blocks of so many queries each."""
    outlined: bool = False
    """Whether a kernel before normalises the values."""
    stages: tuple[int, ...] | None = None
    """What the rings of keys and of values are asked to have."""
    added: str = ""
    """What is added to the scores: a ``matrix``, or numbers of its ``rows`` or ``columns``."""
    added_element: str = "f32"
    denominator: bool = False
    """Whether numerator and denominator are results, and not their quotient."""

    def text(self) -> str:
        """The µGraph."""
        m, s, d, e = self.queries, self.keys, self.width, self.element
        whole = s * self.loop
        q, v, row = f"1x{m}x{d}x{e}", f"1x{whole}x{d}x{e}", f"1x{m}x1x{e}"
        all_q, all_rows = f"1x{m * self.blocks}x{d}x{e}", f"1x{m * self.blocks}x1x{e}"
        own = "[1, -1, -1]" if self.blocks > 1 else "[-1, -1, -1]"
        k = f"1x{d}x{whole}x{e}{self.layout_of_keys}"
        last = f"""
            %r = tb.div %o, %l : (!tb.stensor<{q}>, !tb.stensor<{row}>) -> !tb.stensor<{q}>
            tb.output %r omap {own} : !tb.stensor<{q}> -> tensor<{all_q}>"""
        results = f"tensor<{all_q}>"
        if self.denominator:
            last = f"""
            tb.output %o omap {own} : !tb.stensor<{q}> -> tensor<{all_q}>
            tb.output %l omap {own} : !tb.stensor<{row}> -> tensor<{all_rows}>"""
            results = f"(tensor<{all_q}>, tensor<{all_rows}>)"
        names = "%y0, %y1" if self.denominator else "%y0"
        types = f"tensor<{all_q}>, tensor<{all_rows}>" if self.denominator else f"tensor<{all_q}>"
        norms = ""
        if self.norm:
            kinds = [("q", f"!tb.stensor<{q}>")]
            kinds += [("v", f"!tb.stensor<1x{s}x{d}x{e}>")] if self.norm_values else []
            norms = "\n".join(
                f"%n{name} = tb.rms_norm %s{name} : {kind} -> {kind}" for name, kind in kinds
            )
        right = "nv" if self.norm and self.norm_values else "sv"
        tiles = f"!tb.stensor<{q}>, !tb.stensor<1x{d}x{s}x{e}>"
        keys, weights = f"!tb.stensor<1x{d}x{s}x{e}>", f"!tb.stensor<1x{m}x{s}x{e}>"
        values, out = f"!tb.stensor<1x{s}x{d}x{e}>", f"!tb.stensor<{q}>"
        extents = (1 if self.added == "columns" else m, 1 if self.added == "rows" else s)
        a = self.added_element
        tensor = f"tensor<1x{extents[0]}x{extents[1] if extents[1] == 1 else whole}x{a}>"
        argument, inner, operand, type_, tile = "", "", "", "", ""
        if self.added:
            argument, inner = f", %b: {tensor}", f", %db: {tensor}"
            operand, type_ = ", %b", f", {tensor}"
            loop_dim, kind = (
                "" if extents[1] == 1 else " fordim 2",
                f"1x{extents[0]}x{extents[1]}x{a}",
            )
            tile = f"""
            %sb = tb.input %db imap [-1, -1, -1]{loop_dim} : {tensor} -> !tb.stensor<{kind}>
            %u = tb.add %t, %sb : ({weights}, !tb.stensor<{kind}>) -> {weights}"""
        launch = f"grid [{self.blocks}, 1, 1] block [{self.threads}, 1, 1] forloop {self.loop}"
        return f"""
        func.func @attention(
          %q: tensor<{all_q}>, %k: tensor<{k}>, %v: tensor<{v}>{argument}
        ) -> {results} {{
          {names} = kn.customized %q, %k, %v{operand} {launch} {{
          ^bb0(%dq: tensor<{all_q}>, %dk: tensor<{k}>, %dv: tensor<{v}>{inner}):
            %sq = tb.input %dq imap {own} : tensor<{all_q}> -> !tb.stensor<{q}>
            %sk = tb.input %dk imap [-1, -1, -1] fordim 2 : tensor<{k}> -> {keys}
            %sv = tb.input %dv imap [-1, -1, -1] fordim 1 : tensor<{v}> -> {values}
            {norms}
            %s = tb.matmul %{"nq" if self.norm else "sq"}, %sk : ({tiles}) -> {weights}
            %t = tb.mul_scalar %s by {self.scale} : {weights} -> {weights}{tile}
            %p = tb.exp %{"u" if self.added else "t"} : {weights} -> {weights}
            %pv = tb.matmul %p, %{right} : ({weights}, {values}) -> {out}
            %o = tb.forloop_accum none %pv : !tb.stensor<{q}> -> !tb.stensor<{q}>
            %l = tb.forloop_accum sum %p : {weights} -> !tb.stensor<{row}>{last}
          }} : (tensor<{all_q}>, tensor<{k}>, tensor<{v}>{type_}) -> {results}
          func.return {names} : {types}
        }}"""


def column_major(attention: Attention) -> Attention:
    """The same with keys given as [S, d]."""
    whole, d = attention.keys * attention.loop, attention.width
    layout = f", #cute.layout<(1,{d},{whole}):({d * whole},1,{d})>"
    return Attention(**{**attention.__dict__, "layout_of_keys": layout})


GROUPS: dict[str, int] = {"queries": 64, "threads": 128, "keys": 64, "width": 64}
"""What warp groups multiply, when tiles come through channels."""

ATTENTIONS = {
    "as-is": Attention(),
    "online": Attention(online=True),
    "online-large-scores": Attention(online=True, inputs=8.0, scale=1.0),
    "keys-by-rows": column_major(Attention()),
    "three-tiles-a-warp-online": Attention(queries=96, online=True),
    "loads-by-a-warp-of-their-own": Attention(online=True, loop=5),
    "norms": Attention(online=True, norm=True),
    "norms-through-channels": Attention(norm=True, loop=4),
    "parts-to-device-memory": Attention(online=True, loop=4, split=2),
    "bf16": Attention(element="bf16", keys=64, loop=1),
    "rows-past-the-end": Attention(queries=56, online=True),
    "numerator-and-denominator": Attention(denominator=True, scale=0.5, loop=2),
    "warp-groups": Attention(**GROUPS, online=True, inputs=8.0, scale=1.0),
    "warp-groups-norms": Attention(**GROUPS, online=True, norm=True),
    "warp-groups-norm-of-queries": Attention(
        **GROUPS, online=True, norm=True, norm_values=False, loop=4
    ),
    "norms-of-values-before": Attention(online=True, norm=True, blocks=2, outlined=True),
    "warp-groups-norms-of-values-before": Attention(
        **GROUPS, online=True, norm=True, blocks=2, outlined=True, loop=4
    ),
    "warp-groups-fewer-stages-of-keys": Attention(**GROUPS, online=True, loop=5, stages=(2, 3)),
    "warp-groups-one-stage-of-keys": Attention(**GROUPS, online=True, loop=4, stages=(1, 2)),
    "warp-groups-one-stage-of-values": Attention(**GROUPS, online=True, loop=4, stages=(2, 1)),
    "warp-groups-keys-by-rows": column_major(Attention(**GROUPS)),
    "two-warp-groups-bf16-parts": Attention(
        **{**GROUPS, "queries": 128, "threads": 256}, element="bf16", online=True, loop=4, split=2
    ),
    "added-columns": Attention(added="columns", online=True, loop=5),
    "added-rows-past-the-end": Attention(added="matrix", queries=56, online=True),
    "warp-groups-added-rows": Attention(**GROUPS, added="rows", online=True, loop=4),
    "warp-groups-added-matrix": Attention(**GROUPS, added="matrix", online=True, loop=4),
    "warp-groups-added-halves": Attention(
        **GROUPS, added="matrix", added_element="f16", online=True, loop=4
    ),
    "added-halves": Attention(added="matrix", added_element="f16", online=True),
    "warps-left-over": Attention(queries=32, threads=96, width=16, keys=16),
}
if not THOROUGH:
    # What the others have each of, in another mixture.
    for name in (
        "as-is",
        "online",
        "bf16",
        "rows-past-the-end",
        "keys-by-rows",
        "norms",
        "norms-of-values-before",
        "warp-groups-norms",
        "warp-groups-one-stage-of-keys",
        "warp-groups-one-stage-of-values",
        "warp-groups-added-rows",
        "warp-groups-added-matrix",
        "added-columns",
    ):
        del ATTENTIONS[name]


def case_of(attention: Attention) -> Case:
    """Normal inputs; what is expected in float64, and a bound on rounding of 16 bits."""
    module = parse(attention.text())
    random = np.random.default_rng(3)
    inputs = make_inputs(module, random, attention)
    if attention.online:
        q, k, v, *added = (array.astype(np.float64) for array in inputs)
        if attention.norm:
            q = q / np.sqrt((q * q).mean(-1, keepdims=True))
            if attention.norm_values:
                v = v / np.sqrt((v * v).mean(-1, keepdims=True))
        scores = sum(added, q @ k * attention.scale)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        expected = [weights @ v / weights.sum(-1, keepdims=True)]
    else:
        expected = run_function(module, None, inputs, "float64")
    step = 2.0**-7 if attention.element == "bf16" else 2.0**-10
    # Weights and results are rounded; rounded scores change weights by as much as they are off.
    errors = [4 * step * max(1.0, float(np.abs(result).max())) for result in expected]
    return Case(inputs, expected, errors)


def make_inputs(module: ModuleOp, random: np.random.Generator, attention: Attention) -> list[Array]:
    """Inputs of the function's types."""
    return [
        (random.standard_normal(shape_of(argument.type)) * attention.inputs).astype(
            storage_dtype(element_type_of(argument.type))
        )
        for argument in function_of(module).body.block.args
    ]


def compiled_in_registers(attention: Attention) -> Compiled:
    """After the whole pipeline; interpreted at each level."""
    case = case_of(attention)
    module = parse(attention.text())
    (graph,) = custom_kernels(module)
    split = attention.split if attention.split > 1 else None
    graph.decided = Plan(outline=attention.outlined, split_k=split)
    RetilePass().apply(make_context(), module)
    steps = passes_as_written(online_softmax=attention.online, stages=attention.stages)
    verifying(steps).apply(make_context(), module)
    module = require_same_text("--transpile", module)
    require_same_function("--transpile", module, case)
    results = run_function(module, None, case.inputs, level="address")
    require_close("addresses", results, case.expected, case.errors)
    return Compiled(case, module, print_module(module))


def held_in_registers(module: ModuleOp) -> bool:
    """Whether the left operand of a product is a fragment."""
    products = sched.MmaOp | sched.WarpgroupMmaOp
    return any(isinstance(op, products) and op.lhs_in_registers for op in module.walk())


@pytest.fixture(scope="module")
def compiled() -> dict[str, Compiled]:
    return {name: compiled_in_registers(case) for name, case in ATTENTIONS.items()}


def test_attention_is_in_registers(compiled: dict[str, Compiled]) -> None:
    promoted = {name for name, one in compiled.items() if held_in_registers(one.module)}
    assert promoted == set(ATTENTIONS)
    by_groups = {
        name
        for name, one in compiled.items()
        if any(isinstance(op, sched.WarpgroupMmaOp) for op in one.module.walk())
    }
    assert by_groups == {name for name in ATTENTIONS if "warp-groups" in name}
    loading = {
        name
        for name, one in compiled.items()
        if any(isinstance(op, sched.LoadOp) and not op.loads_operand for op in one.module.walk())
    }
    scaled = {
        name
        for name, case in ATTENTIONS.items()
        if case.norm and case.norm_values and not case.outlined
    }
    assert loading == scaled | {name for name, case in ATTENTIONS.items() if case.added}
    by_lines = {
        name
        for name, one in compiled.items()
        if any(isinstance(op, sched.LoadOp) and op.loads_lines() for op in one.module.walk())
    }
    assert by_lines == {name for name in ATTENTIONS if "halves" in name}


@pytest.mark.usefixtures("needs_emulator")
def test_kernels_compute_what_is_expected(compiled: dict[str, Compiled]) -> None:
    MUGRAPHS.add(*compiled.values())
