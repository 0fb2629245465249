"""Records of tensors: DTensors and STensors, each with a guid of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.ir import Attribute, Operation, SSAValue

from mugraph.dialects.tb import STensorType
from mugraph.dialects.tensor_types import (
    element_type_of,
    layout_of,
    op_label,
    row_major_strides,
    shape_of,
    strides_of,
    value_label,
)
from mugraph.tools.diagnostics import ToolError
from mugraph.tools.import_mirage.generations import DATA_TYPES, ELEMENT_TYPES
from mugraph.tools.import_mirage.tensors import MAX_RANK

Record = dict[str, Any]

FIRST_DTENSOR = 10000000
FIRST_STENSOR = 20000000
"""Where Mirage's own numbering of the two begins."""


class MirageExportError(ToolError):
    """A µGraph that Mirage's format cannot say; the text names the operator."""


def xyz(values: Sequence[int]) -> Record:
    """Three numbers as the format has them."""
    return dict(zip("xyz", values, strict=True))


@dataclass
class Tensors:
    """The records of one kind of tensor that have been written so far."""

    kind: str
    """``DTensor`` or ``STensor``."""
    generation: int
    guids: Iterator[int]
    """Numbers that no tensor of the document has yet."""
    after_loop: set[SSAValue] = field(default_factory=set[SSAValue])
    """STensors that exist after the loop only."""
    _guids: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])

    def record(self, value: SSAValue) -> Record:
        """The record of a value; raises ``MirageExportError`` where the format has no such type."""
        shape = shape_of(value.type)
        if not 1 <= len(shape) <= MAX_RANK:
            raise MirageExportError(
                f"{value_label(value)} has {len(shape)} dimensions; Mirage's format has 1 to "
                f"{MAX_RANK}."
            )
        if value not in self._guids:
            self._guids[value] = next(self.guids)
        record: Record = {
            "data_type": self._data_type(value),
            "dim": [*shape, *[0] * (MAX_RANK - len(shape))],
            "guid": self._guids[value],
            "layout": f"{self.kind[0]}memRowMajor",
            "num_dims": len(shape),
        }
        if isinstance(value.type, STensorType):
            if layout_of(value.type) is not None:
                raise MirageExportError(
                    f"{value_label(value)} has a layout, which Mirage's format has no field for; "
                    "export the µGraph before --resolve-layout."
                )
            record |= {"after_accum": value in self.after_loop, "smem_offset": 0}
        return record

    def _data_type(self, value: SSAValue) -> int:
        element_type = element_type_of(value.type)
        name = next((name for name, type_ in ELEMENT_TYPES.items() if type_ == element_type), None)
        code = next((c for c, n in DATA_TYPES[self.generation].items() if n == name), None)
        if code is None:
            raise MirageExportError(
                f"{value_label(value)} is of {element_type}, for which generation "
                f"{self.generation} of Mirage's format has no number."
            )
        return code


def strides_in(type_: Attribute, label: str) -> tuple[int, ...] | None:
    """The strides of a DTensor's layout, ``None`` where it has none.

    Raises ``MirageExportError`` where they are not one number a dimension.
    """
    layout = layout_of(type_)
    if layout is None:
        return None
    try:
        return strides_of(layout)
    except Exception as error:
        raise MirageExportError(f"{label}: {error}.") from error


def row_major(type_: Attribute) -> list[int]:
    """Contiguous strides of a type's extents."""
    return list(row_major_strides(shape_of(type_)))


def refuse(op: Operation, reason: str) -> MirageExportError:
    """The error that an operator cannot be written."""
    return MirageExportError(f"{op_label(op)}: {reason}")
