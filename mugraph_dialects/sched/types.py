"""Types of the linear schedule: buffers in each memory space, and who holds what in registers."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

from xdsl.dialects.builtin import ArrayAttr, IntAttr
from xdsl.ir import Attribute, Data, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import IRDLOperation, irdl_attr_definition
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    irdl_custom_directive,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.abstract import Abstract
from mugraph.dialects.assembly import (
    parse_layout_attribute,
    parse_shaped_type_parameters,
    print_shaped_type_parameters,
)
from mugraph.dialects.cute.attributes import LayoutAttr, TiledMmaAttr
from mugraph.dialects.cute.thread_values import ThreadValues
from mugraph.dialects.element_types import verify_element_type
from mugraph.dialects.partition import LinearPartition
from mugraph.dialects.programming_model import WARP
from mugraph.dialects.rows import LinearRows
from mugraph.dialects.tensor_types import (
    dims,
    element_bytes_of,
    kept_with_attribute,
    verify_distinct_addresses,
    verify_layout_fits,
)


@irdl_attr_definition
class LinearPartitionAttr(Data[LinearPartition]):
    """A linear partition: ``#sched.linear<128, vector 8, order [1, 0]>``.

    128 threads take vectors of 8 neighbours along dimension 1, then dimension 0, in turn.
    """

    name = "sched.linear"

    def thread_values(self, shape: Sequence[int]) -> ThreadValues:
        """Which element of a tensor of this shape each value of each thread is."""
        return self.data.thread_values(shape)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> LinearPartition:
        """Parses the part in angle brackets."""
        position = parser.pos
        with parser.in_angle_brackets():
            threads = parser.parse_integer()
            parser.parse_punctuation(",")
            parser.parse_keyword("vector")
            vector = parser.parse_integer()
            parser.parse_punctuation(",")
            parser.parse_keyword("order")
            order = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
        try:
            return LinearPartition(threads, vector, tuple(order))
        except ValueError as error:
            parser.raise_error(str(error), position, parser.pos)

    def print_parameter(self, printer: Printer) -> None:
        """Prints the part in angle brackets."""
        partition = self.data
        with printer.in_angle_brackets():
            printer.print_string(
                f"{partition.threads}, vector {partition.vector}, order {list(partition.order)}"
            )


@runtime_checkable
class Distribution(Protocol):
    """What says who holds what of a fragment, or computes what of an operator."""

    def thread_values(self, shape: Sequence[int]) -> ThreadValues:
        """Which element of a tensor of this shape each value of each thread is."""
        ...


@irdl_attr_definition
class SliceAttr(ParametrizedAttribute):
    """Who holds what of a reduced tensor: ``#sched.slice<1x4096 dim 1 of #sched.linear<...>>``.

    Of a tensor dealt out as ``parent`` says, every thread that holds an element of a row along
    ``dim`` holds the row's value.  A linear partition needs the tensor's extents; of an accumulator
    they are left out, ``#sched.slice<dim 1 of #cute.tiled_mma<...>>``, as it is dealt out in equal
    tiles: ``dim`` is its last dimension, for numbers of rows, or the one before, for numbers of
    columns.

    A slice with several numbers along ``dim`` has one for each equal run of it under a linear
    partition.  Of an accumulator it has one for each lane that shares a row, and lane q holds what
    stands in column q.
    """

    name = "sched.slice"

    shape: ArrayAttr[IntAttr]
    dim: IntAttr
    parent: Attribute

    @classmethod
    def of(cls, parent: Attribute, dim: int, shape: Sequence[int] = ()) -> SliceAttr:
        """The slice of what ``parent`` deals out, of these extents where it needs them."""
        return cls(ArrayAttr([IntAttr(extent) for extent in shape]), IntAttr(dim), parent)

    def get_shape(self) -> tuple[int, ...]:
        """The extents of the tensor that is reduced; none where they do not count."""
        return tuple(extent.data for extent in self.shape.data)

    def linear_rows(self, results: int) -> LinearRows | None:
        """The rows, ``results`` along the dimension; ``None`` unless the parent is linear.

        Raises ``ValueError`` where they are not shared out evenly.
        """
        if not isinstance(self.parent, LinearPartitionAttr):
            return None
        return LinearRows(self.parent.data, self.get_shape(), self.dim.data, results)

    def thread_values(self, shape: Sequence[int]) -> ThreadValues:
        """Which element of a tensor of this shape, the reduced one, each value of a thread is.

        Raises ``ValueError`` or ``LayoutError`` where threads do not hold whole results.
        """
        rows = self.linear_rows(shape[self.dim.data])
        if rows is not None:
            return rows.thread_values()
        assert isinstance(self.parent, Distribution)  # verified
        whole = self.parent.thread_values(shape)
        results = shape[self.dim.data]
        dim = self.dim.data
        return whole.sliced(dim) if results == 1 else whole.sliced_by_threads(dim)

    def verify(self) -> None:
        """Checks the dimension and the parent."""
        if not isinstance(self.parent, LinearPartitionAttr | TiledMmaAttr):
            raise VerifyException(
                f"#{self.name}: {self.parent} does not say which thread holds which value"
            )
        shape = self.get_shape()
        if isinstance(self.parent, TiledMmaAttr):
            if shape:
                raise VerifyException(
                    f"#{self.name}: an accumulator is dealt out in equal tiles; leave out its "
                    f"extents {dims(shape)}"
                )
        elif not 0 <= self.dim.data < len(shape) or any(extent < 1 for extent in shape):
            raise VerifyException(
                f"#{self.name}: dimension {self.dim.data} is not one of {len(shape)} of extents "
                "of at least 1"
            )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parses the part in angle brackets."""
        with parser.in_angle_brackets():
            shape: Sequence[int] = ()
            if parser.parse_optional_keyword("dim") is None:
                shape = parser.parse_dimension_list()
                parser.parse_keyword("dim")
            dim = parser.parse_integer()
            parser.parse_keyword("of")
            parent = parser.parse_attribute()
        return ArrayAttr([IntAttr(extent) for extent in shape]), IntAttr(dim), parent

    def print_parameters(self, printer: Printer) -> None:
        """Prints the part in angle brackets."""
        with printer.in_angle_brackets():
            if self.get_shape():
                printer.print_dimension_list(self.get_shape())
                printer.print_string(" ")
            printer.print_string(f"dim {self.dim.data} of ")
            printer.print_attribute(self.parent)


# Equality of a subclass compares what its bases declare only where they are dataclasses, too.
@dataclass(frozen=True, init=False)
class BufferType(ParametrizedAttribute, TypeAttribute, Abstract):
    """A buffer of a memory space: extents, element type, and a layout in elements."""

    shape: ArrayAttr[IntAttr]
    element_type: Attribute
    layout: Attribute

    @classmethod
    def of(cls, shape: Sequence[int], element_type: Attribute, layout: Attribute) -> Self:
        """The type with these extents, element type and layout (or partition)."""
        return cls.new([ArrayAttr([IntAttr(extent) for extent in shape]), element_type, layout])

    def get_shape(self) -> tuple[int, ...]:
        """The extents."""
        return tuple(extent.data for extent in self.shape.data)

    def get_element_type(self) -> Attribute:
        """The type in which elements are stored."""
        return self.element_type

    def verify(self) -> None:
        """Checks extents, element type and layout."""
        if not self.shape.data or any(extent.data < 1 for extent in self.shape.data):
            raise VerifyException(
                f"!{self.name} of {dims(self.get_shape())}: every extent must be at least 1"
            )
        verify_element_type(f"!{self.name}", self.element_type)
        self._verify_layout()

    @abstractmethod
    def _verify_layout(self) -> None:
        """Checks the third parameter."""

    def print_parameters(self, printer: Printer) -> None:
        """Prints what ``parse_parameters`` parses."""
        print_shaped_type_parameters(printer, self.get_shape(), self.element_type, self.layout)


class AddressedType(BufferType):
    """A buffer whose layout maps coordinates to element offsets."""

    def with_layout(self, layout: LayoutAttr) -> Self:
        """The same buffer with another layout."""
        return self.of(self.get_shape(), self.element_type, layout)

    def _verify_layout(self) -> None:
        if not isinstance(self.layout, LayoutAttr):
            raise VerifyException(
                f"!{self.name}: a layout is missing; write it as "
                f"!{self.name}<16x128xf16, (16,128):(128,1)>"
            )
        verify_layout_fits(f"!{self.name}", self.get_shape(), self.layout.data)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parses ``<16x128xf16, (16,128):(128,1)>``."""
        return parse_shaped_type_parameters(parser, parse_layout_attribute)


@irdl_attr_definition
class GlobalType(AddressedType):
    """A tensor, or a tile of one, in device memory."""

    name = "sched.global"


@irdl_attr_definition
class SharedType(AddressedType):
    """A buffer in the block's shared memory."""

    name = "sched.shared"

    def _verify_layout(self) -> None:
        super()._verify_layout()
        if isinstance(self.layout, LayoutAttr):
            verify_distinct_addresses(f"!{self.name}", self.layout.data)


@irdl_attr_definition
class TensorMemoryType(AddressedType):
    """A buffer in tensor memory (sm_100a): the layout maps to column and lane offsets."""

    name = "sched.tmem"


@irdl_attr_definition
class TokenType(ParametrizedAttribute, TypeAttribute):
    """A group of asynchronous copies, which ``sched.wait`` waits for."""

    name = "sched.token"


@irdl_attr_definition
class TileType(BufferType):
    """Values in registers; the third parameter says which thread holds which.

    - ``#cute.tiled_mma<...>``: the accumulator of a tensor-core product.  With P warps along k it
      is P partial sums, ``P x rows x columns``: warps at place p along k hold part p.
    - ``#sched.linear<...>``: what element-wise operations compute.
    - ``#sched.slice<...>``: what is reduced of one of these along a dimension, in every thread
      that has part of it.

    All of them answer with one layout from (thread, value) to elements, :meth:`thread_values`.
    """

    name = "sched.tile"

    @property
    def partition(self) -> LinearPartition | None:
        """The linear partition, if it is one."""
        return self.layout.data if isinstance(self.layout, LinearPartitionAttr) else None

    @property
    def tiled_mma(self) -> TiledMmaAttr | None:
        """The tensor-core partition, if it is one."""
        return self.layout if isinstance(self.layout, TiledMmaAttr) else None

    @property
    def parts(self) -> int:
        """How many partial sums of a product there are: its warps along k."""
        return 1 if self.tiled_mma is None else self.tiled_mma.thr_layout[2]

    @property
    def slice(self) -> SliceAttr | None:
        """What it is a slice of, if it is one."""
        return self.layout if isinstance(self.layout, SliceAttr) else None

    @property
    def sliced_axis(self) -> int | None:
        """The dimension it is reduced along, counted from the last one, which is -1; if it is."""
        return None if self.slice is None else self.slice.dim.data - len(self.get_shape())

    @property
    def rows(self) -> LinearRows | None:
        """The rows of a linear partition whose values it holds, if it does."""
        held = self.slice
        return None if held is None else held.linear_rows(self.get_shape()[held.dim.data])

    @property
    def arrangement(self) -> TiledMmaAttr | None:
        """The tensor-core partition of a product's values, or of what they are a slice of."""
        whole = self.layout if self.slice is None else self.slice.parent
        return whole if isinstance(whole, TiledMmaAttr) else None

    @kept_with_attribute
    def thread_values(self) -> ThreadValues:
        """Which element each value of each thread is."""
        assert isinstance(self.layout, Distribution)  # verified
        return self.layout.thread_values(self.get_shape())

    def registers_per_thread(self) -> int:
        """How many registers of 32 bits each thread holds it in; two numbers of 16 bits share one.

        So they do in fragments of products, and of vectors, which stay as they are loaded.
        """
        values, partition = self.values_per_thread(), self.partition
        in_pairs = self.tiled_mma is not None or (partition is not None and partition.vector > 1)
        narrow = in_pairs and element_bytes_of(self) == 2
        return math.ceil(values / 2) if narrow else values

    def values_per_thread(self) -> int:
        """How many values each thread holds, those of partly filled tiles included."""
        return self.thread_values().values

    def _verify_layout(self) -> None:
        if not isinstance(self.layout, Distribution):
            raise VerifyException(
                f"!{self.name}: {self.layout} does not say which thread holds which value; "
                "expected #cute.tiled_mma<...>, #sched.linear<...> or #sched.slice<...>"
            )
        rank = len(self.get_shape())
        if isinstance(self.layout, SliceAttr):
            self._verify_slice(self.layout)
        if isinstance(self.layout, LinearPartitionAttr) and len(self.layout.data.order) != rank:
            raise VerifyException(
                f"!{self.name}: the partition orders {len(self.layout.data.order)} dimensions, "
                f"the fragment has {rank}"
            )
        if self.parts > 1 and (rank < 3 or self.get_shape()[0] != self.parts):
            raise VerifyException(
                f"!{self.name}: {self.layout} has {self.parts} warps along k, so that the first of "
                f"at least 3 extents must be {self.parts}, one partial sum for each; it is "
                f"{dims(self.get_shape())}"
            )

    def _verify_slice(self, layout: SliceAttr) -> None:
        if isinstance(layout.parent, TiledMmaAttr):
            self._verify_slice_of_product(layout)
            return
        whole, shape = layout.get_shape(), self.get_shape()
        dim = layout.dim.data
        fits = len(whole) == len(shape) and all(
            one == other
            for at, (one, other) in enumerate(zip(whole, shape, strict=True))
            if at != dim
        )
        if not fits or whole[dim] % shape[dim]:
            raise VerifyException(
                f"!{self.name}: {dims(shape)} is not {dims(whole)} reduced along dimension {dim}"
            )
        try:
            layout.linear_rows(shape[dim])
        except ValueError as error:
            raise VerifyException(f"!{self.name}: {error}") from error

    def _verify_slice_of_product(self, layout: SliceAttr) -> None:
        shape, axis = self.get_shape(), self.sliced_axis
        if len(shape) < 2 or axis not in (-1, -2):
            raise VerifyException(
                f"!{self.name}: a product is reduced along one of its last two dimensions, not "
                f"along dimension {layout.dim.data} of {dims(shape)}"
            )
        if axis == -2:
            if shape[axis] != 1:
                raise VerifyException(
                    f"!{self.name}: a fragment of columns has 1 row, not {dims(shape)}"
                )
            return
        single = (*shape[:-1], 1)
        held = layout.thread_values(single)
        if not held.is_shared_by_neighbours or held.holders > WARP:
            raise VerifyException(
                f"!{self.name}: the rows of {layout.parent} are not shared by a power of two of "
                "neighbouring threads; a row must lie in one warp"
            )
        if shape[-1] not in (1, held.holders):
            raise VerifyException(
                f"!{self.name}: a fragment of rows has 1 column or {held.holders}, one for each "
                f"lane that shares a row; got {dims(shape)}"
            )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parses ``<16x64xf32, #cute.tiled_mma<...>>``."""
        return parse_shaped_type_parameters(parser, lambda inner: inner.parse_attribute())


def crosses_device_memory(source: SSAValue, destination: SSAValue) -> bool:
    """Whether exactly one of the two buffers is in device memory."""
    return isinstance(source.type, GlobalType) != isinstance(destination.type, GlobalType)


@irdl_custom_directive
class DealtBy(CustomDirective):
    """``by <128, vector 8, order [1, 0]>``; nothing where fragments say who computes what."""

    partition: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parses the clause if it is there."""
        if parser.parse_optional_keyword("by") is None:
            return
        partition = LinearPartitionAttr(LinearPartitionAttr.parse_parameter(parser))
        self.partition.set(state, partition)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Prints the clause if the operator has a partition."""
        attribute = self.partition.get(op)
        if isinstance(attribute, LinearPartitionAttr):
            state.print_whitespace(printer)
            printer.print_string("by ")
            attribute.print_parameter(printer)
