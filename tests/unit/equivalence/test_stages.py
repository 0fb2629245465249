"""--verify-semantics: passes that change a function are named, mugraph's own are not."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from equivalence_programs import attention, elementwise, parse, rmsnorm_linear
from xdsl.context import Context
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, ModuleOp, f32, i64
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass, PassPipeline
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.universe import Universe

from mugraph.dialects import sched, tb
from mugraph.passes.mugraph.decompose_threadblock import DecomposeThreadblockPass
from mugraph.passes.sequence import flattened
from mugraph.passes.transpile import TranspilePass
from mugraph.reading import make_context, multiverse
from mugraph.runtime.equivalence import CheckError, stages
from mugraph.runtime.equivalence.stages import SemanticsWatch
from mugraph.tools.mg_check import read_sums_as_contiguous
from mugraph.tools.mg_opt import MgOptMain


def watch_passes(module: ModuleOp, *passes: ModulePass) -> SemanticsWatch:
    watch = SemanticsWatch.begin(module)

    def callback(
        previous: ModulePass | None, module: ModuleOp, following: ModulePass | None
    ) -> None:
        module.verify()
        if previous is not None:
            watch.check(module, previous.name)

    PassPipeline(flattened(passes), callback).apply(make_context(), module)
    return watch


GATED_MLP = """
func.func @gated_mlp(%x: tensor<8x32xf16>, %w1: tensor<32x16xf16>, %w2: tensor<32x16xf16>) -> tensor<8x16xf16> {
  %o = kn.customized %x, %w1, %w2 grid [2, 1, 1] block [128, 1, 1] forloop 2 {
  ^bb0(%dx: tensor<8x32xf16>, %d1: tensor<32x16xf16>, %d2: tensor<32x16xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<8x32xf16> -> !tb.stensor<8x16xf16>
    %s1 = tb.input %d1 imap [1, -1, -1] fordim 0 : tensor<32x16xf16> -> !tb.stensor<16x8xf16>
    %s2 = tb.input %d2 imap [1, -1, -1] fordim 0 : tensor<32x16xf16> -> !tb.stensor<16x8xf16>
    %m1 = tb.matmul %sx, %s1 : (!tb.stensor<8x16xf16>, !tb.stensor<16x8xf16>) -> !tb.stensor<8x8xf16>
    %m2 = tb.matmul %sx, %s2 : (!tb.stensor<8x16xf16>, !tb.stensor<16x8xf16>) -> !tb.stensor<8x8xf16>
    %a1 = tb.forloop_accum none %m1 : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %a2 = tb.forloop_accum none %m2 : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %g = tb.silu %a1 : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %y = tb.mul %g, %a2 : (!tb.stensor<8x8xf16>, !tb.stensor<8x8xf16>) -> !tb.stensor<8x8xf16>
    tb.output %y omap [1, -1, -1] : !tb.stensor<8x8xf16> -> tensor<8x16xf16>
  } : (tensor<8x32xf16>, tensor<32x16xf16>, tensor<32x16xf16>) -> tensor<8x16xf16>
  func.return %o : tensor<8x16xf16>
}
"""  # noqa: E501
"""A µGraph that keeps two accumulators."""

PROGRAMS = {
    "rmsnorm": rmsnorm_linear(3, 4),
    # 1/144 is no fp32 number: the constant that the decomposition writes stands for it.
    "rmsnorm, another count": rmsnorm_linear(1, 3),
    "gated mlp": GATED_MLP,
    "attention": attention(4, 2),
    "attention, contiguous sums": attention(4, 1, "contiguous"),
    "pre-defined kernels": elementwise("s silu a", "p mul s b", "q exp p", "x div q b"),
}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_the_passes_of_transpile_keep_every_function(program: str, arch: str) -> None:
    transpile = TranspilePass(arch=arch)
    watch = watch_passes(parse(PROGRAMS[program]), transpile)
    (function,) = watch.functions.values()
    assert function.stages == len(transpile.passes())
    assert 0 < function.largest_share <= 1
    assert not function.unbounded


def test_a_module_that_a_pass_leaves_is_not_executed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    executed: list[str] = []
    run = stages.run_function

    def counted(module: ModuleOp, name: str, *arguments: Any, **options: Any) -> Any:
        executed.append(name)
        return run(module, name, *arguments, **options)

    monkeypatch.setattr(stages, "run_function", counted)
    module = parse(PROGRAMS["rmsnorm"])
    DecomposeThreadblockPass().apply(make_context(), module)
    watch = SemanticsWatch.begin(module)
    watch.check(module, "nothing")
    assert len(executed) == 1
    change_constant(module)
    with pytest.raises(CheckError, match="after --something"):
        watch.check(module, "something")
    (function,) = watch.functions.values()
    assert function.stages == 1


def change_constant(module: ModuleOp) -> None:
    """1 part in 10 million: far below what fp16 shows."""
    for op in module.walk():
        if isinstance(op, tb.MulScalarOp):
            value = np.float32(op.scalar.value.data)
            op.scalar = FloatAttr(float(np.nextafter(value, np.float32(np.inf)) * 1.0000001), f32)


def skip_the_norm(module: ModuleOp) -> None:
    for op in list(module.walk()):
        if isinstance(op, tb.DivOp):
            Rewriter.replace_op(op, tb.MulOp(op.lhs, op.rhs, op.result.type))


def divide_by_nothing(module: ModuleOp) -> None:
    """All results become NaN, which no budget excuses."""
    for op in list(module.walk()):
        if isinstance(op, tb.DivOp):
            nothing = tb.SubOp(op.rhs, op.rhs, op.rhs.type)
            Rewriter.insert_op(nothing, InsertPoint.before(op))
            op.operands[1] = nothing.result


def overlap_buffers(module: ModuleOp) -> None:
    for op in module.walk():
        if isinstance(op, sched.AllocOp):
            op.offset = IntegerAttr(0, i64)


@dataclass(frozen=True)
class PlantedPass(ModulePass):
    """A pass with a defect."""

    name = "planted"
    change: ClassVar[Callable[[ModuleOp], None]]

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        type(self).change(op)


def planted(change: Callable[[ModuleOp], None]) -> PlantedPass:
    return type("PlantedPass", (PlantedPass,), {"change": staticmethod(change)})()


@pytest.mark.parametrize(
    ("program", "change"),
    [
        (rmsnorm_linear(3, 4), change_constant),
        (rmsnorm_linear(3, 4), skip_the_norm),
        (rmsnorm_linear(3, 4), divide_by_nothing),
        (attention(4, 2), read_sums_as_contiguous),
    ],
)
def test_a_pass_that_changes_the_function_is_named(
    program: str, change: Callable[[ModuleOp], None]
) -> None:
    # The sums are decomposed after the pass, where it looks for whole ones.
    before = [] if change is read_sums_as_contiguous else [DecomposeThreadblockPass()]
    message = r"^after --planted @f is another function \(float64, seed 0 "
    with pytest.raises(CheckError, match=message):
        watch_passes(parse(program), *before, planted(change), TranspilePass())


def test_a_plan_that_overlaps_buffers_is_found_on_bytes() -> None:
    module = parse(rmsnorm_linear(3, 4))
    with pytest.raises(CheckError, match="after --planted @f, run on bytes and addresses,"):
        watch_passes(module, TranspilePass(check_hazards=False), planted(overlap_buffers))


def test_a_pass_that_removes_a_function_is_named() -> None:
    def remove(module: ModuleOp) -> None:
        for op in list(module.ops):
            if isinstance(op, FuncOp):
                Rewriter.erase_op(op)

    with pytest.raises(CheckError, match=r"--planted removed the function @f\."):
        watch_passes(parse(rmsnorm_linear()), planted(remove))


def test_functions_must_be_executable() -> None:
    text = """
    func.func @f() -> i32 {
      %one = arith.constant 1 : i32
      func.return %one : i32
    }"""
    with pytest.raises(CheckError, match="needs functions that the interpreter can execute"):
        SemanticsWatch.begin(parse(text))


def test_functions_without_results_have_nothing_to_keep() -> None:
    assert not SemanticsWatch.begin(parse("func.func @f() { func.return }")).functions


def test_the_summary_says_what_was_checked() -> None:
    (line,) = watch_passes(parse(rmsnorm_linear()), DecomposeThreadblockPass()).summary()
    assert line.startswith("@f computes the same after each of 1 passes (float64, seed 0 ")
    assert "of its derived budget" in line


def test_the_driver_names_a_planted_pass(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As a user sees it: ``mg-opt --verify-semantics --transpile --planted``."""
    universe = multiverse()
    passes = {**universe.all_passes, "planted": lambda: type(planted(skip_the_norm))}
    monkeypatch.setattr(
        "mugraph.tools.mg_opt.multiverse",
        lambda: Universe(
            all_dialects=universe.all_dialects,
            all_passes=passes,
            all_targets=universe.all_targets,
        ),
    )
    path = tmp_path / "graph.mlir"
    path.write_text(rmsnorm_linear(3, 4), encoding="utf-8")
    flags = ["--verify-semantics", "--decompose-threadblock", "--planted", "--transpile"]
    with pytest.raises(CheckError, match=r"^after --planted "):
        MgOptMain([*flags, str(path)]).run()
