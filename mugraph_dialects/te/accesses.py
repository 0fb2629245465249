"""Buffers and accesses to them."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, cast

from xdsl.dialects.builtin import AffineMapAttr, IntegerAttr, i64
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, Operation, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    ParamAttrConstraint,
    VarConstraint,
    irdl_attr_definition,
    operand_def,
    prop_def,
    result_def,
)
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from mugraph.dialects.abstract import Abstract
from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.te.indices import verify_indices
from mugraph.dialects.te.loops import Conditional
from mugraph.dialects.te.sections import IndexedOp, SectionOp
from mugraph.dialects.te.types import REDUCED_TYPES, BufferType, Space
from mugraph.dialects.te.values import IndexOfOp
from mugraph.dialects.tensor_types import dims

OFFSET = "te.offset"
"""The attribute of what is planned in memory: where it begins, in bytes of what holds it."""
DISTINCT = "te.distinct"
"""The attribute of a ``te.bind`` to an element that no other iteration touches."""


class AccessKind(StrEnum):
    """What an access does to its element."""

    READ = "read"
    WRITE = "write"
    RED = "red"
    ATOMIC = "atomic"

    @property
    def verb(self) -> str:
        """What messages say that an access does."""
        return {
            AccessKind.READ: "reads",
            AccessKind.WRITE: "writes",
            AccessKind.RED: "reduces into",
            AccessKind.ATOMIC: "changes atomically",
        }[self]


class Combination(StrEnum):
    """How a reduction or an atomic operation combines the old element with a number."""

    ADD = "add"
    MAX = "max"
    MIN = "min"


@irdl_attr_definition
class CombinationAttr(EnumAttribute[Combination], SpacedOpaqueSyntaxAttribute):
    """``#te<combination max>``."""

    name = "te.combination"


class Placed(IRDLOperation, Abstract):
    """An operator that makes something whose place in shared memory or the workspace is planned."""

    @property
    def byte_offset(self) -> int | None:
        """Where it begins, once planned."""
        offset = self.attributes.get(OFFSET)
        return offset.value.data if isinstance(offset, IntegerAttr) else None

    def place_at(self, offset: int) -> None:
        """Plans where it begins."""
        self.attributes[OFFSET] = IntegerAttr(offset, i64)


@irdl_op_definition
class NewOp(Placed):
    """A buffer that exists from here to the end of the block it stands in: ``te.new``.

    Each time that control comes here it is another one, with undefined contents.
    ``%t = te.new : !te.buffer<256xf32, shared>``.
    """

    name = "te.new"

    result = result_def(BufferType)
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self, type_: BufferType) -> None:
        super().__init__(result_types=[type_])

    def verify_(self) -> None:
        """Checks what a buffer of a cluster must be."""
        type_ = self.result.type
        if type_.memory_space is Space.CLUSTER and (
            len(type_.get_shape()) < 2 or isinstance(type_.layout, LayoutAttr)
        ):
            raise VerifyException(
                "'te.new': a buffer of a cluster has a first dimension, the block, further ones, "
                "what each block has, and no layout"
            )


@dataclass(frozen=True)
class Touch:
    """What an operator does to a box of elements of a buffer.

    ``operand`` is the buffer or a section of it.  ``expressions`` are the index of the first
    element in the buffer, in ``indices``: one a dimension, or one in row-major order.  ``box`` has
    an extent for each.  Where the elements are no box, ``offsets`` are how far their row-major
    numbers are from that of the first one, and the box is what they span.  Of a ``clipped`` box
    the elements that the buffer does not have are not touched; its elements may be ``steps`` apart.
    """

    operand: SSAValue
    kind: AccessKind
    expressions: tuple[AffineExpr, ...]
    indices: tuple[SSAValue, ...]
    box: tuple[int, ...]
    combines: Combination | None = None
    offsets: tuple[int, ...] | None = None
    clipped: bool = False
    steps: tuple[int, ...] | None = None
    sized: tuple[int, ...] | None = None
    """The buffer's extents in a call that says them."""
    only: Conditional | None = None
    """The operator, where it touches elements only under conditions of its own."""

    @property
    def section(self) -> SectionOp | None:
        """The section that the operand is, if it is one."""
        owner = self.operand.owner
        return owner if isinstance(owner, SectionOp) else None

    @property
    def buffer(self) -> SSAValue:
        """The buffer."""
        return self.operand if self.section is None else self.section.buffer

    @property
    def extents(self) -> tuple[int, ...]:
        """What each index is below: the buffer's extents, or all of its elements."""
        shape = self.type.get_shape() if self.sized is None else self.sized
        return shape if len(self.expressions) == len(shape) else (math.prod(shape),)

    @property
    def writes(self) -> bool:
        """Whether elements change."""
        return self.kind is not AccessKind.READ

    @property
    def type(self) -> BufferType:
        """The type of the buffer."""
        return cast(BufferType, self.buffer.type)


class HasTouches(Abstract):
    """An operator that reads or writes elements of buffers."""

    @abstractmethod
    def touches(self) -> Sequence[Touch]:
        """What it reads and writes in memory, or of registers that an instruction takes."""


def touches_in(root: Operation) -> Iterator[Touch]:
    """What an operator and those in it read and write, in the order of the text."""
    for op in root.walk():
        if isinstance(op, HasTouches):
            yield from op.touches()


def touches_of(buffer: SSAValue) -> Iterator[tuple[Operation, Touch]]:
    """What operators do to a buffer and to sections of it."""
    sections = [use.operation for use in buffer.uses if isinstance(use.operation, SectionOp)]
    operands = [buffer, *(section.result for section in sections)]
    for op in dict.fromkeys(use.operation for operand in operands for use in operand.uses):
        if isinstance(op, HasTouches):
            yield from ((op, touch) for touch in op.touches() if touch.buffer is buffer)


def whole_touch(operand: SSAValue, kind: AccessKind) -> Touch:
    """What touches all elements of a buffer, or of the section that an operand is."""
    shape = cast(BufferType, operand.type).get_shape()
    start, indices = (AffineExpr.constant(0),) * len(shape), ()
    if isinstance(section := operand.owner, SectionOp):
        start, indices = section.index_map.results, tuple(section.indices)
    return Touch(operand, kind, start, indices, shape)


def row_box(indices: Sequence[AffineExpr], width: int) -> tuple[int, ...]:
    """The extents of so many neighbours along the last of some indices."""
    return (*(1,) * (len(indices) - 1), width)


ELEMENT = VarConstraint("ELEMENT", AnyAttr())
"""The type of an access's numbers, that of the elements of its buffer."""
BUFFER_OF_ELEMENTS = ParamAttrConstraint(BufferType, (AnyAttr(), ELEMENT, AnyAttr(), AnyAttr()))
PLACE = "$buffer custom<IndexList>($indices, $map) attr-dict `:` type($buffer)"
"""The text of an access's element, with the operator's attributes."""


class AccessOp(IndexedOp, HasTouches):
    """An operator that reads or writes one element of a buffer.

    With one index it is that element in row-major order; with as many as the buffer has dimensions
    it is that coordinate.
    """

    KIND: ClassVar[AccessKind]

    buffer = operand_def(BUFFER_OF_ELEMENTS)

    @property
    def kind(self) -> AccessKind:
        """What the access does to the element."""
        return self.KIND

    @property
    def combines(self) -> Combination | None:
        """How the old element takes part, of a reduction or an atomic operation."""
        return None

    @property
    def width(self) -> int:
        """How many neighbouring elements it touches, from that at the index on."""
        return 1

    def touches(self) -> Sequence[Touch]:
        """The element, or a vector of elements; along indices that are contents, any element."""
        exact = self.exact_touch()
        unknown = [isinstance(one.owner, IndexOfOp) for one in self.indices]
        if not any(unknown):
            return [exact]
        places = iter(range(len(unknown)))
        known = [AffineExpr.dimension(0 if one else next(places)) for one in unknown]
        first: list[AffineExpr] = []
        box: list[int] = []
        for start, extent, part in zip(exact.expressions, exact.extents, exact.box, strict=True):
            used = AffineMap(len(unknown), 0, (start,)).used_dims_bit_vector()
            is_any = any(one and other for one, other in zip(used, unknown, strict=True))
            zero = AffineExpr.constant(0)
            first.append(zero if is_any else start.replace_dims_and_symbols(known, []))
            box.append(extent if is_any else part)
        indices = tuple(one for one, other in zip(self.indices, unknown, strict=True) if not other)
        return [replace(exact, expressions=tuple(first), indices=indices, box=tuple(box))]

    def exact_touch(self) -> Touch:
        """The element, or a vector of elements, by all of its indices."""
        results = self.index_map.results
        box = row_box(results, self.width)
        indices = tuple(self.indices)
        return Touch(self.buffer, self.kind, results, indices, box, self.combines)

    @property
    def is_indirect(self) -> bool:
        """Whether an index is the contents of a buffer, or made of them."""
        return any(isinstance(one.owner, IndexOfOp) for one in self.indices)

    def verify_(self) -> None:
        """Checks the indices."""
        verify_indices(f"'{self.name}'", self.index_map, self.indices)
        verify_index_count(f"'{self.name}'", self.buffer_type, len(self.index_map.results))


def verify_index_count(label: str, type_: BufferType, count: int) -> None:
    """Raises ``VerifyException`` unless there is one index, or one a dimension."""
    rank = len(type_.get_shape())
    if count not in (1, rank):
        raise VerifyException(
            f"{label}: {count} indices of a buffer of {dims(type_.get_shape())}; expected "
            + (f"{rank}, or 1 in row-major order" if rank > 1 else "1")
        )


@irdl_op_definition
class ViewOp(AccessOp):
    """The element at an index: ``%a = te.view %A[%i * 64 + %k] : !te.buffer<4096xf16>``."""

    name = "te.view"
    KIND: ClassVar[AccessKind] = AccessKind.READ

    result = result_def(ELEMENT)
    assembly_format = PLACE

    def __init__(self, buffer: SSAValue, indices: Sequence[SSAValue], map_: AffineMapAttr) -> None:
        type_ = cast(BufferType, buffer.type)
        super().__init__(
            operands=[buffer, indices],
            properties={"map": map_},
            result_types=[type_.element_type],
        )


@irdl_op_definition
class BindOp(AccessOp):
    """Stores a value at an index: ``te.bind %v, %C[%i * 64 + %j] : !te.buffer<4096xf32>``.

    With the attribute ``te.distinct`` it is said that no other iteration touches the element, where
    the indices do not say so: it counts as an atomic operation.
    """

    name = "te.bind"
    KIND: ClassVar[AccessKind] = AccessKind.WRITE

    @property
    def kind(self) -> AccessKind:
        """That of a write, or of an atomic operation where elements are distinct."""
        return AccessKind.ATOMIC if DISTINCT in self.attributes else AccessKind.WRITE

    value = operand_def(ELEMENT)
    assembly_format = f"$value `,` {PLACE}"

    def __init__(
        self,
        value: SSAValue,
        buffer: SSAValue,
        indices: Sequence[SSAValue],
        map_: AffineMapAttr,
    ) -> None:
        super().__init__(operands=[value, buffer, indices], properties={"map": map_})


class CombiningOp(AccessOp):
    """An access that combines the element with a value."""

    value = operand_def(ELEMENT)
    combination = prop_def(CombinationAttr)
    assembly_format: ClassVar[str | None] = f"$combination $value `,` {PLACE}"

    def __init__(
        self,
        combination: Combination,
        value: SSAValue,
        buffer: SSAValue,
        indices: Sequence[SSAValue],
        map_: AffineMapAttr,
    ) -> None:
        super().__init__(
            operands=[value, buffer, indices],
            properties={"map": map_, "combination": CombinationAttr(combination)},
            result_types=self._result_types(buffer),
        )

    @classmethod
    def _result_types(cls, buffer: SSAValue) -> Sequence[Attribute]:
        """The types of what it gives, of the element before."""
        return []

    @property
    def combines(self) -> Combination:
        """How the old element takes part."""
        return self.combination.data

    def verify_(self) -> None:
        """Checks the indices and the type."""
        super().verify_()
        type_ = self.buffer_type.element_type
        if type_ not in REDUCED_TYPES:
            raise VerifyException(
                f"'{self.name}' changes elements of {', '.join(map(str, REDUCED_TYPES))}, not of "
                f"{type_}"
            )


@irdl_op_definition
class RedOp(CombiningOp):
    """Adds to a reduction: ``te.red add %v, %S[0] : !te.buffer<1xf32>``.

    The element becomes its old value combined with those of all iterations that come here, in any
    order and association; it may be read once the parallel loops whose iterations share it have
    ended.
    """

    name = "te.red"
    KIND: ClassVar[AccessKind] = AccessKind.RED


@irdl_op_definition
class AtomicOp(CombiningOp):
    """Changes an element in one indivisible step, and gives what it was before.

    ``%old = te.atomic add %v, %S[0] : !te.buffer<1xi32>``.
    """

    name = "te.atomic"
    KIND: ClassVar[AccessKind] = AccessKind.ATOMIC

    result = result_def(ELEMENT)

    @classmethod
    def _result_types(cls, buffer: SSAValue) -> Sequence[Attribute]:
        """That of the element."""
        return [cast(BufferType, buffer.type).element_type]


def accesses_in(op: Operation) -> list[AccessOp]:
    """The accesses in an operator's regions, in the order of the text."""
    return [inner for inner in op.walk() if isinstance(inner, AccessOp)]
