"""Kernels, their phases, and where data lives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import (
    IsolatedFromAbove,
    NoTerminator,
    Pure,
    SymbolOpInterface,
    SymbolTable,
)
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.kn.workspace import WorkspaceOp
from mugraph.dialects.maps import PartitionError, tile_shape
from mugraph.dialects.partition import LinearPartition
from mugraph.dialects.sched.types import (
    FragmentType,
    GlobalType,
    SharedType,
    TensorMemoryType,
)
from mugraph.dialects.tensor_types import (
    dims,
    element_bytes_of,
    element_type_of,
    layout_of,
    op_label,
    physical_elements,
    resolved_layout_of,
    shape_of,
    strides_of,
    value_label,
)

LINE_BYTES = 128
"""One access to all banks of shared memory; swizzles repeat with it, so buffers start at one."""


@irdl_op_definition
class KernelOp(IRDLOperation):
    """One ``__global__`` function: device tensors in, device tensors written, phases in order.

    The body's arguments are the tensors, inputs first.  ``smem`` is the dynamic shared memory of a
    block in bytes, absent until ``--plan-stensor-memory``.  ``cluster`` (sm_90a on) groups blocks.
    """

    name = "sched.kernel"

    sym_name = prop_def(SymbolNameConstraint())
    inputs = prop_def(IntegerAttr.constr(type=i64))
    grid = prop_def(DenseArrayBase.constr(i64))
    block = prop_def(DenseArrayBase.constr(i64))
    cluster = opt_prop_def(DenseArrayBase.constr(i64))
    smem = opt_prop_def(IntegerAttr.constr(type=i64))
    body = region_def("single_block")

    traits = traits_def(IsolatedFromAbove(), NoTerminator(), SymbolOpInterface())

    assembly_format = (
        "$sym_name `inputs` $inputs `grid` $grid `block` $block (`cluster` $cluster^)? "
        "(`smem` $smem^)? $body attr-dict"
    )

    def __init__(
        self,
        sym_name: str,
        inputs: int,
        grid: Sequence[int],
        block: Sequence[int],
        body: Region | Block,
    ) -> None:
        super().__init__(
            properties={
                "sym_name": StringAttr(sym_name),
                "inputs": IntegerAttr(inputs, i64),
                "grid": DenseArrayBase.from_list(i64, list(grid)),
                "block": DenseArrayBase.from_list(i64, list(block)),
            },
            regions=[Region(body) if isinstance(body, Block) else body],
        )

    @property
    def input_count(self) -> int:
        """How many of the body's arguments are read; the others are written."""
        return self.inputs.value.data

    @property
    def grid_dim(self) -> tuple[int, ...]:
        """Blocks along x, y, z."""
        return tuple(cast(Sequence[int], self.grid.get_values()))

    @property
    def block_dim(self) -> tuple[int, ...]:
        """Threads along x, y, z."""
        return tuple(cast(Sequence[int], self.block.get_values()))

    @property
    def threads(self) -> int:
        """Threads in a block."""
        x, y, z = self.block_dim
        return x * y * z

    @property
    def smem_bytes(self) -> int | None:
        """Dynamic shared memory of a block, once planned."""
        return None if self.smem is None else self.smem.value.data

    def verify_(self) -> None:
        """Checks arguments and extents."""
        for argument in self.body.block.args:
            if not isinstance(argument.type, GlobalType):
                raise VerifyException(
                    f"{op_label(self)}: argument {argument.index} has type {argument.type}, "
                    "expected a tensor in device memory, !sched.global"
                )
        if not 0 <= self.input_count <= len(self.body.block.args):
            raise VerifyException(
                f"{op_label(self)}: inputs {self.input_count} of {len(self.body.block.args)} "
                "arguments"
            )
        self.verify_extents()
        if self.smem_bytes is not None and self.smem_bytes < 0:
            raise VerifyException(f"{op_label(self)}: smem {self.smem_bytes} is negative")

    def verify_extents(self) -> None:
        """Checks grid, block and cluster; operators of the body call it before they use them."""
        extents = {"grid": self.grid_dim, "block": self.block_dim}
        if self.cluster is not None:
            extents["cluster"] = tuple(cast(Sequence[int], self.cluster.get_values()))
        for name, values in extents.items():
            if len(values) != 3 or any(extent < 1 for extent in values):
                raise VerifyException(
                    f"{op_label(self)}: {name} {list(values)} must have three extents of at "
                    "least 1, for x, y and z"
                )


@irdl_op_definition
class LaunchOp(WorkspaceOp):
    """Launches a kernel of the module on DTensors, as a value at kernel level."""

    name = "sched.launch"

    kernel = prop_def(SymbolRefAttr)
    arguments = var_operand_def(TensorType)
    outputs = var_result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$kernel $arguments (`workspace` $workspace^)? attr-dict "
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
        values = (*self.arguments, *self.outputs)
        parameters = kernel.body.block.args
        if len(self.arguments) != kernel.input_count or len(values) != len(parameters):
            raise VerifyException(
                f"{op_label(self)} passes {len(self.arguments)} inputs and takes "
                f"{len(self.outputs)} results; {op_label(kernel)} has {kernel.input_count} inputs "
                f"and {len(parameters) - kernel.input_count} outputs"
            )
        for value, parameter in zip(values, parameters, strict=True):
            if (
                shape_of(value.type) != shape_of(parameter.type)
                or element_type_of(value.type) != element_type_of(parameter.type)
                or layout_of(value.type) != layout_of(parameter.type)
            ):
                raise VerifyException(
                    f"{op_label(self)}: {value_label(value)} has type {value.type}, but parameter "
                    f"{parameter.index} of {op_label(kernel)} is {parameter.type}"
                )

    def resolve(self) -> KernelOp:
        """The kernel launched; raises ``VerifyException`` where the module has none."""
        kernel = SymbolTable.lookup_symbol(self, self.kernel)
        if not isinstance(kernel, KernelOp):
            raise VerifyException(
                f"{op_label(self)}: the module has no 'sched.kernel' named "
                f"@{self.kernel.string_value()}"
            )
        return kernel


def whole_lines(size: int) -> int:
    """``size`` in bytes rounded up to lines of shared memory."""
    return (size + LINE_BYTES - 1) // LINE_BYTES * LINE_BYTES


def enclosing_kernel(op: Operation) -> KernelOp:
    """The kernel around an operator; raises ``VerifyException`` outside of one."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, KernelOp):
        parent = parent.parent_op()
    if parent is None:
        raise VerifyException(f"{op_label(op)} must stand in the body of a 'sched.kernel'")
    # xDSL verifies a body before the operator around it.
    parent.verify_extents()
    return parent


def verify_partition(op: Operation, partition: LinearPartition, value: SSAValue) -> None:
    """Raises ``VerifyException`` unless a partition orders all dimensions of ``value``.

    It may not deal to more threads than the block has.
    """
    rank = len(shape_of(value.type))
    if len(partition.order) != rank:
        raise VerifyException(
            f"{op_label(op)}: its partition orders {len(partition.order)} dimensions, the tensor "
            f"has {rank}"
        )
    threads = enclosing_kernel(op).threads
    if partition.threads > threads:
        raise VerifyException(
            f"{op_label(op)} is dealt to {partition.threads} threads, the block has {threads}"
        )


def enclosing_loop(op: Operation) -> ForloopOp | None:
    """The for-loop around an operator, if it stands in one."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, ForloopOp):
        parent = parent.parent_op()
    return parent


class PhaseOp(IRDLOperation):
    """A part of the kernel: its operators run in order."""

    body = region_def("single_block")
    traits = traits_def(NoTerminator())

    assembly_format = "$body attr-dict"

    def __init__(self, body: Region | Block) -> None:
        super().__init__(regions=[Region(body) if isinstance(body, Block) else body])


@irdl_op_definition
class PrologueOp(PhaseOp):
    """What runs before the for-loop: loop-invariant loads, cleared accumulators, first stages."""

    name = "sched.prologue"


@irdl_op_definition
class EpilogueOp(PhaseOp):
    """What runs after the for-loop: write-back of accumulators, outputs."""

    name = "sched.epilogue"


@irdl_op_definition
class ForloopOp(IRDLOperation):
    """Runs its body for iterations 0 to ``range`` - 1."""

    name = "sched.forloop"

    range = prop_def(IntegerAttr.constr(type=i64))
    body = region_def("single_block")
    traits = traits_def(NoTerminator())

    assembly_format = "$range $body attr-dict"

    def __init__(self, range_: int, body: Region | Block) -> None:
        super().__init__(
            properties={"range": IntegerAttr(range_, i64)},
            regions=[Region(body) if isinstance(body, Block) else body],
        )

    @property
    def iterations(self) -> int:
        """How often the body runs."""
        return self.range.value.data

    def verify_(self) -> None:
        """Checks the count of iterations."""
        if self.iterations < 1:
            raise VerifyException(
                f"{op_label(self)} {self.iterations}: the loop must have at least 1 iteration"
            )


def loop_iterations(kernel: KernelOp) -> int:
    """How often the for-loop of a kernel runs; 1 where it has none."""
    for op in kernel.body.block.ops:
        if isinstance(op, ForloopOp):
            op.verify_()
            return op.iterations
    return 1


@irdl_op_definition
class AllocOp(IRDLOperation):
    """A buffer in shared (or tensor) memory, of ``stages`` copies one behind the other.

    In iteration ``it`` an operator of the loop body means copy ``it mod stages``, unless it says
    ``ahead``.  ``offset`` is in bytes from the start of the block's memory; absent until planned.
    """

    name = "sched.alloc"

    stages = opt_prop_def(IntegerAttr.constr(type=i64))
    offset = opt_prop_def(IntegerAttr.constr(type=i64))
    result = result_def(SharedType | TensorMemoryType)

    assembly_format = "(`stages` $stages^)? (`offset` $offset^)? attr-dict `:` type($result)"

    def __init__(self, result_type: Attribute, stages: int = 1, offset: int | None = None) -> None:
        super().__init__(
            result_types=[result_type],
            properties={
                "stages": IntegerAttr(stages, i64) if stages > 1 else None,
                "offset": None if offset is None else IntegerAttr(offset, i64),
            },
        )

    @property
    def stage_count(self) -> int:
        """How many copies of the buffer there are."""
        return 1 if self.stages is None else self.stages.value.data

    @property
    def byte_offset(self) -> int | None:
        """Where the first copy starts, once planned."""
        return None if self.offset is None else self.offset.value.data

    def stage_bytes(self) -> int:
        """The size of one copy, its padding included, in whole lines of shared memory."""
        return whole_lines(
            physical_elements(resolved_layout_of(self.result)) * element_bytes_of(self.result.type)
        )

    def total_bytes(self) -> int:
        """The size of all copies."""
        return self.stage_bytes() * self.stage_count

    def verify_(self) -> None:
        """Checks stages and the offset's alignment."""
        if self.stage_count < 1:
            raise VerifyException(f"{op_label(self)}: stages must be at least 1")
        offset = self.byte_offset
        if offset is not None and (offset < 0 or offset % 16):
            raise VerifyException(
                f"{op_label(self)}: offset {offset} must be a multiple of 16 bytes"
            )


@irdl_op_definition
class FragmentOp(IRDLOperation):
    """Registers that live for the whole kernel."""

    name = "sched.fragment"

    result = result_def(FragmentType)
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self, result_type: Attribute) -> None:
        super().__init__(result_types=[result_type])


@irdl_op_definition
class TileOp(IRDLOperation):
    """The tile of a device tensor that this block touches, a view.

    With ``fordim`` it moves with the iteration of the copy that uses it.  The maps are those of
    ``tb.input`` and ``tb.output``.
    """

    name = "sched.tile"

    source = operand_def(GlobalType)
    map = prop_def(DenseArrayBase.constr(i64))
    fordim = opt_prop_def(IntegerAttr.constr(type=i64))
    result = result_def(GlobalType)

    traits = traits_def(Pure())

    assembly_format = (
        "$source `map` $map (`fordim` $fordim^)? attr-dict `:` type($source) `->` type($result)"
    )

    def __init__(
        self, source: SSAValue, map_: Sequence[int], fordim: int, result_type: Attribute
    ) -> None:
        super().__init__(
            operands=[source],
            result_types=[result_type],
            properties={
                "map": DenseArrayBase.from_list(i64, list(map_)),
                "fordim": None if fordim < 0 else IntegerAttr(fordim, i64),
            },
        )

    @property
    def map_(self) -> tuple[int, ...]:
        """The dimension that each of x, y, z splits, or -1."""
        return tuple(cast(Sequence[int], self.map.get_values()))

    @property
    def loop_dim(self) -> int:
        """The dimension that the for-loop splits, or -1."""
        return -1 if self.fordim is None else self.fordim.value.data

    def block_strides(self) -> tuple[int, ...]:
        """How far the tile's start moves with each block index, in elements."""
        from mugraph.dialects.maps import block_coordinate_factors

        shape = shape_of(self.source.type)
        strides = strides_of(resolved_layout_of(self.source))
        factors = block_coordinate_factors(shape, self.map_, enclosing_kernel(self).grid_dim)
        return tuple(
            sum(factor * stride for factor, stride in zip(row, strides, strict=True))
            for row in factors
        )

    def iteration_stride(self) -> int:
        """How far the tile's start moves from one iteration to the next, in elements."""
        if self.loop_dim < 0:
            return 0
        strides = strides_of(resolved_layout_of(self.source))
        return shape_of(self.result.type)[self.loop_dim] * strides[self.loop_dim]

    def verify_(self) -> None:
        """Checks the tile against the maps, and that it is one of a parameter's tensor."""
        if not isinstance(self.source, BlockArgument):
            raise VerifyException(
                f"{op_label(self)} cuts a tile from a tile; cut it from the kernel's parameter"
            )
        shape, tile = shape_of(self.source.type), shape_of(self.result.type)
        kernel = enclosing_kernel(self)
        forloop_range = loop_iterations(kernel) if self.loop_dim >= 0 else 1
        try:
            expected = tile_shape(
                shape, self.map_, self.loop_dim, kernel.grid_dim, forloop_range, name="map"
            )
        except PartitionError as error:
            raise VerifyException(f"{op_label(self)}: {error}") from error
        if expected != tile:
            raise VerifyException(
                f"{op_label(self)}: the maps cut tiles of {dims(expected)}, not {dims(tile)}"
            )
        strides = strides_of(resolved_layout_of(self.source))
        if strides_of(resolved_layout_of(self.result)) != strides:
            raise VerifyException(
                f"{op_label(self)}: a tile is a view and keeps the tensor's strides {strides}, "
                f"not {strides_of(resolved_layout_of(self.result))}"
            )


__all__ = [
    "AllocOp",
    "EpilogueOp",
    "ForloopOp",
    "FragmentOp",
    "KernelOp",
    "LaunchOp",
    "PhaseOp",
    "PrologueOp",
    "TileOp",
    "enclosing_kernel",
    "enclosing_loop",
    "loop_iterations",
    "verify_partition",
]
