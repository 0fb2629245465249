"""Tiles of device tensors: which one a block touches, and through which numbers of rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import DenseArrayBase, IndexType, IntegerAttr, i32, i64
from xdsl.ir import Attribute, BlockArgument, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.accessors import number_or
from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.indirect import (
    CutsRows,
    TakesDistinctNumbers,
    row_strides,
)
from mugraph.dialects.launch_extents import extents_of, integer_array
from mugraph.dialects.lengths import numbers_attribute, numbers_of
from mugraph.dialects.maps import Slicing
from mugraph.dialects.ragged import Bounds
from mugraph.dialects.sched.kernel import enclosing_kernel
from mugraph.dialects.sched.structure import most_iterations
from mugraph.dialects.sched.types import GlobalType
from mugraph.dialects.tensor_types import (
    op_label,
    physical_elements,
    resolved_layout_of,
    shape_of,
    strides_of,
    value_label,
)
from mugraph.dialects.windows import IntArray, Windows


@irdl_op_definition
class LocalTileOp(CutsRows, TakesDistinctNumbers):
    """The tile of a device tensor that this block touches, a view.

    With ``fordim`` it moves with the iteration of the copy that uses it.  The maps are those of
    ``tb.input`` and ``tb.output``.  Where they do not divide the tensor, some elements of some
    tiles do not exist; copies say that they leave those out.  ``ending %m : index along [0]``: of
    the tensor exist as many elements along dimension 0 as %m says when the kernel runs, an
    ``index`` or an argument of the kernel that holds a length; ``known [0, 37]``: 37 do.

    ``through %rows``, numbers of i32: the tile is one of the gathered tensor, as of ``tb.input``.
    The layout says where an element lies in its row, and has stride 0 along the dimensions of the
    numbers.  Whoever copies the tile reads the numbers.  For one that names no row the nearest is
    read, and nothing is written.

    ``modes [...] origin [...]``: the tile is one of windows, as of ``tb.input``.  Its strides are
    those that all of the windows would have, were they written.
    """

    name = "sched.local_tile"

    source = operand_def(GlobalType)
    through = opt_operand_def(GlobalType)
    ends = var_operand_def(IndexType | GlobalType)
    ended = opt_prop_def(DenseArrayBase.constr(i64))
    known = opt_prop_def(DenseArrayBase.constr(i64))
    map = prop_def(DenseArrayBase.constr(i64))
    fordim = opt_prop_def(IntegerAttr.constr(type=i64))
    result = result_def(GlobalType)

    traits = traits_def(Pure())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    assembly_format = (
        "$source (`through` $through^)? (`modes` $modes^)? (`origin` $origin^)? "
        "`map` $map (`fordim` $fordim^)? "
        "(`ending` $ends^ `:` type($ends) `along` $ended)? (`known` $known^)? "
        "attr-dict `:` type($source) (`,` type($through)^)? `->` type($result)"
    )

    def __init__(
        self,
        source: SSAValue,
        map_: Sequence[int],
        fordim: int,
        result_type: Attribute,
        through: SSAValue | None = None,
        windows: Windows | None = None,
    ) -> None:
        super().__init__(
            operands=[source, through, []],
            result_types=[result_type],
            properties={
                "map": integer_array(map_),
                "fordim": None if fordim < 0 else IntegerAttr(fordim, i64),
            },
        )
        self.see(windows)

    @property
    def map_(self) -> tuple[int, ...]:
        """The dimension that each of x, y, z splits, or -1."""
        return extents_of(self.map)

    loop_dim = number_or("fordim", -1)
    """The dimension that the for-loop splits, or -1."""

    @property
    def end_of(self) -> dict[int, SSAValue]:
        """The dimensions along which a value says how many elements exist, and that value."""
        return dict(
            zip(() if self.ended is None else extents_of(self.ended), self.ends, strict=True)
        )

    def end_along(self, ends: Mapping[int, SSAValue]) -> None:
        """Lets values say how many elements of the tensor exist along dimensions."""
        through = [] if self.through is None else [self.through]
        self.operands = [self.source, *through, *ends.values()]
        self.properties["operandSegmentSizes"] = DenseArrayBase.from_list(
            i32, [1, len(through), len(ends)]
        )
        self.ended = integer_array(ends) if ends else None

    def end_at(self, lengths: Mapping[SSAValue, int]) -> None:
        """Lets the tensor end where lengths do that have these values."""
        known = {dim: lengths[end] for dim, end in self.end_of.items() if end in lengths}
        self.known = numbers_attribute([number for pair in known.items() for number in pair])
        self.end_along({dim: end for dim, end in self.end_of.items() if dim not in known})

    @property
    def ends_at_lengths(self) -> bool:
        """Whether a number in device memory says how many elements exist along a dimension."""
        return any(isinstance(end.type, GlobalType) for end in self.ends)

    @property
    def numbers(self) -> SSAValue | None:
        """The rows' numbers, ``through``."""
        return self.through

    @property
    def is_written(self) -> bool:
        """Whether it is written: what copies or stores name behind their source."""
        return any(use.index == 1 for use in self.result.uses)

    def rows_named(self, operand: int) -> int | None:
        """The rows, of numbers of those that are read; one is written nowhere if there is none."""
        return None if self.is_written else super().rows_named(operand)

    def takes_distinct(self, operand: int) -> bool:
        """Of the numbers of rows that are written."""
        return self.is_written and self.operands[operand] is self.through

    @property
    def is_scattered(self) -> bool:
        """Whether the tile lies in several places, which copies to shared memory alone find."""
        return self.rows_in_tile > 1 or self.windows is not None

    @property
    def is_plain(self) -> bool:
        """Whether the tile lies in one place, in a tensor that ends where its type says."""
        return self.through is None and self.windows is None and not self.ends and not self.known

    @property
    def rows_in_tile(self) -> int:
        """How many rows a tile has that numbers name; 0 where none do."""
        if self.through is None:
            return 0
        return math.prod(shape_of(self.result.type)[: len(self.numbers_shape)])

    def tile_strides(self) -> tuple[int, ...]:
        """The strides of the source along the tile's dimensions, 0 along those of numbers."""
        strides = strides_of(resolved_layout_of(self.source))
        if self.windows is not None:
            return self.windows.virtual_strides(strides)
        return strides if self.through is None else row_strides(strides, self.numbers_shape)

    def offsets_in_memory(self, offsets: IntArray) -> IntArray:
        """Where elements of windows lie in the source, by their offsets in the tile's strides.

        Counted from where all windows begin; -1 for those that are zeros.
        """
        assert self.windows is not None  # asked by callers
        strides = strides_of(resolved_layout_of(self.source))
        return self.windows.offsets_in_memory(offsets, shape_of(self.source.type), strides)

    @property
    def stride_of_rows(self) -> int:
        """How far rows of the tensor are apart, in elements."""
        return strides_of(resolved_layout_of(self.source))[0]

    def number_strides(self) -> tuple[int, ...]:
        """Where the number of an element's row is: strides, in numbers, along the dimensions."""
        assert self.through is not None  # asked by callers
        own = strides_of(resolved_layout_of(self.through))
        return (*own, *[0] * (len(self.tensor_shape) - len(own)))

    def tensors(self) -> list[SSAValue]:
        """What whoever copies the tile reads, or writes, in device memory."""
        return [self.source] if self.through is None else [self.source, self.through]

    def slicing(self, ends: Mapping[int, int] | None = None) -> Slicing:
        """How the maps cut the tensor into tiles.

        ``ends`` has how many elements exist where values say it: as many as the type has, if it is
        not given.
        """
        kernel, shape = enclosing_kernel(self), self.tensor_shape
        if ends is None:
            ends = {dim: shape[dim] for dim in self.end_of}
        numbers = numbers_of(self.known)
        ends = {**ends, **dict(zip(numbers[::2], numbers[1::2], strict=True))}
        return Slicing(
            shape,
            self.map_,
            self.loop_dim,
            kernel.grid_dim,
            most_iterations(kernel) if self.loop_dim >= 0 else 1,
            shape_of(self.result.type),
            tuple(ends.items()),
            kernel.is_interleaved,
        )

    def block_strides(self) -> tuple[int, ...]:
        """How far the tile's start moves with each block index, in elements."""
        return self.slicing().block_strides(self.tile_strides())

    def lies_in_pieces(self, elements: int) -> bool:
        """Whether each block's tile lies within one of the pieces of so many elements of a row.

        Only the first axis that moves tiles may move them to other pieces: kernels find the piece
        by its step (``tb::PlacedRow``), and add those of other axes to the address that this gives.
        """
        grid = enclosing_kernel(self).grid_dim
        steps = [pair for pair in zip(grid, self.block_strides(), strict=True) if pair[1]]
        if not steps:
            return False
        (blocks, first), *others = steps
        span = physical_elements(resolved_layout_of(self.result))
        span += sum((extent - 1) * step for extent, step in others)
        return all(block * first % elements + span <= elements for block in range(blocks))

    def number_block_strides(self) -> tuple[int, ...]:
        """How far the tile's first number moves with each block index, in numbers."""
        return self.slicing().block_strides(self.number_strides())

    def bounds(self) -> Bounds:
        """Which elements of the tile exist."""
        return self.slicing().bounds()

    def iteration_stride(self) -> int:
        """How far the tile's start moves from one iteration to the next, in elements."""
        return self._moved_by_loop(self.tile_strides())

    def number_iteration_stride(self) -> int:
        """How far the tile's first number moves from one iteration to the next, in numbers."""
        return self._moved_by_loop(self.number_strides())

    def _moved_by_loop(self, strides: Sequence[int]) -> int:
        dim = self.loop_dim
        return 0 if dim < 0 else self.slicing().iteration_step() * strides[dim]

    def verify_(self) -> None:
        """Checks the tile against the maps, and that it is one of a parameter's tensor."""
        if not isinstance(self.source, BlockArgument):
            raise VerifyException(
                f"{op_label(self)} cuts a tile from a tile; cut it from the kernel's parameter"
            )
        self.verify_numbers(self.source.type)
        numbers = numbers_of(self.known)
        if len(numbers) % 2 or any(not 0 <= dim < len(self.tensor_shape) for dim in numbers[::2]):
            raise OperatorError(
                f"known {list(numbers)} must be a dimension and how many elements exist along it, "
                "perhaps several times"
            )
        dims = () if self.ended is None else extents_of(self.ended)
        rank = len(self.tensor_shape)
        if len(dims) != len(self.ends) or any(not 0 <= dim < rank for dim in dims):
            raise OperatorError(
                f"'ending' has {len(self.ends)} values along {list(dims)}; expected a dimension "
                f"from 0 to {rank - 1} for each"
            )
        self._verify_held_ends()
        self.verify_windows()
        self.slicing().tile_shape("map")
        strides = self.tile_strides()
        if strides_of(resolved_layout_of(self.result)) != strides:
            raise OperatorError(
                f"a tile is a view and keeps the tensor's strides {strides}, not "
                f"{strides_of(resolved_layout_of(self.result))}"
            )
        self.verify_even_numbers(self.bounds(), self._whole_rows())

    def _whole_rows(self) -> set[int]:
        """Dimensions of one row a tile, at whose end the grid is cut: each block has its row."""
        cuts = {(cut.axis, cut.argument) for cut in enclosing_kernel(self).cuts if cut.step == 1}
        return {
            dim
            for dim, end in self.end_of.items()
            if isinstance(end, BlockArgument)
            and shape_of(self.result.type)[dim] == 1
            and any(self.map_[axis] == dim for axis, argument in cuts if argument == end.index)
        }

    def _verify_held_ends(self) -> None:
        held = {each.argument: each for each in enclosing_kernel(self).held_lengths}
        for dim, end in self.end_of.items():
            if not isinstance(end.type, GlobalType):
                continue
            length = held.get(end.index) if isinstance(end, BlockArgument) else None
            if length is None or length.largest > self.tensor_shape[dim]:
                raise OperatorError(
                    f"dimension {dim} ends at {value_label(end)}; expected an argument that the "
                    "kernel lists in 'lengths', of at most the dimension's "
                    f"{self.tensor_shape[dim]} elements"
                )


def tile_of_named_rows(value: SSAValue) -> LocalTileOp | None:
    """The tile of device memory that a value is, if numbers name its rows."""
    owner = value.owner
    return owner if isinstance(owner, LocalTileOp) and owner.through is not None else None
