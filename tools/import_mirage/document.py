"""Walking a JSON document while remembering the way, so that every error can say where it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from mugraph.tools.diagnostics import ToolError


class MirageImportError(ToolError):
    """A µGraph file that cannot be imported; the text names the operator and the field."""


_INTEGER_LIMIT = 2**63


@dataclass(frozen=True)
class Node:
    """A value of the document and the way to it, as the user would say it."""

    value: Any
    place: str

    def error(self, message: str) -> MirageImportError:
        """The error that ``message`` is wrong with this value."""
        return MirageImportError(f"{self.place}: {message}")

    def field(self, name: str) -> Node:
        """The field of this object; raises ``MirageImportError`` if it has none."""
        fields = self._object()
        if name not in fields:
            raise self.error(f"the field '{name}' is missing.")
        return Node(fields[name], self._beside(name))

    def optional_field(self, name: str) -> Node | None:
        """The field of this object, or ``None``."""
        return self.field(name) if name in self._object() else None

    def items(self) -> Sequence[Node]:
        """The elements of this list."""
        elements = self._list("a list")
        return [Node(element, f"{self.place}[{i}]") for i, element in enumerate(elements)]

    def integer(self, least: int | None = None) -> int:
        """This integer, which must be at least ``least``."""
        # In Python a truth value is an integer; in the document it is not.
        if not isinstance(self.value, int) or isinstance(self.value, bool):
            raise self.error(f"expected an integer, found {_kind(self.value)}.")
        if least is not None and self.value < least:
            raise self.error(f"{self.value} is too small; expected at least {least}.")
        if abs(self.value) >= _INTEGER_LIMIT:
            raise self.error(f"{self.value} is too large for a 64-bit integer.")
        return self.value

    def number(self) -> float:
        """This number."""
        if not isinstance(self.value, int | float) or isinstance(self.value, bool):
            raise self.error(f"expected a number, found {_kind(self.value)}.")
        return float(self.value)

    def text(self) -> str:
        """This string."""
        if not isinstance(self.value, str):
            raise self.error(f"expected a string, found {_kind(self.value)}.")
        return self.value

    def boolean(self) -> bool:
        """This truth value."""
        if not isinstance(self.value, bool):
            raise self.error(f"expected true or false, found {_kind(self.value)}.")
        return self.value

    def xyz(self, least: int) -> tuple[int, int, int]:
        """The integers at ``x``, ``y`` and ``z`` of this object."""
        x, y, z = (self.field(axis).integer(least) for axis in "xyz")
        return x, y, z

    def operators(self, what: str) -> Sequence[Node]:
        """The operators in this list, each placed by its index and its ``op_type``.

        ``what`` is what they are called: ``operator`` or ``threadblock operator``.
        """
        prefix = f"{self.place.removesuffix(', operators')}, " if self.place else ""
        nodes: list[Node] = []
        for index, value in enumerate(self._list("a list of operators")):
            name = cast(dict[str, Any], value).get("op_type") if isinstance(value, dict) else None
            shown = f" ({name})" if isinstance(name, str) else ""
            nodes.append(Node(value, f"{prefix}{what} {index}{shown}"))
        return nodes

    def _object(self) -> dict[str, Any]:
        value: object = self.value
        if not isinstance(value, dict):
            raise self.error(f"expected an object, found {_kind(value)}.")
        return cast(dict[str, Any], value)

    def _list(self, what: str) -> list[Any]:
        value: object = self.value
        if not isinstance(value, list):
            raise self.error(f"expected {what}, found {_kind(value)}.")
        return cast(list[Any], value)

    def _beside(self, name: str) -> str:
        # The first field follows the operator it is of, further ones the field they are in.
        return f"{self.place}, {name}" if self.place.endswith(")") else f"{self.place}.{name}"


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {value}"
        case str():
            return f"the string {value!r}"
        case list():
            return "a list"
        case _:
            return "an object"
