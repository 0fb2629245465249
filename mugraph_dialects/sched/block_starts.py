"""Which blocks of a grid are launched, in which order they start, and which of them together."""

from __future__ import annotations

import math
from collections.abc import Mapping

from xdsl.dialects.builtin import DenseArrayBase, IndexType, IntegerAttr, UnitAttr, i64
from xdsl.ir import Operation
from xdsl.irdl import opt_prop_def, region_def
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.accessors import number_if_given, number_or
from mugraph.dialects.definition import OperatorError
from mugraph.dialects.interfaces import touched_by
from mugraph.dialects.launch_extents import (
    GridCut,
    HoldsLengths,
    cut_grid,
    extents_of,
    three_fault,
)
from mugraph.dialects.programming_model import MAX_THREADS, WARP
from mugraph.dialects.sched.types import GlobalType, SharedType
from mugraph.dialects.tensor_types import op_label, value_label


class StartsBlocks(HoldsLengths):
    """A kernel of which blocks start in some order: rows, clusters or several by one.

    What each of the properties says stands in the text of ``sched.kernel``.
    """

    cluster = opt_prop_def(DenseArrayBase.constr(i64))
    cut = opt_prop_def(DenseArrayBase.constr(i64))
    raster = opt_prop_def(IntegerAttr.constr(type=i64))
    descending = opt_prop_def(IntegerAttr.constr(type=i64))
    planes = opt_prop_def(UnitAttr)
    persistent = opt_prop_def(IntegerAttr.constr(type=i64))
    packed = opt_prop_def(IntegerAttr.constr(type=i64))
    body = region_def("single_block")

    raster_rows = number_or("raster", 1)
    """The rows of the grid in a group of blocks that start together; 1 for the grid's order."""

    descending_columns = number_if_given("descending")
    """The columns of a group of which rows start from the last one; ``None`` for the first."""

    persistent_blocks = number_if_given("persistent")
    """How many blocks share the grid's, each taking several; ``None`` where each takes one."""

    packed_blocks = number_or("packed", 1)
    """How many blocks of the grid are launched as one."""

    @property
    def launched_grid(self) -> tuple[int, ...]:
        """The blocks that are launched, along x, y and z; those that are packed count each."""
        blocks = self.persistent_blocks
        return self.grid_dim if blocks is None else (blocks, 1, 1)

    @property
    def cuts(self) -> list[GridCut]:
        """The axes of the grid of which a call may launch a part."""
        numbers = () if self.cut is None else extents_of(self.cut)
        return [GridCut(*numbers[at : at + 3]) for at in range(0, len(numbers), 3)]

    @property
    def cuts_by_call(self) -> list[GridCut]:
        """The axes of the grid of which a part is launched; blocks of others leave."""
        return [cut for cut in self.cuts if self.is_number(cut.argument)]

    def is_number(self, argument: int) -> bool:
        """Whether an argument is a number, and no tensor."""
        return isinstance(self.body.block.args[argument].type, IndexType)

    def grid_at(self, values: Mapping[int, int]) -> tuple[int, ...]:
        """The blocks of a call that compute something, in whole clusters.

        ``values`` are the numbers of the arguments that cut the grid.
        """
        return cut_grid(self.grid_dim, self.cuts, values, self.cluster_blocks)

    @property
    def cluster_dim(self) -> tuple[int, ...]:
        """The blocks of a cluster along x, y and z of what is launched."""
        return (1, 1, 1) if self.cluster is None else extents_of(self.cluster)

    @property
    def cluster_blocks(self) -> int:
        """How many blocks a cluster has."""
        return math.prod(self.cluster_dim)

    def axes_in_clusters(self) -> list[int]:
        """The axes of the grid along which blocks of one cluster differ."""
        if self.raster_rows == 1 and self.persistent_blocks is None:
            return [axis for axis, blocks in enumerate(self.cluster_dim) if blocks > 1]
        return self.axes_in_runs(self.cluster_blocks)

    def axes_in_runs(self, blocks: int) -> list[int]:
        """The axes along which blocks of the grid differ that start one after the other.

        Of every run of so many, from a multiple of ``blocks`` on.
        """
        columns, rows, planes = self.grid_dim
        grouped = self.raster_rows
        differ = (
            columns > 1 and grouped % blocks > 0,
            rows > 1 and blocks > 1 and (grouped > 1 or columns % blocks > 0),
            planes > 1 and columns * rows % blocks > 0,
        )
        return [axis for axis, differs in enumerate(differ) if differs]

    def is_plain(self) -> bool:
        """Whether its blocks and threads are numbered from 0 on, along x, and have no roles."""
        orders = (self.descending, self.cluster, self.persistent, self.packed)
        numbered = self.raster_rows == 1 and all(order is None for order in orders)
        # By name, as roles know kernels.
        apart = any(op.name in ("sched.role", "sched.bulk_copy") for op in self.walk())
        return numbered and self.threads == self.block_dim[0] and not apart

    def verify_order(self) -> None:
        """Checks which blocks start one after the other, and which are launched as one."""
        if self.raster_rows < 1 or self.grid_dim[1] % self.raster_rows:
            raise OperatorError(
                f"raster {self.raster_rows} must divide the {self.grid_dim[1]} rows of the grid, "
                "its extent along y"
            )
        self._verify_descending()
        self._verify_packing()

    def _verify_descending(self) -> None:
        columns = self.descending_columns
        if columns is None:
            if self.planes is not None:
                raise OperatorError("planes of no 'descending'")
            return
        axes = (0,) if self.planes is None else (0, 1)
        there = math.prod(self.grid_dim[axis] for axis in axes)
        if columns < 1 or there % columns:
            along = "extent along x" if self.planes is None else "extents along x and y"
            raise OperatorError(
                f"descending {columns} must divide the {there} columns of the grid, its {along}"
            )
        others = (self.raster, self.persistent, self.cluster)
        is_cut = any(cut.axis in axes for cut in self.cuts_by_call)
        if is_cut or any(other is not None for other in others):
            raise OperatorError(
                f"descending {columns} says in which order all columns start, expected no "
                "'raster', 'persistent' or 'cluster', and no 'cut' along x by a call"
            )

    def _verify_packing(self) -> None:
        if self.packed is None:
            return
        if self.packed_blocks < 1 or self.packed_blocks * self.threads > MAX_THREADS:
            raise OperatorError(
                f"packed {self.packed_blocks} blocks of {self.threads} threads must be from 1 to "
                f"as many as have {MAX_THREADS} threads together"
            )
        others = (self.raster, self.descending, self.persistent, self.cluster)
        if self.block_dim != (WARP, 1, 1) or any(other is not None for other in others):
            raise OperatorError(
                f"only blocks of one warp are packed, [{WARP}, 1, 1], expected no 'raster', "
                "'descending', 'persistent' or 'cluster'"
            )

    def verify_persistence(self) -> None:
        """Checks that roles go on from block to block, and that all else runs once."""
        blocks = self.persistent_blocks
        if blocks is None:
            return
        if not 0 < blocks < math.prod(self.grid_dim):
            raise OperatorError(
                f"persistent {blocks} must be from 1 to less than the {math.prod(self.grid_dim)} "
                "blocks of the grid"
            )
        # By name, as roles know kernels.
        roles = [op for op in self.body.block.ops if op.name == "sched.role"]
        if not roles:
            raise OperatorError(f"persistent {blocks} says how roles go on, and there are none")
        for op in self.body.block.ops:
            if op.regions and op not in roles:
                raise VerifyException(
                    f"{op_label(op)} stands outside of roles; persistent blocks have several "
                    "work tiles, and the phases of roles run for each"
                )
        for block in (self.body.block, *(role.regions[0].block for role in roles)):
            for op in block.ops:
                _verify_runs_once(op)

    def verify_extents(self) -> None:
        """Checks grid, block and cluster; operators of the body call it before they use them."""
        self.verify_launch_extents()
        if self.cluster is None:
            return
        fault = three_fault("cluster", self.cluster_dim)
        if fault is not None:
            raise VerifyException(f"{op_label(self)}: {fault}")
        self._verify_clusters()

    def _verify_clusters(self) -> None:
        for axis, extent, blocks in zip("xyz", self.launched_grid, self.cluster_dim, strict=True):
            if extent % blocks:
                raise VerifyException(
                    f"{op_label(self)}: {extent} blocks are launched along {axis}, which clusters "
                    f"of {blocks} do not divide; launch a multiple of {blocks}"
                )
        if self.raster_rows > 1 and self.cluster_blocks > self.cluster_dim[0]:
            raise VerifyException(
                f"{op_label(self)}: with raster {self.raster_rows} blocks start along x, one after "
                f"the other; cluster {list(self.cluster_dim)} must lie along x, too"
            )


def _verify_runs_once(op: Operation) -> None:
    """Raises ``VerifyException`` for an operator outside of phases that uses buffers or tensors.

    In a persistent kernel it would be of no block of the grid, so that it has no tile and no stage.
    """
    for value in touched_by(op):
        if isinstance(value.type, SharedType | GlobalType):
            raise VerifyException(
                f"{op_label(op)} stands outside of phases, and would run once; in a persistent "
                f"kernel {value_label(value)} is used for each block of the grid, so put it into a "
                "phase"
            )
