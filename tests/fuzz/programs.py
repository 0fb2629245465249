"""Random programs of ``kn`` operators, fused: ``python -m fuzz.programs -n 5000 --seed 1``.

Each program is of up to 12 operators in the builder's sense.  What ``--fuse-kernels`` makes of it
must verify, have no more launches than the program, be proved to be the same function, give the
same numbers in float64, and have a rounding budget that is not much larger.  By estimate it takes
no longer than the program.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

import mugraph.build as mi
from mugraph.dialects import tb
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.mugraph.fuse_threadblock import fuse_threadblock
from mugraph.passes.program.decompose_program import decompose_program
from mugraph.passes.program.fuse_kernels import fuse_program, fusion, prepare_program
from mugraph.passes.program.fuse_kernels.choice import find_kernels
from mugraph.passes.program.fuse_kernels.copied import is_free
from mugraph.passes.program.fuse_kernels.limits import Limits
from mugraph.passes.targets import Target, target_named
from mugraph.passes.transpile import TranspilePass
from mugraph.reading import make_context
from mugraph.runtime.cuda import only_function
from mugraph.runtime.equivalence.prove import prove
from mugraph.runtime.interpreter import run_function
from mugraph.runtime.interpreter.run import bound_rounding

Array = npt.NDArray[Any]

MOST_OPERATORS = 12
MUCH_WORSE = 2.0
"""Times the rounding of a program that fusion may add at most."""
EXTENTS = (1, 2, 3, 5, 8, 16, 24, 32, 33, 64, 96, 128)
UNARY = (mi.exp, mi.silu, mi.gelu, mi.relu, mi.tanh, mi.square, mi.sigmoid, mi.abs)


@dataclass
class Program:
    """A program that is being drawn."""

    random: np.random.Generator
    graph: mi.KernelGraph = field(default_factory=lambda: mi.new_kernel_graph("program"))
    values: list[mi.DTensor] = field(default_factory=list[mi.DTensor])

    def one(self) -> mi.DTensor:
        """One of the values, late ones more often."""
        last = len(self.values)
        return self.values[max(last - 1 - int(self.random.geometric(0.45) - 1), 0)]

    def input(self, *shape: int) -> mi.DTensor:
        """A new argument."""
        self.values.insert(0, self.graph.new_input(shape))
        return self.values[0]

    def extent(self) -> int:
        """Of a new dimension."""
        return int(self.random.choice(EXTENTS))

    def dim(self, x: mi.DTensor) -> int:
        """One of a tensor's dimensions, the last one more often."""
        rank = len(x.shape)
        return rank - 1 if self.random.random() < 0.6 else int(self.random.integers(rank))

    def other(self, x: mi.DTensor) -> mi.DTensor:
        """A tensor that goes with another one, element by element."""
        fitting = [
            y
            for y in self.values
            if len(y.shape) == len(x.shape)
            and all(a in (b, 1) or b == 1 for a, b in zip(x.shape, y.shape, strict=True))
        ]
        if fitting and self.random.random() < 0.7:
            return fitting[int(self.random.integers(len(fitting)))]
        return self.input(*(1 if self.random.random() < 0.4 else extent for extent in x.shape))

    def factor(self, x: mi.DTensor) -> mi.DTensor:
        """A right factor of a matrix product."""
        *batch, _, depth = x.shape
        fitting = [y for y in self.values if y.shape[:-1] == (*batch, depth)]
        if fitting and self.random.random() < 0.5:
            return fitting[int(self.random.integers(len(fitting)))]
        return self.input(*batch, depth, self.extent())


def _unary(program: Program) -> mi.DTensor:
    function = UNARY[int(program.random.integers(len(UNARY)))]
    return function(program.one())


def _root(program: Program) -> mi.DTensor:
    return mi.sqrt(mi.abs(program.one()) + 1.0)


def _logarithm(program: Program) -> mi.DTensor:
    return mi.log(mi.abs(program.one()) + 0.5)


def _scaled(program: Program) -> mi.DTensor:
    return program.one() * float(program.random.choice([0.125, -1.0, 3.0]))


def _binary(program: Program) -> mi.DTensor:
    x = program.one()
    y = program.other(x)
    kind = int(program.random.integers(5))
    return (x + y, x - y, x * y, x / (mi.abs(y) + 1.0), mi.max(x, y))[kind]


def _product(program: Program) -> mi.DTensor:
    x = program.one()
    return program.graph.matmul(x, program.factor(x)) * (1.0 / 16)


def _reduction(program: Program) -> mi.DTensor:
    x = program.one()
    dim = program.dim(x)
    kind = int(program.random.integers(4))
    if kind == 0:
        return mi.reduction(x, dim) * (1.0 / 16)
    return (mi.reduction_max, mi.mean, mi.log_sum_exp)[kind - 1](x, dim)


def _norm(program: Program) -> mi.DTensor:
    x = program.one()
    kind = int(program.random.integers(3))
    if kind == 0:
        return mi.softmax(x, program.dim(x))
    weight = program.graph.new_input((x.shape[-1],))
    return mi.rms_norm(x, weight, 1e-3) if kind == 1 else mi.layer_norm(x, weight, eps=1e-3)


def _view(program: Program) -> mi.DTensor:
    x = program.one()
    if program.random.random() < 0.7:
        return mi.transpose(x)
    start = (0,) * len(x.shape)
    return x.graph.slice(x, start, [max(extent // 2, 1) for extent in x.shape])


def _turned(program: Program) -> mi.DTensor:
    """The halves of rows the other way round, one of them negated."""
    x = program.one()
    if (extent := x.shape[-1]) % 2:
        return -x
    one, other = (
        x.graph.slice(x, (*[0] * (len(x.shape) - 1), start), (*x.shape[:-1], extent // 2))
        for start in (0, extent // 2)
    )
    turned: mi.DTensor = mi.concat(-other, one, len(x.shape) - 1)
    return x * 0.5 + turned


def _regrouped(program: Program) -> mi.DTensor:
    """Parts of a dimension as one of their own, or two dimensions as one.

    Of powers of two, that all partitions line up with.
    """
    x = program.one()
    *outer, rows, columns = x.shape
    if (rows * columns) & (rows * columns - 1):
        return -x
    kind = int(program.random.integers(3))
    if kind == 0:
        return mi.reshape(x, (*outer, rows * columns, 1))
    parts = min(columns, 4)
    if kind == 1 and not outer:
        return mi.reshape(x, (rows, parts, columns // parts))
    return mi.reshape(x, (*outer, rows * parts, columns // parts))


def _scan(program: Program) -> mi.DTensor:
    """Sums so far, or a recurrence whose decays some dimensions share."""
    x = program.one()
    dim = program.dim(x)
    if program.random.random() < 0.4:
        return mi.scan(x, dim=dim, exclusive=bool(program.random.random() < 0.3)) * (1.0 / 16)
    shared = program.random.random() < 0.7
    extents = [each if dim == own or not shared else 1 for own, each in enumerate(x.shape)]
    function = mi.sigmoid if program.random.random() < 0.7 else mi.tanh
    return mi.scan(x, function(program.input(*extents)), dim=dim) * 0.25


STEPS: tuple[tuple[Callable[[Program], mi.DTensor], float], ...] = (
    (_unary, 2),
    (_root, 0.5),
    (_logarithm, 0.4),
    (_scaled, 0.7),
    (_binary, 3),
    (_product, 3),
    (_reduction, 1.5),
    (_norm, 2),
    (_view, 1),
    (_turned, 0.5),
    (_regrouped, 0.7),
    (_scan, 0.7),
)


def draw_program(seed: int, number: int) -> ModuleOp:
    """A random program."""
    random = np.random.default_rng([seed, number])
    program = Program(random)
    batch = [2] if random.random() < 0.3 else []
    for _ in range(int(random.integers(1, 4))):
        program.input(*batch, program.extent(), program.extent())
    steps, weights = zip(*STEPS, strict=True)
    chances = np.array(weights) / sum(weights)
    stored: list[mi.DTensor] = []
    for _ in range(int(random.integers(2, MOST_OPERATORS + 1))):
        result = steps[int(random.choice(len(steps), p=chances))](program)
        program.values.append(result)
        if random.random() < 0.08:
            stored.append(result)
    last = program.values[-1]
    for result in dict.fromkeys([*stored, last]):
        program.graph.mark_output(result)
    return program.graph.module()


def launches_of(function: FuncOp) -> int:
    """How many kernels a function is."""
    return sum(bool(op.results) and not is_free(op) for op in function.body.block.ops)


@contextmanager
def groups_by_chance(seed: int) -> Generator[None]:
    """Lets ``--fuse-kernels`` choose by chance, so that kernels are made which take too long."""
    random = np.random.default_rng(seed)
    real = fusion.time_of_kernel

    def time_of_kernel(graph: CustomizedOp, target: Target, most: float = math.inf) -> float:
        del most  # a chance
        fits = math.isfinite(real(graph, target))
        return 1 + random.random() if fits else math.inf

    def time_as_written(op: Operation, target: Target) -> float:
        return 0.0 if is_free(op) else 1 + random.random()

    def no_time(*_: object) -> float:
        return 0.0

    with (
        patch.multiple(
            fusion,
            time_of_kernel=time_of_kernel,
            time_as_written=time_as_written,
            least_time=no_time,
            in_a_program=lambda time, target: time,  # pyright: ignore[reportUnknownLambdaType]
        ),
        patch.object(Limits, "least_time", no_time),
    ):
        yield


class ProgramError(AssertionError):
    """What is wrong with a fused program."""


def check_program(module: ModuleOp, *, scheduled: bool = False, target: str = "h200") -> str:
    """Fuses a program and checks what comes out; how it was shown to be the same.

    With ``scheduled`` also what its kernels compute, at the level of bytes and addresses.

    Raises :class:`ProgramError`.
    """
    fused = module.clone()
    function, written = only_function(fused), only_function(module)
    plain_module = module.clone()
    plain = only_function(plain_module)
    decompose_program(plain, kernels=True, views=False)
    fuse_program(function, target_named(target))
    fused.verify()
    if launches_of(function) > launches_of(plain):
        raise ProgramError(f"{launches_of(function)} launches, {launches_of(plain)} as written")
    random = np.random.default_rng(7)
    arrays = [
        random.standard_normal(shape_of(argument.type)).astype(np.float16)
        for argument in written.args
    ]
    expected = run_function(module, None, arrays, "float64")
    found = run_function(fused, None, arrays, "float64")
    for number, (one, other) in enumerate(zip(expected, found, strict=True)):
        if not np.allclose(one, other, rtol=1e-6, atol=1e-6, equal_nan=True):
            worst = float(np.nanmax(np.abs(one - other)))
            raise ProgramError(f"result {number} differs by {worst:.2g}")
    _check_rounding(plain_module, fused, arrays, expected)
    if scheduled:
        _check_schedule(fused, arrays, found)
    proof = prove(written, function)
    return "proved" if proof.holds else proof.reason


def check_time(module: ModuleOp, target: Target) -> None:
    """Compares what kernels are estimated to take with the program, each operator alone.

    Raises :class:`ProgramError`.
    """
    copies = [only_function(module.clone()) for _ in range(2)]
    prepare_program(copies[0])
    alone = fusion.Fusion(copies[0], target)
    written = sum(alone.cost(1 << number) for number in range(len(alone.operators)))
    found = find_kernels(copies[1], target).time
    if found > written * (1 + 1e-9):
        raise ProgramError(f"kernels take {found:.0f} ns by estimate, as written {written:.0f}")


def _check_rounding(
    module: ModuleOp, fused: ModuleOp, arrays: list[Array], exact: list[Array]
) -> None:
    """Compares how far each result may be from what is exact, in storage types.

    Kernels keep the sums of a product in one accumulator, so its parts are not rounded.  A budget
    above the largest element says nothing, and is not compared.  Errors of a running maximum cancel
    over the iterations, which budgets do not know: what such a kernel computes is compared with the
    program's budget instead.
    """
    kernels = fused.clone()
    for op in list(kernels.walk()):
        if isinstance(op, CustomizedOp):
            fuse_threadblock(op)
    bounds = bound_rounding(module, None, arrays), bound_rounding(kernels, None, arrays)
    stored: list[Array] | None = None
    for number, (written, found, values) in enumerate(zip(*bounds, exact, strict=True)):
        known = np.isfinite(written) & (written <= np.abs(values).max())
        if not known.any() or found[known].max() <= MUCH_WORSE * written[known].max():
            continue
        if any(isinstance(op, tb.ReductionMaxOp) for op in fused.walk()):
            stored = stored or run_function(fused, None, arrays)
            errors = np.abs(stored[number].astype(np.float64) - values)
            if (errors <= written)[known].all():
                continue
        most, before = found[known].max(), written[known].max()
        raise ProgramError(f"result {number} may be off by {most:.2g}, as written {before:.2g}")


def _check_schedule(fused: ModuleOp, arrays: list[Array], exact: list[Array]) -> None:
    """Schedules a program, runs it, and compares with what is exact."""
    bounds = bound_rounding(fused, None, arrays)
    module = fused.clone()
    TranspilePass().apply(make_context(), module)
    found = run_function(module, None, arrays, level="address")
    for number, (one, other, bound) in enumerate(zip(found, exact, bounds, strict=True)):
        is_near = np.abs(one.astype(np.float64) - other) <= bound
        if not (is_near | ~np.isfinite(bound)).all():
            raise ProgramError(f"result {number} of the schedule is not within its budget")


def main() -> int:
    """Checks random programs; how many failed."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.programs", description=__doc__)
    parser.add_argument("-n", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scheduled", action="store_true", help="run the kernels' schedules")
    parser.add_argument("--by-chance", action="store_true", help="fuse what no estimate chooses")
    parser.add_argument("--first", type=int, default=0, help="number of the first program")
    options = parser.parse_args()
    shown: Counter[str] = Counter()
    failed, start = 0, time.monotonic()
    for number in range(options.first, options.first + options.n):
        module = draw_program(options.seed, number)
        try:
            with groups_by_chance(number) if options.by_chance else nullcontext():
                shown[check_program(module, scheduled=options.scheduled)] += 1
            if not options.by_chance:
                check_time(module, target_named("h200"))
        except Exception as error:
            failed += 1
            print(f"program {number}: {type(error).__name__}: {error}", flush=True)
    print(f"{options.n} programs, {failed} failed, {time.monotonic() - start:.0f} s")
    for reason, count in shown.most_common():
        print(f"{count:6} {reason}")
    return failed


if __name__ == "__main__":
    sys.exit(min(main(), 1))
