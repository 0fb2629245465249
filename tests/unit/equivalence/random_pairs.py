"""Random pairs of element-wise functions of two inputs, and what they are on dense inputs.

The second of a pair is the first with a change that many inputs do not show: a clamp far out, a
cast, a sum with what is 0 or undefined, a function that saturates.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

F16_LIMIT = 65504.0
ERFC = np.frompyfunc(__import__("math").erfc, 1, 1)


@dataclass(frozen=True)
class Step:
    """An operator on earlier values, of which 0 and 1 are the inputs."""

    operator: str
    operands: tuple[int, ...]
    constants: tuple[float, ...] = ()


Program = tuple[Step, ...]

UNARY = ("exp", "silu", "square", "sqrt", "gelu", "sigmoid", "relu", "log")
BINARY = ("add", "sub", "mul", "div", "pow", "max")
CASTS = ("f32", "bf16", "f8E4M3FN", "f8E5M2", "i8", "i32")
CONSTANTS = (0.5, 1.0, 2.0, -1.0, 6.0, 50.0, 100.0, 1000.0)


def text_of(program: Program, shape: str = "4x6") -> str:
    """The µGraph."""
    type_ = f"tensor<{shape}xf16>"
    names = ["a", "b", *(f"x{number}" for number in range(len(program)))]
    lines: list[str] = []
    for number, step in enumerate(program):
        name = f"%x{number}"
        operands = ", ".join(f"%{names[operand]}" for operand in step.operands)
        if step.operator in CASTS:
            narrow = f"tensor<{shape}x{step.operator}>"
            lines.append(f"{name}n = kn.cast {operands} : {type_} -> {narrow}")
            lines.append(f"{name} = kn.cast {name}n : {narrow} -> {type_}")
            continue
        words = {"clamp": " from {} to {}", "add_scalar": " by {}", "mul_scalar": " by {}"}
        constants = words.get(step.operator, "").format(*step.constants)
        types = f"({type_}, {type_})" if len(step.operands) == 2 else type_
        lines.append(f"{name} = kn.{step.operator} {operands}{constants} : {types} -> {type_}")
    body = "\n  ".join(lines)
    return (
        f"func.func @f(%a: {type_}, %b: {type_}) -> {type_} {{\n  {body}\n"
        f"  func.return %{names[-1]} : {type_}\n}}"
    )


def _cast(x: Array, type_: str) -> Array:
    defined = np.isfinite(x)
    safe = np.where(defined, x, 0).astype(np.float64)
    if type_ == "i8":
        rounded = np.clip(np.rint(safe), -128, 127)
    elif type_ == "i32":
        defined &= np.abs(safe) < 2**31
        rounded = np.rint(safe)
    elif type_.startswith("f8"):
        dtype = ml_dtypes.float8_e4m3fn if type_ == "f8E4M3FN" else ml_dtypes.float8_e5m2
        limit = float(ml_dtypes.finfo(dtype).max)
        rounded = np.clip(safe, -limit, limit).astype(dtype).astype(np.float64)
    else:
        return x
    return np.where(defined, rounded, np.nan).astype(x.dtype)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


FUNCTIONS: dict[str, Callable[..., Array]] = {
    "exp": np.exp,
    "silu": lambda x: x * _sigmoid(x),
    "square": np.square,
    "sqrt": np.sqrt,
    "gelu": lambda x: x * ERFC(-x.astype(np.float64) * 0.5**0.5).astype(np.float64) / 2,
    "sigmoid": _sigmoid,
    "relu": lambda x: np.maximum(x, 0),
    "log": np.log,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "pow": lambda x, y: np.where(x > 0, np.power(np.where(x > 0, x, 1), y), np.nan),
    "max": np.maximum,
    "add_scalar": lambda x, c: x + np.float32(c),
    "mul_scalar": lambda x, c: x * np.float32(c),
    "clamp": lambda x, low, high: np.clip(x, low, high),
}


def values_of(program: Program, a: Array, b: Array) -> tuple[Array, Array]:
    """The function, NaN where it or a step on the way is undefined, and its largest step."""
    values = [a, b]
    with np.errstate(all="ignore"):
        for step in program:
            operands = [values[operand] for operand in step.operands]
            if step.operator in CASTS:
                value = _cast(operands[0], step.operator)
            else:
                constants = [a.dtype.type(one) for one in step.constants]
                value = FUNCTIONS[step.operator](*operands, *constants)
            known = np.logical_and.reduce([np.isfinite(one) for one in (value, *operands)])
            values.append(np.where(known, value, np.nan).astype(a.dtype))
        return values[-1], np.maximum.reduce([np.abs(value) for value in values])


def dense_inputs(programs: Sequence[Program], count: int = 4000) -> tuple[Array, Array]:
    """Numbers of fp16, of all sizes and about the programs' constants."""
    generator = np.random.default_rng(7)
    constants = [0.0, 1.0, 127.5, 448.0, 57344.0]
    constants += [one for program in programs for step in program for one in step.constants]
    arrays: list[Array] = []
    for _ in range(2):
        sizes = generator.standard_normal(count) * 2.0 ** generator.uniform(-10, 15, count)
        normal = generator.standard_normal(count)
        near = generator.choice(constants, count) + normal * generator.choice([0.01, 1.0], count)
        kind = generator.integers(0, 3, count)
        numbers = np.choose(kind, [sizes, normal, near])
        arrays.append(np.clip(numbers, -F16_LIMIT, F16_LIMIT).astype(np.float16))
    return arrays[0], arrays[1]


def really_differ(one: Program, other: Program) -> bool:
    """Whether two functions certainly differ where both are defined."""
    inputs = dense_inputs([one, other])
    certain = np.array(True)
    for dtype in (np.float64, np.longdouble):
        a, b = (array.astype(dtype) for array in inputs)
        (left, steps), (right, others) = values_of(one, a, b), values_of(other, a, b)
        with np.errstate(all="ignore"):
            certain = certain & (np.abs(left - right) > 1e-9 * np.fmax(steps, others))
    return bool(certain.any())


def is_defined_somewhere(program: Program) -> bool:
    """Whether a function has a value on some of the dense inputs."""
    a, b = (array.astype(np.float64) for array in dense_inputs([program]))
    return bool(np.isfinite(values_of(program, a, b)[0]).any())


def random_step(draw: random.Random, count: int) -> Step:
    """An operator on some of ``count`` values."""
    kind = draw.choice(("unary", "binary", "cast", "scalar", "scalar", "clamp"))
    first, second = (draw.randrange(count) for _ in range(2))
    if kind == "unary":
        return Step(draw.choice(UNARY), (first,))
    if kind == "binary":
        return Step(draw.choice(BINARY), (first, second))
    if kind == "cast":
        return Step(draw.choice(CASTS), (first,))
    if kind == "scalar":
        operator = draw.choice(("add_scalar", "mul_scalar"))
        return Step(operator, (first,), (draw.choice(CONSTANTS),))
    low, high = sorted((draw.choice((-1.0, 0.0, *CONSTANTS)), -draw.choice((-60.0, *CONSTANTS))))
    return Step("clamp", (first,), (low, high))


def random_program(draw: random.Random) -> Program:
    """A few operators; the last takes the one before it."""
    steps: list[Step] = []
    for number in range(draw.randint(1, 3)):
        step = random_step(draw, 2 + number)
        if number and number + 1 not in step.operands:
            step = Step(step.operator, (number + 1, *step.operands[1:]), step.constants)
        steps.append(step)
    return tuple(steps)


def _inserted(program: Program, at: int, steps: Sequence[Step]) -> Program:
    """The program with steps before step ``at``, which takes the last of them in place of an input.

    Operands of the inserted steps are counted as if they stood at the end of the first ``at``.
    """
    shift = len(steps)
    replaced = at + 2 + shift - 1
    rest: list[Step] = []
    for number, step in enumerate(program[at:]):
        operands = tuple(one + shift if one >= at + 2 else one for one in step.operands)
        if number == 0:
            operands = (replaced, *operands[1:])
        rest.append(Step(step.operator, operands, step.constants))
    return (*program[:at], *steps, *rest)


def changed(draw: random.Random, program: Program) -> Program:
    """The program with a change, often one that leaves it the same nearly everywhere."""
    program = (*program, Step("mul_scalar", (len(program) + 1,), (1.0,)))
    at = draw.randrange(len(program))
    value = program[at].operands[0]
    next_ = at + 2
    c = draw.choice(CONSTANTS[:4])
    far = draw.choice((6.0, 50.0, 300.0, 30000.0))
    choices: list[list[Step]] = [
        [Step("clamp", (value,), (-far, far))],
        [Step("clamp", (value,), (0.0, far))],
        [Step("relu", (value,))],
        [Step(draw.choice(CASTS), (value,))],
        [Step("square", (value,)), Step("sqrt", (next_,))],
        [Step("sqrt", (value,)), Step("square", (next_,))],
        [Step("log", (value,)), Step("exp", (next_,))],
        [Step("exp", (value,)), Step("log", (next_,))],
        [Step("mul_scalar", (value,), (2.0,)), Step("mul_scalar", (next_,), (0.5,))],
        [Step("add_scalar", (value,), (far,)), Step("add_scalar", (next_,), (-far,))],
        [
            Step("add_scalar", (value,), (far,)),
            Step(draw.choice(("gelu", "silu", "relu")), (next_,)),
            Step("add_scalar", (next_ + 1,), (-far,)),
        ],
        [
            Step("add_scalar", (value,), (-far,)),
            Step("exp", (next_,)),
            Step("add", (value, next_ + 1)),
        ],
        [
            Step("square", (value,)),
            Step("mul_scalar", (next_,), (-1.0,)),
            Step("add_scalar", (next_ + 1,), (-c,)),
            Step(draw.choice(("sqrt", "log")), (next_ + 2,)),
            Step("sub", (next_ + 3, next_ + 3)),
            Step("add", (value, next_ + 4)),
        ],
        [Step("sub", (value, value)), Step("div", (value, next_)), Step("mul", (next_ + 1, next_))],
        [
            Step("mul_scalar", (value,), (0.0,)),
            Step("add_scalar", (next_,), (-far,)),
            Step("max", (value, next_ + 1)),
        ],
        [Step("mul_scalar", (value,), (2.0,)), Step(draw.choice(CASTS), (next_,))],
    ]
    return _inserted(program, at, draw.choice(choices))


def random_pair(seed: int) -> tuple[Program, Program]:
    """Two programs, of which the second is nearly always the first with one change or two."""
    draw = random.Random(seed)
    one = random_program(draw)
    if draw.random() < 0.1:
        return one, random_program(draw)
    other = changed(draw, one)
    return (one, changed(draw, other)) if draw.random() < 0.3 else (one, other)
