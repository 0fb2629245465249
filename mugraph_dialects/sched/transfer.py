"""Copies between memory spaces, and the synchronisation that makes them visible."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, UnitAttr, i64
from xdsl.ir import BlockArgument, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    opt_prop_def,
    prop_def,
)
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.accessors import is_given, number_if_given, number_or
from mugraph.dialects.copies import ASYNC_BYTES
from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.launch_extents import extents_of, integer_array
from mugraph.dialects.partition import VECTOR_BYTES, LinearPartition
from mugraph.dialects.ragged import Bounds, RaggedDim, ragged_dims
from mugraph.dialects.sched.accesses import (
    AccessKind,
    HasThreadAccesses,
    ThreadAccess,
    async_access,
    partitioned_access,
    partitioned_stream,
    plain_access,
    stage_reference,
)
from mugraph.dialects.sched.grid import GridWaitOp
from mugraph.dialects.sched.local_tile import LocalTileOp
from mugraph.dialects.sched.mappings import (
    Access,
    Stream,
    access_of,
    ends_of_rows,
    following_vectors,
    for_block,
    iteration_layout,
)
from mugraph.dialects.sched.role import verify_partition
from mugraph.dialects.sched.structure import (
    AllocOp,
    PrologueOp,
    enclosing_kernel,
    enclosing_loop,
    verify_fixed_iteration,
)
from mugraph.dialects.sched.tile_values import TiedTiles, WritesTiles, tile_types
from mugraph.dialects.sched.types import (
    GlobalType,
    LinearPartitionAttr,
    SharedType,
    TileType,
    crosses_device_memory,
)
from mugraph.dialects.tensor_types import (
    dims,
    element_bytes_of,
    element_type_of,
    op_label,
    resolved_layout_of,
    shape_of,
    strides_of,
    value_label,
)


@irdl_op_definition
class CopyOp(WritesTiles, HasThreadAccesses):
    """Copies a tile between device memory and shared memory, or registers.

    ``by`` says which thread moves what.  ``async`` uses ``cp.async``: the data may be read only
    after a ``sched.wait`` that covers the copy's group, and by other threads only after a barrier.
    In the loop, ``ahead n`` loads the tile of iteration ``it + n`` into its stage and does nothing
    past the last iteration; in the prologue, ``iteration n`` names the iteration.  ``within [0]``
    leaves out the elements that do not exist along dimension 0 of a ragged tile: nothing of device
    memory is touched in their place, and zeros are written to shared memory.

    A fragment is held as the copy is dealt out; an asynchronous copy has none.  A fragment may have
    more elements than a tile along dimensions of extent 1, which all of them are loaded from, as
    the weights of the columns of several rows.

    ``arriving`` of a table of the kernel of which another kernel still writes one row: an ``early``
    copy of the same tile, before ``sched.grid_wait``, has brought what else there is, and this one
    brings that row.  What the early one brings counts only once this one has come.
    """

    name = "sched.copy"

    source = operand_def(GlobalType | SharedType | TileType)
    destination = operand_def(GlobalType | SharedType | TileType)
    partition = prop_def(LinearPartitionAttr)
    asynchronous = opt_prop_def(UnitAttr)
    ahead = opt_prop_def(IntegerAttr.constr(type=i64))
    iteration = opt_prop_def(IntegerAttr.constr(type=i64))
    within = opt_prop_def(DenseArrayBase.constr(i64))
    early = opt_prop_def(UnitAttr)
    arriving = opt_prop_def(UnitAttr)

    assembly_format = (
        "(`async` $asynchronous^)? $source `to` $destination `by` $partition "
        "(`ahead` $ahead^)? (`iteration` $iteration^)? (`within` $within^)? "
        "(`early` $early^)? (`arriving` $arriving^)? attr-dict "
        "`:` type($source) `to` type($destination) custom<TiedTiles>(type($tiles))"
    )
    custom_directives = (TiedTiles,)

    def __init__(
        self,
        source: SSAValue,
        destination: SSAValue,
        partition: LinearPartition,
        *,
        asynchronous: bool = False,
        ahead: int = 0,
        iteration: int | None = None,
        within: Sequence[int] = (),
    ) -> None:
        super().__init__(
            operands=[source, destination],
            result_types=[tile_types(destination)],
            properties={
                "partition": LinearPartitionAttr(partition),
                "asynchronous": UnitAttr() if asynchronous else None,
                "ahead": IntegerAttr(ahead, i64) if ahead else None,
                "iteration": None if iteration is None else IntegerAttr(iteration, i64),
                "within": integer_array(within) if within else None,
            },
        )

    is_async = is_given("asynchronous")
    """Whether the copy lands only when waited for."""

    is_early = is_given("early")
    """Whether another copy brings the row of the tile that is written meanwhile."""

    is_arriving = is_given("arriving")
    """Whether another copy has brought all but one row of the tile."""

    @property
    def extents(self) -> tuple[int, ...]:
        """The extents of what is dealt out: the fragment's, where there is one."""
        held = self.destination if isinstance(self.destination.type, TileType) else self.source
        return shape_of(held.type)

    @property
    def repeats(self) -> bool:
        """Whether elements of a fragment are loaded from the same one of a tile."""
        return shape_of(self.source.type) != self.extents

    @property
    def is_shifted(self) -> bool:
        """Whether threads move vectors that start anywhere, and shift them in registers.

        What is touched are the aligned 16 bytes around each vector, or those that begin in it; of
        elements that count it is what threads touch together who move them one by one.
        """
        return not self.is_async and self.may_shift(self.partition.data)

    def may_shift(self, partition: LinearPartition) -> bool:
        """Whether a copy dealt out so would have vectors of 16 bytes that start anywhere.

        They lie side by side in the tile, and at whole vectors in shared memory alone.  What goes
        to registers may start anywhere, too, but not what comes from them.
        """
        tile, inner = self._tile(), partition.inner
        if tile is None or partition.vector == 1 or self.repeats:
            return False
        if not (tile.is_plain or self._stores_up_to(tile)):
            return False
        there, buffer = self.source, self.destination
        if not isinstance(there.type, GlobalType):
            there, buffer = buffer, there
            if isinstance(buffer.type, TileType):
                return False  # neighbours' elements are in other threads' registers
        shape = shape_of(there.type)
        same = element_type_of(there.type) == element_type_of(buffer.type)
        is_whole = partition.vector * element_bytes_of(there.type) == VECTOR_BYTES
        if not same or not is_whole:
            return False
        if shape[inner] % partition.vector or strides_of(resolved_layout_of(there))[inner] != 1:
            return False

        def touched(value: SSAValue) -> Access:
            layout = iteration_layout(resolved_layout_of(value), shape, shape, partition.order)
            return access_of(layout, partition.vector)

        if not isinstance(buffer.type, TileType) and touched(buffer) is not Access.CONTIGUOUS:
            return False
        starts = (*tile.block_strides(), tile.iteration_stride())
        anywhere = any(start % partition.vector for start in starts)
        return anywhere or touched(there) is Access.GATHER

    def _stores_up_to(self, tile: LocalTileOp) -> bool:
        """Whether it writes a tile of which a value says where it ends.

        Of what is loaded, vectors around the last elements must not lie behind the tensor's end.
        """
        somewhere = tile.through is not None or tile.windows is not None or bool(tile.known)
        return self.destination is tile.result and not somewhere

    @property
    def shifted_partition(self) -> LinearPartition:
        """Who moves what, in whole vectors that start anywhere where those may be; else as is."""
        partition = self.partition.data
        sizes = [element_bytes_of(value.type) for value in self.operands]
        wide = replace(partition, vector=VECTOR_BYTES // max(sizes))
        return wide if partition.vector < wide.vector and self.may_shift(wide) else partition

    ahead_of = number_or("ahead", 0)
    """How many iterations ahead of the current one the copied tile is used."""

    fixed_iteration = number_if_given("iteration")
    """The iteration whose tile is copied, outside the loop."""

    @property
    def checked_dims(self) -> tuple[int, ...]:
        """The dimensions along which elements that do not exist are left out."""
        return () if self.within is None else extents_of(self.within)

    def ragged(self) -> list[RaggedDim]:
        """Which elements exist along the dimensions that are checked."""
        if not self.checked_dims:
            return []
        bounds = dict(enumerate(self._tile_bounds()))
        return [
            RaggedDim(dim, bound)
            for dim in self.checked_dims
            if (bound := bounds.get(dim)) is not None
        ]

    def run_of_row(self, dim: int) -> int | None:
        """How many elements of a row along ``dim`` follow each other in the order of the copy.

        ``None`` where not all of the row's do, or threads move vectors of several rows.
        """
        shape, partition = shape_of(self.source.type), self.partition.data
        inner = partition.order[: partition.order.index(dim)]
        run = math.prod(shape[each] for each in inner)
        whole = run * shape[dim] == math.prod(shape) and run % partition.vector == 0
        return run if whole else None

    def _tile(self) -> LocalTileOp | None:
        owners = (self.source.owner, self.destination.owner)
        return next((owner for owner in owners if isinstance(owner, LocalTileOp)), None)

    def _tile_bounds(self) -> Bounds:
        tile = self._tile()
        return () if tile is None else tile.bounds()

    def end_of(self) -> dict[int, SSAValue]:
        """The dimensions along which a value says how many elements of the tensor exist."""
        tile = self._tile()
        return {} if tile is None else tile.end_of

    def leave_out(self) -> None:
        """Leaves out the elements that do not exist of its tile, whatever that has become."""
        within = [entry.dim for entry in ragged_dims(self._tile_bounds())]
        self.within = integer_array(within) if within else None

    def _verify_within(self) -> None:
        checked = self.checked_dims
        wanted = [entry.dim for entry in ragged_dims(self._tile_bounds())]
        missing = [dim for dim in wanted if dim not in checked]
        if missing:
            raise VerifyException(
                f"{op_label(self)} copies a tile that is ragged along dimension {missing[0]}: some "
                f"of its elements lie outside of the tensor; say 'within {wanted}'"
            )
        if list(checked) != wanted:
            raise OperatorError(
                f"'within {list(checked)}' must name the dimensions along which the tile is "
                f"ragged, {wanted or 'none'}, in order"
            )

    def verify_(self) -> None:
        """Checks spaces, extents, threads, vector width, and where ahead/iteration may stand."""
        if self.repeats:
            self._verify_repeats()
        elif shape_of(self.source.type) != shape_of(self.destination.type):
            raise OperatorError(
                f"source has {dims(shape_of(self.source.type))}, destination "
                f"{dims(shape_of(self.destination.type))}"
            )
        if not crosses_device_memory(self.source, self.destination):
            raise VerifyException(
                f"{op_label(self)} moves data between device memory and shared memory; its "
                "operands are in the same space"
            )
        for value in self.operands:
            if isinstance(value.type, TileType) and value.type.layout != self.partition:
                raise VerifyException(
                    f"{op_label(self)} is dealt out as {self.partition} but its fragment as "
                    f"{value.type.layout}; they must agree"
                )
        verify_partition(self, self.partition.data, self.destination)
        self._verify_within()
        self._verify_rows()
        self._verify_arriving()
        sizes = [
            element_bytes_of(value.type)
            for value in self.operands
            if not isinstance(value.type, TileType)
        ]
        width = self.partition.data.vector * sizes[-1]
        if width > VECTOR_BYTES:
            raise OperatorError(f"{width} bytes exceed a thread's widest access")
        if self.is_async:
            self._verify_async(width)
        owner = self.destination.owner
        if isinstance(owner, AllocOp) and self.ahead_of >= owner.stage_count:
            raise OperatorError(
                f"ahead {self.ahead_of} would overwrite a stage still in use; the buffer has "
                f"{owner.stage_count} stages"
            )
        if self.ahead is not None and enclosing_loop(self) is None:
            raise OperatorError("'ahead' has a meaning only in the loop")
        if self.iteration is not None and not isinstance(self.parent_op(), PrologueOp):
            raise OperatorError("'iteration' has a meaning only before the loop")
        if self.fixed_iteration is not None:
            verify_fixed_iteration(self, self.fixed_iteration, enclosing_kernel(self))

    def _verify_repeats(self) -> None:
        own, held = shape_of(self.source.type), self.extents
        if len(own) != len(held) or any(
            one not in (1, more) for one, more in zip(own, held, strict=True)
        ):
            raise OperatorError(
                f"source has {dims(own)}, the fragment {dims(held)}: extents must be the same, or "
                "1 of the source"
            )
        tile = self._tile()
        if tile is None or not tile.is_plain:
            raise VerifyException(
                f"{op_label(self)} loads the same elements several times, which only tiles have "
                "that lie in one place and end where their types say"
            )

    def _verify_rows(self) -> None:
        tile = self._tile()
        if tile is not None and tile.windows is not None:
            if isinstance(self.source.type, GlobalType) and isinstance(
                self.destination.type, SharedType
            ):
                return
            raise VerifyException(
                f"{op_label(self)} touches windows of {value_label(tile.source)}, which are only "
                "copied to shared memory"
            )
        if tile is None or tile.through is None:
            return
        if isinstance(self.source.type, TileType):
            raise VerifyException(
                f"{op_label(self)} writes rows of {value_label(tile.source)} that numbers name "
                "from registers; copy them out of shared memory"
            )
        vector, inner = self.partition.data.vector, self.partition.data.inner
        if vector > 1 and inner < len(tile.numbers_shape):
            raise VerifyException(
                f"{op_label(self)} moves {vector} elements at once along dimension {inner}, each "
                "of a row of its own; choose another order, or 'vector 1'"
            )
        if isinstance(self.destination.type, TileType) and tile.rows_in_tile > 1:
            raise VerifyException(
                f"{op_label(self)} loads {tile.rows_in_tile} rows that numbers name to registers; "
                "copy them to shared memory"
            )

    def _verify_arriving(self) -> None:
        if not (self.is_early or self.is_arriving):
            return
        table = self.source.owner.source if isinstance(self.source.owner, LocalTileOp) else None
        known = (
            isinstance(table, BlockArgument) and table.index in enclosing_kernel(self).arriving_rows
        )
        if not known or not self.is_async or self.is_early == self.is_arriving:
            raise VerifyException(
                f"{op_label(self)} copies a tile early, or the row of it that arrives, so it must "
                "be asynchronous, and its kernel must name that row of the table ('arriving')"
            )
        if self._other_half() is None:
            other = "an 'arriving' copy of it behind" if self.is_early else "an 'early' one before"
            raise VerifyException(
                f"{op_label(self)} brings a part of a tile only, expected {other} "
                "'sched.grid_wait' in the same block, dealt out alike"
            )

    def _other_half(self) -> CopyOp | None:
        """The copy that brings the row of an early one, or the early one of such a row."""
        ops = [] if self.parent is None else list(self.parent.ops)
        waits = [at for at, op in enumerate(ops) if isinstance(op, GridWaitOp)]
        for other in [op for op in ops if isinstance(op, CopyOp)]:
            early, late = (self, other) if self.is_early else (other, self)
            apart = any(ops.index(early) < at < ops.index(late) for at in waits)
            alike = (*other.operands, other.partition) == (*self.operands, self.partition)
            if early.is_early and late.is_arriving and apart and alike:
                return other
        return None

    def _verify_async(self, width: int) -> None:
        if not isinstance(self.destination.type, SharedType):
            raise OperatorError("only copies to shared memory can be async")
        if width not in ASYNC_BYTES:
            raise OperatorError(f"cp.async moves 4, 8 or 16 bytes, not {width}; copy synchronously")
        if element_type_of(self.source.type) != element_type_of(self.destination.type):
            raise OperatorError("an async copy cannot convert elements")

    def buffers_read(self) -> Sequence[SSAValue]:
        """The source."""
        return [self.source]

    def thread_accesses(self) -> Sequence[ThreadAccess]:
        """The source's vectors, then the destination's, by one instruction where asynchronous.

        A store that is shifted reads the next vector of the source besides, and the ends of rows.
        An early copy has none: the one that brings the row has those of all.
        """
        if self.is_early:
            return []
        stage = stage_reference(self, self.ahead_of, self.fixed_iteration)
        partition, domain = self.partition.data, self.extents
        ragged = self.ragged()
        loads = isinstance(self.source.type, GlobalType)
        # The side in shared memory is touched whole: a load writes zeros, a store reads in vain.
        sides = [
            (0, AccessKind.READ, ragged if loads else ()),
            (1, AccessKind.WRITE, () if loads else ragged),
        ]
        shifted = self.is_shifted

        def access(operand: int, kind: AccessKind, existing: Sequence[RaggedDim]) -> ThreadAccess:
            if self.is_async:
                return async_access(self, operand, kind, stage, partition, domain, existing)
            apart = shifted and isinstance(self.operands[operand].type, GlobalType)
            return partitioned_access(
                self, operand, kind, stage, partition, domain, existing, apart=apart
            )

        accesses = [
            access(*side) for side in sides if not isinstance(self.operands[side[0]].type, TileType)
        ]
        if shifted and not loads:
            streams = self._streams_of_shifted()
            accesses += [plain_access(self, 0, AccessKind.READ, stage, each) for each in streams]
        return accesses

    def _streams_of_shifted(self) -> tuple[Stream, ...]:
        """What a shifted store reads besides each vector: the next one of the row, in which ends
        what begins there, and ends of rows, which hold no aligned vector of device memory."""
        partition, domain = self.partition.data, shape_of(self.source.type)
        layout = resolved_layout_of(self.source)
        source = iteration_layout(layout, domain, domain, partition.order)
        threads, vector, columns = partition.threads, partition.vector, domain[partition.inner]
        own = partitioned_stream(self, 0, partition, domain)
        following = following_vectors(own.offsets, threads, columns // vector)
        ends = for_block(ends_of_rows(source, threads, vector, columns), own.offsets.shape[1])
        return Stream(own.width, following), Stream(1, ends)


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """All threads of the block arrive before any goes on; their writes are then visible."""

    name = "sched.barrier"
    assembly_format = "attr-dict"
