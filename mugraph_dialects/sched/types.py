"""Types of the linear schedule: buffers in each memory space, and who holds what in registers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

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

from mugraph.dialects.assembly import (
    parse_layout_attribute,
    parse_shaped_type_parameters,
    print_shaped_type_parameters,
)
from mugraph.dialects.cute.atoms import mma_atom
from mugraph.dialects.cute.attributes import LayoutAttr, TiledMmaAttr
from mugraph.dialects.cute.chaining import columns_of_values, rows_of
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.element_types import verify_element_type
from mugraph.dialects.partition import LinearPartition
from mugraph.dialects.rows import LinearRows
from mugraph.dialects.tensor_types import (
    dims,
    element_bytes_of,
    verify_distinct_addresses,
    verify_layout_fits,
)


@irdl_attr_definition
class LinearPartitionAttr(Data[LinearPartition]):
    """A linear partition: ``#sched.linear<128, vector 8, order [1, 0]>``.

    128 threads take vectors of 8 neighbours along dimension 1, then dimension 0, in turn.
    """

    name = "sched.linear"

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


@irdl_attr_definition
class SliceAttr(ParametrizedAttribute):
    """Who holds what of a reduced tensor: ``#sched.slice<1x4096 dim 1 of #sched.linear<...>>``.

    Of a tensor of the given extents, dealt out as ``parent`` says, every thread that holds an
    element of a row along ``dim`` holds the row's value.
    """

    name = "sched.slice"

    shape: ArrayAttr[IntAttr]
    dim: IntAttr
    parent: Attribute

    @classmethod
    def of(cls, shape: Sequence[int], dim: int, parent: Attribute) -> SliceAttr:
        """The slice of a tensor of these extents that ``parent`` deals out."""
        return cls(ArrayAttr([IntAttr(extent) for extent in shape]), IntAttr(dim), parent)

    def get_shape(self) -> tuple[int, ...]:
        """The extents of the tensor that is reduced."""
        return tuple(extent.data for extent in self.shape.data)

    def linear_rows(self, results: int) -> LinearRows | None:
        """The rows, ``results`` along the dimension; ``None`` unless the parent is linear.

        Raises ``ValueError`` where they are not shared out evenly.
        """
        if not isinstance(self.parent, LinearPartitionAttr):
            return None
        return LinearRows(self.parent.data, self.get_shape(), self.dim.data, results)

    def verify(self) -> None:
        """Checks the dimension and the parent."""
        shape = self.get_shape()
        if not 0 <= self.dim.data < len(shape) or any(extent < 1 for extent in shape):
            raise VerifyException(
                f"#{self.name}: dimension {self.dim.data} is not one of {len(shape)} of extents "
                "of at least 1"
            )
        if not isinstance(self.parent, LinearPartitionAttr | TiledMmaAttr):
            raise VerifyException(
                f"#{self.name}: {self.parent} does not say which thread holds which value"
            )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parses the part in angle brackets."""
        with parser.in_angle_brackets():
            shape = parser.parse_dimension_list()
            parser.parse_keyword("dim")
            dim = parser.parse_integer()
            parser.parse_keyword("of")
            parent = parser.parse_attribute()
        return ArrayAttr([IntAttr(extent) for extent in shape]), IntAttr(dim), parent

    def print_parameters(self, printer: Printer) -> None:
        """Prints the part in angle brackets."""
        with printer.in_angle_brackets():
            printer.print_dimension_list(self.get_shape())
            printer.print_string(f" dim {self.dim.data} of ")
            printer.print_attribute(self.parent)


def _parse_arrangement(parser: AttrParser) -> Sequence[Attribute]:
    """Parses ``<#cute.tiled_mma<...>>``."""
    with parser.in_angle_brackets():
        return [parser.parse_attribute()]


@irdl_attr_definition
class RowsAttr(ParametrizedAttribute):
    """Rows of an accumulator: ``#sched.rows<#cute.tiled_mma<...>>``.

    Every thread holds one number for each row of which it holds values in a product of this
    arrangement.  In a fragment with one column all lanes that share a row hold the same number;
    in one with as many columns as lanes share a row, lane q of them holds what stands in column q.
    """

    name = "sched.rows"

    mma: TiledMmaAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parses the arrangement."""
        return _parse_arrangement(parser)

    def verify(self) -> None:
        """Checks that rows of the instruction's accumulator are shared as shuffles need it."""
        try:
            rows_of(mma_atom(self.mma.atom))
        except LayoutError as error:
            raise VerifyException(f"#{self.name}: {error}") from error
        if self.mma.thr_layout[1:] != (1, 1):
            raise VerifyException(
                f"#{self.name}: {self.mma} has several warps along columns; a row must lie in one"
            )


@irdl_attr_definition
class ColumnsAttr(ParametrizedAttribute):
    """Columns of an accumulator: ``#sched.columns<#cute.tiled_mma<...>>``.

    Every thread holds one number for each column of which it holds values in a product of this
    arrangement; the fragment has one row.
    """

    name = "sched.columns"

    mma: TiledMmaAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parses the arrangement."""
        return _parse_arrangement(parser)

    def verify(self) -> None:
        """Checks that all threads share columns alike."""
        try:
            columns_of_values(mma_atom(self.mma.atom))
        except LayoutError as error:
            raise VerifyException(f"#{self.name}: {error}") from error


# Equality of a subclass compares what its bases declare only where they are dataclasses, too.
@dataclass(frozen=True, init=False)
class BufferType(ParametrizedAttribute, TypeAttribute, ABC):
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


class AddressedType(BufferType, ABC):
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


def accumulators_per_thread(mma: TiledMmaAttr, rows: int, columns: int) -> int:
    """How many values of a ``rows`` x ``columns`` product each thread holds."""
    atom = mma_atom(mma.atom)
    groups_m, groups_n, _ = mma.thr_layout
    atom_m, atom_n, _ = atom.shape_mnk
    tiles = math.ceil(rows / (atom_m * groups_m)) * math.ceil(columns / (atom_n * groups_n))
    return tiles * atom.values_of_c


@irdl_attr_definition
class FragmentType(BufferType):
    """Values in registers; the third parameter says which thread holds which.

    - ``#cute.tiled_mma<...>``: the accumulator of a tensor-core product.  With P warps along k it
      is P partial sums, ``P x rows x columns``: warps at place p along k hold part p.
    - ``#sched.linear<...>``: what element-wise operations compute.
    - ``#sched.slice<...>``: one value a row of one of these, in every thread that has part of it.
    - ``#sched.rows<#cute.tiled_mma<...>>``: a number for each row of such an accumulator, or one
      for each row and each lane that shares it.
    - ``#sched.columns<#cute.tiled_mma<...>>``: a number for each column of such an accumulator.
    """

    name = "sched.fragment"

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
    def rows(self) -> LinearRows | None:
        """The rows of a linear partition whose values it holds, if it does."""
        layout = self.layout
        if not isinstance(layout, SliceAttr):
            return None
        return layout.linear_rows(self.get_shape()[layout.dim.data])

    @property
    def row_mma(self) -> TiledMmaAttr | None:
        """The tensor-core partition whose rows it holds numbers of, if it does."""
        return self.layout.mma if isinstance(self.layout, RowsAttr) else None

    @property
    def column_mma(self) -> TiledMmaAttr | None:
        """The tensor-core partition whose columns it holds numbers of, if it does."""
        return self.layout.mma if isinstance(self.layout, ColumnsAttr) else None

    @property
    def arrangement(self) -> TiledMmaAttr | None:
        """The tensor-core partition of a product's values, of its rows or of its columns."""
        return self.tiled_mma or self.row_mma or self.column_mma

    def registers_per_thread(self) -> int:
        """How many registers of 32 bits each thread holds it in; two numbers of 16 bits share one.

        Linear fragments keep every number in a register of its own.
        """
        values = self.values_per_thread()
        narrow = self.tiled_mma is not None and element_bytes_of(self) == 2
        return math.ceil(values / 2) if narrow else values

    def values_per_thread(self) -> int:
        """How many values each thread holds, those of partly filled tiles included."""
        shape = self.get_shape()
        rows = self.rows
        if rows is not None:
            return rows.values
        if self.partition is not None:
            return self.partition.values_per_thread(shape)
        if self.row_mma is not None:
            atom = mma_atom(self.row_mma.atom)
            tiles = math.ceil(shape[-2] / (atom.shape_mnk[0] * self.row_mma.thr_layout[0]))
            return tiles * rows_of(atom).slots
        if self.column_mma is not None:
            atom = mma_atom(self.column_mma.atom)
            tiles = math.ceil(shape[-1] / (atom.shape_mnk[1] * self.column_mma.thr_layout[1]))
            return tiles * columns_of_values(atom)[0]
        if self.tiled_mma is None:
            return 0
        return accumulators_per_thread(self.tiled_mma, shape[-2], shape[-1])

    def _verify_layout(self) -> None:
        known = LinearPartitionAttr | TiledMmaAttr | SliceAttr | RowsAttr | ColumnsAttr
        if not isinstance(self.layout, known):
            raise VerifyException(
                f"!{self.name}: {self.layout} does not say which thread holds which value; "
                "expected #cute.tiled_mma<...>, #sched.rows<...>, #sched.columns<...>, "
                "#sched.linear<...> or #sched.slice<...>"
            )
        rank = len(self.get_shape())
        if isinstance(self.layout, SliceAttr):
            self._verify_slice(self.layout)
        if self.column_mma is not None and (rank < 2 or self.get_shape()[-2] != 1):
            raise VerifyException(
                f"!{self.name}: a fragment of columns has 1 row, not {dims(self.get_shape())}"
            )
        if self.row_mma is not None:
            lanes = rows_of(mma_atom(self.row_mma.atom)).lanes
            if rank < 2 or self.get_shape()[-1] not in (1, lanes):
                raise VerifyException(
                    f"!{self.name}: a fragment of rows has 1 column or {lanes}, one for each lane "
                    f"that shares a row; got {dims(self.get_shape())}"
                )
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

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parses ``<16x64xf32, #cute.tiled_mma<...>>``."""
        return parse_shaped_type_parameters(parser, lambda inner: inner.parse_attribute())


def crosses_device_memory(source: SSAValue, destination: SSAValue) -> bool:
    """Whether exactly one of the two buffers is in device memory."""
    return isinstance(source.type, GlobalType) != isinstance(destination.type, GlobalType)


Distribution = LinearPartitionAttr | TiledMmaAttr | SliceAttr
"""Who computes what of an element-wise operator, or holds what of a fragment."""


@irdl_custom_directive
class DealtBy(CustomDirective):
    """``<128, vector 8, order [1, 0]>`` for a linear partition, other attributes in full."""

    partition: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parses the attribute."""
        attribute = parser.parse_optional_attribute()
        if attribute is None:
            attribute = LinearPartitionAttr(LinearPartitionAttr.parse_parameter(parser))
        self.partition.set(state, attribute)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Prints the attribute."""
        attribute = self.partition.get(op)
        state.print_whitespace(printer)
        if isinstance(attribute, LinearPartitionAttr):
            attribute.print_parameter(printer)
        elif attribute is not None:
            printer.print_attribute(attribute)
