"""Requests for tiles of device memory that kernels load later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, operand_def, opt_prop_def

from mugraph.dialects.accessors import number_if_given
from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.partition import VECTOR_BYTES
from mugraph.dialects.ragged import RaggedDim, ragged_dims
from mugraph.dialects.sched.accesses import HasThreadAccesses, ThreadAccess
from mugraph.dialects.sched.local_tile import LocalTileOp
from mugraph.dialects.sched.structure import PrologueOp, enclosing_kernel, verify_fixed_iteration
from mugraph.dialects.sched.types import GlobalType
from mugraph.dialects.tensor_types import (
    element_bytes_of,
    resolved_layout_of,
    shape_of,
    strides_of,
)


@dataclass(frozen=True)
class Run:
    """Elements that lie side by side in device memory."""

    elements: int
    """All of them, or those of one step along ``ragged``."""
    ragged: RaggedDim | None
    """The outermost dimension, if not all of its elements exist."""


def run_of(tile: LocalTileOp) -> Run | None:
    """The elements of a tile, if they lie side by side and begin and end at whole vectors."""
    if not tile.is_plain:
        return None
    shape, strides = shape_of(tile.result.type), strides_of(resolved_layout_of(tile.result))
    ragged = {entry.dim: entry for entry in ragged_dims(tile.bounds())}
    dims = sorted(
        (dim for dim, extent in enumerate(shape) if extent > 1 or dim in ragged),
        key=lambda dim: strides[dim],
    )
    run = Run(1, None)
    for dim in dims:
        if run.ragged is not None or strides[dim] != run.elements:
            return None
        if dim in ragged:
            run = Run(run.elements, ragged[dim])
        else:
            run = Run(run.elements * shape[dim], None)
    size = element_bytes_of(tile.result.type)
    starts = (*tile.block_strides(), tile.iteration_stride(), run.elements)
    return None if any(start * size % VECTOR_BYTES for start in starts) else run


@irdl_op_definition
class PrefetchOp(IRDLOperation, HasThreadAccesses):
    """Asks for a tile of device memory in the second-level cache, where loads find it later.

    One thread asks, and nothing waits.  It is no access: what other kernels write meanwhile is
    seen by whoever loads it afterwards, so that it may stand before ``sched.grid_wait``.
    ``iteration n`` names the iteration whose tile it is.  The tile's elements lie side by side.

    Source: PTX ISA, "cp.async.bulk.prefetch.L2".
    """

    name = "sched.prefetch"

    tile = operand_def(GlobalType)
    iteration = opt_prop_def(IntegerAttr.constr(type=i64))

    assembly_format = "$tile (`iteration` $iteration^)? attr-dict `:` type($tile)"

    def __init__(self, tile: SSAValue, iteration: int | None = None) -> None:
        at = None if iteration is None else IntegerAttr(iteration, i64)
        super().__init__(operands=[tile], properties={"iteration": at})

    fixed_iteration = number_if_given("iteration")
    """The iteration whose tile is asked for."""

    @property
    def run(self) -> Run:
        """Which elements it asks for.  Raises ``OperatorError`` where they lie apart."""
        owner = self.tile.owner
        run = run_of(owner) if isinstance(owner, LocalTileOp) else None
        if run is None:
            raise OperatorError(
                "the elements of its operand must lie side by side in device memory, in whole "
                f"{VECTOR_BYTES} bytes; ask for tiles of full rows"
            )
        return run

    def thread_accesses(self) -> Sequence[ThreadAccess]:
        """None: no thread gets what is asked for."""
        return ()

    def verify_(self) -> None:
        """Checks that it is in a prologue, and that its elements lie side by side."""
        if not isinstance(self.parent_op(), PrologueOp):
            raise OperatorError("it has a meaning only before the loop, in the prologue")
        if self.fixed_iteration is not None:
            verify_fixed_iteration(self, self.fixed_iteration, enclosing_kernel(self))
        assert self.run
