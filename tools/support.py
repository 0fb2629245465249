"""The support matrix: which operator takes which element type on which target.

Nothing here says so: for every operator and type a µGraph with just that operator is parsed,
verified, taken through ``--transpile`` for each target and printed as CUDA.  What all of them
accept is supported; what one refuses is not, and its diagnostic is the reason.  ``tests/cases``
must have a case that computes right for every pair that is accepted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from io import StringIO
from pathlib import Path

from xdsl.parser import Parser
from xdsl.passes import PassPipeline

from mugraph.codegen.cuda import CudaTarget
from mugraph.dialects.element_types import ELEMENT_TYPES
from mugraph.dialects.elementwise import BINARY_FUNCTIONS, TERNARY_FUNCTIONS, UNARY_FUNCTIONS
from mugraph.dialects.kn import Distribution
from mugraph.dialects.plan import Plan
from mugraph.passes.targets import default_targets
from mugraph.passes.transpile import transpile_pipeline
from mugraph.reading import make_context
from mugraph.tools.diagnostics import describe_error

TYPES = tuple(map(str, ELEMENT_TYPES))
"""The columns."""

NOT_RUN_YET: dict[str, tuple[str, ...]] = {}
"""Operators, with their element types, whose cases have been compiled and run on a CPU only.

A test requires that they are just those which the last run of the cases on a GPU lacks.
"""
EXTENTS = (32, 64)
"""Of every operand, but where an operator asks for others."""


@dataclass(frozen=True)
class Probe:
    """One operator in the generic syntax, which is the same for all."""

    operands: tuple[tuple[int, ...], ...] = (EXTENTS,)
    results: tuple[tuple[int, ...], ...] = (EXTENTS,)
    properties: str = ""
    own_types: dict[int, str] = field(default_factory=dict[int, str])
    """The types of operands, by their number, that have one of their own."""
    own_results: dict[int, str] = field(default_factory=dict[int, str])
    """The same of results."""
    wide_results: dict[str, str] = field(default_factory=dict[str, str])
    """The result's type where it is not the operands'."""
    in_loop: bool = True
    """Whether its results are values of the loop, to be accumulated."""
    state: int | None = None
    """The number of the operand that is a carried state."""

    def operand_types(self, element: str) -> list[str]:
        """The element types of the operands."""
        return [self.own_types.get(number, element) for number in range(len(self.operands))]

    def result_types(self, element: str) -> list[str]:
        """The element types of the results."""
        common = self.wide_results.get(element, element)
        return [self.own_results.get(number, common) for number in range(len(self.results))]


CONSTANTS = {
    "mul_scalar": "scalar = 0.5 : f32",
    "add_scalar": "scalar = 0.5 : f32",
    "fill": "value = 0.5 : f32",
    "clamp": "low = -1.0 : f32, high = 1.0 : f32",
    "bits": "first = 0.0 : f32, count = 4.0 : f32",
}
PRODUCT = Probe(((32, 64), (64, 32)), ((32, 32),), wide_results={"i8": "i32"})
LAST = "dim = 1 : i64"
NARROWED = Probe(results=((32, 1),), properties=LAST)
FOLDED = Probe(results=((32, 8),), properties="dim = 1 : i64")
LISTS = dict.fromkeys(range(3), "i32")
TABLES = dict.fromkeys(range(4), "i32")
CAST = Probe(wide_results={t: "f16" if t == "f32" else "f32" for t in TYPES})


def _elementwise() -> dict[str, Probe]:
    unary = {
        name: Probe(properties=CONSTANTS.get(name, ""))
        for name in UNARY_FUNCTIONS
        if name != "identity"
    }
    binary = {name: Probe((EXTENTS, (32, 1))) for name in BINARY_FUNCTIONS}
    return unary | binary | {name: Probe((EXTENTS,) * 3) for name in TERNARY_FUNCTIONS}


def _accumulator(kind: str, last: int) -> Probe:
    return Probe(results=((32, last),), properties=f"kind = #tb<accumulator {kind}>", in_loop=False)


def _rescaled(kind: str, last: int) -> Probe:
    properties = f"kind = #tb<rescaled {kind}>"
    return Probe((EXTENTS, (32, 1)), ((32, last),), properties, in_loop=False)


def _random(distribution: Distribution) -> Probe:
    properties = f"distribution = #kn<distribution {distribution}>"
    return Probe(((1,), (1,)), properties=properties, own_types={0: "i64", 1: "i64"})


def probes() -> dict[str, Probe]:
    """The probe of each row, by the operator's name; accumulators also by their kind."""
    table: dict[str, Probe] = {}
    for dialect in ("kn", "tb"):
        table |= {f"{dialect}.{name}": probe for name, probe in _elementwise().items()}
        table[f"{dialect}.matmul"] = PRODUCT
        table[f"{dialect}.cast"] = CAST
        table[f"{dialect}.reduction"] = NARROWED
    table |= {
        "kn.mask": Probe(
            properties="condition = affine_set<(i, j) : (i - j >= 0)>, value = -1.0 : f32"
        ),
        "kn.arg_max": Probe(
            results=((32, 1),), properties=LAST, wide_results=dict.fromkeys(TYPES, "i32")
        ),
        "kn.top_k": Probe(results=((32, 8), (32, 8)), properties=LAST, own_results={1: "i32"}),
        "kn.scan": Probe(properties=LAST),
        **{f"kn.random {each}": _random(each) for each in Distribution},
        "kn.mean": NARROWED,
        "kn.variance": NARROWED,
        "kn.log_sum_exp": NARROWED,
        "kn.softmax": Probe(properties=LAST),
        "kn.matmul_add": Probe(((32, 64), (64, 64), EXTENTS)),
        "kn.rotary": Probe((EXTENTS, EXTENTS, (32, 1))),
        "kn.rms_norm": Probe(properties="normalized_shape = array<i64: 64>"),
        "kn.layer_norm": Probe(properties="normalized_shape = array<i64: 64>"),
        "kn.broadcast": Probe(((32, 1),)),
        "kn.reshape": Probe(results=((16, 128),)),
        "kn.transpose": Probe(results=((64, 32),), properties="permutation = array<i64: 1, 0>"),
        "kn.slice": Probe(results=((32, 16),), properties="start = array<i64: 0, 8>"),
        "kn.concat": Probe((EXTENTS, EXTENTS), ((32, 128),), "dim = 1 : i64"),
        "kn.split": Probe(results=((32, 16), (32, 48)), properties="dim = 1 : i64"),
        "kn.chunk": Probe(results=((32, 32), (32, 32)), properties="dim = 1 : i64"),
        "kn.gather": Probe((EXTENTS, (8,)), ((8, 64),), own_types={1: "i32"}),
        "kn.scatter": Probe(
            ((8, 64), EXTENTS, (8,)), properties="dim = 0 : i64", own_types={2: "i32"}
        ),
        "kn.group_tiles": Probe(
            ((8,),), ((23,), (23,), (1024,), (1,)), "size = 64 : i64", own_results=TABLES
        ),
        "kn.sort_groups": Probe(((1024,),), ((1024,), (1024,), (8,)), own_results=LISTS),
        "kn.invert_places": Probe(((1024,),), ((1472,),), own_results={0: "i32"}),
        "kn.copy": Probe(),
        "tb.mask": Probe(
            properties="condition = affine_set<(i, j) : (i - j >= 0)>, value = -1.0 : f32, "
            "extents = array<i64: 32, 64>, imap = array<i64: -1, -1, -1>"
        ),
        "tb.rms_norm": Probe(),
        "tb.reduction_to_dimx_strided": FOLDED,
        "tb.reduction_to_dimx_contiguous": FOLDED,
        "tb.forloop_accum none": _accumulator("none", 64),
        "tb.forloop_accum sum": _accumulator("sum", 1),
        "tb.forloop_accum rms": _accumulator("rms", 1),
        "tb.forloop_accum mean": _accumulator("mean", 1),
        "tb.forloop_accum max": _accumulator("max", 64),
        "tb.forloop_accum_rescale none": _rescaled("none", 64),
        "tb.forloop_accum_rescale sum": _rescaled("sum", 1),
        "tb.carry": Probe((EXTENTS, EXTENTS), in_loop=False, state=1),
        "tb.reduction_max": Probe(results=((32, 1), (32, 1)), properties="dim = 1 : i64"),
        "tb.concat": Probe((EXTENTS, EXTENTS), ((32, 128),), "dim = 1 : i64"),
        "tb.split": Probe(results=((32, 16), (32, 48)), properties="dim = 1 : i64"),
        "tb.concat_then_matmul": Probe(((32, 64), (32, 16), (64, 32), (16, 32)), ((32, 32),)),
        "tb.forloop_accum_sum_to_dimx_strided": Probe(results=((32, 8),), in_loop=False),
        "tb.forloop_accum_sum_to_dimx_contiguous": Probe(results=((32, 8),), in_loop=False),
    }
    return table


def tensor(shape: Sequence[int], element: str) -> str:
    """A DTensor's type."""
    return f"tensor<{'x'.join(map(str, shape))}x{element}>"


def tile(shape: Sequence[int], element: str) -> str:
    """An STensor's type."""
    return f"!tb.stensor<{'x'.join(map(str, shape))}x{element}>"


def probe_text(name: str, probe: Probe, element: str) -> str:
    """The µGraph that holds the operator alone, with the least around it."""
    arguments = ", ".join(
        f"%x{i}: {tensor(shape, own)}"
        for i, (shape, own) in enumerate(
            zip(probe.operands, probe.operand_types(element), strict=True)
        )
    )
    pairs = zip(probe.results, probe.result_types(element), strict=True)
    types = ", ".join(tensor(shape, result) for shape, result in pairs)
    names = ", ".join(f"%y{i}" for i in range(len(probe.results)))
    if name.startswith("kn."):
        body = _operator(name, probe, element, "x", "y", tensor)
    else:
        body = _threadblock(name, probe, element)
    return (
        f"func.func @probe({arguments}) -> ({types}) {{\n{body}\n"
        f"  func.return {names} : {types}\n}}\n"
    )


def _operator(
    name: str,
    probe: Probe,
    element: str,
    source: str,
    target: str,
    type_: Callable[[Sequence[int], str], str],
) -> str:
    operands = ", ".join(f"%{source}{i}" for i in range(len(probe.operands)))
    results = ", ".join(f"%{target}{i}" for i in range(len(probe.results)))
    own_types = zip(probe.operands, probe.operand_types(element), strict=True)
    operand_types = ", ".join(type_(shape, own) for shape, own in own_types)
    own_results = zip(probe.results, probe.result_types(element), strict=True)
    result_types = ", ".join(type_(shape, own) for shape, own in own_results)
    return (
        f'  {results} = "{name.split()[0]}"({operands}) <{{{probe.properties}}}> : '
        f"({operand_types}) -> ({result_types})"
    )


def _threadblock(name: str, probe: Probe, element: str) -> str:
    result, *_ = probe.result_types(element)
    count = len(probe.operands)
    whole = [tensor(shape, element) for shape in probe.operands]
    made = ", ".join(f"%y{i}" for i in range(len(probe.results)))
    used = ", ".join(f"%x{i}" for i in range(count))
    lines = [
        f"  {made} = kn.customized {used} grid [1, 1, 1] block [128, 1, 1] forloop 1 {{",
        f"  ^bb0({', '.join(f'%d{i}: {type_}' for i, type_ in enumerate(whole))}):",
    ]
    lines += [
        f"  %s{i} = tb.carried : {tile(shape, element)}"
        if i == probe.state
        else f"  %s{i} = tb.input %d{i} imap [-1, -1, -1] : {whole[i]} -> {tile(shape, element)}"
        for i, shape in enumerate(probe.operands)
    ]
    lines.append(_operator(name, probe, element, "s", "r", tile))
    for i, shape in enumerate(probe.results):
        value = f"%r{i}"
        if probe.in_loop:
            value = f"%a{i}"
            lines.append(
                f"  {value} = tb.forloop_accum none %r{i} : {tile(shape, result)} -> "
                f"{tile(shape, result)}"
            )
        lines.append(
            f"  tb.output {value} omap [-1, -1, -1] : {tile(shape, result)} -> "
            f"{tensor(shape, result)}"
        )
    results = ", ".join(tensor(shape, result) for shape in probe.results)
    return "\n".join([*lines, f"  }} : ({', '.join(whole)}) -> ({results})"])


@dataclass(frozen=True)
class Answer:
    """What became of a probe: the targets that take it, and why the first other does not."""

    targets: tuple[str, ...]
    reason: str = ""


def ask(text: str) -> Answer:
    """Takes a µGraph through parser, verifier, passes and printer for every target."""
    try:
        module = Parser(make_context(), text).parse_module()
        module.verify()
    except Exception as error:
        return Answer((), describe_error(error))
    accepted: list[str] = []
    reason = ""
    for arch in default_targets():
        steps = transpile_pipeline(arch, Plan(tiles="written"), check_hazards=False)
        try:
            own = module.clone()
            PassPipeline(steps).apply(make_context(), own)
            own.verify()
            CudaTarget().emit(make_context(), own, StringIO())
            accepted.append(arch)
        except Exception as error:
            reason = reason or describe_error(error)
    return Answer(tuple(accepted), reason)


@cache
def answers(name: str) -> dict[str, Answer]:
    """The answer of a row for each type."""
    probe = probes()[name]
    return {element: ask(probe_text(name, probe, element)) for element in TYPES}


def page() -> str:
    """The page ``docs/support.md``."""
    return "\n".join([*head(), *map(line, probes())]) + "\n"


def head() -> list[str]:
    """The lines of the page before the rows."""
    return [
        "# What is supported",
        "",
        "Generated by `python -m mugraph.tools.support docs`: each operator with each element type",
        "went through parser, verifier, `--transpile` and the printer, for each of "
        f"{', '.join(default_targets())}.",
        "**yes**: all targets take it; else the targets that do; empty: it is refused, with a",
        "diagnostic. `tests/cases` has a case for every pair that is not empty, and fails where it",
        "has none; which of them ran on which GPU is in `benchmarks/results/`.",
        *_not_run_yet(),
        "",
        "Operands and results have the column's type, but for products of i8, whose results are",
        "i32, and casts, which are to f32 (of f32: to f16).",
        "",
        f"| operator | {' | '.join(TYPES)} |",
        f"|---{'|---' * len(TYPES)}|",
    ]


def line(name: str) -> str:
    """The page's line of a row."""
    row = answers(name)
    return f"| `{name}` | {' | '.join(_cell(row[element]) for element in TYPES)} |"


def _not_run_yet() -> list[str]:
    if not NOT_RUN_YET:
        return []
    names = ", ".join(f"`{name}` ({', '.join(NOT_RUN_YET[name])})" for name in sorted(NOT_RUN_YET))
    return ["", f"Compiled and run on a CPU, but not on a GPU yet: {names}."]


def _cell(answer: Answer) -> str:
    return "yes" if len(answer.targets) == len(default_targets()) else ", ".join(answer.targets)


def main() -> int:
    """Writes the page below the folder given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("docs"), help="(docs)")
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "support.md").write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
