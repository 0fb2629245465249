"""Operators that move tiles between device memory and the block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xdsl.dialects.builtin import DenseArrayBase, TensorType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.copies import TileCopy
from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.element_types import is_integer, verify_element_type
from mugraph.dialects.indirect import (
    CutsRows,
    TakesDistinctNumbers,
)
from mugraph.dialects.launch_extents import extents_of, integer_array
from mugraph.dialects.lengths import numbers_attribute, numbers_of
from mugraph.dialects.linear_forms import LinearForm
from mugraph.dialects.maps import PartitionError, verify_map
from mugraph.dialects.tb.moves import (
    NOT_SPLIT,
    MovesTile,
    enclosing_graph,
    fordim_attribute,
)
from mugraph.dialects.tb.types import STensorType
from mugraph.dialects.tensor_types import (
    element_type_of,
    layout_of,
    op_label,
    resolved_layout_of,
    shape_of,
    strides_of,
    value_label,
)
from mugraph.dialects.windows import Windows


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
        return super().tile_copy(strides, tile_strides)

    @property
    def tile(self) -> SSAValue:
        """The result."""
        return self.result

    def tensor_and_tile(self) -> tuple[SSAValue, SSAValue]:
        """The operand and the result."""
        return self.dtensor, self.result

    def verify_(self) -> None:
        """Checks the tile's extents against the maps, the grid and the loop."""
        self.verify_numbers(self.dtensor.type)
        self.verify_windows()
        self.verify_tile("imap")
        self._verify_loaded_ends()
        self.verify_even_numbers(self.bounds())
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

    def takes_distinct(self, operand: int) -> bool:
        """Of the numbers that say where rows are stored."""
        return operand == 1

    @property
    def numbers(self) -> SSAValue | None:
        """Those that say where rows are stored, ``through``."""
        return self.through

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
        self.verify_numbers(self.dtensor_type)
        in_loop = self.loop_dim != NOT_SPLIT and graph.forloop_range > 1
        if self.through is not None and in_loop:
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
        self.verify_even_numbers(self.bounds())
        stored, given = element_type_of(self.dtensor_type), element_type_of(self.stensor.type)
        verify_element_type(op_label(self), stored)
        if stored != given and (is_integer(stored) or is_integer(given)):
            raise VerifyException(
                f"{op_label(self)} stores {given} as {stored}; insert a 'tb.cast' before it"
            )
