"""What threads compute on fragments of tensor-core products, without memory.

A fragment of a product and one of its rows (``#sched.rows``) that have the same arrangement belong
together: every thread holds the numbers of the rows of which it holds values.  So chains of
element-wise operators and reductions of rows between products stay in registers; only lanes that
share a row exchange what they have, by shuffles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects.builtin import BoolAttr, IntegerAttr, i64
from xdsl.ir import SSAValue
from xdsl.irdl import (
    operand_def,
    opt_prop_def,
)
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.accessors import number_or
from mugraph.dialects.assembly import ThenEpilogue
from mugraph.dialects.cute import Layout
from mugraph.dialects.cute.atoms import loads_as_stored, mma_atom
from mugraph.dialects.cute.chaining import accumulator_is_operand
from mugraph.dialects.cute.thread_values import ThreadValues
from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.element_types import element_type_name
from mugraph.dialects.elementwise import (
    Epilogue,
    EpilogueAttr,
    epilogue_attribute,
)
from mugraph.dialects.ragged import RaggedDim, ragged_dims
from mugraph.dialects.sched.accesses import (
    AccessKind,
    HasThreadAccesses,
    Predicate,
    ThreadAccess,
    plain_access,
    predicate_of,
    stage_reference,
)
from mugraph.dialects.sched.compute_accesses import line_access, mma_accesses
from mugraph.dialects.sched.local_tile import LocalTileOp
from mugraph.dialects.sched.mappings import (
    IntArray,
    Stream,
    for_block,
    fragment_stream,
    iteration_layout,
    line_stream,
    matrix_layout,
    reads_lines,
)
from mugraph.dialects.sched.role import enclosing_threads
from mugraph.dialects.sched.structure import enclosing_loop
from mugraph.dialects.sched.tile_values import TiedTiles, WritesTiles, tile_types
from mugraph.dialects.sched.types import GlobalType, SharedType, TileType
from mugraph.dialects.tb.operators import epilogue_of
from mugraph.dialects.tensor_types import (
    AnyLayout,
    dims,
    element_bytes_of,
    element_type_of,
    op_label,
    resolved_layout_of,
    shape_of,
    strides_of,
)

ALIGNMENTS = (2, 4, 8, 16)
"""Bytes of the vectors that a thread can load."""


def _fragment(value: SSAValue) -> TileType:
    assert isinstance(value.type, TileType)  # the operand's definition says so
    return value.type


@irdl_op_definition
class LoadOp(WritesTiles, HasThreadAccesses):
    """Loads what threads hold of a buffer, as the fragment's layout says.

    Numbers may come from a tile in device memory, else the buffer is in shared memory.

    - The left matrix that ``sched.mma`` multiplies: ``ldmatrix true`` as there, else element by
      element.
    - A number for each column of a product, for all threads with values of it, through an epilogue.
      The buffer is one matrix of one column (or row) with as many numbers.
    - A matrix of a product's extents, as threads hold the product, or a number for each row of it,
      through an epilogue.  A buffer of one element is the number of every row.  In a loop,
      ``ldmatrix`` loads a matrix of 16 bits in shared memory whose lines of 16 bytes are whole.

    Of a product by warps along k, each of which has a matrix of its own, the buffer has as many
    matrices, or as many rows of numbers of columns.

    ``ahead 1`` loads the tile of the next iteration, in a loop whose body does several.
    ``aligned 16``: what each thread loads of a tile in device memory starts at a multiple of 16
    bytes.  A compiler of CUDA can then make one vector of it and of what the loads of the next
    iterations bring, where that lies beside it.
    """

    name = "sched.load"

    source = operand_def(SharedType | GlobalType)
    destination = operand_def(TileType)
    epilogue = opt_prop_def(EpilogueAttr)
    ldmatrix = opt_prop_def(BoolAttr)
    ahead = opt_prop_def(IntegerAttr.constr(type=i64))
    aligned = opt_prop_def(IntegerAttr.constr(type=i64))

    assembly_format = (
        "$source `to` $destination (`ahead` $ahead^)? (`aligned` $aligned^)? "
        "custom<ThenEpilogue>($epilogue) (`ldmatrix` $ldmatrix^)? "
        "attr-dict `:` type($source) `to` type($destination) custom<TiedTiles>(type($tiles))"
    )
    custom_directives = (ThenEpilogue, TiedTiles)

    def __init__(
        self,
        source: SSAValue,
        destination: SSAValue,
        epilogue: Epilogue | None = None,
        *,
        ldmatrix: bool | None = None,
    ) -> None:
        super().__init__(
            operands=[source, destination],
            result_types=[tile_types(destination)],
            properties={
                "epilogue": epilogue_attribute(epilogue),
                "ldmatrix": None if ldmatrix is None else BoolAttr.from_bool(ldmatrix),
            },
        )

    ahead_of = number_or("ahead", 0)
    """How many iterations ahead of the current one the tile is."""
    aligned_to = number_or("aligned", 0)
    """The bytes of which what a thread loads starts at a multiple, 0 where nothing is said."""

    @property
    def loads_operand(self) -> bool:
        """Whether it loads a matrix to multiply, as products do that read it from memory."""
        return self.ldmatrix is not None

    @property
    def uses_ldmatrix(self) -> bool:
        """Whether ``ldmatrix`` loads the matrix."""
        return self.ldmatrix is not None and bool(self.ldmatrix.value.data)

    @property
    def loads_columns(self) -> bool:
        """Whether it loads a number for each column of a product."""
        return not self.loads_operand and _fragment(self.destination).sliced_axis == -2

    @property
    def loads_matrix(self) -> bool:
        """Whether it loads a matrix of a product's extents, as threads hold the product."""
        return not self.loads_operand and _fragment(self.destination).sliced_axis is None

    def loads_lines(self) -> bool:
        """Whether ``ldmatrix`` loads a matrix of a product's extents: its lines are whole.

        Only in a loop.  A matrix that is loaded once, such as a residual, gives its place to the
        result, which a thread may store only where no other thread has read.
        """
        if not self.loads_matrix or not isinstance(self.source.type, SharedType):
            return False
        if enclosing_loop(self) is None:
            return False
        mma = _fragment(self.destination).tiled_mma
        if mma is None or mma.thr_layout[1:] != (1, 1) or element_bytes_of(self.source.type) != 2:
            return False
        return reads_lines(self._pairs(), self.matrix())

    def _pairs(self) -> Stream:
        """What threads read value by value, or pairs of values."""
        read = self.matrix()
        if self.parts > 1:
            shape = shape_of(self.source.type)
            whole = resolved_layout_of(self.source)
            read = iteration_layout(whole, shape, shape, range(len(shape)))
        held, block = _fragment(self.destination).thread_values(), enclosing_threads(self)
        return fragment_stream(held, read, block=block, every_holder=True)

    @property
    def loads_one_number(self) -> bool:
        """Whether it loads one number for all rows of a product."""
        is_one = math.prod(shape_of(self.source.type)) == 1
        return is_one and _fragment(self.destination).sliced_axis == -1

    @property
    def parts(self) -> int:
        """How many matrices are loaded: the warps along k of the product."""
        mma = _fragment(self.destination).arrangement
        return 1 if mma is None else mma.thr_layout[2]

    def stride_of_parts(self) -> int:
        """How many elements a matrix, or its numbers, lie behind those before; 0 of one."""
        return strides_of(resolved_layout_of(self.source))[0] if self.parts > 1 else 0

    def matrix(self) -> AnyLayout:
        """The buffer as a matrix, the first of several: (rows, columns), or one row of numbers."""
        shape, layout = shape_of(self.source.type), resolved_layout_of(self.source)
        if self.loads_one_number:
            return Layout((_fragment(self.destination).get_shape()[-2], 1), (0, 0))
        is_column = self.loads_columns and shape[-1] == 1
        return matrix_layout(layout, shape, transposed=is_column)

    def buffers_read(self) -> Sequence[SSAValue]:
        """The source."""
        return [self.source]

    def verify_(self) -> None:
        """Checks extents, types, and that the fragment can be loaded."""
        if self.loads_operand and not isinstance(self.source.type, SharedType):
            raise VerifyException(
                f"{op_label(self)} loads a matrix to multiply, which must be in shared memory"
            )
        if epilogue_of(self).accumulates:
            raise VerifyException(f"{op_label(self)} cannot add to registers; leave out 'accum'")
        loop = enclosing_loop(self)
        if not 0 <= self.ahead_of < (1 if loop is None else loop.step_of):
            raise OperatorError(f"ahead {self.ahead_of} names no iteration that the body does")
        if self.aligned is not None:
            self._verify_alignment()
        if self.loads_operand:
            self._verify_operand()
        elif self.loads_columns:
            self._verify_columns()
        else:
            self._verify_values()

    def _verify_alignment(self) -> None:
        if not isinstance(self.source.type, GlobalType):
            raise OperatorError("'aligned' is said of tiles in device memory alone; leave it out")
        if self.aligned_to not in ALIGNMENTS:
            raise OperatorError(
                f"aligned {self.aligned_to} is no size of a vector; write one of "
                f"{', '.join(map(str, ALIGNMENTS))}"
            )

    def _verify_operand(self) -> None:
        destination = _fragment(self.destination)
        mma = destination.tiled_mma
        if shape_of(self.source.type) != destination.get_shape():
            raise OperatorError(
                f"source has {dims(shape_of(self.source.type))}, destination "
                f"{dims(destination.get_shape())}"
            )
        if mma is None or mma.thr_layout[1:] != (1, 1):
            raise OperatorError(
                f"the destination is {destination.layout}; expected a #cute.tiled_mma with all "
                "warps along m"
            )
        if epilogue_of(self):
            raise OperatorError(f"a matrix is loaded as it is; leave out {epilogue_of(self)}")
        atom = mma_atom(mma.atom)
        element = element_type_name(element_type_of(self.source.type))
        if (
            element_type_of(self.source.type) != destination.element_type
            or atom.is_scalar
            or not loads_as_stored(atom, element)
            or not accumulator_is_operand(atom, atom)
            or destination.get_shape()[-1] % atom.shape_mnk[2]
        ):
            raise OperatorError(
                f"{atom.name} does not take {destination} as operand A thread by thread from a "
                f"buffer of {element_type_of(self.source.type)}"
            )

    def _verify_values(self) -> None:
        shape, destination = shape_of(self.source.type), _fragment(self.destination)
        mma = destination.arrangement
        is_of_lanes = destination.sliced_axis == -1 and destination.get_shape()[-1] != 1
        is_column = destination.sliced_axis == -1 and self.parts > 1
        if mma is None or is_column or is_of_lanes:
            raise VerifyException(
                f"{op_label(self)} loads what threads hold of a product or a number for each of "
                f"its rows, not {destination}"
            )
        if shape != destination.get_shape() and not self.loads_one_number:
            raise OperatorError(
                f"source has {dims(shape)}, destination {dims(destination.get_shape())}"
            )

    def _verify_columns(self) -> None:
        shape, destination = shape_of(self.source.type), _fragment(self.destination)
        mma = destination.arrangement
        if mma is None:
            raise VerifyException(
                f"{op_label(self)} writes the numbers of a product's columns, not "
                f"{destination.layout}"
            )
        columns = destination.get_shape()[-1]
        if len(shape) < 2 or sorted(shape) != sorted((*shape[:-2], 1, columns)):
            raise OperatorError(f"the source has {dims(shape)}, expected {columns} numbers")

    def thread_accesses(self) -> Sequence[ThreadAccess]:
        """The reads of an operand A, in the order of k; or of all threads, value by value."""
        destination = _fragment(self.destination)
        if self.loads_operand:
            mma = destination.tiled_mma
            return mma_accesses(self, mma, [self.matrix()], [self.uses_ldmatrix])
        stage, stream = stage_reference(self, self.ahead_of), self._pairs()
        if self.loads_lines():
            return [line_access(self, 0, stage, line_stream(stream))]
        access = plain_access(self, 0, AccessKind.READ, stage, stream)
        held, block = destination.thread_values(), enclosing_threads(self)
        return [replace(access, predicate=self._predicate(held, stream.width, block))]

    def ragged(self) -> list[RaggedDim]:
        """Which elements of a tile in device memory exist.  Those that do not are zeros."""
        tile = self.source.owner
        return ragged_dims(tile.bounds()) if isinstance(tile, LocalTileOp) else []

    def _predicate(self, held: ThreadValues, width: int, block: int) -> Predicate | None:
        ragged, coordinates = self.ragged(), held.coordinates()
        if not ragged:
            return None
        inner, numbered = len(coordinates) - 1, {}
        if not self.loads_matrix:
            # Numbers of columns may lie side by side or one below the other.
            (inner,) = (entry.dim for entry in ragged)
            numbered = {inner: coordinates[-1 if self.loads_columns else -2]}

        def along(dim: int) -> IntArray:
            return for_block(numbered.get(dim, coordinates[dim])[::width], block)

        return predicate_of(ragged, self.source, along, inner)
