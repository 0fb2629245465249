"""What is done with a fragment once it is computed: written to memory, or added to another."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, opt_prop_def
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.assembly import ThenEpilogue
from mugraph.dialects.elementwise import Epilogue, EpilogueAttr, epilogue_attribute
from mugraph.dialects.interfaces import HasBufferEffects, HasSharedAccesses, SharedAccess
from mugraph.dialects.sched.accesses import HasThreadAccesses, ThreadAccess
from mugraph.dialects.sched.compute_accesses import store_accesses
from mugraph.dialects.sched.distribution import accumulated
from mugraph.dialects.sched.matrix_part import (
    part_of_matrix,
    start_attribute,
    start_of,
    verify_part,
)
from mugraph.dialects.sched.types import FragmentType, GlobalType, SharedType
from mugraph.dialects.tb.operators import epilogue_of
from mugraph.dialects.tb.product import matrix_access
from mugraph.dialects.tensor_types import AnyLayout, dims, op_label, shape_of


class _FromFragmentOp(IRDLOperation, HasBufferEffects):
    """An operator that moves a fragment somewhere, element by element."""

    epilogue = opt_prop_def(EpilogueAttr)

    def __init__(self, source: SSAValue, destination: SSAValue, epilogue: Epilogue) -> None:
        super().__init__(
            operands=[source, destination],
            properties={"epilogue": epilogue_attribute(epilogue)},
        )

    def buffers_read(self) -> Sequence[SSAValue]:
        """The source; the destination too where the epilogue accumulates."""
        return [self.operands[0], *accumulated(self, self.operands[1])]

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
        start = start_attribute(at)
        if start is not None:
            self.at = start

    @property
    def start(self) -> tuple[int, ...]:
        """Where in the destination the fragment is written."""
        return start_of(self.at, len(shape_of(self.destination.type)))

    def matrix(self) -> AnyLayout | None:
        """The part of the buffer that a product's fragment, or one of its rows, covers.

        ``None`` for other fragments.
        """
        source = self.source.type
        if not isinstance(source, FragmentType) or source.arrangement is None:
            return None
        return part_of_matrix(self.destination, self.start, source.get_shape())

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
        verify_part(self, part, self.start, whole, "the destination")
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
        return store_accesses(self, self.start, accumulates=epilogue_of(self).accumulates)


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
