"""Random programs whose extents stand in device memory: ``python -m fuzz.held -n 2000 --seed 1``.

Programs have extents that memory holds, perhaps one that a call says, masks of lengths, and rows of
tables.  Of some lengths a call says what they are at most, and takes kernels for that.  Each is
compiled once and run at five sizes, 0 among them: the program at its size in float64, the schedule
by the interpreter, and with ``--emulate 20`` one program in 20 as CUDA on the CPU.  Operands are
NaN behind the end; results must be untouched there.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from cases.build import compile_emulated
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import PassPipeline

import mugraph.build as mi
from mugraph.build.errors import BuildError
from mugraph.build.named_numbers import stand_in
from mugraph.dialects.linear_forms import LinearForm
from mugraph.passes.compile import compile_pipeline
from mugraph.reading import make_context
from mugraph.runtime.cuda import generate_cuda
from mugraph.runtime.execute import CudaModule
from mugraph.runtime.interpreter import run_function
from mugraph.runtime.interpreter.run import bound_rounding

Array = npt.NDArray[Any]

MOST_OPERATORS = 6
EXTENTS = (1, 3, 8, 16, 33, 64)
LARGEST = (2, 7, 16, 61, 130, 200)
TABLE_ROWS = 11
UNARY = (mi.exp, mi.silu, mi.relu, mi.tanh, mi.abs)
SLACK = 4.0
"""Times the bound of rounding of the program as it is written that a schedule may be off."""
ARCHITECTURES = ("sm_90a", "sm_80")


@dataclass
class HeldProgram:
    """A program that is being drawn; ``shapes`` are of its inputs, with named extents in them."""

    random: np.random.Generator
    bounds: np.random.Generator
    """Draws what calls say of lengths, so that programs are the same with and without it."""
    graph: mi.KernelGraph = field(default_factory=lambda: mi.new_kernel_graph("held"))
    values: list[mi.DTensor] = field(default_factory=list[mi.DTensor])
    shapes: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])
    held: list[mi.Extent] = field(default_factory=list[mi.Extent])
    rows: mi.Extent | None = None
    """The extent that a call says."""
    holders: list[mi.DTensor] = field(default_factory=list[mi.DTensor])
    tables: set[int] = field(default_factory=set[int])
    """The inputs that name rows."""

    def number(self, below: int) -> int:
        return int(self.random.integers(below))

    def one(self) -> mi.DTensor:
        """One of the values, late ones more often."""
        return self.values[max(len(self.values) - 1 - int(self.random.geometric(0.6) - 1), 0)]

    def extent(self) -> int:
        """Of a new dimension: one that memory holds, or any."""
        if self.random.random() < 0.4:
            return self.held[self.number(len(self.held))]
        return int(self.random.choice(EXTENTS))

    def input(self, *shape: int) -> mi.DTensor:
        """A new argument."""
        self.shapes.append(shape)
        return self.graph.new_input(shape)

    def dim(self, x: mi.DTensor) -> int:
        return self.number(len(x.shape))

    def without_bounds(self, x: mi.DTensor) -> mi.DTensor:
        """Sums along dimensions of which a call says a bound, which no result has."""
        bounded = [stand_in(extent) for extent in self.held if extent.named.buckets]
        for dim in range(len(x.shape)):
            if x.stand_ins[dim] in bounded:
                x = mi.reduction(x, dim) * 0.125
        return x

    def named(self, extent: int) -> int:
        """The named extent that stands for a number, or the number."""
        known = (*self.held, *([self.rows] if self.rows is not None else []))
        return next((each for each in known if each.stand_in == stand_in(extent)), extent)


def _unary(program: HeldProgram) -> mi.DTensor:
    return UNARY[program.number(len(UNARY))](program.one())


def _binary(program: HeldProgram) -> mi.DTensor:
    x = program.one()
    fitting = [y for y in program.values if y.stand_ins == x.stand_ins]
    y = fitting[program.number(len(fitting))]
    if program.random.random() < 0.4:
        y = program.input(*map(program.named, x.shape))
    return (x + y, x * y, x - y)[program.number(3)]


def _product(program: HeldProgram) -> mi.DTensor:
    x = program.one()
    *batch, _, depth = x.shape
    factor = program.input(*map(program.named, (*batch, depth)), program.extent())
    return program.graph.matmul(x, factor) * 0.125


def _transposed(program: HeldProgram) -> mi.DTensor:
    x = program.one()
    rank = len(x.shape)
    return program.graph.transpose(x, [*range(rank - 2), rank - 1, rank - 2])


def _softmax(program: HeldProgram) -> mi.DTensor:
    x = program.one()
    return program.graph.softmax(x, program.dim(x))


def _reduction(program: HeldProgram) -> mi.DTensor:
    x = program.one()
    dim = program.dim(x)
    if program.random.random() < 0.5:
        return mi.reduction(x, dim) * 0.125
    return mi.reduction_max(x, dim)


def _mask(program: HeldProgram) -> mi.DTensor:
    x = program.one()
    dim, number = program.dim(x), program.number(len(program.held))
    offset, sign = program.number(5) - 2, int(program.random.choice([1, -1]))

    def condition(*at: LinearForm) -> LinearForm:
        return (at[-1] - at[dim] + offset) * sign

    lengths = [(program.holders[number], program.held[number].named.largest)]
    constant = float(program.random.choice([0.0, 1.0, -1.0]))
    return program.graph.mask(x, condition, constant, lengths=lengths)


def _rows(program: HeldProgram) -> mi.DTensor:
    """Rows of a table, which numbers name."""
    count, width = int(program.random.choice(EXTENTS)), int(program.random.choice(EXTENTS))
    table = program.input(TABLE_ROWS, width)
    program.shapes.append((count,))
    program.tables.add(len(program.shapes) - 1)
    return mi.gather(table, program.graph.new_input((count,), dtype=mi.int32))


OPERATORS: tuple[tuple[Callable[[HeldProgram], mi.DTensor], float], ...] = (
    (_unary, 2),
    (_binary, 2),
    (_product, 3),
    (_transposed, 1),
    (_softmax, 1.5),
    (_reduction, 1.5),
    (_mask, 1.5),
    (_rows, 0.5),
)


def draw_held(seed: int, number: int) -> HeldProgram | None:
    """A program; ``None`` where the builder refuses what was drawn."""
    program = HeldProgram(*(np.random.default_rng([seed, number, *more]) for more in ([], [1])))
    for index in range(1 + (program.random.random() < 0.3)):
        program.shapes.append((1,))
        holder = program.graph.new_input((1,), dtype=mi.int32, name=f"length{index}")
        program.holders.append(holder)
        largest = int(program.random.choice(LARGEST))
        ends = [end for end in LARGEST if end < largest and program.bounds.random() < 0.2]
        extent = mi.Extent(f"held{index}", largest=largest, held=holder, buckets=ends[:1])
        program.held.append(extent)
    first = [program.extent(), program.held[0]][:: int(program.random.choice([1, -1]))]
    if program.random.random() < 0.2:
        program.rows = mi.Extent("rows", largest=40)
        first[0] = program.rows
    program.values.append(program.input(*first))
    weights = np.array([weight for _, weight in OPERATORS])
    try:
        for _ in range(1 + program.number(MOST_OPERATORS)):
            chosen = program.random.choice(len(OPERATORS), p=weights / weights.sum())
            program.values.append(OPERATORS[int(chosen)][0](program))
        results = program.values[-1:]
        others = program.values[1:-1]
        if others and program.number(3) == 0:
            results.append(others[program.number(len(others))])
        for result in results:
            program.graph.mark_output(program.without_bounds(result))
        program.graph.module()
    except BuildError:
        return None
    return program


@dataclass(frozen=True)
class HeldCall:
    """The arguments of a call, and the lengths and the rows that it has."""

    inputs: list[Array]
    lengths: tuple[int, ...]


def call_at(program: HeldProgram, share: float) -> HeldCall:
    """A call whose lengths are a share of the largest; with what lies behind NaN."""
    random = program.random
    lengths = [round(share * extent.named.largest) for extent in program.held]
    if len(lengths) > 1 and share:
        lengths[1] = int(random.integers(1, program.held[1].named.largest + 1))
    sizes = {stand_in(extent): n for extent, n in zip(program.held, lengths, strict=True)}
    rooms = {
        stand_in(extent): int(program.bounds.integers(size, extent.named.largest + 1))
        if extent.named.buckets
        else extent.named.largest
        for extent, size in zip(program.held, lengths, strict=True)
    }
    rows = 1 + program.number(40)
    inputs: list[Array] = []
    for index, shape in enumerate(program.shapes):
        if index < len(lengths):
            inputs.append(np.array([lengths[index]], np.int32))
            continue
        if index in program.tables:
            inputs.append(random.integers(0, TABLE_ROWS, shape).astype(np.int32))
            continue
        whole = [
            rows if extent is program.rows else rooms.get(stand_in(extent), extent)
            for extent in shape
        ]
        values = np.full(whole, np.nan, np.float16)
        counts = tuple(slice(sizes.get(stand_in(extent))) for extent in shape)
        values[counts] = random.standard_normal(values[counts].shape) / 2
        inputs.append(values)
    return HeldCall(inputs, tuple(lengths))


SHARES = (0.0, 0.01, 0.4, 0.97, 1.0)


def scheduled(source: ModuleOp, arch: str) -> ModuleOp:
    """A program with its kernels."""
    module, context = source.clone(), make_context()
    PassPipeline(compile_pipeline(arch)).apply(context, module)
    module.verify()
    return module


def difference(found: Array, wanted: Array, bound: Array) -> str | None:
    """What is wrong with a result; ``None`` where nothing is."""
    part = found[tuple(map(slice, wanted.shape))].astype(np.float64)
    with np.errstate(all="ignore"):
        wrong = np.abs(part - wanted) > SLACK * bound + 1e-3
    wrong &= ~(np.isnan(part) & np.isnan(wanted)) & (part != wanted)
    # Beyond what 16 bits hold either may be infinite.
    wrong &= ~(np.abs(wanted) > float(np.finfo(np.float16).max) / 2)
    wrong |= np.isnan(part) & np.isfinite(wanted) & (np.abs(wanted) < 1e4)
    if not wrong.any():
        return None
    at = tuple(int(index[0]) for index in np.nonzero(wrong))
    return f"element {at} is {part[at]}, expected {wanted[at]}"


def check_held(program: HeldProgram, arch: str = "sm_90a", *, emulate: bool = False) -> str | None:
    """What is wrong with a program at one of five sizes; ``None`` where nothing is."""
    source = program.graph.module()
    module = scheduled(source, arch)
    kernels: CudaModule | None = None
    if emulate:
        made = generate_cuda(module.clone(), make_context(), arch)
        kernels = CudaModule(compile_emulated(made.source), made.signature)
    for share in SHARES:
        call = call_at(program, share)
        wanted = run_function(source, None, call.inputs, "float64")
        bounds = bound_rounding(source, None, call.inputs)
        found = {"schedule": run_function(module, None, call.inputs)}
        if kernels is not None:
            found["CUDA"] = kernels.run(call.inputs)
        for level, results in found.items():
            for index, triple in enumerate(zip(results, wanted, bounds, strict=True)):
                fault = difference(*triple)
                if fault is None and level == "CUDA":
                    fault = touched(triple[0], triple[1].shape)
                if fault is not None:
                    return f"{level} at lengths {call.lengths}: result {index}: {fault}"
    return None


def touched(found: Array, shape: tuple[int, ...]) -> str | None:
    """Whether something was written behind the end of a result."""
    behind = np.ones(found.shape, np.bool_)
    behind[tuple(map(slice, shape))] = False
    poison = np.frombuffer(found.tobytes(), np.uint8).reshape(*found.shape, -1)[behind]
    return None if (poison == 0xFF).all() else "what lies behind its end was written"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--emulate", type=int, default=0)
    options = parser.parse_args()
    outcomes, started = Counter[str](), time.process_time()
    for number in range(options.first, options.first + options.n):
        program = draw_held(options.seed, number)
        if program is None:
            outcomes["refused"] += 1
            continue
        emulate = bool(options.emulate) and number % options.emulate == 0
        try:
            fault = check_held(program, ARCHITECTURES[number % 2], emulate=emulate)
        except Exception as error:
            fault = f"{type(error).__name__}: {error}"
        outcomes["right" if fault is None else "wrong"] += 1
        outcomes["emulated"] += emulate
        if fault is not None:
            print(f"{number}: {fault[:500]}\n{program.graph.module()}", flush=True)
    print(dict(outcomes), f"{time.process_time() - started:.0f} s", flush=True)
    return int(outcomes["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
