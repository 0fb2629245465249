"""Operators that move tiles between device memory and the block."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, TensorType, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.alignment import alignment_of
from mugraph.dialects.copies import TileCopy
from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.element_types import is_integer, verify_element_type
from mugraph.dialects.indirect import (
    CutsRows,
    TakesDistinctNumbers,
    gathered_shape,
    gathered_strides,
    verify_even_numbers,
    verify_numbers,
    verify_parameter,
)
from mugraph.dialects.interfaces import HasLayoutConstraints, HasSharedAccesses, SharedAccess
from mugraph.dialects.launch_extents import HasThreadblockGraph, extents_of, integer_array
from mugraph.dialects.lengths import numbers_attribute, numbers_of
from mugraph.dialects.linear_forms import LinearForm
from mugraph.dialects.maps import PartitionError, Slicing, verify_map
from mugraph.dialects.ragged import Bounds
from mugraph.dialects.tb.layouts import copy_access
from mugraph.dialects.tb.types import STensorType
from mugraph.dialects.tensor_types import (
    element_bytes_of,
    element_type_of,
    layout_of,
    op_label,
    resolved_layout_of,
    shape_of,
    strides_of,
    value_label,
)
from mugraph.dialects.windows import Windows

NOT_SPLIT = -1
"""The fordim of a tile that the for-loop does not move."""


def enclosing_graph(op: Operation) -> HasThreadblockGraph:
    """The ``kn.customized`` around a threadblock operator, with its grid, block and for-loop.

    Raises ``VerifyException`` outside of one, and where one has extents that no GPU can launch.
    """
    parent = op.parent_op()
    if not isinstance(parent, HasThreadblockGraph):
        raise VerifyException(f"{op_label(op)} must stand in the body of a 'kn.customized'")
    # xDSL verifies a body before the operator around it.
    parent.verify_extents()
    return parent


def verify_numbers_of_lengths(op: Operation, numbers: Sequence[int]) -> None:
    """Raises ``VerifyException`` unless the kernel around an operator has lengths of these."""
    count = len(enclosing_graph(op).held_lengths)
    for number in numbers:
        if not 0 <= number < count:
            raise VerifyException(
                f"{op_label(op)} names length {number} of the kernel, which has {count}; write "
                "them there: 'lengths [ARGUMENT, LARGEST]'"
            )


@cache
def fordim_attribute(dim: int) -> IntegerAttr | None:
    """The property that stands for the dimension that the for-loop splits; none for none."""
    return None if dim == NOT_SPLIT else IntegerAttr(dim, i64)


class MovesTile(IRDLOperation, HasLayoutConstraints, HasSharedAccesses):
    """An operator that copies the tiles which maps cut from a DTensor, or to where they lie."""

    fordim = opt_prop_def(IntegerAttr.constr(type=i64))
    ending = opt_prop_def(DenseArrayBase.constr(i64))

    @property
    def ends(self) -> dict[int, int]:
        """The dimensions that end at a length of the kernel, and the number of that."""
        numbers = numbers_of(self.ending)
        return dict(zip(numbers[::2], numbers[1::2], strict=True))

    def end_at(self, ends: Mapping[int, int]) -> None:
        """Lets dimensions end at lengths of the kernel."""
        self.ending = numbers_attribute([number for pair in ends.items() for number in pair])

    def verify_ends(self) -> None:
        """Checks the dimensions that end at lengths, and that these fit."""
        numbers, rank = numbers_of(self.ending), len(self.tensor_shape)
        if len(numbers) % 2 or any(not 0 <= dim < rank for dim in numbers[::2]):
            raise VerifyException(
                f"{op_label(self)}: ending {list(numbers)} must be a dimension from 0 to "
                f"{rank - 1} and the number of a length, perhaps several times"
            )
        verify_numbers_of_lengths(self, numbers[1::2])
        for dim, number in self.ends.items():
            largest = enclosing_graph(self).held_lengths[number].largest
            if largest > self.tensor_shape[dim]:
                tensor, _ = self.tensor_and_tile()
                raise VerifyException(
                    f"{op_label(self)}: dimension {dim} of {value_label(tensor)} has "
                    f"{self.tensor_shape[dim]} elements, and length {number}, where it ends, may "
                    f"be {largest}"
                )

    @property
    @abstractmethod
    def map_(self) -> tuple[int, ...]:
        """The dimension that each of x, y, z splits, or -1."""

    @property
    @abstractmethod
    def tensor_type(self) -> Attribute:
        """The type of the DTensor."""

    @property
    def tensor_shape(self) -> tuple[int, ...]:
        """The extents of what the maps cut: the DTensor, or what is gathered of it."""
        return shape_of(self.tensor_type)

    @property
    @abstractmethod
    def tile(self) -> SSAValue:
        """The tile."""

    @abstractmethod
    def tensor_and_tile(self) -> tuple[SSAValue, SSAValue]:
        """The DTensor and the tile."""

    @property
    def loop_dim(self) -> int:
        """The dimension that the for-loop splits, or -1 where the tile is copied outside of it."""
        return NOT_SPLIT if self.fordim is None else self.fordim.value.data

    def slicing(self) -> Slicing:
        """How the maps cut the DTensor into tiles of this one's extents."""
        graph = enclosing_graph(self)
        return Slicing(
            self.tensor_shape,
            self.map_,
            self.loop_dim,
            graph.grid_dim,
            graph.forloop_range,
            shape_of(self.tile.type),
            interleaved=graph.is_interleaved,
        )

    def bounds(self) -> Bounds:
        """Which elements of the tiles exist."""
        return self.slicing().bounds()

    def verify_tile(self, name: str) -> None:
        """Checks the tile's extents against the maps, of which ``name`` is the first."""
        self.slicing().tile_shape(name)

    def tile_copy(self, strides: Sequence[int], tile_strides: Sequence[int]) -> TileCopy:
        """The copy for given strides of the DTensor and of the tile."""
        tensor, _ = self.tensor_and_tile()
        return TileCopy(
            self.slicing(),
            tuple(strides),
            tuple(tile_strides),
            element_bytes_of(self.tensor_type),
            alignment_of(tensor),
        )

    def copy_of_rows(
        self, strides: Sequence[int], tile_strides: Sequence[int], numbers: Sequence[int]
    ) -> TileCopy:
        """As :meth:`tile_copy`, of rows that numbers of these extents name."""
        copy = MovesTile.tile_copy(self, gathered_strides(strides, numbers), tile_strides)
        return replace(copy, numbered=len(numbers))

    def resolved_copy(self) -> TileCopy:
        """The copy for the layouts in the types."""
        tensor, tile = self.tensor_and_tile()
        return self.tile_copy(
            strides_of(resolved_layout_of(tensor)), strides_of(resolved_layout_of(tile))
        )

    def shared_accesses(self) -> Sequence[SharedAccess]:
        """One: along the copy's innermost dimension, in its vectors."""
        _, tile = self.tensor_and_tile()
        return [copy_access(tile, self.resolved_copy())]


@irdl_op_definition
class InputOp(CutsRows, MovesTile):
    """Loads a tile of a DTensor into shared memory.

    ``imap`` says which dimension each grid axis splits, ``fordim`` which one the for-loop splits.
    Without ``fordim`` the tile is the same in every iteration: it is loaded once, before the loop,
    and may be used after the loop as well.

    ``%sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<16x64xf16> -> !tb.stensor<16x8xf16>``

    ``through`` a tensor of i32 it loads a tile of what ``kn.gather`` would make, whose dimensions
    the maps count: first those of the numbers, then those of a row.  Nothing of that is written to
    memory.  Kernels take the nearest row for a number that names none; the interpreter refuses it.

    ``ending [1, 0]``: along dimension 1 of the tensor exist as many elements as length 0 of the
    kernel says; the tile has 0 in place of those behind.

    ``modes [array<i64: 4, 1, 2>, ...] origin array<i64: 0, -1>`` load a tile of what ``kn.windows``
    would make.  Nothing of that is written to memory either.

    ``%sk = tb.input %kv through %pages imap [0, -1, -1] fordim 1 : tensor<512x64x128xf16>,
    tensor<8x32xi32> -> !tb.stensor<1x1x64x128xf16>``
    """

    name = "tb.input"

    dtensor = operand_def(TensorType)
    through = opt_operand_def(TensorType | STensorType)
    imap = prop_def(DenseArrayBase.constr(i64))
    result = result_def(STensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$dtensor (`through` $through^)? (`modes` $modes^)? (`origin` $origin^)? "
        "`imap` $imap (`fordim` $fordim^)? (`ending` $ending^)? "
        "attr-dict "
        "`:` type($dtensor) (`,` type($through)^)? `->` type($result)"
    )

    def __init__(
        self,
        dtensor: SSAValue,
        imap: Sequence[int],
        fordim: int,
        result_type: Attribute,
        through: SSAValue | None = None,
        ends: Mapping[int, int] | None = None,
        windows: Windows | None = None,
    ) -> None:
        """``ends``: the dimensions that end at a length of the kernel, and its number."""
        super().__init__(
            operands=[dtensor, through],
            result_types=[result_type],
            properties={
                "imap": integer_array(imap),
                "fordim": fordim_attribute(fordim),
                "ending": numbers_attribute([n for pair in (ends or {}).items() for n in pair]),
            },
        )
        self.see(windows)

    def end_forms(self) -> list[LinearForm]:
        """The forms that are at least 0 before the ends.

        They are of places in the tensor, and then of the kernel's lengths.
        """
        rank, count = len(self.tensor_shape), len(enclosing_graph(self).held_lengths)
        coordinates = LinearForm.coordinates(rank + count)
        return [
            coordinates[rank + number] - coordinates[dim] - 1 for dim, number in self.ends.items()
        ]

    @property
    def map_(self) -> tuple[int, ...]:
        """The dimension that each of x, y, z splits, or -1."""
        return extents_of(self.imap)

    def lie(self, imap: Sequence[int], fordim: int) -> None:
        """Says how tiles lie in the tensor."""
        self.imap = integer_array(imap)
        self.fordim = fordim_attribute(fordim)

    @property
    def tensor_type(self) -> Attribute:
        """The operand's."""
        return self.dtensor.type

    @property
    def numbers(self) -> SSAValue | None:
        """The rows' numbers, ``through``."""
        return self.through

    def contiguous_dim(self) -> int:
        """The dimension along which the tile's neighbours are neighbours in memory.

        The last, where that is not written, or none is such.
        """
        last = len(shape_of(self.result.type)) - 1
        if self.through is not None or layout_of(self.dtensor.type) is None:
            return last
        strides = strides_of(resolved_layout_of(self.dtensor))
        if self.windows is not None:
            return self.windows.contiguous_dim(strides)
        return strides.index(1) if 1 in strides else last

    def tile_copy(self, strides: Sequence[int], tile_strides: Sequence[int]) -> TileCopy:
        """The copy for given strides of the operand and of the tile."""
        if (windows := self.windows) is not None:
            copy = super().tile_copy(windows.virtual_strides(strides), tile_strides)
            together = windows.neighbours(shape_of(self.dtensor.type), strides)
            return replace(copy, alignment=min(copy.alignment, together * copy.element_bytes))
        if self.through is None:
            return super().tile_copy(strides, tile_strides)
        return self.copy_of_rows(strides, tile_strides, self.numbers_shape)

    @property
    def tile(self) -> SSAValue:
        """The result."""
        return self.result

    def tensor_and_tile(self) -> tuple[SSAValue, SSAValue]:
        """The operand and the result."""
        return self.dtensor, self.result

    def verify_(self) -> None:
        """Checks the tile's extents against the maps, the grid and the loop."""
        if self.through is not None:
            verify_parameter(self, self.through)
            verify_numbers(self, self.dtensor.type, self.through)
        self.verify_windows()
        self.verify_tile("imap")
        self._verify_loaded_ends()
        if self.through is not None:
            verify_even_numbers(self, self.through, self.bounds())
        if element_type_of(self.dtensor.type) != element_type_of(self.result.type):
            raise OperatorError(
                f"the tile's element type {element_type_of(self.result.type)} differs from the "
                f"tensor's {element_type_of(self.dtensor.type)}"
            )

    def _verify_loaded_ends(self) -> None:
        self.verify_ends()
        numbers = numbers_of(self.ending)
        if numbers and self.windows is not None:
            raise VerifyException(
                f"{op_label(self)} reads windows and is 'ending' at a length; mask the tile instead"
            )
        if numbers and self.through is not None:
            raise VerifyException(
                f"{op_label(self)} reads rows 'through' {value_label(self.through)} and is "
                "'ending' at a length; mask the tile instead"
            )


@irdl_op_definition
class OutputOp(MovesTile, TakesDistinctNumbers):
    """Stores a tile into a result of the enclosing ``kn.customized``.

    Without ``fordim`` once, after the loop.  With ``fordim`` every iteration stores a value of the
    loop body into its own slice of that dimension.  Every grid axis of extent over 1 must be
    mapped: blocks do not reduce over each other.  The i-th ``tb.output`` is the i-th result.

    ``ending [0, 1]``: what lies along dimension 0 behind length 1 of the kernel is read by nobody.
    Blocks that store nothing else leave at once; others, and the interpreter, store it.

    ``through`` a tensor of i32 it stores the tiles of a tensor whose dimensions the maps count:
    first those of the numbers, then those of a row of the result.  A row is stored at the place of
    the result's first dimension that its number says, and nowhere if the result has no such place,
    as for -1.  Each place has one number that says it: the interpreter refuses others.

    ``tb.output %d through %rows omap [0, 1, -1] : !tb.stensor<1x64x64xf16>, tensor<9x64xi32> ->
    tensor<512x64xf16>``

    ``tb.output %d omap [1, -1, -1] : !tb.stensor<16x64xf16> -> tensor<16x6144xf16>``
    """

    name = "tb.output"

    stensor = operand_def(STensorType)
    through = opt_operand_def(TensorType | STensorType)
    omap = prop_def(DenseArrayBase.constr(i64))
    dtensor_type = prop_def(TensorType)

    assembly_format = (
        "$stensor (`through` $through^)? `omap` $omap (`fordim` $fordim^)? (`ending` $ending^)? "
        "attr-dict `:` type($stensor) (`,` type($through)^)? `->` $dtensor_type"
    )

    def __init__(
        self,
        stensor: SSAValue,
        omap: Sequence[int],
        dtensor_type: Attribute,
        fordim: int = NOT_SPLIT,
        ends: Mapping[int, int] | None = None,
        through: SSAValue | None = None,
    ) -> None:
        super().__init__(
            operands=[stensor, through],
            properties={
                "omap": integer_array(omap),
                "fordim": fordim_attribute(fordim),
                "ending": numbers_attribute([n for pair in (ends or {}).items() for n in pair]),
                "dtensor_type": dtensor_type,
            },
        )

    @property
    def map_(self) -> tuple[int, ...]:
        """The dimension that each of x, y, z splits, or -1."""
        return extents_of(self.omap)

    @property
    def tensor_type(self) -> Attribute:
        """The result's of the enclosing operator."""
        return self.dtensor_type

    @property
    def tensor_shape(self) -> tuple[int, ...]:
        """The extents of what the maps cut: the result, or a row of it for each number."""
        shape = shape_of(self.dtensor_type)
        return shape if self.through is None else gathered_shape(shape, self.numbers_shape)

    def takes_distinct(self, operand: int) -> bool:
        """Of the numbers that say where rows are stored."""
        return operand == 1

    @property
    def numbers_shape(self) -> tuple[int, ...]:
        """The extents of the numbers that say where rows are stored; none where none do."""
        return () if self.through is None else shape_of(self.through.type)

    def tile_copy(self, strides: Sequence[int], tile_strides: Sequence[int]) -> TileCopy:
        """The copy for given strides of the result and of the tile."""
        if self.through is None:
            return super().tile_copy(strides, tile_strides)
        return self.copy_of_rows(strides, tile_strides, self.numbers_shape)

    @property
    def tile(self) -> SSAValue:
        """The operand."""
        return self.stensor

    def tensor_and_tile(self) -> tuple[SSAValue, SSAValue]:
        """The result of the enclosing operator, and the operand."""
        return self.dtensor, self.stensor

    @property
    def dtensor(self) -> SSAValue:
        """The result of the enclosing operator that this one writes."""
        parent = self.parent_op()
        block = self.parent_block()
        if parent is None or block is None:
            raise VerifyException(f"{op_label(self)} must stand in the body of a 'kn.customized'")
        outputs = [op for op in block.ops if isinstance(op, OutputOp)]
        return parent.results[outputs.index(self)]

    def verify_(self) -> None:
        """Checks the map, and the tile's extents against the tensor's."""
        graph = enclosing_graph(self)
        if self.through is not None:
            verify_parameter(self, self.through)
            verify_numbers(self, self.dtensor_type, self.through)
            if self.loop_dim != NOT_SPLIT and graph.forloop_range > 1:
                raise VerifyException(
                    f"{op_label(self)} stores rows 'through' {value_label(self.through)} in every "
                    "iteration; leave out 'fordim': rows are stored once, after the loop"
                )
        grid, shape = graph.grid_dim, self.tensor_shape
        verify_map("omap", self.map_, self.loop_dim, len(shape), grid)
        for axis, name in enumerate("xyz"):
            if grid[axis] > 1 and self.map_[axis] < 0:
                raise PartitionError(
                    f"grid axis {name} has {grid[axis]} blocks but omap does not map it; "
                    "blocks would overwrite each other: map it to a dimension"
                )
        self.verify_tile("omap")
        self.verify_ends()
        if self.through is not None:
            verify_even_numbers(self, self.through, self.bounds())
        stored, given = element_type_of(self.dtensor_type), element_type_of(self.stensor.type)
        verify_element_type(op_label(self), stored)
        if stored != given and (is_integer(stored) or is_integer(given)):
            raise VerifyException(
                f"{op_label(self)} stores {given} as {stored}; insert a 'tb.cast' before it"
            )


def forms_in_tiles(forms: Sequence[LinearForm], slicing: Slicing) -> list[LinearForm]:
    """Forms of places in a tensor as those of places in a tile, of block and iteration.

    What forms are of besides places stays behind these.
    """
    rank = len(slicing.shape)
    steps = [0] * rank
    if slicing.fordim >= 0 and slicing.iterations > 1:
        steps[slicing.fordim] = slicing.iteration_step()
    moves = [*slicing.block_factors(), steps]
    return [
        LinearForm(
            (
                *form.coefficients[:rank],
                *(_scaled(form, move) for move in moves),
                *form.coefficients[rank:],
            ),
            form.constant,
        )
        for form in forms
    ]


def _scaled(form: LinearForm, move: Sequence[int]) -> int:
    """How far a form grows where places move so far."""
    return sum(one * step for one, step in zip(form.coefficients, move, strict=False))
