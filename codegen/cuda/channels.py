"""How roles, channels and bulk copies are printed, and the tensor maps that bulk copies take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.ir import BlockArgument, Operation, SSAValue

from mugraph.codegen.cuda.cpp import CodegenError, Writer
from mugraph.codegen.cuda.grid import grid_extents, total_blocks
from mugraph.codegen.cuda.names import Names
from mugraph.codegen.cuda.operations import (
    KernelPrinter,
    offset_by,
    print_operation,
    scope_of,
)
from mugraph.codegen.cuda.stages import (
    Iteration,
    StageCounters,
    moved_on,
    rings_of,
    starts_at_same_place,
)
from mugraph.dialects import sched
from mugraph.dialects.bulk import BulkTile
from mugraph.dialects.element_types import DESCRIPTIONS
from mugraph.dialects.sched.channel import RunsAtIteration, channel_of
from mugraph.dialects.sched.domain import counts_from_end
from mugraph.dialects.sched.mbarriers import KeepsMbarriers
from mugraph.dialects.sched.structure import loop_iterations, most_iterations
from mugraph.dialects.tensor_types import (
    element_bytes_of,
    element_type_of,
    op_label,
)

NAMED_ROW = "row"
"""The row of a tile that a number names, in the scope of its bulk copy."""


@dataclass(frozen=True)
class MapParameter:
    """A tensor map that a kernel takes: of its ``argument``-th tensor, in boxes of ``tile``."""

    argument: int
    box: tuple[int, ...]
    span: int
    tile: BulkTile
    ends: tuple[tuple[int, int], ...] = ()
    """Dimensions that end where an argument says, and that argument."""


def _bulk_copies(kernel: sched.KernelOp) -> list[sched.BulkCopyOp]:
    return [op for op in kernel.body.walk() if isinstance(op, sched.BulkCopyOp)]


def map_key(op: sched.BulkCopyOp) -> MapParameter:
    """The tensor map of a bulk copy."""
    tensor = op.tensor
    if not isinstance(tensor, BlockArgument):
        raise CodegenError(f"{op_label(op)} moves a tile of a tensor that is no argument")
    tile, owner = op.bulk_tile(), op.tile.owner
    ends: list[tuple[int, int]] = []
    if isinstance(owner, sched.LocalTileOp):
        for dim, value in owner.end_of.items():
            assert isinstance(value, BlockArgument)  # as kernels are isolated
            # How many numbers there are says nothing of the tensor whose rows they name.
            ends += [(dim, value.index)] if dim >= len(owner.numbers_shape) else []
    described = tile._replace(starts=(), offsets=())
    return MapParameter(tensor.index, tile.box, tile.span, described, tuple(ends))


def map_parameters(kernel: sched.KernelOp) -> list[MapParameter]:
    """The tensor maps that a kernel takes after its tensors, in order."""
    return list(dict.fromkeys(map_key(op) for op in _bulk_copies(kernel)))


def map_names(
    parameters: Sequence[MapParameter], tensors: Sequence[SSAValue], names: Names
) -> dict[MapParameter, str]:
    """A name for each tensor map, after its tensor."""
    return {
        parameter: names.fresh(f"{names.of(tensors[parameter.argument])}_map")
        for parameter in parameters
    }


def map_declarations(maps: Mapping[MapParameter, str], *, is_kernel: bool = True) -> list[str]:
    """The parameters that tensor maps are: of a kernel, or of a function with those of one."""
    type_ = "const __grid_constant__ CUtensorMap" if is_kernel else "CUtensorMap const&"
    return [f"{type_} {name}" for name in maps.values()]


def print_map_prefetch(maps: Mapping[MapParameter, str], writer: Writer, thread: str) -> None:
    """Prints that the first thread of a block asks for the tensor maps before they are used."""
    prefetched = " ".join(f"mugraph::prefetch_tensor_map(&{name});" for name in maps.values())
    writer.line(f"if ({thread} == 0) {{ {prefetched} }}")


def print_host_maps(
    parameters: Sequence[MapParameter],
    tensors: Sequence[SSAValue],
    writer: Writer,
    names: Names,
    *,
    strides_of_call: bool = False,
) -> list[str]:
    """Prints the tensor maps of a launch on these tensors; returns them as arguments.

    ``strides_of_call``: tensors are row-major at the extents of a call, and have no room for more.
    """
    arguments: list[str] = []
    for parameter in parameters:
        tensor = tensors[parameter.argument]
        pointer = names.of(tensor)
        name = names.fresh(f"{pointer}_map")
        dims = parameter.tile.tensor
        size = element_bytes_of(tensor.type)
        extents = ", ".join(str(extent) for extent in dims.extents)
        strides = ", ".join(str(stride * size) for stride in dims.strides[1:])
        steps = parameter.tile.steps or (1,) * len(parameter.box)
        reach = [extent * step for extent, step in zip(parameter.box, steps, strict=True)]
        box = ", ".join(str(extent) for extent in reach)
        every = f", {{{', '.join(map(str, steps))}}}" if max(steps) > 1 else ""
        swizzle = f"{parameter.span}B" if parameter.span else "NONE"
        data_type = DESCRIPTIONS[element_type_of(tensor.type)].tensor_map
        writer.line(
            f"static thread_local mugraph::TensorMap<{len(dims.order)}> {name}("
            f'"{pointer}", CU_TENSOR_MAP_DATA_TYPE_{data_type}, '
            f"{{{extents}}}, {{{strides}}}, {{{box}}}, CU_TENSOR_MAP_SWIZZLE_{swizzle}{every});"
        )
        ends = {dim: names.of(tensors[argument]) for dim, argument in parameter.ends}
        known = dict(zip(dims.order, map(str, dims.extents), strict=True))
        known |= {dim: f"static_cast<uint64_t>({end})" for dim, end in ends.items()}
        given = f", {{{', '.join(known[dim] for dim in dims.order)}}}" if ends else ""
        if strides_of_call and max(ends, default=0) > 0:
            steps_of_call = ", ".join(
                " * ".join([str(size), *(known[inner] for inner in known if inner > dim)])
                for dim in dims.order[1:]
            )
            given += f", {{{steps_of_call}}}"
        arguments.append(f"{name}.at({pointer}{given})")
    return arguments


def _place_of(op: KeepsMbarriers) -> str:
    """Where an operator's mbarriers are; raises ``CodegenError`` where that is not planned."""
    if op.byte_offset is None:
        raise CodegenError(
            f"{op_label(op)} has no place in shared memory; run --plan-stensor-memory first"
        )
    return f"smem + {op.byte_offset}"


@print_operation.register
def _(op: sched.ChannelOp, printer: KernelPrinter) -> None:
    name, place = printer.names.of(op.result), _place_of(op)
    of_cluster = f", {printer.kernel.cluster_blocks}" if op.is_of_cluster() else ""
    printer.writer.line(
        f"tb::Channel<{op.stage_count}{of_cluster}> const {name}({place});  {printer.describe(op)}"
    )
    printer.writer.line(f"if (thread == 0) {name}.init({op.releasing_warps()});")


def print_task_end(printer: KernelPrinter) -> None:
    """Prints that a task is done, and that its block no longer uses its channels."""
    channels = [op for op in printer.kernel.body.block.ops if isinstance(op, sched.ChannelOp)]
    printer.writer.line(f"task.count({printer.kernel.threads});")
    if channels:
        # The first warp counts, which takes longer.
        ends = " ".join(f"{printer.names.of(op.result)}.end(thread % 32);" for op in channels)
        printer.writer.line(f"if (thread / 32 == 1) {{ {ends} mugraph::proxy_fence(); }}")


@print_operation.register
def _(op: sched.RoleOp, printer: KernelPrinter) -> None:
    kernel = printer.kernel
    first, last = op.first_thread, op.first_thread + op.warp_count * 32
    conditions = [f"thread >= {first}"] if first else []
    if last < kernel.threads:
        conditions.append(f"thread < {last}")
    # A constant warp, so that all its threads come to the election.
    elected = f"thread / 32 == {first // 32} && mugraph::elect_one()"
    *steps, end = op.body.block.ops
    # At a barrier of the cluster its idle threads come, too.
    by_all = [end] if op.is_elected and isinstance(end, sched.ClusterBarrierOp) else []
    steps = steps if by_all else [*steps, end]
    is_inside = op.is_elected and (op.registers is not None or bool(by_all))
    if op.is_elected and not is_inside:
        conditions = [elected]
    writer = printer.writer
    writer.line()
    writer.line(f"// {op.name} {op.role}")
    writer.open(f"if ({' && '.join(conditions)}) {{" if conditions else "{")
    if op.registers is not None:
        start, kept = kernel.registers_at_start, op.registers_or(0)
        if kept != start:
            change = "take" if kept > start else "leave"
            writer.line(f"mugraph::{change}_registers<{kept}>();  // of {start} a thread")
    if is_inside:
        writer.open(f"if ({elected}) {{")
    if first and not op.is_elected:
        writer.line(f"int const thread = {printer.block_thread} - {first};")
    inner = replace(printer, role=op)
    if kernel.persistent_blocks is None or not op.phases:
        for step in steps:
            inner.print(step)
    else:
        _print_persistent(op, steps, inner)
    if is_inside:
        writer.close()
    for step in by_all:
        inner.print(step)
    writer.close()


def _print_persistent(
    role: sched.RoleOp, steps: Sequence[Operation], printer: KernelPrinter
) -> None:
    """The phases of a role for each work tile of the block; the rest once."""
    kernel, writer = printer.kernel, printer.writer
    phases = role.phases
    first, last = steps.index(phases[0]), steps.index(phases[-1]) + 1
    for step in steps[:first]:
        printer.print(step)
    writer.line()
    writer.line(f"// persistent {kernel.persistent_blocks}")
    counters = _declare_first_stages(role, printer)
    writer.line("#pragma unroll 1")
    numbers = [printer.number(argument) for argument in kernel.body.block.args]
    extents = grid_extents(kernel, numbers, kernel.cuts)
    writer.open(_loop_over_blocks(role, kernel, total_blocks(extents), counters))
    columns, rows, _ = extents
    writer.line(f"uint3 const blockIdx = tb::{block_at(kernel)}(place, {columns}, {rows});")
    ping_pong = role.ping_pong_index is not None
    inner = replace(printer, counters=counters, round="round" if ping_pong else None)
    for tile in (op for op in kernel.body.block.ops if isinstance(op, sched.LocalTileOp)):
        if any(sched.enclosing_role(use.operation) is role for use in tile.result.uses):
            inner.print(tile)
    for step in steps[first:last]:
        inner.print(step)
    writer.close()
    for step in steps[last:]:
        printer.print(step)


def block_at(kernel: sched.KernelOp) -> str:
    """The function that finds a block's place in the grid."""
    # Groups of rows are whole unless the grid is cut.
    cuts = kernel.cuts_by_call if kernel.persistent_blocks is None else kernel.cuts
    function = "block_in" if any(cut.axis == 1 for cut in cuts) else "block_at"
    return f"{function}<{kernel.raster_rows}>"


def _iterations_between_tiles(role: sched.RoleOp, kernel: sched.KernelOp) -> int:
    """How many iterations of the block lie between two work tiles of a role."""
    roles = 1 if role.ping_pong_index is None else len(sched.ping_pong_roles(kernel))
    return roles * loop_iterations(kernel)


def _declare_first_stages(role: sched.RoleOp, printer: KernelPrinter) -> StageCounters:
    """Declares where each ring of a role is in the first iteration of a work tile.

    It is a number where that is so in all of them.
    """
    kernel = printer.kernel
    before = (role.ping_pong_index or 0) * loop_iterations(kernel)
    first: dict[int, Iteration] = {}
    for stages in rings_of(role.phases):
        if starts_at_same_place(stages, _iterations_between_tiles(role, kernel)):
            first[stages] = Iteration(before % (2 * stages))
            continue
        first[stages] = Iteration(start=printer.counter("first_stage", stages))
        printer.writer.line(f"tb::Stage<{stages}> {first[stages]} = {before};")
    return StageCounters(first)


def _loop_over_blocks(
    role: sched.RoleOp, kernel: sched.KernelOp, total: str, counters: StageCounters
) -> str:
    """The loop over the block's work tiles that a role runs for: all, or its share in ping-pong."""
    index, launched = role.ping_pong_index, kernel.persistent_blocks or 1
    roles = 1 if index is None else len(sched.ping_pong_roles(kernel))
    first = f"blockIdx.x + {index * launched}" if index else "blockIdx.x"
    rounds, advance = "", [f"place += {roles * launched}"]
    if index is not None:
        rounds = ", round = 0"
        advance.append("++round")
    variables = [each.start for each in counters.first.values() if each.start]
    advance += moved_on(variables, _iterations_between_tiles(role, kernel))
    return f"for (int place = {first}{rounds}; place < {total}; {', '.join(advance)}) {{"


def iteration_of(op: RunsAtIteration, printer: KernelPrinter) -> Iteration:
    """The iteration that an operator means."""
    if op.fixed_iteration is None:
        return printer.iteration + op.ahead_of
    if printer.span is None or not counts_from_end(op):
        return Iteration(op.fixed_iteration)
    behind = most_iterations(printer.kernel) - op.fixed_iteration
    return Iteration(-behind, f"{printer.span}.count")


def _print_step(op: sched.ChannelStepOp, printer: KernelPrinter, rest: str = "") -> None:
    method = op.name.removeprefix("sched.")
    iteration = iteration_of(op, printer)
    guard = scope_of(op, iteration, op.ahead_of, printer).removesuffix("{")
    stage = printer.stage(iteration, channel_of(op, op.channel).stage_count)
    call = f"{printer.names.of(op.channel)}.{method}({stage}{rest});  // {op.name}"
    printer.writer.line(f"{guard}{call}")


@print_operation.register
def _(op: sched.ProduceOp, printer: KernelPrinter) -> None:
    raise CodegenError(f"{op_label(op)} must become steps on mbarriers; run --lower-rings")


@print_operation.register
def _(op: sched.ChannelStepOp, printer: KernelPrinter) -> None:
    _print_step(op, printer)


@print_operation.register
def _(op: sched.PublishOp, printer: KernelPrinter) -> None:
    _print_step(op, printer, f", {channel_of(op, op.channel).stage_payload()}")


@print_operation.register
def _(op: sched.ReleaseOp, printer: KernelPrinter) -> None:
    _print_step(op, printer, ", thread")


@print_operation.register
def _(op: sched.OrderBarrierOp, printer: KernelPrinter) -> None:
    name, place = printer.names.of(op.result), _place_of(op)
    printer.writer.line(
        f"tb::OrderBarrier<{op.barrier_count()}> const {name}({place});  // {op.name}"
    )
    printer.writer.line(f"if (thread == 0) {name}.init({op.arriving_warps()});")


@print_operation.register
def _(op: sched.OrderWaitOp, printer: KernelPrinter) -> None:
    _print_order_step(op, printer, f"wait({_ping_pong_index(op)}, {printer.round})")


@print_operation.register
def _(op: sched.OrderArriveOp, printer: KernelPrinter) -> None:
    _print_order_step(op, printer, f"arrive({_ping_pong_index(op)}, thread)")


def _ping_pong_index(op: sched.OrderStepOp) -> int | None:
    role = sched.enclosing_role(op)
    return None if role is None else role.ping_pong_index


def _print_order_step(op: sched.OrderStepOp, printer: KernelPrinter, call: str) -> None:
    printer.writer.line(f"{printer.names.of(op.barrier)}.{call};  // {op.name}")


@print_operation.register
def _(op: sched.ClusterBarrierOp, printer: KernelPrinter) -> None:
    # Before the roles nothing but mbarriers has been set up.
    call = "cluster_start" if sched.enclosing_role(op) is None else "cluster_barrier"
    printer.writer.line(f"mugraph::{call}();  // {op.name}")


@print_operation.register
def _(op: sched.ProxyFenceOp, printer: KernelPrinter) -> None:
    printer.writer.line(f"mugraph::proxy_fence();  // {op.name}")


def box_coordinates(op: sched.BulkCopyOp, tile: BulkTile, iteration: str) -> list[list[str]]:
    """Where each box starts in the tensor: an expression a dimension, the contiguous one first."""
    owner = op.tile.owner
    starts: dict[int, list[str]] = {dim: [] for dim in tile.tensor.order}
    if isinstance(owner, sched.LocalTileOp):
        slicing, named = owner.slicing(), op.mapped().named
        factors = slicing.block_factors()
        for dim, terms in starts.items():
            if dim == named:
                terms.append(NAMED_ROW)
            if dim < len(owner.numbers_shape):
                continue
            terms += [
                f"blockIdx.{axis} * {of_axis[dim]}"
                for axis, of_axis in zip("xyz", factors, strict=True)
                if of_axis[dim]
            ]
            if dim == owner.loop_dim:
                moved = offset_by("0", iteration, slicing.iteration_step())
                terms += [moved.removeprefix("0 + ")] if moved != "0" else []
    return [
        [
            " + ".join([*starts[dim], *([str(at)] if at else [])]) or "0"
            for dim, at in zip(tile.tensor.order, box, strict=True)
        ]
        for box in tile.starts
    ]


@print_operation.register
def _(op: sched.BulkCopyOp, printer: KernelPrinter) -> None:
    channel = op.ring()
    tile = op.bulk_tile()
    iteration = iteration_of(op, printer)
    buffer, tensor_map = printer.pointer(op.buffer, iteration), f"&{printer.maps[map_key(op)]}"
    scope = (
        scope_of(op, iteration, op.ahead_of, printer) if op.is_load else f"{_by_first_thread(op)}{{"
    )
    printer.writer.open(f"{scope}  {printer.describe(op)}")
    if op.mapped().named is not None:
        assert isinstance(op.source.owner, sched.LocalTileOp)  # as of every tile with numbers
        row = printer.row_of(op.source.owner, iteration)
        printer.writer.line(f"int const {NAMED_ROW} = {row};")
    blocks = printer.kernel.cluster_blocks
    boxes = zip(tile.offsets, box_coordinates(op, tile, printer.tile_of(iteration)), strict=True)
    for number, (offset, start) in enumerate(boxes):
        place = offset_by(buffer, "1", offset)
        if channel is None:
            call = f"bulk_store({tensor_map}, {place}"
        else:
            stage = printer.stage(iteration, channel.stage_count)
            barrier = f"{printer.names.of(channel.result)}.full({stage})"
            load = "bulk_load" if op.multicast is None else f"bulk_multicast<{blocks}>"
            call = f"{load}({place}, {tensor_map}, {barrier}"
        mine = f"if (mugraph::cluster_rank() == {number % blocks}) " if op.multicast else ""
        printer.writer.line(f"{mine}mugraph::{call}, {', '.join(start)});")
    printer.writer.close()


def _by_first_thread(op: Operation) -> str:
    """The condition of what the first thread of a role, or of the block, does."""
    role = sched.enclosing_role(op)
    return "" if role is not None and role.is_elected else "if (thread == 0) "


@print_operation.register
def _(op: sched.BulkWaitOp, printer: KernelPrinter) -> None:
    printer.writer.line(f"{_by_first_thread(op)}mugraph::wait_bulk_stores();  // {op.name}")
