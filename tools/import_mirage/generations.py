"""The three generations of Mirage's files: which number means which element type.

Generation 1 was written until February 2025, generation 2 until June 2025, generation 3 since.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects.builtin import bf16, f8E4M3FN, f16, f32, f64, i8, i32
from xdsl.ir import Attribute

from mugraph.dialects.element_types import is_known_element_type
from mugraph.dialects.elementwise import FUNCTIONS
from mugraph.dialects.tb import AccumulatorKind, RescaledKind
from mugraph.tools.import_mirage.document import MirageImportError, Node

_LATER_NAMES = {
    920: "FLOAT4",
    925: "INT4",
    926: "UINT4",
    930: "FLOAT8",
    935: "INT8",
    936: "UINT8",
    945: "INT16",
    946: "UINT16",
    950: "FLOAT32",
    955: "INT32",
    956: "UINT32",
    960: "DOUBLE",
    965: "INT64",
    966: "UINT64",
}

DATA_TYPES: dict[int, dict[int, str]] = {
    1: {
        900: "INT8",
        910: "UINT16",
        920: "BFLOAT16",
        921: "FLOAT16",
        930: "FLOAT32",
        940: "DOUBLE",
    },
    2: _LATER_NAMES | {920: "INT4", 940: "BFLOAT16", 941: "FLOAT16"},
    3: _LATER_NAMES | {940: "FLOAT16", 941: "BFLOAT16"},
}
"""Mirage's name of the data type for each number, by generation."""

ELEMENT_TYPES: dict[str, Attribute] = {
    "FLOAT16": f16,
    "BFLOAT16": bf16,
    "FLOAT32": f32,
    "DOUBLE": f64,
    "FLOAT8": f8E4M3FN,
    "INT8": i8,
    "INT32": i32,
}

MIRAGE_FUNCTIONS = frozenset(
    {"exp", "silu", "gelu", "sigmoid", "relu", "square", "sqrt", "log", "mul_scalar", "clamp"}
    | {"add", "sub", "mul", "div", "pow"}
)
"""Element-wise functions that Mirage has operators for."""
OWN_FUNCTIONS = frozenset(FUNCTIONS.keys() - MIRAGE_FUNCTIONS)
"""Element-wise functions of mugraph's that Mirage has no operator for."""

LATEST = 3

# Numbers that decide the generation although others know them too: 920 and 921 are what files of
# generation 1 are made of, and 940 and 941 what later ones are.
_DECISIVE: dict[int, frozenset[int]] = {
    920: frozenset({1}),
    921: frozenset({1}),
    940: frozenset({2, 3}),
    941: frozenset({2, 3}),
}

_OLD_ACCUMULATORS = "tb_accum_"
_NEW_ACCUMULATORS = "tb_forloop_accum_"
ACCUMULATOR_PREFIXES = (_OLD_ACCUMULATORS, _NEW_ACCUMULATORS)
"""How the ``op_type`` of accumulators begins, until March 2025 and since."""

ACCUMULATOR_NAMES: dict[AccumulatorKind, str] = {
    AccumulatorKind.NONE: "nored",
    AccumulatorKind.SUM: "red_ld_sum",
    AccumulatorKind.MEAN: "red_ld_mean",
    AccumulatorKind.RMS: "red_ld_rms",
    AccumulatorKind.MAX: "max",
}
"""Mirage's names of the kinds of ``tb.forloop_accum``, without their prefix."""
RESCALED_NAMES: dict[RescaledKind, str] = {
    RescaledKind.NONE: "nored_rescale",
    RescaledKind.SUM: "red_ld_sum_rescale",
}
"""Mirage's names of the kinds of ``tb.forloop_accum_rescale``, without their prefix."""
TO_DIMX_NAME = "redtox_ld_sum"
"""Mirage's name of the sum to dimx, without its prefix."""


def accumulator_kind(name: str, generation: int) -> str:
    """The ``op_type`` of an accumulator in files of a generation."""
    return f"{ACCUMULATOR_PREFIXES[generation > 1]}{name}_op"


@dataclass(frozen=True)
class Generation:
    """A generation, and what the user should know of how it was found."""

    number: int
    note: str | None = None

    def element_type(self, data_type: Node) -> Attribute:
        """The element type that a ``data_type`` field means; raises ``MirageImportError``."""
        code = data_type.integer()
        name = DATA_TYPES[self.number].get(code)
        if name is None:
            others = [str(n) for n, codes in DATA_TYPES.items() if code in codes]
            hint = f" (--generation {others[0]} knows it)" if others else ""
            raise data_type.error(
                f"{code} is no data type of generation {self.number} of the format{hint}."
            )
        element_type = ELEMENT_TYPES.get(name)
        if element_type is None or not is_known_element_type(element_type):
            raise data_type.error(f"the data type {code}, {name}, is not supported.")
        return element_type


def find_generation(document: object) -> Generation:
    """The generation of a document, from its data types and the names of its accumulators.

    Where 2 and 3 cannot be told apart it is 3, with a note.  Raises ``MirageImportError`` where
    nothing fits, or where 1 and a later one both do and mean different types.
    """
    codes = sorted(set(_values(document, "data_type", int)))
    names = set(_values(document, "op_type", str))
    candidates = set(DATA_TYPES)
    for code in codes:
        # A number that no generation knows decides nothing; reading its field reports it.
        candidates &= _DECISIVE.get(code) or _knowing(code) or candidates
    if any(name.startswith(_OLD_ACCUMULATORS) for name in names):
        candidates -= {3}
    if any(name.startswith(_NEW_ACCUMULATORS) for name in names):
        candidates -= {1}
    shown = ", ".join(map(str, codes))
    if not candidates:
        raise MirageImportError(
            f"the data types {shown} and the names of the accumulators belong to no one "
            "generation of the format; --generation 1, 2 or 3 takes one all the same."
        )
    meanings = {tuple(DATA_TYPES[number].get(code) for code in codes) for number in candidates}
    if len(meanings) == 1:
        return Generation(max(candidates))
    if 1 in candidates:
        raise MirageImportError(
            f"the data types {shown} mean different types in generation 1 of the format and later; "
            "say --generation 1, 2 or 3."
        )
    return Generation(
        LATEST,
        f"the data types {shown} fit generations 2 and 3 of the format; taking 3, in which 940 is "
        "FLOAT16 and 941 is BFLOAT16 (--generation 2 takes them the other way round).",
    )


def _knowing(code: int) -> frozenset[int]:
    return frozenset(number for number, codes in DATA_TYPES.items() if code in codes)


def _values(document: object, field: str, kind: type[Any]) -> Iterator[Any]:
    """The values of type ``kind`` of every field of that name, anywhere in the document."""
    pending = [document]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            fields = cast(dict[str, object], value)
            found = fields.get(field)
            if type(found) is kind:
                yield found
            pending += fields.values()
        elif isinstance(value, list):
            pending += cast(list[object], value)
