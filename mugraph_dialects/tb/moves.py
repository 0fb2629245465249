"""What operators have in common that move tiles, and where the places of tiles lie."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    opt_prop_def,
)
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.alignment import alignment_of
from mugraph.dialects.copies import TileCopy
from mugraph.dialects.indirect import (
    NamesRows,
    gathered_strides,
)
from mugraph.dialects.interfaces import HasLayoutConstraints, HasSharedAccesses, SharedAccess
from mugraph.dialects.launch_extents import HasThreadblockGraph
from mugraph.dialects.lengths import numbers_attribute, numbers_of
from mugraph.dialects.linear_forms import LinearForm
from mugraph.dialects.maps import Slicing
from mugraph.dialects.ragged import Bounds
from mugraph.dialects.tb.layouts import copy_access
from mugraph.dialects.tensor_types import (
    element_bytes_of,
    op_label,
    resolved_layout_of,
    shape_of,
    strides_of,
    value_label,
)

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


class MovesTile(IRDLOperation, HasLayoutConstraints, HasSharedAccesses, NamesRows):
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
        """The extents of what the maps cut: the DTensor, or its rows, one for each number."""
        return self.named_shape(self.tensor_type)

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
        return graph.slicing(self.tensor_shape, self.map_, self.loop_dim, shape_of(self.tile.type))

    def bounds(self) -> Bounds:
        """Which elements of the tiles exist."""
        return self.slicing().bounds()

    def verify_tile(self, name: str) -> None:
        """Checks the tile's extents against the maps, of which ``name`` is the first."""
        self.slicing().tile_shape(name)

    def tile_copy(self, strides: Sequence[int], tile_strides: Sequence[int]) -> TileCopy:
        """The copy for given strides of the DTensor and of the tile."""
        tensor, _ = self.tensor_and_tile()
        numbers = self.numbers_shape
        return TileCopy(
            self.slicing(),
            tuple(strides if self.numbers is None else gathered_strides(strides, numbers)),
            tuple(tile_strides),
            element_bytes_of(self.tensor_type),
            alignment_of(tensor),
            numbered=len(numbers),
        )

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
