"""Evaluates expressions over layouts with NVIDIA's CuTe headers, in a generated host program."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from compiled_once import compiled_once, compiler_digest, digest_of

from mugraph.dialects.cute import ComposedLayout, Layout, ScaledBasis, Swizzle
from mugraph.runtime.toolchain import ToolchainError, cuda_include_paths, find_cutlass

PROLOGUE = r"""
#include <cute/layout.hpp>
#include <cute/layout_composed.hpp>
#include <cute/swizzle_layout.hpp>
using namespace cute;

// Every expression is of static type, so its type is its value: nothing is computed at run time,
// and the compiler's name of the type is cheaper than code that prints the value.
template <class Result>
void show(int id) {
  printf("%d;%s;\n", id, __PRETTY_FUNCTION__);
}

// Prints the values as well, as CuTe computes them for the coordinates 0, 1, ...
template <class Result>
void show_values(int id) {
  printf("%d;%s;", id, __PRETTY_FUNCTION__);
  int const count = int(size(Result{})) < 512 ? int(size(Result{})) : 512;
  for (int i = 0; i < count; ++i) printf("%d ", int(Result{}(i)));
  printf("\n");
}
"""


class Answer(NamedTuple):
    """What CuTe makes of an expression: its result, and the values of a layout of integers."""

    result: Any
    values: list[int]


CONSTRUCTORS: dict[str, Callable[..., Any]] = {
    "C": int,
    "tuple": lambda *items: items,
    "ScaledBasis": lambda value, *modes: ScaledBasis(value, modes),
    "Layout": Layout,
    "Swizzle": Swizzle,
    "ComposedLayout": ComposedLayout,
}
"""What CuTe's templates are here."""


def value_of(function: str) -> Any:
    """The value of the static type for which g++ instantiated a function, by its name for that."""
    _, _, type_ = function.removesuffix("]").partition("[with Result = ")
    call = type_.replace("cute::", "").replace("<", "(").replace(">", ")")
    return eval(call, {"__builtins__": {}}, CONSTRUCTORS)


def include_directories() -> list[Path] | str:
    """The directories of CuTe's and CUDA's headers, or the reason why there are none."""
    if shutil.which("g++") is None:
        return "g++ is not installed"
    try:
        return [find_cutlass(), *cuda_include_paths()]
    except ToolchainError as error:
        return str(error)


def cpp_tuple(value: Any, kind: str) -> str:
    """A nested tuple as a static CuTe type: ``Shape<Int<4>,Shape<Int<2>,Int<2>>>``."""
    if isinstance(value, tuple):
        return f"{kind}<{','.join(cpp_tuple(item, kind) for item in value)}>"
    if isinstance(value, ScaledBasis):
        modes = "".join(f",{mode}" for mode in value.modes)
        return f"ScaledBasis<Int<{value.value}>{modes}>"
    return f"Int<{value}>"


def cpp(value: Any) -> str:
    """A layout, swizzle, tiler, coordinate or integer as a C++ expression of static type."""
    if isinstance(value, Layout):
        shape = cpp_tuple(value.shape, "Shape")
        return f"Layout<{shape},{cpp_tuple(value.stride, 'Stride')}>{{}}"
    if isinstance(value, Swizzle):
        return f"Swizzle<{value.bits},{value.base},{value.shift}>{{}}"
    if isinstance(value, ComposedLayout):
        return f"composition({cpp(value.swizzle)},Int<{value.offset}>{{}},{cpp(value.layout)})"
    if value is None:
        return "_"
    if isinstance(value, tuple):
        return f"make_tuple({','.join(cpp(item) for item in value)})"
    return f"Int<{value}>{{}}"


EXPRESSIONS_A_PROGRAM = 500
"""More in one program would take the compiler gigabytes."""


def evaluate(
    expressions: list[str],
    with_values: frozenset[int] = frozenset(),
    headers: str = "",
) -> list[Answer]:
    """What CuTe makes of the C++ expressions, in order.

    Of those numbered in ``with_values``, which must be layouts to integers, the values too.
    ``headers`` is further C++ at the top.
    """

    def answers_from(first: int) -> list[Answer]:
        part = expressions[first : first + EXPRESSIONS_A_PROGRAM]
        valued = frozenset(number - first for number in with_values)
        return _evaluate_in_one_program(part, valued, headers)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        parts = pool.map(answers_from, range(0, len(expressions), EXPRESSIONS_A_PROGRAM))
        return [answer for part in parts for answer in part]


def _evaluate_in_one_program(
    expressions: list[str], with_values: frozenset[int], headers: str
) -> list[Answer]:
    # Spread over functions of 50, so that the compiler does not see one huge one.
    directories = include_directories()
    assert not isinstance(directories, str), directories
    functions: list[str] = []
    for first in range(0, len(expressions), 50):
        lines = [
            f"  show{'_values' if number in with_values else ''}<"
            f"cute::remove_cvref_t<decltype({expression})>>({number});"
            for number, expression in enumerate(expressions[first : first + 50], first)
        ]
        functions.append(f"void part_{first}() {{\n" + "\n".join(lines) + "\n}\n")
    calls = "".join(f" part_{first}();" for first in range(0, len(expressions), 50))
    text = headers + PROLOGUE + "".join(functions) + f"int main() {{{calls} }}\n"
    # What templates leave behind is not collected, which would take a sixth of the time.
    command = ["g++", "-std=c++17", "-O0", "-w", "--param", "ggc-min-heapsize=2000000"]

    def make(folder: Path) -> None:
        source = folder / "oracle.cpp"
        source.write_text(text)
        paths = [f"-I{directory}" for directory in directories]
        compiled = subprocess.run(
            [*command, str(source), "-o", str(folder / "oracle"), *paths],
            capture_output=True,
            text=True,
            check=False,
        )
        said = compiled.stderr.splitlines()
        errors = [line for line in said if "error" in line or "oracle" in line]
        assert compiled.returncode == 0, "\n".join(errors[:20])

    program = compiled_once(digest_of([compiler_digest("g++"), *command, text]), "oracle", make)
    output = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
    answers: list[Answer] = []
    for number, line in enumerate(output.splitlines()):
        identifier, function, values = line.split(";")
        assert int(identifier) == number
        answers.append(Answer(value_of(function), [int(value) for value in values.split()]))
    assert len(answers) == len(expressions)
    return answers
