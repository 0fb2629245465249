"""Launches of kernels."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import (
    IndexType,
    IntegerAttr,
    ModuleOp,
    SymbolRefAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, BlockArgument, SSAValue
from xdsl.irdl import (
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure, SymbolTable
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.constant import CONSTANT, is_constant
from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.indirect import LaunchesKernel, ReadsLengths
from mugraph.dialects.interfaces import SharesMemory
from mugraph.dialects.kn.overlap import CanJoin
from mugraph.dialects.kn.scatter import ScatterOp
from mugraph.dialects.kn.workspace import (
    NOT_IN_WORKSPACE,
    WorkspaceOp,
    bytes_into_root,
    memory_root,
)
from mugraph.dialects.launch_extents import (
    largest_held,
)
from mugraph.dialects.sched.kernel import KernelOp
from mugraph.dialects.sched.local_tile import LocalTileOp
from mugraph.dialects.sched.settled import launches_behind_wait
from mugraph.dialects.tensor_types import (
    base_layout,
    element_bytes_of,
    element_type_of,
    layout_of,
    op_label,
    resolved_layout_of,
    shape_of,
    strides_of,
    value_label,
)

COUNTER_BYTES = 4
"""Of a counter in the workspace."""
CLUSTER_ALIGNMENT = 128
"""Of a tensor in the shared memory of a cluster, in bytes."""


class ClusterTensor(NamedTuple):
    """A tensor in distributed shared memory, of which each cluster has a part."""

    elements: int
    """From the part of a cluster to that of the next one."""
    offset: int
    """Where the part lies in the shared memory of a block, in bytes."""
    step: int
    """Elements from what a block of the cluster writes to that of the next one."""


@irdl_op_definition
class LaunchOp(WorkspaceOp, LaunchesKernel, ReadsLengths, CanJoin):
    """Launches a kernel of the module on DTensors, as a value at kernel level.

    Of several that share a launch the first one says how many blocks share a multiprocessor.

    One with ``cluster n`` consumes in clusters of n blocks what the launch in front of it, its
    producer, computes, or views of that.  Of c clusters cluster i runs blocks i, i + c, i + 2 c...
    of the producer's kernel.  Once all are done, its first block runs block i of this kernel, if
    that has c blocks, or each block the one of its own number, if it has as many as the producer.
    The tensors between the two lie in the shared memory of the first block, or in that of each
    block, which then writes one number to all (distributed shared memory).

    One with ``last n`` consumes what its producer computes, too, perhaps beside other kernels of
    the launch.  It has c blocks.  Of the n blocks i, i + c, i + 2 c... of the producer's kernel the
    last one to end runs block i.  The tensors between the two lie in device memory.  ``counters``
    says where in the workspace the c counters lie, which are zero before and behind each launch.
    """

    name = "sched.launch"

    kernel = prop_def(SymbolRefAttr)
    arguments = var_operand_def(TensorType | IndexType)
    resident = opt_prop_def(IntegerAttr.constr(i64))
    cluster = opt_prop_def(IntegerAttr.constr(i64))
    last = opt_prop_def(IntegerAttr.constr(i64))
    counters = opt_prop_def(IntegerAttr.constr(i64))
    outputs = var_result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$kernel $arguments (`resident` $resident^)? (`cluster` $cluster^)? "
        "(`last` $last^)? (`counters` $counters^)? "
        "(`workspace` $workspace^)? attr-dict "
        "`:` functional-type(operands, results)"
    )

    def __init__(
        self, kernel: str, arguments: Sequence[SSAValue], result_types: Sequence[Attribute]
    ) -> None:
        super().__init__(
            operands=[arguments],
            result_types=[result_types],
            properties={"kernel": SymbolRefAttr(kernel)},
        )

    def verify_(self) -> None:
        """Checks arguments and results against the kernel's parameters."""
        super().verify_()
        kernel = self.resolve()
        self._verify_counters()
        if self.cluster is not None:
            self._verify_cluster(self.cluster.value.data)
        elif self.last is not None:
            self._verify_last(self.last.value.data)
        else:
            self.verify_joined()
        values = (*self.arguments, *self.outputs)
        parameters = kernel.body.block.args
        if len(self.arguments) != kernel.input_count or len(values) != len(parameters):
            raise VerifyException(
                f"{op_label(self)} passes {len(self.arguments)} inputs and takes "
                f"{len(self.outputs)} results; {op_label(kernel)} has {kernel.input_count} inputs "
                f"and {len(parameters) - kernel.input_count} outputs"
            )
        for value, parameter in zip(values, parameters, strict=True):
            if value.type == parameter.type:
                continue  # an index
            if IndexType() in (value.type, parameter.type) or (
                shape_of(value.type) != shape_of(parameter.type)
                or element_type_of(value.type) != element_type_of(parameter.type)
                or layout_of(value.type) not in (None, layout_of(parameter.type))
            ):
                raise OperatorError(
                    f"{value_label(value)} has type {value.type}, but parameter {parameter.index} "
                    f"of {op_label(kernel)} is {parameter.type}"
                )
        for table, (number, dim) in kernel.arriving_rows.items():
            fault = self.arriving_fault(table, self.arguments[number], dim)
            if fault is not None:
                raise OperatorError(
                    f"{op_label(kernel)} loads {value_label(self.arguments[table])} but for one "
                    f"row before it waits: {fault}"
                )
        for index in kernel.constant_inputs:
            argument = self.arguments[index]
            if not is_constant(argument) and not self.starts_behind_writes_of(argument):
                raise OperatorError(
                    f"{value_label(argument)} may change, but {op_label(kernel)} loads its input "
                    f"{index} as one that is constant; mark the function's argument with {CONSTANT}"
                )

    def arriving_fault(self, table: int, number: SSAValue, dim: int) -> str | None:
        """Why not only the row of that number of an input, along ``dim``, is written late.

        ``None`` where that is so: of this call a scatter of one row in place writes to the table,
        a result of the function.  What was launched before the call is complete: its first kernel
        starts behind all of that.
        """
        scatter = memory_root(self.arguments[table]).owner
        rows = scatter.placed_rows() if isinstance(scatter, ScatterOp) else None
        if not isinstance(scatter, ScatterOp) or rows is None:
            return "no row of it is written in place"
        if scatter.workspace_offsets() != (NOT_IN_WORKSPACE,):
            return "it lies in the workspace, whose bytes other tensors may have until then"
        if memory_root(scatter.rows) is not memory_root(number):
            return f"the row that is written has the number {value_label(scatter.rows)}"
        parameter = self.resolve().body.block.args[table]
        shape, strides = shape_of(parameter.type), strides_of(resolved_layout_of(parameter))
        if (shape[dim], strides[dim]) != (rows.rows, rows.row_stride):
            return f"rows are not along dimension {dim}"
        return None

    def _verify_cluster(self, size: int) -> None:
        producer, following = self.in_front(), self.next_op
        more = isinstance(following, CanJoin) and following.is_joined
        shared = self.is_joined and not more
        if not shared or not isinstance(producer, LaunchOp) or producer.is_joined:
            raise VerifyException(
                f"{op_label(self)} has clusters, so it must share the launch in front of it, and "
                "no third operator may"
            )
        fault = self.cluster_fault(producer, size)
        if fault is not None:
            raise VerifyException(f"{op_label(self)} cannot share clusters of {size}: {fault}")

    def _verify_last(self, size: int) -> None:
        producer = self.prev_op
        if not self.is_joined or not isinstance(producer, LaunchOp) or not producer.has_blocks:
            raise VerifyException(
                f"{op_label(self)} runs in the last blocks of a kernel, so it must share the "
                "launch in front of it, which must have blocks"
            )
        self.verify_joined(producer)
        fault = self.last_fault(producer, size)
        if fault is not None:
            raise VerifyException(f"{op_label(self)} cannot run in the last of {size}: {fault}")

    def _verify_counters(self) -> None:
        if self.cluster is not None and self.last is not None:
            raise OperatorError(
                "blocks of a producer run it in clusters, or the last ones, not both"
            )
        if self.counters is None:
            return
        first = self.counters.value.data
        if self.last is None or first < 0 or first % COUNTER_BYTES:
            raise OperatorError(
                f"counters {first} must be of a kernel that runs in last blocks ('last'), and "
                f"begin at a multiple of {COUNTER_BYTES} bytes of the workspace"
            )

    def last_fault(self, producer: LaunchOp, size: int) -> str | None:
        """Why the last of ``size`` blocks each cannot consume what another launch computes.

        ``None`` where it can.
        """
        if not producer.resolve().waits_for_grids():
            return f"{op_label(producer)} does not start early, and takes its tensors for its own"
        fault = self._shared_fault(producer, size, "group")
        return fault or self._count_fault(producer, size)

    def _count_fault(self, producer: LaunchOp, size: int) -> str | None:
        """Why one of ``size`` blocks each of another kernel does not run one of its blocks."""
        blocks = size * self.task_count()
        if producer.task_count() == blocks:
            return None
        return (
            f"one block of each runs one of its {self.task_count()} blocks, which takes {blocks} "
            f"blocks, not {producer.task_count()}"
        )

    def _shared_fault(self, producer: LaunchOp, size: int, group: str) -> str | None:
        """Why one of ``size`` blocks each, a ``group``, cannot run a block of it as well."""
        front, kernel = producer.resolve(), self.resolve()
        if producer.joins() is None or producer.joins() != self.joins():
            return f"{op_label(producer)} cannot share a launch with it"
        if size < 2:
            return f"a {group} has two blocks at least"
        if kernel.threads > front.threads:
            return f"it has {kernel.threads} threads a block, and the blocks {front.threads}"
        for _output, index in self.consumed(producer):
            value = self.arguments[index]
            if skipped := bytes_into_root(value):
                return (
                    f"{value_label(value)} starts {skipped} bytes behind what "
                    f"{op_label(producer)} computes; it must start where that does"
                )
        return None

    def cluster_fault(self, producer: LaunchOp, size: int) -> str | None:
        """Why it cannot consume in clusters of ``size`` blocks what another launch computes.

        ``None`` where it can.
        """
        front, kernel = producer.resolve(), self.resolve()
        if front.placed_rows or kernel.placed_rows:
            return "one of the two stores rows of tables, which others read"
        fault = self._shared_fault(producer, size, "cluster")
        if self.task_count() != producer.task_count() or self.task_count() % max(size, 1):
            fault = fault or self._count_fault(producer, size)
        if fault is not None:
            return fault
        along = next((extent for extent in reversed(front.grid_dim) if extent > 1), 1)
        if self.is_of_each_block(producer) and size != along:
            return f"those of a row are the {along} blocks along the last axis of the grid"
        for output, _ in self.consumed(producer):
            argument = front.body.block.args[output]
            tiles = [use.operation for use in argument.uses]
            if len(tiles) != 1 or not isinstance(tiles[0], LocalTileOp):
                return f"blocks must store {value_label(argument)} as one tile each"
            numbers = math.prod(shape_of(tiles[0].result.type))
            if self.is_of_each_block(producer) and numbers > 1:
                return f"blocks must store one number of {value_label(argument)} each"
        return None

    def consumed(self, producer: LaunchOp) -> tuple[tuple[int, int], ...]:
        """The parameters of the producer's kernel, and those of this one, for one tensor each."""
        first = producer.resolve().input_count
        return tuple(
            (first + producer.outputs.index(root), index)
            for index, argument in enumerate(self.arguments)
            if (root := memory_root(argument)).owner is producer
        )

    def cluster_tensors(
        self, producer: LaunchOp, size: int
    ) -> tuple[dict[int, ClusterTensor], int]:
        """The tensors in distributed shared memory, by the producer's parameter, and their end.

        Clusters have ``size`` blocks; one cluster alone has whole tensors.

        They lie after what either kernel has there.  The end is the shared memory of a block, in
        bytes.
        """
        front = producer.resolve()
        end = max(front.smem_bytes or 0, self.resolve().smem_bytes or 0)
        tensors: dict[int, ClusterTensor] = {}
        for output in dict(self.consumed(producer)):
            (tile,) = (use.operation for use in front.body.block.args[output].uses)
            assert isinstance(tile, LocalTileOp)  # as verified
            alone = producer.task_count() == size
            whole = base_layout(resolved_layout_of(tile.source)).cosize()
            elements = whole if alone else tile.block_strides()[0]
            offset = -(-end // CLUSTER_ALIGNMENT) * CLUSTER_ALIGNMENT
            last = max(axis for axis, extent in enumerate(front.grid_dim) if extent > 1)
            tensors[output] = ClusterTensor(elements, offset, tile.block_strides()[last])
            end = offset + elements * element_bytes_of(tile.result.type)
        return tensors, end

    def is_of_each_block(self, producer: LaunchOp) -> bool:
        """Whether each block of a cluster runs one of its blocks, not the first one alone."""
        return self.task_count() == producer.task_count()

    @property
    def has_blocks(self) -> bool:
        """Whether blocks are launched for it, not run by those of its producer."""
        return self.cluster is None and self.last is None

    @property
    def counter_bytes(self) -> range | None:
        """The bytes of the workspace where its counters lie; ``None`` without."""
        if self.counters is None:
            return None
        first = self.counters.value.data
        return range(first, first + COUNTER_BYTES * self.task_count())

    def launch_in_front(self) -> LaunchOp | None:
        """The launch right before this one, if each of the two launches one kernel."""
        before, behind = self.in_front(), self.next_op
        while isinstance(behind, SharesMemory):
            behind = behind.next_op
        shared = self.is_joined or (isinstance(behind, CanJoin) and behind.is_joined)
        return before if isinstance(before, LaunchOp) and not (shared or before.is_joined) else None

    def starts_behind_writes_of(self, value: SSAValue) -> bool:
        """Whether all that writes to a tensor is complete before a block of this launch starts.

        An argument of the function, where the kernel in front waits for those before it, all of
        which are complete then, before it lets this one start, and writes to none of them.
        """
        front = self.launch_in_front()
        if front is None or not isinstance(memory_root(value), BlockArgument):
            return False
        kernel = front.resolve()
        return not kernel.placed_rows and launches_behind_wait(kernel)

    def joins(self) -> Hashable | None:
        """Kernels whose blocks and threads are numbered from 0 on, and have no roles."""
        kernel = self.resolve()
        if kernel.cuts or kernel.held_lengths or not kernel.is_plain():
            return None
        return (kernel.waits_for_grids(),)

    def task_count(self) -> int:
        """The blocks of the kernel's grid."""
        return math.prod(self.resolve().grid_dim)

    def largest_length(self, operand: int) -> int | None:
        """Of operands that hold lengths of the kernel."""
        return largest_held(self.resolve().held_lengths, operand)

    def argument_of(self, operand: int) -> SSAValue:
        """The kernel's argument."""
        return self.resolve().body.block.args[operand]

    def resolve(self) -> KernelOp:
        """The kernel launched; raises ``VerifyException`` where the module has none."""
        kernel = SymbolTable.lookup_symbol(self, self.kernel)
        if not isinstance(kernel, KernelOp):
            raise VerifyException(
                f"{op_label(self)}: the module has no 'sched.kernel' named "
                f"@{self.kernel.string_value()}"
            )
        return kernel


def launches_by_kernel(module: ModuleOp) -> defaultdict[KernelOp, list[LaunchOp]]:
    """The launches of each kernel of a module, in their order; none of one that is not launched.

    Raises ``VerifyException`` where a launch names no kernel.
    """
    found: defaultdict[KernelOp, list[LaunchOp]] = defaultdict(list)
    for op in module.walk():
        if isinstance(op, LaunchOp):
            found[op.resolve()].append(op)
    return found
