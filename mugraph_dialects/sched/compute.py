"""What a block computes, on buffers and fragments, in destination-passing style.

Every operator computes in fp32, applies its epilogue, and rounds once to the element type of its
destination; an epilogue that ends in ``accum`` adds to the destination where others overwrite it.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    BoolAttr,
    DenseArrayBase,
    Float32Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    f32,
    i64,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from mugraph.dialects.assembly import Fp32Number, NamedFunction, ThenEpilogue
from mugraph.dialects.cute import Layout
from mugraph.dialects.cute.atoms import (
    PRODUCT_ATOMS,
    loads_as_stored,
    mma_atom,
    scalar_atom,
    tensor_core_atom,
)
from mugraph.dialects.cute.attributes import TiledMmaAttr
from mugraph.dialects.cute.chaining import accumulator_is_operand
from mugraph.dialects.element_types import element_type_name, verify_same_type
from mugraph.dialects.elementwise import (
    Epilogue,
    EpilogueAttr,
    ScalarFunction,
    ScalarFunctionAttr,
)
from mugraph.dialects.interfaces import HasBufferEffects, HasSharedAccesses, SharedAccess
from mugraph.dialects.launch_extents import extents_of
from mugraph.dialects.partition import LinearPartition
from mugraph.dialects.rows import LinearRows
from mugraph.dialects.sched.accesses import HasThreadAccesses, ThreadAccess
from mugraph.dialects.sched.compute_accesses import (
    elementwise_accesses,
    fill_accesses,
    mma_accesses,
    reduce_accesses,
    row_accesses,
    store_accesses,
)
from mugraph.dialects.sched.mappings import matrix_layout, with_offset
from mugraph.dialects.sched.structure import verify_partition
from mugraph.dialects.sched.types import (
    DealtBy,
    Distribution,
    FragmentType,
    GlobalType,
    LinearPartitionAttr,
    SharedType,
    SliceAttr,
)
from mugraph.dialects.shapes import ShapeError, broadcast_shape, matmul_shape
from mugraph.dialects.tb.compute import (
    Groups,
    contiguous_groups,
    epilogue_of,
    matrix_access,
    strided_groups,
)
from mugraph.dialects.tb.layouts import reduction_accesses
from mugraph.dialects.tensor_types import (
    AnyLayout,
    base_layout,
    dims,
    element_type_of,
    op_label,
    resolved_layout_of,
    shape_of,
    value_label,
)

Destination = SharedType | FragmentType
Source = SharedType | FragmentType


def _epilogue_attribute(epilogue: Epilogue) -> EpilogueAttr | None:
    return EpilogueAttr(epilogue) if epilogue else None


def _partition_attribute(partition: LinearPartition | Attribute) -> Attribute:
    if isinstance(partition, LinearPartition):
        return LinearPartitionAttr(partition)
    return partition


def _accumulated(op: IRDLOperation, destination: SSAValue) -> Sequence[SSAValue]:
    return [destination] if epilogue_of(op).accumulates else []


def verify_distribution(op: IRDLOperation, partition: Attribute, destination: SSAValue) -> None:
    """Raises ``VerifyException`` unless every fragment of an operator is held as it is dealt out.

    A fragment may also hold the rows of the destination's partition, which are broadcast.
    """
    if isinstance(partition, LinearPartitionAttr):
        verify_partition(op, partition.data, destination)
    elif isinstance(partition, SliceAttr) and not all(
        isinstance(value.type, FragmentType) for value in op.operands
    ):
        raise VerifyException(
            f"{op_label(op)} is dealt out as {partition}, by which only fragments can be reached"
        )
    shape = shape_of(destination.type)
    for value in op.operands:
        type_ = value.type
        if not isinstance(type_, FragmentType) or type_.layout == partition:
            continue
        held = type_.slice
        if (
            value is destination
            or held is None
            or held.parent != partition
            or held.get_shape() != shape
        ):
            raise VerifyException(
                f"{op_label(op)} is dealt out as {partition} but its fragment as "
                f"{type_.layout}; they must agree"
            )


@irdl_op_definition
class FillOp(IRDLOperation, HasThreadAccesses, HasBufferEffects):
    """Sets every element of a buffer or fragment to a constant, padding included."""

    name = "sched.fill"

    destination = operand_def(Destination)
    value = prop_def(FloatAttr[Float32Type])
    assembly_format = (
        "$destination `with` custom<Fp32Number>($value) attr-dict `:` type($destination)"
    )
    custom_directives = (Fp32Number,)

    def __init__(self, destination: SSAValue, value: float) -> None:
        super().__init__(operands=[destination], properties={"value": FloatAttr(value, f32)})

    def buffers_read(self) -> Sequence[SSAValue]:
        """Nothing."""
        return []

    def buffers_written(self) -> Sequence[SSAValue]:
        """The destination, padding included."""
        return [self.destination]

    def thread_accesses(self) -> Sequence[ThreadAccess]:
        """The writes of all threads, to all stages; nothing for a fragment."""
        return fill_accesses(self)


@irdl_op_definition
class ElementwiseOp(IRDLOperation, HasSharedAccesses, HasThreadAccesses, HasBufferEffects):
    """Applies a scalar function element by element; an operand's extent of 1 is broadcast.

    ``sched.elementwise div %a, %b to %d by <128, vector 8, order [1, 0]> : ...``
    Fragments are held as the operator is dealt out, or are the rows of it.
    """

    name = "sched.elementwise"

    function = prop_def(ScalarFunctionAttr)
    sources = var_operand_def(Source)
    destination = operand_def(Destination)
    epilogue = opt_prop_def(EpilogueAttr)
    partition = prop_def(Distribution)

    assembly_format = (
        "custom<NamedFunction>($function) $sources `to` $destination "
        "custom<ThenEpilogue>($epilogue) `by` custom<DealtBy>($partition) attr-dict "
        "`:` type($sources) `to` type($destination)"
    )
    custom_directives = (NamedFunction, ThenEpilogue, DealtBy)

    def __init__(
        self,
        function: ScalarFunction,
        sources: Sequence[SSAValue],
        destination: SSAValue,
        epilogue: Epilogue,
        partition: LinearPartition | Attribute,
    ) -> None:
        super().__init__(
            operands=[sources, destination],
            properties={
                "function": ScalarFunctionAttr(function),
                "epilogue": _epilogue_attribute(epilogue),
                "partition": _partition_attribute(partition),
            },
        )

    @property
    def linear(self) -> LinearPartition | None:
        """The linear partition by which it is dealt out, if it is one."""
        attribute = self.partition
        return attribute.data if isinstance(attribute, LinearPartitionAttr) else None

    def buffers_read(self) -> Sequence[SSAValue]:
        """The sources; the destination too where the epilogue accumulates."""
        return [*self.sources, *_accumulated(self, self.destination)]

    def buffers_written(self) -> Sequence[SSAValue]:
        """The destination."""
        return [self.destination]

    def verify_(self) -> None:
        """Checks arity, extents and the partition."""
        function = self.function.data
        if len(self.sources) != function.arity:
            raise VerifyException(
                f"{op_label(self)}: {function} takes {function.arity} operands, got "
                f"{len(self.sources)}"
            )
        try:
            expected = broadcast_shape([shape_of(source.type) for source in self.sources])
        except ShapeError as error:
            raise VerifyException(f"{op_label(self)}: {error}") from error
        if shape_of(self.destination.type) != expected:
            raise VerifyException(
                f"{op_label(self)}: the destination has "
                f"{dims(shape_of(self.destination.type))}, expected {dims(expected)}"
            )
        verify_distribution(self, self.partition, self.destination)

    def shared_accesses(self) -> Sequence[SharedAccess]:
        """Along the partition's first dimension, in its vectors."""
        partition = self.linear
        if partition is None:
            return []
        return [
            SharedAccess(
                value,
                partition.inner,
                1 if shape_of(value.type)[partition.inner] == 1 else partition.vector,
            )
            for value in (self.destination, *self.sources)
            if isinstance(value.type, SharedType)
        ]

    def thread_accesses(self) -> Sequence[ThreadAccess]:
        """The sources in order, then the destination, in vectors of the partition."""
        if self.linear is None:
            return []
        return elementwise_accesses(self, self.linear, accumulates=epilogue_of(self).accumulates)


class Grouping(StrEnum):
    """Which elements of the reduced dimension each result of a reduction sums."""

    STRIDED = "strided"
    CONTIGUOUS = "contiguous"


@irdl_attr_definition
class GroupingAttr(EnumAttribute[Grouping], SpacedOpaqueSyntaxAttribute):
    """``#sched<grouping strided>``."""

    name = "sched.grouping"


class Combiner(StrEnum):
    """How a reduction makes one number of two."""

    SUM = "sum"
    MAX = "max"


@irdl_attr_definition
class CombinerAttr(EnumAttribute[Combiner], SpacedOpaqueSyntaxAttribute):
    """``#sched<combiner max>``."""

    name = "sched.combiner"


@irdl_op_definition
class ReduceOp(IRDLOperation, HasSharedAccesses, HasThreadAccesses, HasBufferEffects):
    """Sums groups of elements along one dimension; ``lanes`` neighbouring threads share a sum.

    ``by`` deals the results out to the groups of lanes.
    Result j of n sums elements j, j + n ... (``strided``) or the j-th run of extent / n
    neighbours (``contiguous``).  The order of additions is fixed.

    With ``combine max`` the result is the largest element, and ``accum`` keeps the larger of it and
    the destination.  ``difference`` is a second destination, of the same extents, for what the
    destination was less what it becomes, as stored; 0 where it was -infinity.

    Results may be the rows of a fragment (``#sched.slice``), of which every lane then has its
    rows' results.  The source is that fragment, whose lanes combine what they hold by shuffles, or
    a buffer, of which every thread reduces by itself what belongs to its rows (``lanes 1``).
    """

    name = "sched.reduce"

    source = operand_def(Source)
    destination = operand_def(Destination)
    difference = opt_operand_def(Destination)
    combiner = opt_prop_def(CombinerAttr)
    dim = prop_def(IntegerAttr.constr(type=i64))
    grouping = prop_def(GroupingAttr)
    lanes = prop_def(IntegerAttr.constr(type=i64))
    partition = prop_def(Distribution)
    epilogue = opt_prop_def(EpilogueAttr)

    assembly_format = (
        "$source `to` $destination (`difference` $difference^)? custom<ThenEpilogue>($epilogue) "
        "(`combine` $combiner^)? `dim` $dim $grouping `lanes` $lanes "
        "`by` custom<DealtBy>($partition) attr-dict "
        "`:` type($source) `to` type($destination) (`,` type($difference)^)?"
    )
    custom_directives = (ThenEpilogue, DealtBy)

    def __init__(
        self,
        source: SSAValue,
        destination: SSAValue,
        dim: int,
        grouping: Grouping,
        lanes: int,
        partition: LinearPartition | Attribute,
        epilogue: Epilogue,
        combiner: Combiner = Combiner.SUM,
        difference: SSAValue | None = None,
    ) -> None:
        super().__init__(
            operands=[source, destination, difference],
            properties={
                "combiner": None if combiner is Combiner.SUM else CombinerAttr(combiner),
                "dim": IntegerAttr(dim, i64),
                "grouping": GroupingAttr(grouping),
                "lanes": IntegerAttr(lanes, i64),
                "partition": _partition_attribute(partition),
                "epilogue": _epilogue_attribute(epilogue),
            },
        )

    @property
    def reduced_dim(self) -> int:
        """The dimension summed over."""
        return self.dim.value.data

    @property
    def lane_count(self) -> int:
        """How many neighbouring threads share one sum."""
        return self.lanes.value.data

    @property
    def combination(self) -> Combiner:
        """How one number is made of two; a sum unless the operator says otherwise."""
        return Combiner.SUM if self.combiner is None else self.combiner.data

    def groups(self) -> Groups:
        """Which elements each result sums."""
        extent = shape_of(self.source.type)[self.reduced_dim]
        results = shape_of(self.destination.type)[self.reduced_dim]
        if self.grouping.data is Grouping.STRIDED:
            return strided_groups(extent, results)
        return contiguous_groups(extent, results)

    def buffers_read(self) -> Sequence[SSAValue]:
        """The source; the destination too where the epilogue accumulates."""
        return [self.source, *_accumulated(self, self.destination)]

    def buffers_written(self) -> Sequence[SSAValue]:
        """The destination, and that of the difference."""
        return [self.destination, *([] if self.difference is None else [self.difference])]

    def verify_(self) -> None:
        """Checks extents and lanes."""
        if self.difference is not None:
            if self.combination is not Combiner.MAX or not epilogue_of(self).accumulates:
                raise VerifyException(
                    f"{op_label(self)}: a difference is that of a running maximum; expected "
                    "'combine max' and 'then [accum]'"
                )
            if shape_of(self.difference.type) != shape_of(self.destination.type):
                raise VerifyException(
                    f"{op_label(self)}: the difference has "
                    f"{dims(shape_of(self.difference.type))}, expected "
                    f"{dims(shape_of(self.destination.type))} as the destination"
                )
        source, result = shape_of(self.source.type), shape_of(self.destination.type)
        dim = self.reduced_dim
        same = len(source) == len(result) and all(
            source[other] == result[other] for other in range(len(source)) if other != dim
        )
        if not 0 <= dim < len(source) or not same or source[dim] % result[dim]:
            raise VerifyException(
                f"{op_label(self)}: {dims(source)} does not reduce to {dims(result)} along "
                f"dimension {dim}"
            )
        lanes = self.lane_count
        if not isinstance(self.partition, LinearPartitionAttr):
            self._verify_rows()
        else:
            verify_partition(self, self.partition.data, self.destination)
            if any(isinstance(value.type, FragmentType) for value in self.operands):
                raise VerifyException(
                    f"{op_label(self)}: results in registers are dealt out as rows of a fragment; "
                    "expected 'by #sched.slice<...>'"
                )
        if lanes not in (1, 2, 4, 8, 16, 32):
            raise VerifyException(
                f"{op_label(self)}: {lanes} lanes cannot share a sum; expected a power of two up "
                "to 32"
            )

    def _verify_rows(self) -> None:
        """Checks a reduction whose results are the rows of a fragment."""
        partition, source = self.partition, self.source.type
        results = [self.destination, *([] if self.difference is None else [self.difference])]
        for value in results:
            if not isinstance(value.type, FragmentType) or value.type.layout != partition:
                raise VerifyException(
                    f"{op_label(self)} is dealt out as {partition}; {value_label(value)} must be a "
                    "fragment that is held so"
                )
        if not isinstance(partition, SliceAttr) or partition.dim.data != self.reduced_dim:
            raise VerifyException(
                f"{op_label(self)}: {partition} does not deal out rows along dimension "
                f"{self.reduced_dim}"
            )
        if self.grouping.data is not Grouping.CONTIGUOUS:
            raise VerifyException(f"{op_label(self)}: a row of a fragment is contiguous")
        if not isinstance(source, FragmentType):
            if self.lane_count != 1:
                raise VerifyException(
                    f"{op_label(self)}: every thread reduces by itself what it reads from "
                    "memory for the rows of a fragment; expected 'lanes 1'"
                )
            return
        if source.layout != partition.parent or source.get_shape() != partition.get_shape():
            raise VerifyException(
                f"{op_label(self)}: the source is held as {source.layout}, the results are rows of "
                f"{partition.parent}"
            )
        rows = self.rows
        if rows is not None and (not rows.combines or rows.lanes != self.lane_count):
            raise VerifyException(
                f"{op_label(self)}: {rows.lanes} threads share a row, expected a power of two up "
                f"to 32 and as many lanes, not {self.lane_count}; rows of whole warps are reduced "
                "by 'sched.reduce_warps' first"
            )

    @property
    def rows(self) -> LinearRows | None:
        """The rows of a linear fragment that the results are, if they are."""
        type_ = self.destination.type
        return type_.rows if isinstance(type_, FragmentType) else None

    def shared_accesses(self) -> Sequence[SharedAccess]:
        """Lanes walk along the reduced dimension, groups of lanes along the results."""
        if not isinstance(self.partition, LinearPartitionAttr):
            if isinstance(self.source.type, FragmentType):
                return []
            return [SharedAccess(self.source, self.reduced_dim, self.groups().count)]
        accesses = reduction_accesses(
            self.source,
            self.destination,
            self.reduced_dim,
            self.lane_count,
            self.partition.data.order,
        )
        if self.difference is not None:
            accesses.append(SharedAccess(self.difference, self.partition.data.inner, 1))
        return accesses

    def thread_accesses(self) -> Sequence[ThreadAccess]:
        """The lanes' reads of the source, then lane 0's access to the sum and the difference."""
        if not isinstance(self.partition, LinearPartitionAttr):
            if self.rows is None or isinstance(self.source.type, FragmentType):
                return []
            return row_accesses(self, self.groups(), self.reduced_dim, self.rows)
        return reduce_accesses(
            self,
            self.groups(),
            self.reduced_dim,
            self.lane_count,
            self.partition.data,
            accumulates=epilogue_of(self).accumulates,
        )


def _start_of(at: DenseArrayBase[IntegerType] | None, rank: int) -> tuple[int, ...]:
    return (0,) * rank if at is None else extents_of(at)


def _start_attribute(at: Sequence[int] | None) -> DenseArrayBase[IntegerType] | None:
    return None if at is None else DenseArrayBase.from_list(i64, list(at))


def _verify_part(
    op: IRDLOperation, part: Sequence[int], start: Sequence[int], whole: Sequence[int], what: str
) -> None:
    """Raises ``VerifyException`` unless a fragment that begins at ``start`` lies within a whole."""
    if (
        len(part) != len(whole)
        or len(start) != len(whole)
        or any(
            at < 0 or at + extent > limit
            for at, extent, limit in zip(start, part, whole, strict=True)
        )
    ):
        place = f" at {list(start)}" if any(start) else ""
        raise VerifyException(
            f"{op_label(op)}: the fragment has {dims(part)}{place}, expected {dims(whole)}, "
            f"{what}, or a part of it"
        )


def _part_of_matrix(
    value: SSAValue, start: Sequence[int], extents: Sequence[int], *, transposed: bool = False
) -> AnyLayout:
    """The layout of a part of a buffer's last two dimensions, as a matrix or its transpose."""
    layout = resolved_layout_of(value)
    offset = base_layout(layout)(*start)
    return with_offset(matrix_layout(layout, extents, transposed=transposed), offset)


@irdl_op_definition
class MmaOp(IRDLOperation, HasSharedAccesses, HasThreadAccesses, HasBufferEffects):
    """Adds the product of two matrices to an accumulator fragment.

    The right one is in shared memory, the left one too or in a fragment of the same arrangement,
    whose threads hold operand A of the instruction as they hold its accumulators.

    The fragment's ``#cute.tiled_mma`` names the instruction, of tensor cores or of single threads,
    and the warps (or threads) along m and n.  ``ldmatrix [true, true]`` says which operands are
    loaded with ``ldmatrix``; others element by element, converted to what the instruction takes:
    f8 exactly to f16, f32 rounded to TF32.

    ``at [0, 64]`` where the accumulator holds only the part of the product that starts there.

    With P warps along k the accumulator is P partial sums, ``Px16x64xf32``: the steps of the
    instruction along k go to them in turn.  ``sched.sum_parts`` makes the product of them.
    """

    name = "sched.mma"

    lhs = operand_def(SharedType | FragmentType)
    rhs = operand_def(SharedType)
    accumulator = operand_def(FragmentType)
    at = opt_prop_def(DenseArrayBase.constr(i64))
    ldmatrix_lhs = prop_def(BoolAttr)
    ldmatrix_rhs = prop_def(BoolAttr)

    assembly_format = (
        "$lhs `,` $rhs (`at` $at^)? `to` $accumulator "
        "`ldmatrix` ` ` `[` $ldmatrix_lhs `,` $ldmatrix_rhs `]` attr-dict "
        "`:` type($lhs) `,` type($rhs) `to` type($accumulator)"
    )

    def __init__(
        self,
        lhs: SSAValue,
        rhs: SSAValue,
        accumulator: SSAValue,
        ldmatrix: tuple[bool, bool],
        at: Sequence[int] | None = None,
    ) -> None:
        super().__init__(
            operands=[lhs, rhs, accumulator],
            properties={
                "at": _start_attribute(at),
                "ldmatrix_lhs": BoolAttr.from_bool(ldmatrix[0]),
                "ldmatrix_rhs": BoolAttr.from_bool(ldmatrix[1]),
            },
        )

    @property
    def ldmatrix(self) -> tuple[bool, bool]:
        """Whether each operand is loaded with ``ldmatrix``."""
        return bool(self.ldmatrix_lhs.value.data), bool(self.ldmatrix_rhs.value.data)

    @property
    def start(self) -> tuple[int, ...]:
        """Where in the product the accumulator starts."""
        return _start_of(self.at, len(shape_of(self.lhs.type)))

    @property
    def parts(self) -> int:
        """How many partial sums the accumulator is: the warps along k."""
        accumulator = self.accumulator.type
        return accumulator.parts if isinstance(accumulator, FragmentType) else 1

    @property
    def lhs_in_registers(self) -> bool:
        """Whether the left matrix is a fragment."""
        return isinstance(self.lhs.type, FragmentType)

    def matrices(self) -> tuple[AnyLayout, AnyLayout]:
        """What is read: (rows of the accumulator, k) and (columns of the accumulator, k).

        A left matrix in registers is described as if it were compact.
        """
        *_, rows, columns = shape_of(self.accumulator.type)
        *leading, row, column = self.start
        depth = shape_of(self.lhs.type)[-1]
        rhs = _part_of_matrix(self.rhs, (*leading, 0, column), (depth, columns), transposed=True)
        if self.lhs_in_registers:
            return Layout((rows, depth), (depth, 1)), rhs
        return _part_of_matrix(self.lhs, (*leading, row, 0), (rows, depth)), rhs

    def buffers_read(self) -> Sequence[SSAValue]:
        """Both matrices and the accumulator."""
        return [self.lhs, self.rhs, self.accumulator]

    def buffers_written(self) -> Sequence[SSAValue]:
        """The accumulator."""
        return [self.accumulator]

    def verify_(self) -> None:
        """Checks extents and the accumulator."""
        try:
            expected = matmul_shape(shape_of(self.lhs.type), shape_of(self.rhs.type))
        except ShapeError as error:
            raise VerifyException(f"{op_label(self)}: {error}") from error
        accumulator = self.accumulator.type
        held = shape_of(accumulator)
        self._verify_extents(held[1:] if self.parts > 1 else held, expected)
        if not isinstance(accumulator, FragmentType) or accumulator.tiled_mma is None:
            raise VerifyException(
                f"{op_label(self)}: the accumulator must be a fragment with a #cute.tiled_mma"
            )
        self._verify_instruction(accumulator, accumulator.tiled_mma)
        self._verify_lhs(accumulator)

    def _verify_lhs(self, accumulator: FragmentType) -> None:
        """A left matrix in registers is operand A as it is."""
        lhs, mma = self.lhs.type, accumulator.tiled_mma
        if not isinstance(lhs, FragmentType) or mma is None:
            return
        atom = mma_atom(mma.atom)
        depth = lhs.get_shape()[-1]
        if lhs.layout != mma or mma.thr_layout[1:] != (1, 1):
            raise VerifyException(
                f"{op_label(self)}: its left operand is {lhs.layout}; expected {mma} as the "
                "accumulator, and all warps along m"
            )
        if not accumulator_is_operand(atom, atom) or depth % atom.shape_mnk[2]:
            raise VerifyException(
                f"{op_label(self)}: accumulators of {depth} columns are not operand A of "
                f"{atom.name} thread by thread"
            )
        if self.at is not None or self.ldmatrix[0]:
            raise VerifyException(
                f"{op_label(self)}: a left operand in registers is whole, and no ldmatrix loads it"
            )

    def _verify_extents(self, held: Sequence[int], product: Sequence[int]) -> None:
        if self.at is None and tuple(held) != tuple(product):
            raise VerifyException(
                f"{op_label(self)}: the accumulator has {dims(held)}, expected {dims(product)}"
            )
        _verify_part(self, held, self.start, product, "the product")

    def _verify_instruction(self, accumulator: FragmentType, mma: TiledMmaAttr) -> None:
        """The operands are of one type, which the instruction multiplies."""
        verify_same_type(self, [self.lhs, self.rhs], "sched.elementwise identity")
        element = element_type_name(element_type_of(self.lhs.type))
        taken = tensor_core_atom(element), scalar_atom(element)
        atom = mma_atom(mma.atom)
        if atom.name in PRODUCT_ATOMS and atom not in taken:
            raise VerifyException(
                f"{op_label(self)}: {atom.name} does not multiply "
                f"{element_type_of(self.lhs.type)}; use {taken[0].name} or {taken[1].name}"
            )
        summed = element_type_name(accumulator.element_type)
        if summed != atom.c_type:
            raise VerifyException(
                f"{op_label(self)}: {atom.name} adds up in {atom.c_type}, the accumulator holds "
                f"{accumulator.element_type}"
            )
        for value, uses_ldmatrix in zip((self.lhs, self.rhs), self.ldmatrix, strict=True):
            if uses_ldmatrix and (atom.is_scalar or not loads_as_stored(atom, element)):
                raise VerifyException(
                    f"{op_label(self)}: ldmatrix cannot load {value_label(value)}, whose elements "
                    f"{atom.name} takes only after a conversion"
                )

    def shared_accesses(self) -> Sequence[SharedAccess]:
        """Rows of 16 bytes, one below the other, of the operands in shared memory."""
        operands = (self.lhs, self.rhs)
        return [matrix_access(value) for value in operands if isinstance(value.type, SharedType)]

    def thread_accesses(self) -> Sequence[ThreadAccess]:
        """The reads of both operands, in the order of k."""
        accumulator = self.accumulator.type
        mma = accumulator.tiled_mma if isinstance(accumulator, FragmentType) else None
        return mma_accesses(self, mma, self.matrices(), self.ldmatrix)


class _FromFragmentOp(IRDLOperation, HasBufferEffects):
    """An operator that moves a fragment somewhere, element by element."""

    epilogue = opt_prop_def(EpilogueAttr)

    def __init__(self, source: SSAValue, destination: SSAValue, epilogue: Epilogue) -> None:
        super().__init__(
            operands=[source, destination],
            properties={"epilogue": _epilogue_attribute(epilogue)},
        )

    def buffers_read(self) -> Sequence[SSAValue]:
        """The source; the destination too where the epilogue accumulates."""
        return [self.operands[0], *_accumulated(self, self.operands[1])]

    def buffers_written(self) -> Sequence[SSAValue]:
        """The destination."""
        return [self.operands[1]]

    def verify_(self) -> None:
        """Checks that both sides have the same extents."""
        source, destination = self.operands
        if shape_of(source.type) != shape_of(destination.type):
            raise VerifyException(
                f"{op_label(self)}: source has {dims(shape_of(source.type))}, destination "
                f"{dims(shape_of(destination.type))}"
            )


@irdl_op_definition
class StoreOp(_FromFragmentOp, HasSharedAccesses, HasThreadAccesses):
    """Writes a fragment to shared memory, or to a tile in device memory, through an epilogue.

    To device memory only the fragment of a product or of its rows, and without ``accum``.

    ``at [0, 64]`` is where the part of the buffer starts that a smaller fragment is written to.
    """

    name = "sched.store"

    source = operand_def(FragmentType)
    destination = operand_def(SharedType | GlobalType)
    at = opt_prop_def(DenseArrayBase.constr(i64))

    assembly_format = (
        "$source `to` $destination (`at` $at^)? custom<ThenEpilogue>($epilogue) attr-dict "
        "`:` type($source) `to` type($destination)"
    )
    custom_directives = (ThenEpilogue,)

    def __init__(
        self,
        source: SSAValue,
        destination: SSAValue,
        epilogue: Epilogue,
        at: Sequence[int] | None = None,
    ) -> None:
        super().__init__(source, destination, epilogue)
        start = _start_attribute(at)
        if start is not None:
            self.at = start

    @property
    def start(self) -> tuple[int, ...]:
        """Where in the destination the fragment is written."""
        return _start_of(self.at, len(shape_of(self.destination.type)))

    def matrix(self) -> AnyLayout | None:
        """The part of the buffer that a product's fragment, or one of its rows, covers.

        ``None`` for other fragments.
        """
        source = self.source.type
        if not isinstance(source, FragmentType) or source.arrangement is None:
            return None
        return _part_of_matrix(self.destination, self.start, source.get_shape())

    def verify_(self) -> None:
        """Checks that the fragment is the buffer's, or a product's part of it."""
        fragment = self.source.type
        if isinstance(self.destination.type, GlobalType) and (
            epilogue_of(self).accumulates
            or not isinstance(fragment, FragmentType)
            or fragment.arrangement is None
        ):
            raise VerifyException(
                f"{op_label(self)}: only the fragment of a product, or of its rows, is written to "
                "device memory so, and never added to it"
            )
        if self.at is None:
            super().verify_()
            return
        source, destination = self.operands
        part, whole = shape_of(source.type), shape_of(destination.type)
        _verify_part(self, part, self.start, whole, "the destination")
        if isinstance(source.type, FragmentType) and source.type.tiled_mma is None:
            raise VerifyException(
                f"{op_label(self)}: only the fragment of a product can be a part of a buffer"
            )

    def shared_accesses(self) -> Sequence[SharedAccess]:
        """As the partition of the fragment walks; nothing in device memory."""
        if isinstance(self.destination.type, GlobalType):
            return []
        source = self.source.type
        if isinstance(source, FragmentType) and source.partition is not None:
            inner = source.partition.inner
            return [SharedAccess(self.destination, inner, source.partition.vector)]
        if isinstance(source, FragmentType) and source.slice is not None:
            return [SharedAccess(self.destination, source.slice.dim.data, 1)]
        return [matrix_access(self.destination)]

    def thread_accesses(self) -> Sequence[ThreadAccess]:
        """The writes of the threads that hold the fragment."""
        return store_accesses(self, self.matrix(), accumulates=epilogue_of(self).accumulates)


@irdl_op_definition
class AccumulateOp(_FromFragmentOp):
    """Adds a fragment, through an epilogue, to another of the same partition."""

    name = "sched.accumulate"

    source = operand_def(FragmentType)
    destination = operand_def(FragmentType)

    assembly_format = (
        "$source `to` $destination custom<ThenEpilogue>($epilogue) attr-dict "
        "`:` type($source) `to` type($destination)"
    )
    custom_directives = (ThenEpilogue,)

    def buffers_read(self) -> Sequence[SSAValue]:
        """Both fragments: the destination is always added to."""
        return [self.source, self.destination]

    def verify_(self) -> None:
        """Checks extents and partitions."""
        super().verify_()
        if epilogue_of(self).accumulates:
            raise VerifyException(
                f"{op_label(self)} always adds to its destination; leave out 'accum'"
            )
        source, destination = self.source.type, self.destination.type
        if (
            isinstance(source, FragmentType)
            and isinstance(destination, FragmentType)
            and source.layout != destination.layout
        ):
            raise VerifyException(
                f"{op_label(self)}: {source.layout} and {destination.layout} hold elements in "
                "different threads"
            )


__all__ = [
    "AccumulateOp",
    "Combiner",
    "CombinerAttr",
    "ElementwiseOp",
    "FillOp",
    "Grouping",
    "GroupingAttr",
    "MmaOp",
    "ReduceOp",
    "StoreOp",
    "epilogue_of",
]
