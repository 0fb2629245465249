"""Mutants of the synchronisation of tensor expressions: each is removed, moved or weakened.

``PYTHONPATH=tests python tests/mutation/texpr_mutants.py`` lowers the examples, takes every
barrier, wait, commit, fence, arrival and copy of each kernel, and counts which mutants the hazard
checker reports; ``--random 160`` does so with random programs, too.  No original is reported.

What it does not report is listed, and judged by runs: each of these mutants runs on the emulator in
``--orders`` orders of threads, with copies that land as late as they may, and what it writes is
compared with what the original writes in the same order, bit by bit.  So that this could fail,
every ``--control``-th of the mutants that are reported runs as well: the table says of how many
of them the runs see the harm.  The emulator knows no fences, and its products of warp groups end
at once: mutants of what orders those are counted apart.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from fuzz.emulated_texpr import Array, TexprProgram, build_texpr, emulate_texpr
from fuzz.properties import PropertyError
from fuzz.texpr_blocks import Generator
from xdsl.context import Context
from xdsl.dialects.builtin import AffineMapAttr, IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.ir.affine import AffineMap

from mugraph.dialects import te
from mugraph.dialects.te.mapped import ScopeAttr
from mugraph.dialects.tensor_types import element_type_of, shape_of
from mugraph.passes.texpr.analysis.hazards import find_texpr_hazards
from mugraph.passes.texpr.te_lower import TeLowerPass
from mugraph.runtime.interpreter.arithmetic import storage_dtype
from mugraph.texpr import read_texpr

EXAMPLES = Path(__file__).parents[2] / "examples" / "texpr"
PROGRAMS: dict[str, dict[str, int]] = {
    "transpose": {"M": 64, "N": 64, "T": 32},
    "gemm_shared": {"M": 64, "N": 64, "K": 48},
    "gemm_mma": {
        "M": 64,
        "N": 64,
        "K": 192,
        "TM": 32,
        "TN": 64,
        "TK": 32,
        "WM": 16,
        "WN": 32,
        "G": 2,
    },
    "gemm_sm90": {
        "M": 256,
        "N": 128,
        "K": 384,
        "TM": 128,
        "TN": 128,
        "STAGES": 3,
        "BLOCKS": 1,
        "ROWS": 2,
    },
    "softmax": {"M": 2, "N": 500},
    "scan": {"B": 2, "N": 512},
    "layer_norm": {"M": 2, "N": 500},
    "histogram": {"N": 2048, "PART": 1024},
    "radix_pass": {"N": 512, "THREADS": 64, "KEYS": 4},
}
"""The examples whose threads exchange anything."""

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
_NOT_EMULATED = (
    te.MbarrierFenceOp,
    te.ProxyFenceOp,
    te.WarpgroupFenceOp,
    te.WarpgroupCommitOp,
    te.WarpgroupWaitOp,
)
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


def lowered(name: str, sizes: Mapping[str, int], text: str | None = None) -> ModuleOp:
    """An example, or a text, with kernels, by every pass but the check."""
    module = read_texpr(text or (EXAMPLES / f"{name}.te").read_text(), name, sizes)
    TeLowerPass("sm_90a").apply(Context(), module)
    return module


def mutants_of(kernel: te.KernelOp) -> Iterator[Mutant]:
    """Every mutant of a kernel; each stands beside it until the next one is asked for."""
    for place, op in enumerate(kernel.walk()):
        if not isinstance(op, _SYNCHRONISATION):
            continue
        for kind, change in _changes(op):
            copy = kernel.clone()
            block = kernel.parent
            assert block is not None
            block.insert_op_before(copy, kernel)
            target = next(one for number, one in enumerate(copy.walk()) if number == place)
            change(target)
            yield Mutant(kind, op, copy)
            copy.detach()


def _changes(op: Operation) -> Iterator[tuple[str, Change]]:
    """What may be done to an operator."""
    yield "removed", lambda one: one.detach()
    if isinstance(op.prev_op, Operation) and not _is_start(op.prev_op):
        yield "moved up", _move_up
    if isinstance(op.next_op, Operation):
        yield "moved down", _move_down
    match op:
        case te.BarrierOp() if op.threads is te.Scope.BLOCK:
            yield "of the warp", _of_the_warp
        case te.WaitOp() | te.BulkWaitOp() | te.WarpgroupWaitOp():
            yield "weakened", lambda one: _set(one, "in_flight", one.groups + 1)
        case te.MbarrierInitOp():
            yield "weakened", lambda one: _set(one, "arrivals", one.expected - 1 or 2)
        case te.MbarrierWaitOp():
            yield "other phase", _other_phase
            yield "other mbarrier", _other_mbarrier
        case te.MbarrierArriveOp():
            yield "other mbarrier", _other_mbarrier
            if op.bytes:
                yield "weakened", lambda one: _set(one, "announced", one.bytes - 16)
        case te.NamedBarrierOp():
            yield "weakened", lambda one: _set(one, "count", one.threads - 32 or 64)
        case _:
            pass


def _is_start(op: Operation) -> bool:
    """Whether an operator only says which iteration a step is."""
    return isinstance(op, (te.ApplyOp, te.IterationOp, te.NewOp))


def _move_up(op: Operation) -> None:
    before, block = op.prev_op, op.parent
    assert before is not None and block is not None
    op.detach()
    block.insert_op_before(op, before)


def _move_down(op: Operation) -> None:
    behind, block = op.next_op, op.parent
    assert behind is not None and block is not None
    op.detach()
    block.insert_op_after(op, behind)


def _of_the_warp(op: te.BarrierOp) -> None:
    op.scope = ScopeAttr(te.Scope.WARP)


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
    """A mutant, whether it is reported, and its program."""

    text: str
    kind: str
    is_blind: bool
    is_reported: bool
    module: ModuleOp | None
    """``None`` of those reported that do not run."""


def score(name: str, module: ModuleOp, control: int = 0) -> Iterator[Scored]:
    """All mutants of a program, every ``control``-th of those that are reported with its module."""
    numbers = count()
    for kernel in [op for op in module.walk() if isinstance(op, te.KernelOp)]:
        assert not find_texpr_hazards(kernel), f"the original of {name} is reported"
        for mutant in mutants_of(kernel):
            reported = mutant.is_reported
            runs = not reported or (control and next(numbers) % control == 0)
            program = mutant.module() if runs else None
            text = f"{name}: {mutant.kind}: {mutant.op.name} {mutant.op.location}"
            yield Scored(text, mutant.kind, isinstance(mutant.op, _NOT_EMULATED), reported, program)


def what_runs_show(
    original: ModuleOp, mutants: Sequence[ModuleOp], orders: int, folder: Path
) -> list[str]:
    """How each mutant differs from its original in some order of threads; "" where in none.

    Raises ``PropertyError`` where the original itself fails.
    """
    function = next(op for op in original.walk() if isinstance(op, FuncOp))
    inputs = inputs_of(function)
    programs = [TexprProgram(module, inputs) for module in (original, *mutants)]
    executable = build_texpr(programs, folder)
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
    examples = ((name, lowered(name, PROGRAMS[name])) for name in options.names)
    others = ((f"random {seed}", random_program(seed)) for seed in range(options.random))
    counts: Counter[tuple[str, bool]] = Counter()
    ran: Counter[tuple[bool, bool, bool]] = Counter()
    for name, module in chain(examples, others):
        scored = list(score(name, module, options.control))
        counts.update((one.kind, one.is_reported) for one in scored)
        run = [(one, one.module) for one in scored if one.module is not None]
        if not run:
            continue
        with TemporaryDirectory() as folder:
            programs = [program for _, program in run]
            shown = what_runs_show(module, programs, options.orders, Path(folder))
        for (one, _), harm in zip(run, shown, strict=True):
            ran[one.is_blind, one.is_reported, bool(harm)] += 1
            if not one.is_reported or not harm:
                reported = "" if one.is_reported else " not reported,"
                print(f"{one.text}:{reported} {harm or 'the same results'}", flush=True)
    print("| mutation | reported | not reported |\n| --- | ---: | ---: |")
    for kind in sorted({kind for kind, _ in counts}):
        print(f"| {kind} | {counts[kind, True]} | {counts[kind, False]} |")
    print(f"In {options.orders} orders of threads other results have, of those that ran,")
    for is_blind, what in ((True, "fences and products"), (False, "others")):
        for reported, found in ((True, "reported"), (False, "not reported")):
            harmful = ran[is_blind, reported, True]
            print(f"{what}, {found}: {harmful} of {harmful + ran[is_blind, reported, False]}")
    return int(any(ran[is_blind, False, True] for is_blind in (True, False)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
