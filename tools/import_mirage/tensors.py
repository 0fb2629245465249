"""Tensor records: DTensors and STensors, and which value each guid stands for."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Attribute, SSAValue

from mugraph.dialects.tensor_types import dims
from mugraph.tools.import_mirage.document import Node
from mugraph.tools.import_mirage.generations import Generation

MAX_RANK = 4
DTENSOR_LAYOUTS = ("DmemRowMajor", "DmemColumnMajor", "DmemUnknownLayout")
STENSOR_LAYOUTS = ("SmemRowMajor", "SmemColumnMajor", "SmemUnknownLayout")


def read_tensor(
    tensor: Node, generation: Generation, layouts: Collection[str]
) -> tuple[tuple[int, ...], Attribute]:
    """The extents and the element type of a tensor record.

    ``layouts`` are the names that its ``layout`` may have; of those, column-major ones are not
    supported, for no saved µGraph says which two dimensions they would exchange.
    """
    layout = tensor.field("layout")
    if layout.text() not in layouts:
        raise layout.error(f"{layout.text()!r} is no layout; expected {', '.join(layouts)}.")
    if "ColumnMajor" in layout.text():
        raise layout.error(f"{layout.text()} is not supported.")
    return read_shape(tensor), generation.element_type(tensor.field("data_type"))


def read_shape(tensor: Node) -> tuple[int, ...]:
    """The extents of a tensor record: the first ``num_dims`` of ``dim``, the rest being zero."""
    rank = tensor.field("num_dims")
    if not 1 <= rank.integer() <= MAX_RANK:
        raise rank.error(f"a tensor has 1 to {MAX_RANK} dimensions, not {rank.value}.")
    extents = tensor.field("dim").items()
    if len(extents) < rank.integer():
        raise tensor.field("dim").error(
            f"{len(extents)} extents for {rank.value} dimensions; one each is expected."
        )
    if any(extent.integer() != 0 for extent in extents[rank.integer() :]):
        raise tensor.field("dim").error(f"has extents beyond its {rank.value} dimensions.")
    return tuple(extent.integer(1) for extent in extents[: rank.integer()])


def read_strides(strides: Node, tensor: Node) -> tuple[int, ...] | None:
    """Strides in elements, one a dimension of the tensor; ``None`` for an empty list.

    They must give each element a place of its own.
    """
    values = tuple(stride.integer(1) for stride in strides.items())
    if not values:
        return None
    shape = read_shape(tensor)
    if len(values) != len(shape):
        raise strides.error(
            f"{len(values)} strides for a tensor of {dims(shape)}; one a dimension is expected."
        )
    reach = 0
    for stride, extent in sorted(zip(values, shape, strict=True)):
        if extent > 1 and stride <= reach:
            raise strides.error(
                f"with strides {list(values)} elements of a tensor of {dims(shape)} overlap."
            )
        reach += stride * (extent - 1)
    return values


def expect_tensor_count(operator: Node, name: str, count: int | None) -> Sequence[Node]:
    """The tensor records in a field of an operator, which must be ``count`` (any, for ``None``)."""
    tensors = operator.field(name).items()
    if count is not None and len(tensors) != count:
        raise operator.field(name).error(f"holds {len(tensors)} tensors; expected {count}.")
    return tensors


@dataclass
class Tensors:
    """The tensors that operators have defined so far, by guid."""

    kind: str
    """What they are called: ``DTensor`` or ``STensor``."""
    _values: dict[int, SSAValue] = field(default_factory=dict[int, SSAValue])
    _records: dict[int, tuple[tuple[int, ...], Attribute]] = field(
        default_factory=dict[int, tuple[tuple[int, ...], Attribute]]
    )

    @property
    def _layouts(self) -> Sequence[str]:
        return DTENSOR_LAYOUTS if self.kind == "DTensor" else STENSOR_LAYOUTS

    def define(self, tensor: Node, value: SSAValue, generation: Generation) -> None:
        """Let the guid of a record stand for ``value``; a second definition is an error."""
        guid = tensor.field("guid")
        if guid.integer() in self._values:
            raise guid.error(f"{self.kind} {guid.value} is defined twice.")
        self._values[guid.integer()] = value
        self._records[guid.integer()] = read_tensor(tensor, generation, self._layouts)
        value.name_hint = f"{self.kind.lower()}{guid.value}"

    def use(self, tensor: Node, generation: Generation) -> SSAValue:
        """The value of a record's guid; an unknown guid, or another shape or type, is an error."""
        guid = tensor.field("guid")
        if guid.integer() not in self._values:
            raise guid.error(f"no operator before this one makes the {self.kind} {guid.value}.")
        shape, element_type = self._records[guid.integer()]
        used_shape, used_type = read_tensor(tensor, generation, self._layouts)
        if used_shape != shape:
            raise tensor.field("dim").error(
                f"{self.kind} {guid.value} has {dims(used_shape)} here, but {dims(shape)} where it "
                "is made."
            )
        if used_type != element_type:
            raise tensor.field("data_type").error(
                f"{self.kind} {guid.value} is of {used_type} here, but of {element_type} where it "
                "is made."
            )
        return self._values[guid.integer()]
