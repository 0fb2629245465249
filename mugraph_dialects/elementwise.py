"""Scalar functions, and the epilogues made of them.

A scalar function maps up to three numbers to one number, in fp32.  The element-wise operators of
``kn`` and ``tb``, the epilogues of fused operators and ``sched.map`` all name their
function from the tables below; what a function computes on numpy is in
``mugraph.runtime.interpreter``, its CUDA twin in ``runtime/include/mugraph/ops.h``.

An *epilogue* (Mirage's document "The CUDA Transpiler", "Threadblock Level Data Reuse") is the chain
of functions that an operator applies to every element of its result before it stores it, or adds it
to an accumulator.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer


class Constant(NamedTuple):
    """A constant of a scalar function: the operators' property, and the word in front of it."""

    name: str
    keyword: str


class FunctionDescription(NamedTuple):
    """What a scalar function computes, as a sentence of documentation, and its constants."""

    summary: str
    constants: tuple[Constant, ...] = ()
    special: int = 0
    """Instructions of the special function unit that an element takes."""


UNARY_FUNCTIONS: dict[str, FunctionDescription] = {
    "identity": FunctionDescription("Each element."),
    "exp": FunctionDescription("e to the power of each element.", special=1),
    "silu": FunctionDescription("x / (1 + exp(-x)) of each element.", special=2),
    "gelu": FunctionDescription("x (1 + erf(x / sqrt(2))) / 2 of each element.", special=2),
    "sigmoid": FunctionDescription("1 / (1 + exp(-x)) of each element.", special=2),
    "softplus": FunctionDescription("log(1 + exp(x)) of each element.", special=2),
    "tanh": FunctionDescription("The hyperbolic tangent of each element.", special=2),
    "relu": FunctionDescription("0 where an element is less than 0, else the element; NaN stays."),
    "abs": FunctionDescription("The magnitude of each element."),
    "square": FunctionDescription("The square of each element."),
    "sqrt": FunctionDescription("The square root of each element.", special=1),
    "rsqrt": FunctionDescription("1 divided by the square root of each element.", special=1),
    "reciprocal": FunctionDescription("1 divided by each element.", special=1),
    "reciprocal_or_zero": FunctionDescription(
        "1 divided by each element; 0 where an element is 0.", special=1
    ),
    "erf": FunctionDescription("The error function of each element.", special=1),
    "log": FunctionDescription("The natural logarithm of each element.", special=1),
    "cos": FunctionDescription("The cosine of each element, in radians.", special=2),
    "sin": FunctionDescription("The sine of each element, in radians.", special=2),
    "round": FunctionDescription("The nearest whole number to each element, of two the even one."),
    "floor": FunctionDescription("The largest whole number that is at most each element."),
    "bits": FunctionDescription(
        "The whole number that some bits of each element are, counted from the lowest, which is 0: "
        "``bits %x from 4.0 count 4.0``.  Elements are whole numbers of at most 22 bits, negative "
        "ones in two's complement.",
        (Constant("first", "from"), Constant("count", "count")),
    ),
    "fp4": FunctionDescription(
        "What each element, a number from 0 to 15, means as a code of fp4 (e2m1): a sign, two bits "
        "of an exponent and one of a mantissa."
    ),
    "nf4": FunctionDescription(
        "What each element, a number from 0 to 15, means as a code of NF4: quantiles of normal "
        "numbers, from -1 to 1."
    ),
    "mul_scalar": FunctionDescription(
        "Each element times a constant, an fp32 number: ``mul_scalar %x by 0.5``.",
        (Constant("scalar", "by"),),
    ),
    "add_scalar": FunctionDescription(
        "Each element plus a constant, an fp32 number: ``add_scalar %x by 1.0e-05``.",
        (Constant("scalar", "by"),),
    ),
    "fill": FunctionDescription(
        "A constant, an fp32 number, whatever the element is: ``fill %x with 0.5``.",
        (Constant("value", "with"),),
    ),
    "clamp": FunctionDescription(
        "Each element, or the nearest of two fp32 numbers outside of which it lies; NaN stays: "
        "``clamp %x from 0.0 to 6.0``.",
        (Constant("low", "from"), Constant("high", "to")),
    ),
}
"""Functions of one number.  To add one, add a line here, in ``ops.h`` and in the interpreter."""

BINARY_FUNCTIONS: dict[str, FunctionDescription] = {
    "add": FunctionDescription("The sum, element by element."),
    "sub": FunctionDescription("The difference, element by element."),
    "mul": FunctionDescription("The product, element by element."),
    "div": FunctionDescription("The quotient, element by element.", special=1),
    "pow": FunctionDescription(
        "The left operand to the power of the right one, as C's pow.", special=2
    ),
    "max": FunctionDescription("The larger of both, element by element; NaN where one is."),
    "min": FunctionDescription("The smaller of both, element by element; NaN where one is."),
    "less": FunctionDescription(
        "1 where the left operand is less than the right one, else 0, element by element."
    ),
    "less_equal": FunctionDescription(
        "1 where the left operand is at most the right one, else 0, element by element."
    ),
}
"""Functions of two numbers."""

TERNARY_FUNCTIONS: dict[str, FunctionDescription] = {
    "where": FunctionDescription(
        "The second operand where the first is not 0, else the third, element by element."
    ),
}
"""Functions of three numbers."""

FP4_NUMBERS = tuple(
    sign * magnitude for sign in (1, -1) for magnitude in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
)
"""What the codes of fp4 mean."""
NF4_NUMBERS = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
    -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
    0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip
"""What the codes of NF4 mean, numbers of fp32.  Source: Dettmers et al., arXiv 2305.14314."""

FUNCTIONS = UNARY_FUNCTIONS | BINARY_FUNCTIONS | TERNARY_FUNCTIONS
"""All functions that ``kn`` and ``tb`` have operators for."""

ZERO_AT_ZERO = frozenset(
    {"identity", "silu", "gelu", "tanh", "relu", "abs", "square", "sqrt", "erf", "sin"}
    | {"mul_scalar", "round", "floor", "bits", "fp4", "reciprocal_or_zero"}
    | {"add", "sub", "mul", "max", "min", "less", "where", "mul_add"}
)
"""Functions that are 0 where all their operands are."""

COMPARISONS = frozenset({"less", "less_equal"})
"""Functions that say whether something holds."""

CONDITIONS = {"where": 0}
"""The operand that says whether something holds, of the functions that have one."""

WHOLE_FUNCTIONS = frozenset({"add", "sub", "mul", "max", "min", "where", "fill"} | COMPARISONS)
"""Functions that are computed of integers, too, exactly."""

COMMUTATIVE = frozenset({"add", "mul", "max", "min"})
"""Functions whose operands may change places."""

LINEAR_OPERANDS: dict[str, tuple[frozenset[int], ...]] = {
    "identity": (frozenset({0}),),
    "mul_scalar": (frozenset({0}),),
    "add": (frozenset({0, 1}),),
    "sub": (frozenset({0, 1}),),
    "mul": (frozenset({0}), frozenset({1})),
    "div": (frozenset({0}),),
    "where": (frozenset({1, 2}),),
}
"""Sets of operands in all of which together a function is linear; others are linear in none."""

SCHEDULED_UNARY_FUNCTIONS: dict[str, FunctionDescription] = {
    "scaled_exp": FunctionDescription(
        "e to the power of a constant times each element, as a power of two.",
        (Constant("scalar", "by"),),
    ),
    "power_below": FunctionDescription(
        "The largest power of two, from 2^-100 to 2^127, that is at most each element; 2^-100 "
        "where an element is less, or NaN."
    ),
}
"""Functions of one number, of operators that passes write.

Powers of e are taken as powers of two by the instruction for these: results are at most 2 ulp and
|x| 2^-23 (relative, for e to the power of x) off, and 0 below 2^-126.
"""

SCHEDULED_BINARY_FUNCTIONS: dict[str, FunctionDescription] = {
    "scaled_exp_difference": FunctionDescription(
        "e to the power of a constant times the difference, as a power of two.",
        (Constant("scalar", "by"),),
    ),
    "scaled_exp_wide_difference": FunctionDescription(
        "The same, also where a constant times the second number is below all fp32 numbers.",
        (Constant("scalar", "by"),),
    ),
}
"""Functions of two numbers, of operators of ``sched`` only; rounded as ``scaled_exp``."""

SCHEDULED_TERNARY_FUNCTIONS: dict[str, FunctionDescription] = {
    "mul_add": FunctionDescription("The first number times the second, plus the third."),
}
"""Functions of three numbers, of operators of ``sched`` only."""

COMPOSED = "composed"
"""The name of functions that are made of others: ``composed(mul, identity, exp)`` is x exp(x)."""

_TABLES = (
    UNARY_FUNCTIONS,
    SCHEDULED_UNARY_FUNCTIONS,
    BINARY_FUNCTIONS,
    SCHEDULED_BINARY_FUNCTIONS,
    TERNARY_FUNCTIONS,
    SCHEDULED_TERNARY_FUNCTIONS,
)
_ARITIES = (1, 1, 2, 2, 3, 3)

WHOLE_BITS = 22
"""How many bits the whole numbers have of which bits are taken: fp32 holds all of them."""

ACCUMULATE = "accum"
"""The last step of an epilogue that adds to its destination where others overwrite it."""


@dataclass(frozen=True)
class ScalarFunction:
    """A function of one of the tables above with its constants.

    Constants are fp32 numbers.  Raises ``ValueError`` for an unknown name, a wrong count, a
    constant that is NaN, or infinite where it is not for ``fill``, or bounds of a clamp the wrong
    way round.

    With ``parts``, and the name ``composed``, it is a function of one number: the first part, of
    what the others make of that number.
    """

    name: str
    constants: tuple[float, ...] = ()
    parts: tuple[ScalarFunction, ...] = ()

    def __post_init__(self) -> None:
        if self.name == COMPOSED:
            self._verify_parts()
            return
        table = next((table for table in _TABLES if self.name in table), None)
        if table is None:
            known = ", ".join(chain.from_iterable(_TABLES))
            raise ValueError(f"unknown scalar function '{self.name}'; known are {known}")
        expected = len(table[self.name].constants)
        if len(self.constants) != expected:
            noun = "constant" if expected == 1 else "constants"
            raise ValueError(
                f"scalar function '{self.name}' takes {expected} {noun}, got {len(self.constants)}"
            )
        if any(
            math.isnan(constant) or (math.isinf(constant) and self.name != "fill")
            for constant in self.constants
        ):
            raise ValueError(f"the constants of '{self}' must be finite numbers")
        if self.name == "bits" and not _are_bits(*self.constants):
            raise ValueError(
                f"'{self}' names no bits of a whole number, which has {WHOLE_BITS}; give the "
                "number of the first one, from 0 on, and how many there are, at least 1"
            )
        if self.name == "clamp" and self.constants[0] > self.constants[1]:
            raise ValueError(
                f"the bounds of '{self}' are the wrong way round; the first must be the lower one"
            )

    def _verify_parts(self) -> None:
        if not self.parts or self.parts[0].arity != len(self.parts) - 1:
            raise ValueError(
                f"'{self}' is no function of one number; give a function, and a function of one "
                "number for each number that it takes"
            )
        if any(part.arity != 1 for part in self.parts[1:]):
            raise ValueError(f"'{self}' composes functions of one number, behind the first")

    @property
    def arity(self) -> int:
        """How many numbers the function takes, constants not counted."""
        if self.parts:
            return 1
        return next(
            arity for table, arity in zip(_TABLES, _ARITIES, strict=True) if self.name in table
        )

    @property
    def special(self) -> int:
        """Instructions of the special function unit that an element takes."""
        own = FUNCTIONS[self.name].special if self.name in FUNCTIONS else 0
        return own + sum(part.special for part in self.parts)

    @property
    def linear_in(self) -> tuple[frozenset[int], ...]:
        """Sets of operands, by number, in all of which together the function is linear."""
        return LINEAR_OPERANDS.get(self.name, ())

    def at(self, operands: Sequence[float]) -> float | None:
        """The function's value where that follows from the tables; ``None`` elsewhere."""
        if self.parts:
            outer, *inner = self.parts
            found = [value for part in inner if (value := part.at(operands)) is not None]
            return outer.at(found) if len(found) == len(inner) else None
        if self.name == "identity":
            return operands[0]
        if self.name == "fill":
            return self.constants[0]
        if self.name == "clamp":
            return min(max(operands[0], self.constants[0]), self.constants[1])
        if self.name in ZERO_AT_ZERO and not any(operands):
            return 0.0
        if operands[0] == -math.inf:
            if self.name in ("exp", "exp2"):
                return 0.0
            if self.name == "mul_scalar" and self.constants[0] > 0:
                return -math.inf
        return None

    def __str__(self) -> str:
        arguments = [*map(str, self.parts), *map(repr, self.constants)]
        return f"{self.name}({', '.join(arguments)})" if arguments else self.name


def _are_bits(first: float, count: float) -> bool:
    """Whether numbers are a first bit of 22 and a count of those from there on."""
    are_whole = first == int(first) and count == int(count)
    return are_whole and first >= 0 and count >= 1 and first + count <= WHOLE_BITS


def round_to_fp32(value: float) -> float:
    """The fp32 number nearest to ``value``; what a constant of a scalar function means."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


@dataclass(frozen=True)
class Epilogue:
    """Unary functions applied in order, then a store or (``accumulates``) an addition."""

    functions: tuple[ScalarFunction, ...] = ()
    accumulates: bool = False

    def then(self, function: ScalarFunction) -> Epilogue:
        """This epilogue followed by one more function; only before an accumulation."""
        if self.accumulates:
            raise ValueError("nothing can follow the accumulation that ends an epilogue")
        return Epilogue((*self.functions, function))

    def then_accumulate(self) -> Epilogue:
        """This epilogue with its store turned into an addition to the destination."""
        if self.accumulates:
            raise ValueError("an epilogue accumulates at most once")
        return Epilogue(self.functions, accumulates=True)

    def __bool__(self) -> bool:
        return bool(self.functions) or self.accumulates

    def __str__(self) -> str:
        steps = [str(function) for function in self.functions]
        if self.accumulates:
            steps.append(ACCUMULATE)
        return f"[{', '.join(steps)}]"


def parse_fp32(parser: AttrParser | Parser) -> float:
    """Parses a number, which is rounded to fp32, or an infinity: ``0.5``, ``-inf``."""
    sign = -1.0 if parser.parse_optional_punctuation("-") else 1.0
    if parser.parse_optional_keyword("inf"):
        return sign * math.inf
    return round_to_fp32(sign * float(parser.parse_number()))


def _parse_constants(parser: AttrParser | Parser) -> tuple[float, ...]:
    if parser.parse_optional_punctuation("(") is None:
        return ()
    constants = [parse_fp32(parser)]
    while parser.parse_optional_punctuation(","):
        constants.append(parse_fp32(parser))
    parser.parse_punctuation(")")
    return tuple(constants)


def parse_scalar_function(parser: AttrParser | Parser) -> ScalarFunction:
    """Parses ``exp`` or ``mul_scalar(0.5)``."""
    position = parser.pos
    name = parser.parse_identifier(" naming a scalar function")
    constants: tuple[float, ...] = ()
    parts: tuple[ScalarFunction, ...] = ()
    if name == COMPOSED:
        parts = tuple(
            parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: parse_scalar_function(parser)
            )
        )
    else:
        constants = _parse_constants(parser)
    try:
        return ScalarFunction(name, constants, parts)
    except ValueError as error:
        parser.raise_error(str(error), position, parser.pos)


def parse_epilogue(parser: AttrParser | Parser) -> Epilogue:
    """Parses ``[exp, mul_scalar(0.5), accum]``; ``accum`` may stand at the end only."""
    functions: list[ScalarFunction] = []
    accumulates = False
    parser.parse_punctuation("[")
    while parser.parse_optional_punctuation("]") is None:
        if functions or accumulates:
            parser.parse_punctuation(",")
        position = parser.pos
        if accumulates:
            parser.raise_error(f"'{ACCUMULATE}' must be the last step of an epilogue", position)
        if parser.parse_optional_keyword(ACCUMULATE):
            accumulates = True
            continue
        function = parse_scalar_function(parser)
        if function.arity != 1:
            parser.raise_error(
                f"'{function.name}' takes {('two', 'three')[function.arity - 2]} numbers; an "
                "epilogue is made of unary functions",
                position,
                parser.pos,
            )
        functions.append(function)
    return Epilogue(tuple(functions), accumulates)


@irdl_attr_definition
class ScalarFunctionAttr(Data[ScalarFunction]):
    """A scalar function as an attribute: ``#tb.function<mul_scalar(0.5)>``."""

    name = "tb.function"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> ScalarFunction:
        """Parses the part in angle brackets."""
        with parser.in_angle_brackets():
            return parse_scalar_function(parser)

    def print_parameter(self, printer: Printer) -> None:
        """Prints the part in angle brackets."""
        with printer.in_angle_brackets():
            printer.print_string(str(self.data))


@irdl_attr_definition
class EpilogueAttr(Data[Epilogue]):
    """An epilogue as an attribute: ``#tb.epilogue<[exp, accum]>``; ``then [exp, accum]`` in ops."""

    name = "tb.epilogue"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Epilogue:
        """Parses the part in angle brackets."""
        with parser.in_angle_brackets():
            return parse_epilogue(parser)

    def print_parameter(self, printer: Printer) -> None:
        """Prints the part in angle brackets."""
        with printer.in_angle_brackets():
            printer.print_string(str(self.data))


def epilogue_attribute(epilogue: Epilogue | None) -> EpilogueAttr | None:
    """An epilogue as a property; ``None`` where it does nothing."""
    return EpilogueAttr(epilogue) if epilogue else None
