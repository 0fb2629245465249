"""Kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from typing import NamedTuple

from xdsl.dialects.builtin import (
    AffineSetAttr,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    SymbolNameConstraint,
    i64,
)
from xdsl.ir import Block, Operation, Region
from xdsl.irdl import (
    opt_prop_def,
    prop_def,
    traits_def,
)
from xdsl.traits import IsolatedFromAbove, NoTerminator, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.accessors import number_if_given, number_of
from mugraph.dialects.ancestors import enclosing
from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.kn.scatter import PlacedRows
from mugraph.dialects.launch_extents import (
    extents_of,
    integer_array,
)
from mugraph.dialects.lengths import verify_held_lengths
from mugraph.dialects.linear_forms import LinearForm, forms_of, verify_condition
from mugraph.dialects.plan import Plan, PlanAttr, plan_attribute
from mugraph.dialects.programming_model import (
    REGISTER_FILE,
    REGISTER_STEP,
    WARP,
    WARPGROUP,
)
from mugraph.dialects.sched.block_starts import StartsBlocks
from mugraph.dialects.sched.grid import GridWaitOp
from mugraph.dialects.sched.tile_values import verify_tiles
from mugraph.dialects.sched.types import GlobalType
from mugraph.dialects.tensor_types import (
    op_label,
    shape_of,
)

MIN_REGISTERS, MAX_REGISTERS = 24, 256
"""What ``setmaxnreg`` can give to the threads of a role."""


class BlockParts(NamedTuple):
    """Blocks that share a loop: along which axis, and how many of all blocks run at once."""

    axis: int
    at_once: int


class ArrivingRow(NamedTuple):
    """The row of a table that a kernel before still writes."""

    number: int
    """The input that has the row's number."""
    dim: int
    """The dimension of the table that counts rows."""


@irdl_op_definition
class KernelOp(StartsBlocks):
    """One ``__global__`` function: device tensors in, device tensors written, phases in order.

    The body's arguments are the tensors, inputs first; an input may also be an ``index``.
    ``smem`` is the dynamic shared memory of a block in bytes and ``resident`` how many blocks share
    a multiprocessor, which bounds the registers of a thread; both are absent until
    ``--plan-stensor-memory``.  ``forloop`` is the
    for-loop's range in the µGraph, which the schedule's loop must have too.  ``cluster`` (sm_90a
    on) groups the blocks that are launched, whose extents it divides.  ``constant`` are the inputs
    that are loaded before a ``sched.grid_wait``, as nothing that may run beside the kernel writes
    to them.  ``plan`` is that of the µGraph, which the passes that follow read.

    ``cut [0, 2, 128]``: along axis 0 of the grid, x, as many blocks are launched as have one of the
    first n elements, n being argument 2, an ``index``: each has 128.

    ``lengths [2, 4096]``: argument 2, a tensor of one i32 or i64, holds a number from 0 to 4096,
    the nearest one being taken for others.  It is length 0, which conditions have as a symbol
    behind their others.  ``lengths [2, 4096] per [0]``: it holds one for each block along x.  A
    ``cut`` may name that argument too: the whole grid is launched then, and
    blocks that have none of the elements leave at once.  Argument 2 may also be an ``index``, which
    a call gives.

    ``raster 8``: blocks start in groups of 8 rows of the grid (along y), down the columns of a
    group, so that those that run together share more of what they load in the L2 cache.

    ``descending 16``: blocks start in groups of 16 columns of the grid (along x), in each from its
    last row on, all columns of a row one after the other.  Where later rows run more iterations,
    short blocks are left for the end.  ``descending 16 planes`` says the same of planes, along z,
    and of the columns that x and y number, y faster.

    ``persistent 132``: so many blocks are launched, and each runs the phases of its roles for its
    work tiles: every 132nd block of the grid.  Roles go on to the next without waiting for each
    other, and channels go on counting: iteration ``k`` of the ``n``-th one is iteration ``k + n *
    range`` of a ring.  What stands outside of phases runs once, and uses neither rings, buffers nor
    tensors; phases stand in roles.  All buffers are those of channels or written in an epilogue
    that has waited for who used them before.

    ``placed [3, 1088, 64, 64, 69632, 8]``: argument 3 is one row of a table of 1088, in pieces of
    64 elements: from a row to the next are 64, from a piece to the next 69632.  A launch says which
    table, and where the number of the row is, of 8 bytes (``--store-rows``).

    ``arriving [4, 7, 2]``: input 4 is a table of which a kernel before this one writes one row,
    along dimension 2, whose number input 7 has.  Copies may bring the others before this kernel
    waits (``--load-tables-early``).

    ``packed 4``: blocks of one warp each, of which 4 neighbours along x are launched as one block.
    Each has its own shared memory there, and its barriers are those of the warp.

    ``forloop 8 interleaved``: as of ``kn.customized``.

    ``forloop 8 interleaved parts [2, 396]``: of the blocks along axis 2, z, which take the loop's
    tiles in turn, only so many take any that no multiprocessor waits while 396 blocks run at once;
    the others have none.  How many these are follows from the blocks that are launched.  Which
    block has a tile is no part of what a kernel computes, but for the order of sums.

    ``forloop 8 where affine_set<(x, y, z, it) : (64 * y + 63 - 128 * it >= 0)>``: a block runs only
    iterations in which all conditions hold, one at least.  Stages, ``ahead`` and ``iteration``
    count from its first one, and behind the loop from the last one; tiles of tensors and conditions
    of masks are those of the iteration itself.  What stands before the loop, of an iteration that
    the block does not run, does nothing.
    """

    name = "sched.kernel"

    sym_name = prop_def(SymbolNameConstraint())
    inputs = prop_def(IntegerAttr.constr(type=i64))
    smem = opt_prop_def(IntegerAttr.constr(type=i64))
    resident = opt_prop_def(IntegerAttr.constr(type=i64))
    forloop = opt_prop_def(IntegerAttr.constr(type=i64))
    domain = opt_prop_def(AffineSetAttr)
    parts = opt_prop_def(DenseArrayBase.constr(i64))
    constant = opt_prop_def(DenseArrayBase.constr(i64))
    placed = opt_prop_def(DenseArrayBase.constr(i64))
    arriving = opt_prop_def(DenseArrayBase.constr(i64))
    plan = opt_prop_def(PlanAttr)

    traits = traits_def(IsolatedFromAbove(), NoTerminator(), SymbolOpInterface())

    assembly_format = (
        "$sym_name `inputs` $inputs (`constant` $constant^)? (`lengths` $lengths^)? "
        "(`per` $per^)? "
        "`grid` $grid (`cut` $cut^)? "
        "(`raster` $raster^)? (`descending` $descending^)? (`planes` $planes^)? "
        "(`persistent` $persistent^)? "
        "`block` $block (`packed` $packed^)? "
        "(`cluster` $cluster^)? (`smem` $smem^)? (`resident` $resident^)? "
        "(`forloop` $forloop^)? (`interleaved` $interleaved^)? (`parts` $parts^)? "
        "(`where` $domain^)? "
        "(`placed` $placed^)? (`arriving` $arriving^)? (`plan` $plan^)? $body attr-dict"
    )

    def __init__(
        self,
        sym_name: str,
        inputs: int,
        grid: Sequence[int],
        block: Sequence[int],
        body: Region | Block,
        forloop: int | None = None,
        plan: Plan | None = None,
    ) -> None:
        super().__init__(
            properties={
                "sym_name": StringAttr(sym_name),
                "inputs": IntegerAttr(inputs, i64),
                "grid": integer_array(grid),
                "block": integer_array(block),
                "forloop": None if forloop is None else IntegerAttr(forloop, i64),
                "plan": plan_attribute(plan),
            },
            regions=[Region(body) if isinstance(body, Block) else body],
        )

    @property
    def decided(self) -> Plan:
        """The parts of its µGraph's plan that are decided."""
        return Plan() if self.plan is None else self.plan.data

    input_count = number_of("inputs")
    """How many of the body's arguments are read; the others are written."""

    forloop_range = number_if_given("forloop")
    """The for-loop's range in the µGraph, where the kernel came from one."""

    @property
    def placed_rows(self) -> dict[int, PlacedRows]:
        """The arguments that are rows of tables, and where these lie."""
        numbers = [] if self.placed is None else [*extents_of(self.placed)]
        groups = [numbers[at : at + 6] for at in range(0, len(numbers), 6)]
        return {group[0]: PlacedRows(*group[1:]) for group in groups}

    def place(self, argument: int, rows: PlacedRows) -> None:
        """Says that an argument is a row of tables."""
        placed = {**self.placed_rows, argument: rows}
        self.placed = integer_array(
            [number for key, each in placed.items() for number in (key, *astuple(each))]
        )

    @property
    def arriving_rows(self) -> dict[int, ArrivingRow]:
        """The inputs of which other kernels still write one row, and which row that is."""
        numbers = [] if self.arriving is None else [*extents_of(self.arriving)]
        groups = [numbers[at : at + 3] for at in range(0, len(numbers), 3)]
        return {group[0]: ArrivingRow(*group[1:]) for group in groups}

    def expect_row(self, argument: int, row: ArrivingRow) -> None:
        """Says that a row of an input is still written."""
        rows = {**self.arriving_rows, argument: row}
        self.arriving = integer_array(
            [number for key, each in rows.items() for number in (key, *each)]
        )

    def domain_forms(self) -> list[LinearForm]:
        """The forms that are at least 0 in iterations that a block runs.

        They are of block and iteration, and then of the lengths.
        """
        return [] if self.domain is None else forms_of(self.domain.data)

    @property
    def block_parts(self) -> BlockParts | None:
        """Which blocks take tiles in turn, where it depends on how many are launched."""
        return None if self.parts is None else BlockParts(*extents_of(self.parts))

    @property
    def constant_inputs(self) -> frozenset[int]:
        """Which arguments nothing writes to that may run beside this kernel."""
        return frozenset(() if self.constant is None else extents_of(self.constant))

    def waits_for_grids(self) -> bool:
        """Whether its threads wait for the kernels before it, so that its launch need not."""
        return any(isinstance(op, GridWaitOp) for op in self.body.walk())

    resident_blocks = number_if_given("resident")
    """Blocks that share a multiprocessor, once planned."""

    @property
    def registers_at_start(self) -> int:
        """What each thread has before its role changes it."""
        return self.registers_of_each(self.resident_blocks or 1)

    def registers_of_each(self, blocks: int) -> int:
        """A thread's even share of the register file where so many blocks share a multiprocessor.

        The file is in four parts, and the warps of the multiprocessor are dealt to these in turn.
        """
        warps = blocks * -(-self.threads // WARP)
        share = REGISTER_FILE // (-(-warps // WARPGROUP) * WARPGROUP * WARP)
        return min(share // REGISTER_STEP * REGISTER_STEP, MAX_REGISTERS)

    smem_bytes = number_if_given("smem")
    """Dynamic shared memory of a block, once planned."""

    def verify_(self) -> None:
        """Checks arguments and extents."""
        self.verify_order()
        for argument in self.body.block.args:
            is_number = isinstance(argument.type, IndexType) and argument.index < self.input_count
            if not is_number and not isinstance(argument.type, GlobalType):
                raise OperatorError(
                    f"argument {argument.index} has type {argument.type}, expected a tensor in "
                    "device memory, !sched.global, or an input of type index"
                )
        if not 0 <= self.input_count <= len(self.body.block.args):
            raise OperatorError(
                f"inputs {self.input_count} of {len(self.body.block.args)} arguments"
            )
        if any(not 0 <= index < self.input_count for index in self.constant_inputs):
            raise OperatorError(
                f"constant {sorted(self.constant_inputs)} of {self.input_count} inputs"
            )
        if any(
            not self.input_count <= each < len(self.body.block.args) for each in self.placed_rows
        ):
            raise OperatorError(
                f"placed {sorted(self.placed_rows)} must be arguments that are written"
            )
        for table, (number, dim) in self.arriving_rows.items():
            inputs = self.input_count
            rank = len(shape_of(self.body.block.args[table].type)) if table < inputs else 0
            if not (0 <= table < inputs and 0 <= number < inputs and 0 <= dim < rank):
                raise OperatorError(
                    f"arriving [{table}, {number}, {dim}] must be an input, another one that has "
                    "the number of a row, and a dimension"
                )
        self.verify_extents()
        verify_held_lengths(self, [each.type for each in self.body.block.args])
        if any(each.argument >= self.input_count for each in self.held_lengths):
            raise OperatorError("lengths are held by what it reads, its inputs")
        if self.domain is not None:
            self._verify_domain()
        self._verify_parts()
        self._verify_cuts()
        self.verify_persistence()
        if self.smem_bytes is not None and self.smem_bytes < 0:
            raise OperatorError(f"smem {self.smem_bytes} is negative")
        verify_tiles(self)

    def _verify_domain(self) -> None:
        domain = self.domain
        assert domain is not None
        shape = (*self.grid_dim, self.forloop_range or 1)
        verify_condition(self, domain.data, shape, len(self.held_lengths))
        if self.forloop_range is None or self.persistent_blocks is not None:
            needed = "a 'forloop'" if self.forloop_range is None else "no 'persistent'"
            raise OperatorError(f"which iterations a block runs depends on it, expected {needed}")

    def _verify_parts(self) -> None:
        if self.parts is None:
            return
        parts = extents_of(self.parts)
        if len(parts) != 2 or not 0 <= parts[0] < len(self.grid_dim) or parts[1] < 1:
            raise OperatorError(
                f"parts {[*parts]} must be an axis of the grid and how many blocks run at once"
            )
        if not self.is_interleaved or self.domain is None:
            raise OperatorError(
                "parts of a loop whose tiles blocks do not take in turn, up to a length; expected "
                "'interleaved' and 'where'"
            )

    def _verify_cuts(self) -> None:
        if self.cut is not None and len(extents_of(self.cut)) % 3:
            raise OperatorError(
                f"cut {list(extents_of(self.cut))} must be an axis, an argument and a number of "
                "elements, perhaps several times"
            )
        for cut in self.cuts:
            is_known = 0 <= cut.argument < self.input_count and (
                self.is_number(cut.argument)
                or cut.argument in [each.argument for each in self.held_lengths]
            )
            if not 0 <= cut.axis < 3 or cut.step < 1 or not is_known:
                raise OperatorError(
                    f"cut {list(cut)} must be an axis from 0 to 2, an input of type index or one "
                    "that holds a length, and the elements of a block, at least 1"
                )


def unplanned_kernels(module: ModuleOp) -> list[KernelOp]:
    """The kernels of a module whose memory is not planned yet: their buffers may still change."""
    kernels = [op for op in module.body.block.ops if isinstance(op, KernelOp)]
    return [kernel for kernel in kernels if kernel.smem_bytes is None]


def with_regions(block: Block) -> list[Operation]:
    """The operators of a block that hold others, such as roles, phases and loops."""
    return [op for op in block.ops if op.regions]


def enclosing_kernel(op: Operation) -> KernelOp:
    """The kernel around an operator; raises ``VerifyException`` outside of one."""
    kernel = enclosing(op, KernelOp)
    if kernel is None:
        raise VerifyException(f"{op_label(op)} must stand in the body of a 'sched.kernel'")
    # xDSL verifies a body before the operator around it.
    kernel.verify_extents()
    return kernel
