"""Sizes of tensor expressions, such as of tiles and of how far loads run ahead, by measuring."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from xdsl.dialects.builtin import ModuleOp

from mugraph.errors import UserError
from mugraph.passes.texpr.te_lower import steps_to_kernels
from mugraph.reading import make_context
from mugraph.runtime.cuda import only_function
from mugraph.texpr import read_texpr
from mugraph.texpr.open_sizes import SizesEstimate, combinations, estimate_sizes
from mugraph.tune.children import ChildError, Children
from mugraph.tune.cuda import CudaWorkbench, Generated, generated
from mugraph.tune.kernels import compiler_version
from mugraph.tune.programs import Options, said, say_on_stderr
from mugraph.tune.records import Records
from mugraph.tune.search import Outcome, Search
from mugraph.tune.workbench import MeasureError, Sizes, Workbench


@dataclass(frozen=True)
class SizedProgram:
    """A tensor expression, and the sizes that may be other than its text says."""

    text: str
    name: str
    """Of the file."""
    target: str
    given: tuple[tuple[str, int], ...]
    """Sizes that all have."""
    tried: tuple[tuple[str, tuple[int, ...]], ...]
    """The values of sizes that are tried."""

    def module(self, sizes: Sizes) -> ModuleOp:
        """The program at some sizes; raises what reading it raises."""
        return read_texpr(self.text, self.name, {**dict(self.given), **dict(sizes.values)})

    def generate(self, sizes: Sizes) -> Generated:
        """The text of the program at some sizes; raises what passes raise.

        The function must take and give what it does at the sizes that the text has.
        """
        module, context = self.module(sizes), make_context()
        function = only_function(module)
        before = only_function(self.module(Sizes())).function_type
        if function.function_type != before:
            raise UserError(f"at {sizes} the function takes other buffers: {before} was expected.")
        return generated(module, context, steps_to_kernels(function, self.target), self.target)

    def candidates(self, count: int) -> list[Sizes]:
        """All combinations of the values that are tried; of many as many, drawn."""
        return [Sizes(one) for one in combinations(dict(self.tried), count)]

    def estimate(self, sizes: Sizes) -> SizesEstimate:
        """What it takes by estimate; raises what passes raise."""
        return estimate_sizes(self.text, self.name, dict(self.given), sizes.values, self.target)

    def variants(self, sizes: Sizes) -> list[Sizes]:
        """Those that differ in one size; of the sizes that the text has there are none."""
        return list(self._variants(sizes))

    def _variants(self, sizes: Sizes) -> Iterator[Sizes]:
        for place, (name, value) in enumerate(sizes.values):
            for other in dict(self.tried)[name]:
                if other != value:
                    pairs = list(sizes.values)
                    pairs[place] = (name, other)
                    yield Sizes(tuple(pairs))


OpenBench: TypeAlias = Callable[[SizedProgram, Children], AbstractContextManager[Workbench[Sizes]]]


def bench_of_sizes(program: SizedProgram, builders: Children) -> CudaWorkbench[Sizes]:
    """Where a program is built at many sizes, and measured."""
    return CudaWorkbench(
        str(program.module(Sizes())), partial(SizedProgram.generate, program), builders
    )


def tune_sizes(
    program: SizedProgram,
    options: Options,
    say: Callable[[str], None] = say_on_stderr,
    open_bench: OpenBench = bench_of_sizes,
) -> Outcome[Sizes]:
    """Finds the sizes at which a program is the fastest.

    Raises ``UserError`` where it cannot be measured at the sizes that its text has.
    """
    digest = hashlib.sha256(f"{program.text}{program.given}".encode()).hexdigest()[:32]
    version, name = compiler_version(), program.name
    path, gpu = options.records, options.gpu
    records = Records(path, digest, gpu, name, version, anew=options.again)
    try:
        with Children(options.jobs) as builders, open_bench(program, builders) as bench:
            search = Search(bench, records, lambda text: say(f"{name}: {text}"), options.seconds)
            candidates = by_estimate(program, options.candidates, builders)
            outcome = search.run(candidates, program.variants)
    except MeasureError as error:
        raise UserError(f"{name} is not tuned: {error}") from error
    say(f"{name}: {said(outcome)}")
    return outcome


def by_estimate(program: SizedProgram, count: int, builders: Children) -> list[Sizes]:
    """So many candidates, the fastest by estimate first; those without one come last."""

    def microseconds(sizes: Sizes) -> float:
        try:
            return builders.call(program.estimate, sizes).microseconds
        except ChildError:
            return math.inf

    candidates = program.candidates(count)
    with ThreadPoolExecutor(builders.count) as pool:
        times = dict(zip(candidates, pool.map(microseconds, candidates), strict=True))
    return sorted(candidates, key=times.__getitem__)


def tried_values(texts: Sequence[str]) -> Mapping[str, tuple[int, ...]]:
    """Values of sizes as the command line has them, ``TM=64,128``; ``UserError`` for none."""
    found: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, _, values = text.partition("=")
        numbers = [int(one) for one in values.split(",") if one.isdecimal() and int(one) > 0]
        if name in found:
            raise UserError(f"--try gives {name} twice; give all its values at once.")
        if not name.isidentifier() or len(numbers) != len(values.split(",")):
            raise UserError(f"--try {text} gives no sizes; write --try TM=64,128 for each of them.")
        found[name] = tuple(dict.fromkeys(numbers))
    return found
