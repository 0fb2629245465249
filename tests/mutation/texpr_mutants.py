"""Mutants of the synchronisation of tensor expressions: each is removed, moved or weakened.

``PYTHONPATH=tests python tests/mutation/texpr_mutants.py`` lowers the examples, takes every
barrier, wait, commit, fence, arrival and copy of each kernel, and counts which mutants the hazard
checker reports; ``--random 160`` does so with random programs, too.  What it does not report is
listed, and is harmless: what moved over operators that it orders nothing of, and the last wait of
``gemm_mma``, whose loop has waited for all copies.  No original is reported.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from fuzz.texpr_blocks import Generator
from xdsl.context import Context
from xdsl.dialects.builtin import AffineMapAttr, IntegerAttr, ModuleOp, i64
from xdsl.ir import Operation
from xdsl.ir.affine import AffineMap

from mugraph.dialects import te
from mugraph.dialects.te.mapped import ScopeAttr
from mugraph.passes.texpr.analysis.hazards import find_texpr_hazards
from mugraph.passes.texpr.te_lower import TeLowerPass
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
Change = Callable[[Any], None]


@dataclass(frozen=True)
class Mutant:
    """A kernel with one change: what kind, and to which operator."""

    kind: str
    what: str
    kernel: te.KernelOp

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
            yield Mutant(kind, f"{op.name} {op.location}", copy)
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


def score(
    programs: Iterable[tuple[str, ModuleOp]],
) -> tuple[Counter[tuple[str, bool]], list[str]]:
    """How many mutants of each kind are reported, and which are not."""
    counts: Counter[tuple[str, bool]] = Counter()
    missed: list[str] = []
    for name, module in programs:
        for kernel in [op for op in module.walk() if isinstance(op, te.KernelOp)]:
            assert not find_texpr_hazards(kernel), f"the original of {name} is reported"
            for mutant in mutants_of(kernel):
                counts[mutant.kind, mutant.is_reported] += 1
                if not mutant.is_reported:
                    missed.append(f"{name}: {mutant.kind}: {mutant.what}")
    return counts, missed


def main(arguments: Sequence[str]) -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(PROGRAMS), help="examples")
    parser.add_argument("--random", type=int, default=0, help="how many random programs")
    options = parser.parse_args(arguments)
    examples = ((name, lowered(name, PROGRAMS[name])) for name in options.names)
    others = ((f"random {seed}", random_program(seed)) for seed in range(options.random))
    counts, missed = score(chain(examples, others))
    print("| mutation | reported | not reported |\n| --- | ---: | ---: |")
    for kind in sorted({kind for kind, _ in counts}):
        print(f"| {kind} | {counts[kind, True]} | {counts[kind, False]} |")
    print("\n".join(missed))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
