"""Mutants of the synchronisation of tensor expressions: each is removed, moved or weakened.

``PYTHONPATH=tests python tests/mutation/texpr_mutants.py`` lowers the examples, takes every
barrier, wait, commit, fence, arrival and copy of each kernel, and counts which mutants the hazard
checker reports; ``--random 160`` does so with random programs, too.  No original is reported.

What it does not report it proves equal where each touch of memory finds what it finds in the
original (``touch_alike``).  What is left is listed, and judged by runs: each of these mutants runs
on the emulator in ``--orders`` orders of threads, with copies that land as late as they may, and
what it writes is compared with what the original writes in the same order, bit by bit.  So that
this could fail, every ``--control``-th of the other mutants runs as well: the table says of how
many of them the runs see the harm.  Copies and products end as late as they may, and in every other
order at once.  The emulator knows no fences of proxies and registers, which are counted apart.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
from fuzz.emulated_texpr import Array, TexprProgram, build_texpr, emulate_texpr
from fuzz.properties import PropertyError
from fuzz.texpr_blocks import Generator
from texpr_order import touch_alike
from xdsl.context import Context
from xdsl.dialects.builtin import AffineMapAttr, IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects import te
from mugraph.dialects.ancestors import ancestors
from mugraph.dialects.programming_model import WARP
from mugraph.dialects.te.mapped import ScopeAttr
from mugraph.dialects.te.points import all_hold
from mugraph.dialects.tensor_types import element_type_of, shape_of
from mugraph.passes.texpr.analysis.evaluate import variables_of
from mugraph.passes.texpr.analysis.hazards import find_texpr_hazards
from mugraph.passes.texpr.te_lower import TeLowerPass
from mugraph.runtime.interpreter.arithmetic import storage_dtype
from mugraph.texpr import read_texpr

EXAMPLES = Path(__file__).parents[2] / "examples" / "texpr"
_MMA = {"M": 64, "N": 64, "TN": 64, "WM": 16, "WN": 32, "G": 2}
_SM90 = {"M": 256, "N": 128, "TM": 128, "TN": 128, "ROWS": 2}
PROGRAMS: dict[str, tuple[dict[str, int], ...]] = {
    "transpose": ({"M": 64, "N": 64, "T": 32}, {"M": 36, "N": 24, "T": 12}),
    "gemm_shared": (
        {"M": 64, "N": 64, "K": 48},
        {"M": 24, "N": 36, "K": 10, "TM": 12, "TN": 12, "TK": 5},
        {"M": 64, "N": 64, "K": 64, "TM": 64, "TN": 64, "TK": 16, "AHEAD": 2},
        {"M": 24, "N": 12, "K": 30, "TM": 12, "TN": 12, "TK": 5, "AHEAD": 3},
    ),
    "gemm_mma": (
        {**_MMA, "K": 192, "TM": 32, "TK": 32},
        {**_MMA, "K": 128, "TM": 32, "TK": 16, "AHEAD": 2},
        {**_MMA, "K": 256, "TM": 32, "TK": 32, "AHEAD": 4},
    ),
    "gemm_sm90": (
        {**_SM90, "K": 384, "STAGES": 3, "BLOCKS": 1},
        {**_SM90, "K": 192, "STAGES": 2, "BLOCKS": 2},
        {**_SM90, "K": 320, "STAGES": 4, "BLOCKS": 1, "TN": 64, "PART": 64},
    ),
    "scan": ({"B": 2, "N": 512}, {"B": 2, "N": 256, "T": 64}),
    "histogram": ({"N": 2048, "PART": 1024}, {"N": 1024, "PART": 256, "BINS": 64}),
    "radix_pass": (
        {"N": 512, "THREADS": 64, "KEYS": 4},
        {"N": 512, "THREADS": 128, "KEYS": 2, "SHIFT": 4},
    ),
    "paged_decode": (
        {
            **{"B": 2, "HEADS": 4, "KV": 2, "D": 32, "PAGES": 32, "PAGE": 8, "MOST": 4},
            **{"PART": 16, "SLICES": 2},
        },
    ),
    "heat": (
        {"H": 8, "W": 12, "BLOCKS": 4, "STEPS": 3},
        {"H": 4, "W": 40, "BLOCKS": 2, "STEPS": 4},
    ),
    "life": (
        {"BOARDS": 1, "H": 16, "W": 32, "BLOCKS": 4, "GENERATIONS": 3},
        {"BOARDS": 1, "H": 8, "W": 16, "BLOCKS": 2, "GENERATIONS": 4},
    ),
}
"""The examples whose threads or blocks wait for each other, at small sizes."""

_SYNCHRONISATION = (
    te.BarrierOp,
    te.NamedBarrierOp,
    te.CommitOp,
    te.WaitOp,
    te.MbarrierInitOp,
    te.MbarrierFenceOp,
    te.MbarrierArriveOp,
    te.MbarrierWaitOp,
    te.BulkLoadOp,
    te.BulkCommitOp,
    te.BulkWaitOp,
    te.ProxyFenceOp,
    te.WarpgroupFenceOp,
    te.WarpgroupCommitOp,
    te.WarpgroupWaitOp,
)
_COUNTED = (
    te.CommitOp,
    te.MbarrierInitOp,
    te.MbarrierArriveOp,
    te.BulkLoadOp,
    te.BulkCommitOp,
    te.WarpgroupCommitOp,
)
"""Of these: what does something else if it is done twice."""
_NOT_EMULATED = (te.ProxyFenceOp, te.WarpgroupFenceOp)
VERDICTS = REPORTED, EQUAL, LEFT = "reported", "proved equal", "left"
_FARTHEST = 3
"""Over how many operators that do something one is moved, at most."""
Change = Callable[[Any], None]


@dataclass(frozen=True)
class Mutant:
    """A kernel with one change: what kind, and to which operator."""

    kind: str
    op: Operation
    """The operator that is changed, in the original."""
    kernel: te.KernelOp

    def module(self) -> ModuleOp:
        """A copy of the program with the mutant in the place of the original behind it."""
        block = self.kernel.parent
        program = self.kernel.get_toplevel_object()
        assert block is not None and isinstance(program, ModuleOp)
        place = next(n for n, op in enumerate(program.walk()) if op is self.kernel.next_op)
        copy = program.clone()
        original = next(op for n, op in enumerate(copy.walk()) if n == place)
        original.detach()
        original.erase()
        return copy

    @property
    def is_reported(self) -> bool:
        """Whether the checker finds anything wrong."""
        return bool(find_texpr_hazards(self.kernel))

    @property
    def verdict(self) -> str:
        """What the checker says: it is reported, proved equal to the original, or left."""
        if self.is_reported:
            return REPORTED
        original = self.kernel.next_op
        assert isinstance(original, te.KernelOp)
        return EQUAL if touch_alike(original, self.kernel) else LEFT


def lowered(name: str, sizes: Mapping[str, int], text: str | None = None) -> ModuleOp:
    """An example, or a text, with kernels, by every pass but the check."""
    text = text or (EXAMPLES / f"{name}.te").read_text()
    if name == "gemm_shared" and "AHEAD" in sizes:
        text = re.sub(r"(seq K / TK \S+)", r"\1 #prefetch(AHEAD)", text)
    module = read_texpr(text, name, sizes)
    TeLowerPass("sm_90a").apply(Context(), module)
    return module


def mutants_of(
    kernel: te.KernelOp, wanted: Callable[[str, Operation], bool] = lambda kind, op: True
) -> Iterator[Mutant]:
    """Every mutant of a kernel, each another text; it stands beside it until the next is asked for.

    Those that are no programs are left out, and those whose kind and operator are not ``wanted``
    are not made.
    """
    seen = {str(kernel)}
    for place, op in enumerate(kernel.walk()):
        if not isinstance(op, _SYNCHRONISATION):
            continue
        for kind, change in _changes(op):
            if not wanted(kind, op):
                continue
            copy = kernel.clone()
            block = kernel.parent
            assert block is not None
            block.insert_op_before(copy, kernel)
            target = next(one for number, one in enumerate(copy.walk()) if number == place)
            change(target)
            text = str(copy) if _is_valid(copy, target) else ""
            if text and text not in seen:
                seen.add(text)
                yield Mutant(kind, op, copy)
            copy.detach()


def _is_valid(kernel: te.KernelOp, changed: Operation) -> bool:
    """Whether the verifier takes a kernel, and what changed stands behind its operands."""
    for operand in changed.operands if changed.parent is not None else ():
        home = operand.owner if isinstance(operand.owner, Block) else operand.owner.parent
        place = None if home is None else home.find_ancestor_op_in_block(changed)
        if place is None:
            return False
        if isinstance(operand.owner, Operation) and not operand.owner.is_before_in_block(place):
            return False
    try:
        kernel.verify()
    except VerifyException:
        return False
    return True


def _changes(op: Operation) -> Iterator[tuple[str, Change]]:
    """What may be done to an operator."""
    yield "removed", lambda one: one.detach()
    if isinstance(op, _COUNTED):
        yield "doubled", lambda one: _insert(one.clone(), one, behind=False)
    for steps in range(1, 1 + len(_steps_before(op))):
        yield "moved up", partial(_move_up, steps=steps)
    for steps in range(1, 1 + len(_steps_behind(op))):
        yield "moved down", partial(_move_down, steps=steps)
    outer = op.parent_op()
    if isinstance(outer, (te.SeqOp, te.IfOp)):
        yield "moved out", partial(_move_out, behind=False)
        yield "moved out", partial(_move_out, behind=True)
    if _loop_around(op) is not None:
        yield "of some iterations", partial(_of_iterations, equal=True)
        yield "of some iterations", partial(_of_iterations, equal=False)
    numbers = _threads_at(op)
    for below in sorted({len(numbers) // 2, WARP, len(numbers) - WARP}):
        if 0 < np.count_nonzero(numbers[:below]) < np.count_nonzero(numbers):
            yield "of some threads", partial(_of_threads, count=below)
    match op:
        case te.BarrierOp() if op.threads in (te.Scope.CLUSTER, te.Scope.GRID):
            yield "of fewer threads", partial(_of_scope, scope=te.Scope.BLOCK)
            yield "of fewer threads", partial(_of_scope, scope=te.Scope.WARP)
        case te.BarrierOp() if op.threads is te.Scope.BLOCK:
            yield "of fewer threads", partial(_of_scope, scope=te.Scope.WARP)
        case te.WaitOp() | te.BulkWaitOp() | te.WarpgroupWaitOp():
            yield "weakened", lambda one: _set(one, "in_flight", one.groups + 1)
            yield "weakened", lambda one: _set(one, "in_flight", one.groups + 2)
        case te.MbarrierInitOp():
            yield "other arrivals", lambda one: _set(one, "arrivals", one.expected - 1 or 2)
            yield "other arrivals", lambda one: _set(one, "arrivals", one.expected + 1)
        case te.MbarrierWaitOp():
            yield "other phase", _other_phase
            yield "other mbarrier", _other_mbarrier
        case te.MbarrierArriveOp():
            yield "other mbarrier", _other_mbarrier
            if op.bytes:
                yield "other bytes", lambda one: _set(one, "announced", one.bytes - 16)
                yield "other bytes", lambda one: _set(one, "announced", one.bytes + 16)
        case te.NamedBarrierOp():
            yield "of fewer threads", lambda one: _set(one, "count", one.threads - 32 or 64)
        case _:
            pass


def _is_step(op: Operation) -> bool:
    """Whether an operator touches memory or registers, or synchronises."""
    effects = (te.HasTouches, te.AnchorOp, te.AllReduceOp, *_SYNCHRONISATION)
    return any(isinstance(one, effects) for one in op.walk())


def _steps_before(op: Operation) -> list[Operation]:
    """The operators before one in its block that do something, the next one first."""
    found: list[Operation] = []
    before = op.prev_op
    while before is not None and not isinstance(before, (te.NewOp, te.IterationOp)):
        found += [before] if _is_step(before) else []
        before = before.prev_op
    return found[:_FARTHEST]


def _steps_behind(op: Operation) -> list[Operation]:
    """The operators behind one in its block that do something, the next one first."""
    found: list[Operation] = []
    behind = op.next_op
    while behind is not None:
        found += [behind] if _is_step(behind) else []
        behind = behind.next_op
    return found[:_FARTHEST]


def _insert(op: Operation, beside: Operation, *, behind: bool) -> None:
    block = beside.parent
    assert block is not None
    if behind:
        block.insert_op_after(op, beside)
    else:
        block.insert_op_before(op, beside)


def _move_up(op: Operation, steps: int) -> None:
    target = _steps_before(op)[steps - 1]
    op.detach()
    _insert(op, target, behind=False)


def _move_down(op: Operation, steps: int) -> None:
    target = _steps_behind(op)[steps - 1]
    op.detach()
    _insert(op, target, behind=True)


def _move_out(op: Operation, behind: bool) -> None:
    """Out of the loop or condition around it."""
    outer = op.parent_op()
    assert outer is not None
    op.detach()
    _insert(op, outer, behind=behind)


def _under(op: Operation, variable: SSAValue, condition: AffineExpr, *, equal: bool) -> None:
    body = Block()
    map_ = AffineMapAttr(AffineMap(1, 0, (condition,)))
    _insert(te.IfOp([variable], map_, [equal], body), op, behind=False)
    op.detach()
    body.add_op(op)


def _loop_around(op: Operation) -> te.SeqOp | None:
    """The innermost loop of several iterations around an operator."""
    loops = (one for one in te.enclosing_loops(op) if isinstance(one, te.SeqOp))
    return next((one for one in loops if one.iterations > 1), None)


def _of_iterations(op: Operation, equal: bool) -> None:
    """In the first iteration of the loop around it alone, or in all others."""
    loop = _loop_around(op)
    assert loop is not None
    _under(op, loop.variable, AffineExpr.dimension(0) - (0 if equal else 1), equal=equal)


def _threads_at(op: Operation) -> npt.NDArray[np.bool_]:
    """Which threads come to an operator, as far as conditions on threads alone say."""
    holder = next(one for one in te.enclosing_loops(op) if isinstance(one, te.ThreadsOp))
    every = np.arange(holder.iterations)
    conditions = [
        one
        for one in ancestors(op)
        if isinstance(one, te.IfOp) and variables_of(list(one.indices)) == [holder.variable]
    ]
    return np.broadcast_to(all_hold(conditions, {holder.variable: every}), every.shape)


def _of_threads(op: Operation, count: int) -> None:
    """In some threads alone, none of which is the last of its block."""
    holder = next(one for one in te.enclosing_loops(op) if isinstance(one, te.ThreadsOp))
    below = AffineExpr.dimension(0) * -1 + (count - 1)
    _under(op, holder.variable, below, equal=False)


def _of_scope(op: te.BarrierOp, scope: te.Scope) -> None:
    op.scope = ScopeAttr(scope)


def _set(op: Operation, name: str, value: int) -> None:
    op.properties[name] = IntegerAttr(value, i64)


def _other_phase(op: te.MbarrierWaitOp) -> None:
    map_ = op.parity_map.data
    other = map_.results[0] * -1 + 1
    op.parity_map = AffineMapAttr(AffineMap(map_.num_dims, 0, (other,)))


def _other_mbarrier(op: te.MbarrierOp) -> None:
    map_ = op.map.data
    other = (map_.results[0] + 1) % op.count
    op.map = AffineMapAttr(AffineMap(map_.num_dims, 0, (other,)))


def random_program(seed: int) -> ModuleOp:
    """A random program whose threads exchange elements, with kernels."""
    return lowered(f"random {seed}", {}, Generator(random.Random(seed)).program())


@dataclass(frozen=True)
class Scored:
    """A mutant, what the checker says of it, and its program."""

    text: str
    kind: str
    is_blind: bool
    verdict: str
    module: ModuleOp | None
    """``None`` of those that are judged and do not run."""


def score(name: str, module: ModuleOp, control: int = 0) -> Iterator[Scored]:
    """All mutants of a program; those that are left, and some others, with their modules.

    Every ``control``-th of those that are reported, and of those that are proved equal.
    """
    numbers = {verdict: count() for verdict in VERDICTS}
    for kernel in [op for op in module.walk() if isinstance(op, te.KernelOp)]:
        assert not find_texpr_hazards(kernel), f"the original of {name} is reported"
        for mutant in mutants_of(kernel):
            verdict = mutant.verdict
            runs = verdict == LEFT or (control and next(numbers[verdict]) % control == 0)
            program = mutant.module() if runs else None
            text = f"{name}: {mutant.kind}: {mutant.op.name} {mutant.op.location}"
            yield Scored(text, mutant.kind, isinstance(mutant.op, _NOT_EMULATED), verdict, program)


def what_runs_show(
    original: ModuleOp, mutants: Sequence[ModuleOp], orders: int, folder: Path
) -> list[str]:
    """How each mutant differs from its original in some order of threads; "" where in none.

    Raises ``PropertyError`` where the original itself fails.
    """
    function = next(op for op in original.walk() if isinstance(op, FuncOp))
    inputs = inputs_of(function)
    programs = [TexprProgram(module, inputs) for module in (original, *mutants)]
    executable = build_texpr(programs)
    expected = emulate_texpr(executable, 0, programs[0], folder, orders)
    found: list[str] = []
    for number, program in enumerate(programs[1:], 1):
        try:
            written = emulate_texpr(executable, number, program, folder, orders)
        except PropertyError as error:
            found.append(str(error).strip().splitlines()[-1])
            continue
        wrong = [
            order
            for order, (ours, theirs) in enumerate(zip(written, expected, strict=True))
            if any(x.tobytes() != y.tobytes() for x, y in zip(ours, theirs, strict=True))
        ]
        found.append(f"other results in {len(wrong)} of {orders} orders" if wrong else "")
    return found


def inputs_of(function: FuncOp) -> list[Array]:
    """Random inputs: whole numbers, whose sums are the same in any order."""
    generator = np.random.default_rng(1)
    types = [function.function_type.inputs.data[one] for one in te.input_parameters(function)]
    return [
        generator.integers(0, 5, shape_of(type_)).astype(storage_dtype(element_type_of(type_)))
        for type_ in types
    ]


def _row(name: str, cells: Iterable[object]) -> str:
    return f"| {name} | {' | '.join(map(str, cells))} |"


def main(arguments: Sequence[str]) -> int:
    """Prints the table; 1 where a run shows harm that was not reported."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(PROGRAMS), help="examples")
    parser.add_argument("--random", type=int, default=0, help="how many random programs")
    parser.add_argument("--orders", type=int, default=8, help="in how many orders threads run")
    parser.add_argument(
        "--control", type=int, default=10, help="one of so many that are reported runs"
    )
    options = parser.parse_args(arguments)
    examples = (
        (f"{name} {number}", lowered(name, sizes))
        for name in options.names
        for number, sizes in enumerate(PROGRAMS[name])
    )
    others = ((f"random {seed}", random_program(seed)) for seed in range(options.random))
    tables: dict[str, Counter[tuple[str, str]]] = {"program": Counter(), "mutation": Counter()}
    ran: Counter[tuple[bool, str, bool]] = Counter()
    for name, module in chain(examples, others):
        scored = list(score(name, module, options.control))
        tables["program"].update((name.split()[0], one.verdict) for one in scored)
        tables["mutation"].update((one.kind, one.verdict) for one in scored)
        run = [(one, one.module) for one in scored if one.module is not None]
        if not run:
            continue
        with TemporaryDirectory() as folder:
            programs = [program for _, program in run]
            shown = what_runs_show(module, programs, options.orders, Path(folder))
        for (one, _), harm in zip(run, shown, strict=True):
            ran[one.is_blind, one.verdict, bool(harm)] += 1
            if one.verdict == LEFT or bool(harm) is (one.verdict == EQUAL):
                print(f"{one.text}: {one.verdict}, {harm or 'the same results'}", flush=True)
    for title, table in tables.items():
        print(f"\n{_row(title, VERDICTS)}\n| --- | ---: | ---: | ---: |")
        for row in sorted({row for row, _ in table}):
            print(_row(row, (table[row, verdict] for verdict in VERDICTS)))
        totals = (sum(n for (_, one), n in table.items() if one == each) for each in VERDICTS)
        print(_row("all", totals))
    print(f"In {options.orders} orders of threads other results have, of those that ran,")
    for is_blind, what in ((True, "fences"), (False, "others")):
        for verdict in VERDICTS:
            harmful = ran[is_blind, verdict, True]
            print(f"{what}, {verdict}: {harmful} of {harmful + ran[is_blind, verdict, False]}")
    harmless = (EQUAL, LEFT)
    return int(any(ran[blind, one, True] for blind in (True, False) for one in harmless))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
