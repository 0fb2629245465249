"""Spelling of types, layouts and constants in C++."""

from __future__ import annotations

import math
import struct
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager

from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import DiagnosticException

from mugraph.dialects.cute import ComposedLayout
from mugraph.dialects.element_types import DESCRIPTIONS
from mugraph.dialects.elementwise import Epilogue, ScalarFunction
from mugraph.dialects.kn.scatter import PlacedRows
from mugraph.dialects.locations import location_of
from mugraph.dialects.sched import mappings
from mugraph.dialects.tensor_types import (
    AnyLayout,
    base_layout,
    element_type_of,
    op_label,
    value_label,
)

Nested = int | tuple["Nested", ...]
"""An extent or stride, or a tuple of them."""


class CodegenError(DiagnosticException):
    """The IR cannot be printed as CUDA; the message says what to do."""


GENERATED_NAME = "kernel.cu"
"""What ``#line`` calls the generated text itself."""


def element_type(type_: Attribute) -> str:
    """The C++ type of an element."""
    if type_ not in DESCRIPTIONS:
        raise CodegenError(f"the CUDA target cannot store elements of type {type_}")
    return DESCRIPTIONS[type_].cuda


def stored_type(value: SSAValue) -> str:
    """The C++ type of the elements of a tensor or buffer; an error names who makes it."""
    try:
        return element_type(element_type_of(value.type))
    except CodegenError as error:
        owner = value.owner.parent_op() if isinstance(value.owner, Block) else value.owner
        made_by = f" of {op_label(owner)}" if owner is not None else ""
        raise CodegenError(f"{value_label(value)}{made_by}: {error}") from error


def placed_type(rows: PlacedRows, element: str) -> str:
    """The C++ type of what stands for the pointer to one row of a table."""
    numbers = f"{rows.rows}, {rows.elements}, {rows.row_stride}, {rows.apart}"
    return f"tb::PlacedRow<{element}, int{8 * rows.number_bytes}_t, {numbers}>"


def _nested(kind: str, value: Nested) -> str:
    if isinstance(value, int):
        return f"Int<{value}>"
    return f"{kind}<{', '.join(_nested(kind, part) for part in value)}>"


def layout_type(shape: Nested, stride: Nested, like: AnyLayout | None = None) -> str:
    """A static CuTe layout; with the swizzle of ``like`` if it has one."""
    as_tuple = (shape,) if isinstance(shape, int) else shape
    stride_tuple = (stride,) if isinstance(stride, int) else stride
    text = f"Layout<{_nested('Shape', as_tuple)}, {_nested('Stride', stride_tuple)}>"
    if isinstance(like, ComposedLayout):
        bits, base, shift = like.swizzle.bits, like.swizzle.base, like.swizzle.shift
        return f"ComposedLayout<Swizzle<{bits}, {base}, {shift}>, Int<{like.offset}>, {text}>"
    return text


def iteration_layout(
    layout: AnyLayout, extents: Sequence[int], domain: Sequence[int], order: Sequence[int]
) -> str:
    """A layout over an iteration domain: modes in the order of iteration, stride 0 to broadcast."""
    walked = mappings.iteration_layout(layout, extents, domain, order)
    plain = base_layout(walked)
    return layout_type(plain.shape, plain.stride, layout)


def fp32_bits(value: float) -> str:
    """An fp32 constant by its bits, exact."""
    return f"0x{struct.unpack('<I', struct.pack('<f', value))[0]:08x}u"


def fp32_literal(value: float) -> str:
    """An fp32 constant in decimal, or by its bits where that is impossible."""
    return f"{value!r}f" if math.isfinite(value) else f"__uint_as_float({fp32_bits(value)})"


def function_type(function: ScalarFunction) -> str:
    """The functor of ``runtime/include/mugraph/ops.h`` for a scalar function."""
    if function.name == "identity":
        return "ops::Chain<>"
    if function.parts:
        return f"ops::Composed<{', '.join(map(function_type, function.parts))}>"
    name = "ops::" + "".join(part.capitalize() for part in function.name.split("_"))
    if not function.constants:
        return name
    return f"{name}<{', '.join(fp32_bits(constant) for constant in function.constants)}>"


def epilogue_type(epilogue: Epilogue) -> str:
    """The functor chain of an epilogue; whether it accumulates is said by the method called."""
    return f"ops::Chain<{', '.join(function_type(step) for step in epilogue.functions)}>"


def _line_directive(line: int, file: str) -> str:
    escaped = file.replace("\\", "\\\\").replace('"', '\\"')
    return f'#line {line} "{escaped}"'


class Writer:
    """Lines of C++ with indentation.

    With ``line_info`` a ``#line`` before each line of an operator says where that comes from, so
    that nvcc's ``-lineinfo`` leads there; other lines belong to the text itself.
    """

    def __init__(self, *, line_info: bool = False) -> None:
        self._lines: list[str] = []
        self._depth = 0
        self._line_info = line_info
        self._operation: Operation | None = None
        self._said = False

    @contextmanager
    def of_operation(self, op: Operation) -> Generator[None]:
        """The lines written in the block belong to an operator."""
        around, self._operation = self._operation, op
        try:
            yield
        finally:
            self._operation = around

    def line(self, text: str = "") -> None:
        """Writes one line at the current depth."""
        if self._line_info and text:
            self._say_line()
        self._lines.append(f"{'  ' * self._depth}{text}" if text else "")

    def _say_line(self) -> None:
        location = location_of(self._operation)
        if location is not None:
            self._lines.append(_line_directive(location.line.data, location.filename.data))
        elif self._said:
            self._lines.append(_line_directive(len(self._lines) + 2, GENERATED_NAME))
        self._said = location is not None

    def lines(self, texts: Iterable[str]) -> None:
        """Writes several lines."""
        for text in texts:
            self.line(text)

    def open(self, text: str) -> None:
        """Writes a line that opens a brace and indents what follows."""
        self.line(text)
        self._depth += 1

    def close(self, text: str = "}") -> None:
        """Closes the innermost brace."""
        self._depth -= 1
        self.line(text)

    def text(self) -> str:
        """Everything written so far."""
        return "\n".join(self._lines) + "\n"
