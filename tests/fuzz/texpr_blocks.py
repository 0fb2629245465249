"""Random programs of a block whose threads exchange elements: are barriers enough, and none spare?

``PYTHONPATH=tests python -m fuzz.texpr_blocks -n 400`` lowers programs of several parallel loops
over buffers of a block, within sequential loops and conditions.  The hazard checker, which lists
what every thread touches and knows nothing of how barriers were chosen, must find no hazard, and
one as soon as any single barrier is left out; and the program must compute the same as before.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from dataclasses import dataclass, field
from typing import cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects.func import FuncOp

from mugraph.dialects.te import BarrierOp, BufferType, KernelOp, input_parameters
from mugraph.passes.texpr.analysis.hazards import find_texpr_hazards, unneeded_texpr_barriers
from mugraph.passes.texpr.te_lower import TeLowerPass
from mugraph.runtime.interpreter.arithmetic import Precision
from mugraph.runtime.interpreter.texpr import run_texpr
from mugraph.texpr import read_texpr

SIZES = (32, 64, 96, 128, 256)


@dataclass
class Generator:
    """Makes a program without races: each loop writes one buffer, at an index of each iteration."""

    random: random.Random
    size: int = 0
    lines: list[str] = field(default_factory=list[str])
    names: int = 0

    def program(self) -> str:
        """The text of a function."""
        self.size = self.random.choice(SIZES)
        n = self.size
        self.lines = [f"fn f(x: f32[2, {n}]): f32[2, {n}] {{", "  par 2 b #grid {"]
        buffers = [self.buffer(2) for _ in range(self.random.choice((1, 2, 2, 3)))]
        for _ in range(self.random.choice((1, 1, 2))):
            if self.random.random() < 0.6:
                self.loop(buffers)
            else:
                self.phase(buffers, 2, None)
        self.lines.append(f"    par {n} i #block {{ result[b, i] = {self.sum_of(buffers, n)} }}")
        return "\n".join([*self.lines, "  }", "}"]) + "\n"

    def buffer(self, depth: int) -> str:
        """A buffer with contents."""
        name = f"s{self.names}"
        self.names += 1
        space = self.random.choice((" #shared", " #shared", ""))
        pad = "  " * depth
        self.lines.append(f"{pad}new {name}: f32[{self.size}]{space}")
        place = self.permuted("i", self.size)
        self.lines.append(
            f"{pad}par {self.size} i #block {{ {name}[{place}] = x[b, i] + {self.names}.0 }}"
        )
        return name

    def loop(self, buffers: list[str]) -> None:
        """A sequential loop of phases, with a buffer of its own perhaps."""
        self.lines.append(f"    seq {self.random.choice((2, 3, 4))} r {{")
        inside = list(buffers)
        if self.random.random() < 0.3:
            inside.append(self.buffer(3))
        for _ in range(self.random.choice((1, 2, 2, 3))):
            if self.random.random() < 0.2:
                self.lines.append(
                    f"      if {self.random.choice(('r > 0', 'r == 1', 'b == 0'))} {{"
                )
                self.phase(inside, 4, "r")
                self.lines.append("      }")
            else:
                self.phase(inside, 3, "r")
        self.lines.append("    }")

    def phase(self, buffers: list[str], depth: int, serial: str | None) -> None:
        """A parallel loop, or statements of one thread."""
        pad = "  " * depth
        target = self.random.choice(buffers)
        others = [one for one in buffers if one != target]
        n = self.size
        shape = self.random.random()
        if shape < 0.12:
            one, other = self.random.randrange(n), self.random.randrange(n)
            self.lines.append(f"{pad}{target}[{one}] = {self.random.choice(buffers)}[{other}]")
            return
        if shape < 0.22:
            name = f"t{self.names}"
            self.names += 1
            source = self.random.choice(buffers)
            self.lines += [
                f"{pad}new {name}: f32",
                f"{pad}{name} = 0.0",
                f"{pad}par {n} i #block {{ red {name} += {source}[i] }}",
                f"{pad}par {n} i #block {{ {target}[i] = {target}[i] + 0.25 * {name} }}",
            ]
            return
        if shape < 0.4:
            rows = self.random.choice([d for d in (2, 4, 8, 16) if n % d == 0])
            index = self.random.choice((f"i * {n // rows} + j", f"j * {rows} + i"))
            value = f"{self.sum_of(others, n, index, serial)}"
            self.lines.append(
                f"{pad}par {rows} i #block {{ par {n // rows} j #block {{ "
                f"{target}[{index}] = {value} }} }}"
            )
            return
        place = self.permuted("i", n)
        own = f" + {target}[{place}]" if self.random.random() < 0.3 else ""
        some = [one for one in others if self.random.random() < 0.7]
        value = f"{self.sum_of(some, n, 'i', serial)}{own}"
        self.lines.append(f"{pad}par {n} i #block {{ {target}[{place}] = {value} }}")

    def permuted(self, index: str, size: int) -> str:
        """An index that takes all values once."""
        part = self.random.choice([d for d in (2, 4, 8, 32) if size % d == 0])
        return self.random.choice(
            (
                index,
                index,
                f"{size - 1} - {index}",
                f"{index} % {part} * {size // part} + {index} / {part}",
                f"{index} / {part} * {part} + {part - 1} - {index} % {part}",
                f"({index} + {self.random.randrange(1, size)}) % {size}",
            )
        )

    def sum_of(
        self, buffers: list[str], size: int, index: str = "i", serial: str | None = None
    ) -> str:
        """Elements at any indices."""
        terms = [f"0.5 * {name}[{self.read(index, size, serial)}]" for name in buffers]
        return " + ".join(["1.0", *terms])

    def read(self, index: str, size: int, serial: str | None) -> str:
        """Any index in range."""
        shape = self.random.random()
        index = f"({index})"
        if shape < 0.15 and serial is not None:
            return f"({index} + {self.random.choice((1, 32))} * {serial}) % {size}"
        if shape < 0.3:
            return f"{index} / {self.random.choice((2, 4, 32))}"
        if shape < 0.4:
            return str(self.random.randrange(size))
        return self.permuted(index, size)


@dataclass(frozen=True)
class Answer:
    """What became of a program; ``wrong`` is empty where all is right."""

    barriers: int
    wrong: str


def check(seed: int) -> Answer:
    """Lowers the program of a seed, and looks at its barriers one by one."""
    text = Generator(random.Random(seed)).program()
    module = read_texpr(text, "random.te", {})
    function = cast(FuncOp, module.body.block.first_op)
    generator = np.random.default_rng(seed)
    given = function.function_type.inputs.data
    types = [cast(BufferType, given[position]) for position in input_parameters(function)]
    inputs = [generator.integers(-4, 5, one.get_shape()).astype(np.float32) for one in types]
    expected = run_texpr(function, inputs, precision=Precision.FLOAT64, seed=None).outputs
    TeLowerPass().apply(Context(), module)
    found = run_texpr(function, inputs, precision=Precision.FLOAT64, seed=seed).outputs
    wrong: list[str] = []
    for one, other in zip(found.values(), expected.values(), strict=True):
        if not np.allclose(one, other, rtol=1e-9, atol=1e-9, equal_nan=True):
            wrong.append("it computes something else")
    barriers = 0
    for kernel in [op for op in module.walk() if isinstance(op, KernelOp)]:
        here = [op for op in kernel.walk() if isinstance(op, BarrierOp)]
        barriers += len(here)
        wrong += [str(finding) for finding in find_texpr_hazards(kernel)]
        wrong += [
            f"barrier {here.index(op) + 1} of {len(here)} is not needed"
            for op in unneeded_texpr_barriers(kernel)
        ]
    return Answer(barriers, "" if not wrong else "\n  ".join([f"seed {seed}:", *wrong, text]))


def main() -> int:
    """Runs programs and counts barriers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=400, help="how many programs")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    started, barriers, failures = time.perf_counter(), 0, 0
    for seed in range(options.seed, options.seed + options.n):
        answer = check(seed)
        barriers += answer.barriers
        if answer.wrong:
            failures += 1
            print(answer.wrong)
    print(
        f"{options.n} programs, {barriers} barriers, {failures} with a hazard or a "
        f"spare barrier; seeds {options.seed} to {options.seed + options.n - 1}, "
        f"{time.perf_counter() - started:.0f} s"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
