"""Registers: the model against ptxas, what stays in registers, and products in pieces."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from schedules import passes_as_written
from xdsl.dialects.builtin import f32
from xdsl.parser import Parser
from xdsl.passes import PassPipeline

import mugraph.build as mi
from benchmarks.shapes.draw import shape_named
from mugraph.codegen.architecture import Architecture
from mugraph.dialects import sched
from mugraph.dialects.cute.atoms import mma_atom
from mugraph.dialects.plan import Plan
from mugraph.dialects.programming_model import MAX_THREAD_REGISTERS
from mugraph.passes.compile import compile_pipeline
from mugraph.passes.costs.kept_sums import (
    MAX_PIECES,
    SPARE_REGISTERS,
    RegisterWork,
    choose_kept,
    choose_pieces,
    register_limit,
    registers_of_works,
)
from mugraph.passes.costs.warp_layouts import Tiles
from mugraph.passes.costs.work import WORKING_REGISTERS
from mugraph.passes.mugraph.plan import PlanPass
from mugraph.passes.schedule import plan_stensor_memory
from mugraph.passes.schedule.analysis.registers import registers_needed
from mugraph.passes.schedule.set_register_budgets import RegisterBudgets, choose_budgets
from mugraph.passes.sequence import verifying
from mugraph.passes.targets import target_named
from mugraph.reading import make_context, parse_text
from mugraph.runtime.batch import batch_source
from mugraph.runtime.cuda import generate_cuda
from mugraph.runtime.interpreter import run_function
from mugraph.runtime.toolchain import ToolchainError, find_toolchain

ATOM = mma_atom("SM80_16x8x16_F32F16F16F32_TN")
TOLERANCE = 32
"""ptxas takes so many registers more than a thread needs where it has them to spare."""


def product(rows: int, columns: int, depth: int, threads: int, body: str, iterations: int) -> str:
    """A custom kernel that adds up a product over the iterations."""
    whole = (
        f"tensor<{rows}x{depth * iterations}xf16>",
        f"tensor<{depth * iterations}x{columns}xf16>",
    )
    a, b = f"!tb.stensor<{rows}x{depth}xf16>", f"!tb.stensor<{depth}x{columns}xf16>"
    c = f"!tb.stensor<{rows}x{columns}xf16>"
    lines = {
        "sum": f"%m = tb.matmul %a, %b then [accum] : ({a}, {b}) -> {c}",
        "exp": f"%m = tb.matmul %a, %b then [exp, accum] : ({a}, {b}) -> {c}",
        "square": f"""%p = tb.matmul %a, %b : ({a}, {b}) -> {c}
    %m = tb.square %p then [accum] : {c} -> {c}""",
    }
    return f"""
func.func @g(%x: {whole[0]}, %y: {whole[1]}) -> tensor<{rows}x{columns}xf16> {{
  %o = kn.customized %x, %y grid [1, 1, 1] block [{threads}, 1, 1] forloop {iterations} {{
  ^bb0(%dx: {whole[0]}, %dy: {whole[1]}):
    %a = tb.input %dx imap [-1, -1, -1] fordim 1 : {whole[0]} -> {a}
    %b = tb.input %dy imap [-1, -1, -1] fordim 0 : {whole[1]} -> {b}
    {lines[body]}
    tb.output %m omap [-1, -1, -1] : {c} -> tensor<{rows}x{columns}xf16>
  }} : ({whole[0]}, {whole[1]}) -> tensor<{rows}x{columns}xf16>
  func.return %o : tensor<{rows}x{columns}xf16>
}}
"""


def test_ptxas_needs_no_more(tmp_path: Path) -> None:
    try:
        toolchain = find_toolchain()
    except ToolchainError as error:
        pytest.skip(f"the model was not compared with ptxas: {error}")
    context = make_context()
    kernels: list[sched.KernelOp] = []
    texts: list[str] = []
    for rows, columns, threads, body in (
        (64, 64, 128, "exp"),
        (128, 192, 128, "sum"),
        (64, 112, 32, "sum"),
        (96, 96, 32, "square"),
    ):
        module = Parser(context, product(rows, columns, 32, threads, body, 4)).parse_module()
        texts.append(generate_cuda(module, context, "sm_90a").source)
        kernels += [op for op in module.walk() if isinstance(op, sched.KernelOp)]
    source = tmp_path / "kernels.cu"
    # Without the blocks that share a multiprocessor, for which ptxas makes do with fewer.
    source.write_text(re.sub(r"(__launch_bounds__\(\d+), \d+", r"\1", batch_source(texts)))
    command = [str(toolchain.nvcc), "-std=c++17", "-O3", "--expt-relaxed-constexpr", "-cubin"]
    command += [f"-I{path}" for path in toolchain.include_paths]
    command += [*Architecture("sm_90a").compiler_flags(), "-Xptxas", "-v", str(source)]
    command += ["-o", str(tmp_path / "kernels.cubin")]
    report = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    entry = r"entry function '\w+member_(\d)\w+'.*?(\d+) bytes spill stores.*?Used (\d+) registers"
    found = {int(number): spilt for number, *spilt in re.findall(entry, report, re.S)}
    for number, kernel in enumerate(kernels):
        spill, used = map(int, found.pop(number))
        needed = registers_needed(kernel)
        assert spill == 0 and needed <= MAX_THREAD_REGISTERS and needed >= used - TOLERANCE
    assert found == {}


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("rows", "columns", "depth", "threads", "body"),
    [
        (192, 192, 16, 32, "sum"),
        (100, 200, 20, 32, "square"),
        (128, 256, 16, 64, "exp"),
        (64, 65, 5, 8, "sum"),
    ],
)
def test_products_in_pieces_are_whole(
    rows: int, columns: int, depth: int, threads: int, body: str
) -> None:
    """On both levels of the interpreter, the pieces make the same product."""
    context = make_context()
    module = Parser(context, product(rows, columns, depth, threads, body, 2)).parse_module()
    random = np.random.default_rng(0)
    inputs = [
        random.integers(-2, 3, shape).astype(np.float16)
        for shape in ((rows, 2 * depth), (2 * depth, columns))
    ]
    if body == "exp":
        inputs[0] /= 64
    (expected,) = run_function(module, None, inputs)
    verifying(passes_as_written()).apply(context, module)
    module.verify()
    covered = np.zeros((rows, columns), int)
    for op in module.walk():
        if isinstance(op, sched.MmaOp):
            assert op.at is not None and isinstance(op.accumulator.type, sched.TileType)
            row, column = op.start
            height, width = op.accumulator.type.get_shape()
            covered[row : row + height, column : column + width] += 1
    assert (covered == 1).all()
    for level in ("logical", "address"):
        (result,) = run_function(module, None, inputs, level=level)
        np.testing.assert_allclose(result, expected, rtol=2e-3)


@given(st.integers(1, 40), st.integers(1, 60), st.integers(60, 231))
def test_no_pieces_load_less(m: int, n: int, registers: int) -> None:
    whole = Tiles(ATOM, m, n)
    chosen = choose_pieces(whole, registers)
    if whole.registers <= registers:
        assert chosen.count == 1
        return
    others = [
        -(-m // height) * n * 8 + -(-n // width) * m * 16
        for height in range(1, m + 1)
        for width in range(1, n + 1)
        if Tiles(ATOM, height, width).registers <= registers - SPARE_REGISTERS
        and -(-m // height) * -(-n // width) <= MAX_PIECES
    ]
    if others:
        assert chosen.count <= MAX_PIECES and chosen.registers <= registers - SPARE_REGISTERS
        assert chosen.loaded == min(others)
    else:
        assert chosen.count == 1


@given(
    st.lists(
        st.builds(
            RegisterWork,
            st.integers(1, 200),
            st.integers(0, 40),
            keepable=st.booleans(),
            transformed=st.booleans(),
            is_product=st.booleans(),
        ),
        max_size=6,
    ),
    st.integers(64, 255),
)
def test_what_is_kept_fits(works: list[RegisterWork], limit: int) -> None:
    kept = choose_kept(works, limit)
    assert all(works[index].keepable for index in kept)
    assert not kept or registers_of_works(works, kept) <= limit
    first = next((index for index, work in enumerate(works) if work.keepable), None)
    if first is not None:
        fits = registers_of_works(works, frozenset({first})) <= limit
        assert (first in kept) == fits


def test_large_blocks_have_fewer_registers() -> None:
    assert [register_limit(threads, 65536) for threads in (32, 256, 512, 1024)] == [
        255,
        255,
        128,
        64,
    ]


def test_what_no_pieces_hold_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    context = make_context()
    module = Parser(context, product(192, 192, 4, 8, "sum", 2)).parse_module()
    verifying(passes_as_written("sm_100a")).apply(context, module)
    said = capsys.readouterr().err
    assert "'tb.matmul' %m needs about" in said and "more warps" in said


def test_threads_that_load_leave_registers_to_those_that_compute() -> None:
    assert choose_budgets(256, 128, 152, 65536) == RegisterBudgets(232, 40)
    assert choose_budgets(384, 128, 152, 65536) == RegisterBudgets(152, 40)
    assert choose_budgets(384, 128, 160, 65536) == RegisterBudgets(160, 32)
    # Where no number is enough the most that can be had, and with few threads there is no more.
    assert choose_budgets(256, 128, 255, 65536) == RegisterBudgets(240, 24)
    assert choose_budgets(128, 128, 152, 65536) is None


@given(
    computing=st.integers(1, 6).map(lambda groups: 128 * groups),
    loading=st.just(128),
    needed=st.integers(24, 255),
    blocks=st.integers(1, 4),
)
def test_budgets_are_no_more_than_a_block_starts_with(
    computing: int, loading: int, needed: int, blocks: int
) -> None:
    budgets = choose_budgets(computing, loading, needed, 65536 // blocks)
    if budgets is None:
        return
    start = 65536 // blocks // (computing + loading) // 8 * 8
    assert start < budgets.computing <= 256
    assert budgets.computing % 8 == budgets.loading % 8 == 0
    assert computing * budgets.computing + loading * budgets.loading <= start * (
        computing + loading
    )


def test_threads_start_with_the_registers_of_every_instruction() -> None:
    """ptxas compiles no other, whatever ``setmaxnreg`` gives its role later."""
    module, context = shape_named("s1_041_gated_mlp_m52_n27648_k5120_f16").module(), make_context()
    plan = PlanPass(grid=(216, 1, 1), forloop=80, tile=(64, 0), arch="sm_90a")
    steps = compile_pipeline("sm_90a")
    at = [step.name for step in steps].index("plan")
    PassPipeline((*steps[:at], plan, *steps[at + 1 :])).apply(context, module)
    kernels = [op for op in module.walk() if isinstance(op, sched.KernelOp)]
    products = [
        (kernel, op)
        for kernel in kernels
        for op in kernel.walk()
        if isinstance(op, sched.WarpgroupMmaOp)
    ]
    assert max(op.atom.values_of_c for _, op in products) == 128
    for kernel, op in products:
        assert op.atom.values_of_c + WORKING_REGISTERS <= kernel.registers_at_start


GATED = """
func.func @gated(%x: tensor<1150x1152xf16>, %g: tensor<1152x6912xf16>, %u: tensor<1152x6912xf16>)
    -> tensor<1150x6912xf16> {
  %a = kn.matmul %x, %g : (tensor<1150x1152xf16>, tensor<1152x6912xf16>) -> tensor<1150x6912xf16>
  %b = kn.matmul %x, %u : (tensor<1150x1152xf16>, tensor<1152x6912xf16>) -> tensor<1150x6912xf16>
  %c = kn.gelu %a : tensor<1150x6912xf16> -> tensor<1150x6912xf16>
  %d = kn.mul %c, %b : (tensor<1150x6912xf16>, tensor<1150x6912xf16>) -> tensor<1150x6912xf16>
  func.return %d : tensor<1150x6912xf16>
}
"""


def test_no_more_blocks_share_a_multiprocessor_than_leave_registers_for_an_instruction() -> None:
    """Two products of 96 columns side by side, in columns that no box of 64 divides.

    Two blocks of 288 threads have 80 registers a thread, and ptxas refuses an instruction of 96.
    """
    context = make_context()
    module = parse_text(context, GATED, "gated")
    plan = Plan(grid=(72, 9, 1), tile=(128, 0), block=(256, 1, 1))
    PassPipeline(compile_pipeline("sm_90a", plan)).apply(context, module)
    (kernel,) = (op for op in module.walk() if isinstance(op, sched.KernelOp))
    products = [op for op in kernel.walk() if isinstance(op, sched.WarpgroupMmaOp)]
    assert products
    assert all(op.atom.values_of_c < kernel.registers_at_start for op in products)


def test_blocks_share_a_multiprocessor_where_threads_that_load_leave_them_registers() -> None:
    """Sums of 144 rows: with the 168 registers of an even share two such blocks spill."""
    context = make_context()
    module = parse_text(context, GATED, "gated")
    plan = Plan(grid=(108, 8, 1), tile=(144, 0), block=(128, 1, 1))
    PassPipeline(compile_pipeline("sm_90a", plan)).apply(context, module)
    (kernel,) = (op for op in module.walk() if isinstance(op, sched.KernelOp))
    assert kernel.resident_blocks == 2
    assert [role.registers_or(0) for role in sched.roles_of(kernel)] == [216, 40]


@pytest.mark.parametrize(("causal", "blocks"), [(True, 3), (False, 2)])
def test_a_third_block_comes_in_where_no_mask_says_where_keys_end(
    *, causal: bool, blocks: int
) -> None:
    """Attention by tiles of 64 x 64 of 128 values: ptxas spills where it masks ragged tiles too."""
    graph, context = mi.new_kernel_graph("attention"), make_context()
    q, k, v = (graph.new_input((64, 655, 128), dtype=mi.bfloat16) for _ in range(3))
    scores = q @ mi.transpose(k) * 128**-0.5
    graph.mark_output(mi.softmax(mi.causal_mask(scores) if causal else scores) @ v)
    module = graph.module()
    plan = Plan(
        grid=(64, 11, 1),
        tile=(0, 64, 0),
        loop_tile=64,
        forloop=11,
        block=(128, 1, 1),
        stages=(1,),
    )
    PassPipeline(compile_pipeline("sm_90a", plan)).apply(context, module)
    (kernel,) = (op for op in module.walk() if isinstance(op, sched.KernelOp))
    assert kernel.resident_blocks == blocks


def test_a_bias_that_is_added_as_it_is_loaded_keeps_no_block_out() -> None:
    """ptxas spills nothing where both blocks of 64 x 128 scores have 216 registers a thread."""
    graph = mi.new_kernel_graph("attention")
    q, k, v = (graph.new_input((32, 4096, 64), dtype=mi.bfloat16) for _ in range(3))
    bias = graph.new_input((4096, 4096), dtype=mi.bfloat16)
    graph.mark_output(mi.softmax(q @ mi.transpose(k) * 0.125 + bias) @ v)
    module = graph.module()
    plan = Plan(grid=(32, 64, 1), along=(-1, 1, -1), block=(128, 1, 1), forloop=32)
    PassPipeline(compile_pipeline("sm_90a", plan)).apply(make_context(), module)
    (kernel,) = (op for op in module.walk() if isinstance(op, sched.KernelOp))
    assert kernel.resident_blocks == 2
    assert [role.registers_or(0) for role in sched.roles_of(kernel)] == [216, 40]


@pytest.mark.parametrize(("missing", "blocks"), [(0, 3), (1, 2)])
def test_blocks_of_long_chains_share_what_their_fragments_leave(
    missing: int, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three blocks of 13 small products took 65.5 us on an H200, and two 68.2."""
    graph = mi.new_kernel_graph("chain")
    x, y = (graph.new_input((512, 32, 32), dtype=mi.bfloat16) for _ in range(2))
    for _ in range(8):
        x = x @ y
    graph.mark_output(x)
    module, context = graph.module(), make_context()
    PassPipeline(compile_pipeline("sm_90a", Plan())).apply(context, module)
    (kernel,) = (op for op in module.walk() if isinstance(op, sched.KernelOp))
    products = sum(isinstance(op, sched.MmaOp) for op in kernel.walk())
    monkeypatch.setattr(plan_stensor_memory, "registers_wanted", lambda kernel: 112)
    monkeypatch.setattr(plan_stensor_memory, "CHAIN_PRODUCTS", products + missing)
    target = target_named("h200")
    shared = plan_stensor_memory.blocks_that_share(kernel, 36864, target, threads=256)
    assert shared == blocks


def test_rows_divided_by_what_is_kept_are_multiplied_by_its_inverse() -> None:
    """The divisor itself stays, for what is computed of it afterwards."""
    graph = mi.new_kernel_graph("shares")
    x = graph.new_input((32, 64), dtype=f32)
    total = mi.reduction(x, 1)
    graph.mark_output(x / total)
    graph.mark_output(x + total)
    module = graph.module()
    PassPipeline(compile_pipeline("sm_90a")).apply(make_context(), module)
    maps = [op.function.data.name for op in module.walk() if isinstance(op, sched.MapOp)]
    assert maps[-3:] == ["reciprocal", "mul", "add"]
    numbers = np.random.default_rng(0).uniform(1, 2, (32, 64)).astype(np.float32)
    totals = numbers.sum(1, keepdims=True)
    shares, added = run_function(module, None, [numbers])
    np.testing.assert_allclose(shares, numbers / totals, rtol=1e-6)
    np.testing.assert_allclose(added, numbers + totals, rtol=1e-6)
