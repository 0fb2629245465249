"""The standing fuzz command: ``python -m fuzz -n 1000 --seed 1``, with ``tests`` on PYTHONPATH.

Takes random µGraphs through every pass and holds each stage against the first, and takes broken
ones as far as their diagnostic.  What fails is made small and saved as ``.mlir``, with what is
wrong in its first line; a fixed case belongs into ``tests/fuzz/regressions``.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from fuzz.emulated import check_together
from fuzz.properties import Compiled, PropertyError, compile_checked
from fuzz.search import BROKEN, WELL_FORMED, Drawn, Property, draw_case, failure_of, shrink
from mugraph.runtime.compile import CompileError, calls_cublas, compile_cubin
from mugraph.runtime.toolchain import ToolchainError, find_toolchain

EMULATED_TOGETHER = 20
BROKEN_EVERY = 4
"""One in so many cases is a broken µGraph."""


@dataclass
class Fuzzer:
    """One run; ``failures`` are the files that were saved."""

    options: argparse.Namespace
    checked: int = 0
    failures: list[Path] = field(default_factory=list[Path])
    to_emulate: list[tuple[int, Drawn, Compiled]] = field(
        default_factory=list[tuple[int, Drawn, Compiled]]
    )

    def run(self) -> int:
        """All cases; returns how many failed."""
        started = time.monotonic()
        seen: set[str] = set()
        number = 0
        while self.checked < self.options.n:
            property_ = BROKEN if number % BROKEN_EVERY == BROKEN_EVERY - 1 else WELL_FORMED
            drawn = draw_case(property_, self.options.seed, number)
            if drawn is not None and drawn.text not in seen:
                seen.add(drawn.text)
                self.checked += 1
                self.check(number, property_, drawn)
                if self.checked % 50 == 0:
                    self.report(started)
            number += 1
        self.emulate()
        self.report(started)
        return len(self.failures)

    def report(self, started: float) -> None:
        """One line of progress."""
        print(
            f"{self.checked} of {self.options.n} µGraphs, {len(self.failures)} failed, "
            f"{time.monotonic() - started:.0f} s",
            flush=True,
        )

    def check(self, number: int, property_: Property, drawn: Drawn) -> None:
        """One case, through all that was asked for."""
        if property_ is BROKEN:
            failure = failure_of(property_, drawn.text)
            if failure is not None:
                self.save(number, shrink(property_, drawn, failure.stage).text, failure)
            return
        try:
            compiled = compile_checked(drawn.text)
        except PropertyError as failure:
            self.save(number, shrink(property_, drawn, failure.stage).text, failure)
            return
        if self.options.compile and self.checked % self.options.compile == 0:
            self.compile(number, drawn, compiled)
        if self.options.emulate and self.checked % self.options.emulate == 0:
            self.to_emulate.append((number, drawn, compiled))
            if len(self.to_emulate) == EMULATED_TOGETHER:
                self.emulate()

    def compile(self, number: int, drawn: Drawn, compiled: Compiled) -> None:
        """The CUDA text, by nvcc; what calls cuBLAS only where its headers are."""
        toolchain = find_toolchain()
        if calls_cublas(compiled.cuda) and toolchain.cublas is None:
            return
        try:
            compile_cubin(compiled.cuda, "sm_90a", toolchain=toolchain)
        except CompileError as error:
            self.save(number, drawn.text, PropertyError("nvcc", str(error)))

    def emulate(self) -> None:
        """Runs what has been gathered, in one program."""
        gathered, self.to_emulate = self.to_emulate, []
        if not gathered:
            return
        folder = self.options.out / "emulated"
        try:
            failures = check_together([compiled for *_, compiled in gathered], folder)
        except PropertyError as failure:
            # One of them does not compile: find out which.
            failures = [self.emulate_alone(compiled) for *_, compiled in gathered]
            if not any(failures):
                failures[0] = failure
        for (number, drawn, _), failure in zip(gathered, failures, strict=True):
            if failure is not None:
                self.save(number, drawn.text, failure)

    def emulate_alone(self, compiled: Compiled) -> PropertyError | None:
        """What is wrong with one µGraph in a program of its own."""
        try:
            return check_together([compiled], self.options.out / "emulated")[0]
        except PropertyError as failure:
            return failure

    def save(self, number: int, text: str, failure: PropertyError) -> None:
        """Writes a failing case, and says so."""
        self.options.out.mkdir(parents=True, exist_ok=True)
        path = self.options.out / f"seed{self.options.seed}_case{number}.mlir"
        what = "\n".join(f"// {line}" for line in str(failure).splitlines())
        path.write_text(f"{what}\n{text}\n", encoding="utf-8")
        self.failures.append(path)
        print(f"{path}: {str(failure).splitlines()[0]}", flush=True)


def parse_arguments() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("-n", type=int, default=1000, help="how many µGraphs")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other µGraphs")
    parser.add_argument(
        "--compile", type=int, default=0, metavar="N", help="compile every N-th with nvcc"
    )
    parser.add_argument(
        "--emulate", type=int, default=0, metavar="N", help="run every N-th in the CPU emulator"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("build/fuzz"), help="where failing cases are saved"
    )
    return parser.parse_args()


def main() -> int:
    """Runs the command; 1 where something failed."""
    try:
        return 1 if Fuzzer(parse_arguments()).run() else 0
    except ToolchainError as error:
        print(f"fuzz: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
