"""What must hold of a µGraph at every stage of compilation."""

from __future__ import annotations

import re
import zlib
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from schedules import passes_as_written
from thorough import THOROUGH
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import SSAValue

from fuzz.ranges import Range, argument_ranges, find_ranges, input_range
from mugraph.codegen.cuda import print_module
from mugraph.dialects.functions import mugraphs_of
from mugraph.dialects.kn import count_of_rows
from mugraph.dialects.plan import Plan
from mugraph.dialects.tensor_types import element_type_of, shape_of
from mugraph.passes.compile import compile_pipeline
from mugraph.passes.sequence import VerifiedChanges
from mugraph.passes.targets import default_targets
from mugraph.reading import make_context, parse_text
from mugraph.runtime.interpreter import run_function
from mugraph.runtime.interpreter.arithmetic import convert, storage_dtype
from mugraph.tools.diagnostics import describe_error

Array = npt.NDArray[Any]

REAL_TOLERANCE = 1e-6
"""How far, relative to the largest result, float64 results may move: constants are fp32."""


class PropertyError(AssertionError):
    """A stage of compilation broke a µGraph; ``stage`` is the pass, or what came after it."""

    def __init__(self, stage: str, message: str) -> None:
        super().__init__(f"{stage}: {message}")
        self.stage = stage


@dataclass(frozen=True)
class Case:
    """A µGraph with inputs and what its results must be."""

    inputs: list[Array]
    expected: list[Array]
    """Over the reals, or nearly: in float64."""
    errors: list[float]
    """How far rounding may carry each result."""


def parse(text: str) -> ModuleOp:
    """The verified module in a text."""
    module = parse_text(make_context(), text, "µGraph")
    module.verify()
    return module


def function_of(module: ModuleOp) -> FuncOp:
    """The one function of a µGraph."""
    (function,) = mugraphs_of(module)
    return function


def make_inputs(module: ModuleOp, seed: int) -> list[Array]:
    """Random inputs, in the arguments' ranges and types; numbers of rows name some that exist."""
    random = np.random.default_rng(seed)
    inputs: list[Array] = []
    for argument in function_of(module).body.block.args:
        interval = input_range(argument.name_hint)
        dtype = storage_dtype(element_type_of(argument.type))
        if (rows := count_of_rows(argument)) is not None:
            inputs.append(random.integers(rows, size=shape_of(argument.type), dtype=dtype))
            continue
        values = random.uniform(interval.low, interval.high, shape_of(argument.type))
        inputs.append(convert(values.astype(np.float32), dtype))
    return inputs


def rounding_errors(module: ModuleOp) -> list[float]:
    """How far rounding may carry each result of a µGraph that no pass has changed."""
    block = function_of(module).body.block
    ranges: dict[SSAValue, Range] = dict(argument_ranges(block.args))
    *kernels, last = block.ops
    assert isinstance(last, ReturnOp)
    find_ranges(kernels, ranges)
    return [ranges[operand].error for operand in last.operands]


def make_case(module: ModuleOp, errors: float | None = None) -> Case:
    """Inputs and expected results for a µGraph; the same for the same text.

    ``errors`` is how far rounding may carry each result, derived where it is not given.
    """
    inputs = make_inputs(module, zlib.crc32(str(module).encode()))
    expected = run_function(module, None, inputs, "float64")
    if not all(np.isfinite(result).all() for result in expected):
        raise PropertyError("input", "the µGraph has results that are not finite")
    given = rounding_errors(module) if errors is None else [errors] * len(expected)
    return Case(inputs, expected, given)


def require_close(
    stage: str, results: Sequence[Array], expected: Sequence[Array], tolerances: Sequence[float]
) -> None:
    """Raises ``PropertyError`` where a result is farther off than its tolerance."""
    for index, (result, reference, tolerance) in enumerate(
        zip(results, expected, tolerances, strict=True)
    ):
        if result.shape != reference.shape:
            raise PropertyError(stage, f"result {index} has extents {result.shape}")
        distance = np.abs(result.astype(np.float64) - reference)
        if not (distance <= tolerance).all():
            place = np.unravel_index(np.argmax(np.nan_to_num(distance, nan=np.inf)), result.shape)
            where = [int(coordinate) for coordinate in place]
            raise PropertyError(
                stage,
                f"result {index} is {result[place]} at {where}, expected {reference[place]} within "
                f"{tolerance:.3g}; {int((~(distance <= tolerance)).sum())} of {result.size} "
                "elements are off",
            )


def require_same_text(stage: str, module: ModuleOp) -> ModuleOp:
    """The module as parsed from its own text, which must print as the same text."""
    text = str(module)
    parsed = parse(text)
    require_equal_lines(stage, text, str(parsed))
    return parsed


def require_equal_lines(stage: str, text: str, again: str) -> None:
    """Raises ``PropertyError`` with the first line that is printed differently again."""
    if again != text:
        lines = zip(text.splitlines(), again.splitlines(), strict=False)
        differing = next((pair for pair in lines if pair[0] != pair[1]), ("", ""))
        raise PropertyError(stage, f"{differing[0]!r} parses and prints as {differing[1]!r}")


def require_parsed_back(stage: str, module: ModuleOp, text: str) -> ModuleOp:
    """What a verified module's text parses as, which must print as that text again.

    The same module does.  It is compared first, which takes less time than to print and verify:
    one that numbers the operands of a map in another way is not the same, and has the same text.
    """
    parsed = parse_text(make_context(), text, "µGraph")
    same = module.is_structurally_equivalent(parsed)
    if not same or typed_names(module) != typed_names(parsed):
        require_equal_lines(stage, text, str(parsed))
        if str(module) != text:
            raise PropertyError(
                stage, "what is printed parses as another module with the same text"
            )
        parsed.verify()
    return parsed


FREE_IN_A_FORM = re.compile(r"[%@^]\w+|(?<![\dfiem])\d+")
"""What lines of one form may differ in: names and the digits of numbers, but not those of types."""
PARSED_BACK: set[str] = set()
"""The forms of lines that this process has parsed back."""


def require_new_forms_parse_back(stage: str, module: ModuleOp, text: str) -> ModuleOp:
    """A module whose text parses back; parsed again only if a line has a form that was not yet.

    A form keeps the operator, its attributes and element types.  ``make fuzz`` parses every text
    again.
    """
    forms = {FREE_IN_A_FORM.sub("0", line) for line in text.splitlines()}
    if forms <= PARSED_BACK and not THOROUGH:
        return module
    parsed = require_parsed_back(stage, module, text)
    PARSED_BACK.update(forms)
    return parsed


def typed_names(module: ModuleOp) -> list[object]:
    """Names and types of all values, in the order of the text."""
    found: list[object] = []
    for op in module.walk():
        for result in op.results:
            found += (result.name_hint, result.type)
        for region in op.regions:
            for block in region.blocks:
                for argument in block.args:
                    found += (argument.name_hint, argument.type)
    return found


def require_same_function(
    stage: str, module: ModuleOp, case: Case, *, rounded: bool = True
) -> None:
    """Raises ``PropertyError`` where a module does not compute what its µGraph does.

    In float64, and, if ``rounded``, as its operators round.
    """
    scales = [REAL_TOLERANCE * float(np.abs(result).max()) for result in case.expected]
    real = run_function(module, None, case.inputs, "float64")
    require_close(f"{stage}, in float64", real, case.expected, scales)
    if not rounded:
        return
    stored = run_function(module, None, case.inputs, "storage")
    require_close(f"{stage}, with rounding", stored, case.expected, case.errors)


@dataclass(frozen=True)
class Compiled:
    """A µGraph after the whole pipeline."""

    case: Case
    module: ModuleOp
    """The planned schedule."""
    cuda: str


def compile_checked(
    text: str, errors: float | None = None, *, arch: str | None = None, **options: Any
) -> Compiled:
    """Takes a µGraph through every pass and checks each; raises ``PropertyError``.

    Where no target is given it is one of all, by the text.  ``errors`` is how far rounding may
    carry results where that is not to be derived from the operators; ``options`` are those of the
    pipeline.  Each pass is checked in float64; how the operators round before all passes and behind
    them, and between them for ``make fuzz``.
    """
    known = sorted(default_targets())
    arch = arch or known[zlib.crc32(text.encode()) % len(known)]
    stage = "input"
    try:
        module = require_same_text(stage, parse(text))
        case = make_case(module, errors)
        require_same_function(stage, module, case)
        context = make_context()
        printed = str(module)
        changes = VerifiedChanges()
        for step in passes_as_written(arch, **options):
            stage = f"--{step.name}"
            step.apply(context, module)
            # What a pass leaves as it was has been checked, and so has the same text.
            if not changes.verify(module):
                continue
            before, printed = printed, str(module)
            if printed != before:
                same = require_new_forms_parse_back(stage, module, printed)
                require_same_function(stage, same, case, rounded=THOROUGH)
        require_same_function(stage, module, case)
        stage = "-t cuda"
        return Compiled(case, module, print_module(module))
    except PropertyError:
        raise
    except Exception as error:
        raise PropertyError(stage, describe_error(error)) from error


def compile_planned(
    module: ModuleOp,
    stages: Container[str],
    errors: float | None = None,
    plan: Plan | None = None,
) -> Compiled:
    """Takes a program through the passes of ``mugraph.compile``, and checks it behind some.

    ``plan`` is written into every kernel.  Raises ``PropertyError``.
    """
    case = make_case(module, errors)
    context = make_context()
    for step in compile_pipeline("sm_90a", plan):
        step.apply(context, module)
        if step.name in stages:
            module.verify()
            parsed = require_parsed_back(step.name, module, str(module))
            require_same_function(step.name, parsed, case)
    return Compiled(case, module, print_module(module))


NAMED_OPERATOR = re.compile(r"\b(tb|kn|func|sched)\.\w+|%\w+ of @\w+|!tb\.stensor|not defined: \[%")
"""An operator; where no operator is wrong, a value of a function, or the type of tiles."""


def require_diagnostic(text: str) -> str:
    """The diagnostic for a broken µGraph; raises ``PropertyError`` where there is no good one."""
    stage = "parsing"
    try:
        module = parse(text)
        context = make_context()
        changes = VerifiedChanges()
        for step in passes_as_written():
            stage = f"--{step.name}"
            step.apply(context, module)
            changes.verify(module)
        stage = "-t cuda"
        print_module(module)
    except Exception as error:
        message = describe_error(error)
        if "internal error" in message:
            raise PropertyError(stage, message) from error
        if not NAMED_OPERATOR.search(message):
            raise PropertyError(stage, f"the diagnostic names no operator: {message}") from error
        return message
    raise PropertyError(stage, "the broken µGraph was taken for a good one")
