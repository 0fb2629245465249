"""What is done with a fragment once it is computed: written to memory, or added to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, operand_def, opt_prop_def

from mugraph.dialects.assembly import ThenEpilogue
from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.elementwise import Epilogue, EpilogueAttr, epilogue_attribute
from mugraph.dialects.interfaces import HasBufferEffects
from mugraph.dialects.launch_extents import extents_of
from mugraph.dialects.sched.accesses import (
    AccessKind,
    HasThreadAccesses,
    ThreadAccess,
    plain_access,
    stage_reference,
)
from mugraph.dialects.sched.compute_accesses import store_accesses
from mugraph.dialects.sched.distribution import accumulated
from mugraph.dialects.sched.local_tile import tile_of_named_rows
from mugraph.dialects.sched.mappings import matrix_layout
from mugraph.dialects.sched.matrix_part import (
    part_of_matrix,
    start_attribute,
    start_of,
    verify_part,
)
from mugraph.dialects.sched.product_columns import columns_of_product, values_of_columns
from mugraph.dialects.sched.quad_store import (
    named_rows_of_quads,
    quad_store_problem,
    quad_store_stream,
)
from mugraph.dialects.sched.role import enclosing_threads
from mugraph.dialects.sched.types import GlobalType, SharedType, TileType
from mugraph.dialects.tb.operators import epilogue_of
from mugraph.dialects.tensor_types import AnyLayout, dims, resolved_layout_of, shape_of


@irdl_op_definition
class StoreOp(IRDLOperation, HasThreadAccesses, HasBufferEffects):
    """Writes a fragment to shared memory, or to a tile in device memory, through an epilogue.

    To device memory only the fragment of a product or of its rows, and without ``accum``.  Where
    layouts allow it, quads of lanes exchange what they hold by shuffles, and each lane writes 16
    bytes of a row (:attr:`by_quads`).

    ``at [0, 64]`` is where the part of the buffer starts that a smaller fragment is written to.
    ``from [0, 128]`` is where the columns of a warp group's product start that are written to a
    smaller buffer.
    """

    name = "sched.store"

    source = operand_def(TileType)
    destination = operand_def(SharedType | GlobalType)
    origin = opt_prop_def(DenseArrayBase.constr(i64))
    at = opt_prop_def(DenseArrayBase.constr(i64))
    epilogue = opt_prop_def(EpilogueAttr)

    assembly_format = (
        "$source (`from` $origin^)? `to` $destination (`at` $at^)? "
        "custom<ThenEpilogue>($epilogue) attr-dict `:` type($source) `to` type($destination)"
    )
    custom_directives = (ThenEpilogue,)

    def __init__(
        self,
        source: SSAValue,
        destination: SSAValue,
        epilogue: Epilogue,
        at: Sequence[int] | None = None,
        origin: Sequence[int] | None = None,
    ) -> None:
        super().__init__(
            operands=[source, destination],
            properties={
                "epilogue": epilogue_attribute(epilogue),
                "at": start_attribute(at),
                "origin": start_attribute(origin),
            },
        )

    @property
    def first_column(self) -> int:
        """The column of the fragment from which on it is written."""
        return 0 if self.origin is None else extents_of(self.origin)[-1]

    @property
    def written(self) -> TileType | None:
        """What is written of the fragment, as a fragment; ``None`` where there is no such part."""
        source = self.source.type
        if self.origin is None or not isinstance(source, TileType):
            return source if isinstance(source, TileType) else None
        return columns_of_product(source, shape_of(self.destination.type)[-1])

    @property
    def values_written(self) -> Sequence[int] | None:
        """Which of the values that each thread holds are written; ``None`` stands for all."""
        source, written = self.source.type, self.written
        if self.origin is None or written is None or not isinstance(source, TileType):
            return None
        return values_of_columns(source, written, self.first_column)

    @property
    def start(self) -> tuple[int, ...]:
        """Where in the destination the fragment is written."""
        return start_of(self.at, len(shape_of(self.destination.type)))

    def matrix(self) -> AnyLayout | None:
        """The part of the buffer that a product's fragment, or one of its rows, covers.

        ``None`` for other fragments.
        """
        written = self.written
        if written is None or written.arrangement is None:
            return None
        return part_of_matrix(self.destination, self.start, written.get_shape())

    @property
    def by_quads(self) -> bool:
        """Whether quads of lanes write rows of device memory, 16 bytes a lane."""
        source, tile = self.source.type, self.destination
        return (
            isinstance(source, TileType)
            and isinstance(tile.type, GlobalType)
            and quad_store_problem(source, tile) is None
        )

    def buffers_read(self) -> Sequence[SSAValue]:
        """The source; the destination too where the epilogue accumulates."""
        return [self.source, *accumulated(self, self.destination)]

    def buffers_written(self) -> Sequence[SSAValue]:
        """The destination."""
        return [self.destination]

    def verify_(self) -> None:
        """Checks that the fragment is the buffer's, or a product's part of it."""
        fragment = self.source.type
        if isinstance(self.destination.type, GlobalType) and (
            epilogue_of(self).accumulates
            or not isinstance(fragment, TileType)
            or fragment.arrangement is None
        ):
            raise OperatorError(
                "only the fragment of a product, or of its rows, is written to device memory so, "
                "and never added to it"
            )
        if tile_of_named_rows(self.destination) is not None and not self.by_quads:
            raise OperatorError(
                "numbers name the rows of the tile that it writes; only quads of lanes write such "
                "a tile from registers"
            )
        source, destination = self.operands
        part, whole = shape_of(source.type), shape_of(destination.type)
        if self.origin is not None:
            self._verify_columns(part, whole)
            return
        if self.at is None:
            if part != whole:
                raise OperatorError(f"source has {dims(part)}, destination {dims(whole)}")
            return
        verify_part(self, part, self.start, whole, "the destination")
        if isinstance(source.type, TileType) and source.type.tiled_mma is None:
            raise OperatorError("only the fragment of a product can be a part of a buffer")

    def _verify_columns(self, whole: Sequence[int], part: Sequence[int]) -> None:
        """Checks that the buffer has columns that threads hold side by side."""
        start = start_of(self.origin, len(whole))
        verify_part(self, part, start, whole, "the fragment", "the destination")
        is_part = self.written is not None and part[:-1] == whole[:-1]
        if not is_part or start[-1] % part[-1] or any(start[:-1]) or self.at is not None:
            raise OperatorError(
                "a part of a fragment is the columns of a product of warp groups, from a multiple "
                "of their number on, written to a buffer of their own"
            )
        if not isinstance(self.destination.type, SharedType) or epilogue_of(self).accumulates:
            raise OperatorError(
                "a part of a fragment is written to shared memory, and never added to it"
            )

    def thread_accesses(self) -> Sequence[ThreadAccess]:
        """The writes of the threads that hold the fragment."""
        source = self.source.type
        if self.by_quads and isinstance(source, TileType):
            matrix = matrix_layout(resolved_layout_of(self.destination), source.get_shape())
            threads = enclosing_threads(self)
            fragment = source.thread_values()
            stream = quad_store_stream(fragment, matrix, block=threads)
            access = plain_access(self, 1, AccessKind.WRITE, stage_reference(self), stream)
            rows = named_rows_of_quads(fragment, self.destination, block=threads)
            return [replace(access, rows=rows)]
        accumulates = epilogue_of(self).accumulates
        return store_accesses(self, self.written, self.start, accumulates=accumulates)
