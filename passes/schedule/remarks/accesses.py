"""Remarks about accesses: bank conflicts in shared memory, narrow vectors in device memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import SSAValue

from mugraph.dialects import sched
from mugraph.dialects.partition import VECTOR_BYTES
from mugraph.dialects.sched.accesses import AccessKind, Proxy, ThreadAccess
from mugraph.dialects.tensor_types import (
    element_bytes_of,
    innermost_of,
    resolved_layout_of,
    shape_of,
    strides_of,
)
from mugraph.passes.memory.memory_access import AccessCost, access_cost, thread_accesses
from mugraph.passes.memory.wavefronts import WAVEFRONT_BYTES
from mugraph.passes.schedule.analysis.remarks import Kind, Obstacle, Remark
from mugraph.passes.schedule.plan_swizzle import choose_layouts
from mugraph.passes.schedule.plan_swizzle.selection import LayoutChoice
from mugraph.passes.schedule.remarks.scheduled import Scheduled, shown

_VERBS = {AccessKind.READ: "reads", AccessKind.WRITE: "writes"}


def access_remarks(scheduled: Scheduled) -> Iterator[Remark]:
    """Bank conflicts, buffer by buffer, and narrow vectors, tensor by tensor: the worst of each.

    Nothing where accesses of an operator are not modelled.
    """
    try:
        accesses = list(thread_accesses(scheduled.kernel))
    except sched.AccessError:
        return
    in_shared = [access for access in accesses if not access.in_device_memory]
    yield from _conflicts(scheduled, [access_cost(one, scheduled.kernel) for one in in_shared])
    yield from _narrow(scheduled, [access for access in accesses if access.in_device_memory])


def _conflicts(scheduled: Scheduled, costs: Sequence[AccessCost]) -> Iterator[Remark]:
    worst: dict[SSAValue, AccessCost] = {}
    for cost in costs:
        known = worst.get(cost.access.value)
        if cost.excess and (known is None or _ways(cost) > _ways(known)):
            worst[cost.access.value] = cost
    if not worst:
        return
    choices = {found.value: found.choice for found in choose_layouts(scheduled.kernel)}
    for value, cost in worst.items():
        access, label = cost.access, shown(value)
        lost = (
            f"'{access.operation.name}' {_VERBS[access.kind]} {label} with conflicts of "
            f"{_ways(cost):.3g} ways, {cost.transactions} wavefronts where its bytes need "
            f"{cost.ideal}"
        )
        yield scheduled.remark(Kind.BANKS, lost, _conflict_obstacle(value, choices), label)


def _ways(cost: AccessCost) -> float:
    return cost.transactions / cost.ideal


def _conflict_obstacle(value: SSAValue, choices: dict[SSAValue, LayoutChoice]) -> Obstacle:
    """Why a buffer has no layout without conflicts."""
    choice = choices.get(value)
    layout = resolved_layout_of(value)
    if choice is None or not choice.certificate.is_proof:
        return Obstacle(f"no layout of those that were tried does better than {layout}")
    given, size = choice.given.cost.wavefronts, element_bytes_of(value.type)
    if choice.chosen.cost.wavefronts < given:
        return Obstacle(
            f"{choice.chosen.layout} in place of {layout} saves "
            f"{given - choice.chosen.cost.wavefronts} wavefronts a block",
            "run --plan-swizzle",
        )
    shape = shape_of(value.type)
    inner = innermost_of(value)
    inner = len(shape) - 1 if inner is None else inner
    row = shape[inner] * size
    if min(candidate.cost.wavefronts for candidate in choice.best) < given:
        return Obstacle(
            f"its rows of {row} bytes are several boxes of a bulk copy in every layout that has "
            "fewer, which take longer than they save",
            f"cut tiles of {WAVEFRONT_BYTES // size} elements along dimension {inner}",
            inner,
        )
    return Obstacle(
        f"no layout of its rows of {row} bytes that its operators can work with has fewer in all",
        f"cut tiles of a multiple of {WAVEFRONT_BYTES // size} elements along dimension {inner}"
        if row % WAVEFRONT_BYTES
        else "",
        inner,
    )


def _narrow(scheduled: Scheduled, accesses: Sequence[ThreadAccess]) -> Iterator[Remark]:
    worst: dict[SSAValue, ThreadAccess] = {}
    for access in accesses:
        # Where each thread has one instruction, wider ones would only leave threads idle.
        is_wide = access.access_bytes >= VECTOR_BYTES or access.proxy is Proxy.BULK_COPY
        if is_wide or access.instructions == 1:
            continue
        known = worst.get(access.value)
        if known is None or access.access_bytes < known.access_bytes:
            worst[access.value] = access
    for value, access in worst.items():
        label = scheduled.label(scheduled.tensor(value))
        lost = (
            f"'{access.operation.name}' {_VERBS[access.kind]} {label} {access.access_bytes} "
            f"bytes at a time and not {VECTOR_BYTES}"
        )
        why = _vector_obstacle(scheduled, value) or _partition_obstacle(access)
        yield scheduled.remark(Kind.VECTORS, lost, why, label)


def _vector_obstacle(scheduled: Scheduled, value: SSAValue) -> Obstacle | None:
    """Why a tile of device memory has no vectors of 16 bytes."""
    tensor = scheduled.tensor(value)
    size = element_bytes_of(tensor.type)
    shape, tile = shape_of(tensor.type), shape_of(value.type)
    strides = strides_of(resolved_layout_of(value))
    inner = innermost_of(value)
    if inner is None or strides[inner] != 1:
        return Obstacle("no dimension of its tiles is contiguous")
    row = tile[inner] * size
    if row % VECTOR_BYTES:
        elements = VECTOR_BYTES // size
        return Obstacle(
            f"its tiles have rows of {row} bytes, no multiple of {VECTOR_BYTES}",
            f"pad its dimension {inner} to {-(-tile[inner] // elements) * elements}"
            if tile[inner] == shape[inner]
            else f"cut tiles of a multiple of {elements} elements along its dimension {inner}",
            inner,
        )
    for dim, (extent, stride) in enumerate(zip(tile, strides, strict=True)):
        bytes_apart = stride * size
        if dim != inner and shape[dim] > 1 and extent > 1 and bytes_apart % VECTOR_BYTES:
            padded = -(-bytes_apart // VECTOR_BYTES) * VECTOR_BYTES // size
            is_row = stride == shape[inner]
            return Obstacle(
                f"its rows of {bytes_apart} bytes are no multiple of {VECTOR_BYTES}",
                f"pad its dimension {inner} to {padded}" if is_row else "",
                inner if is_row else dim,
            )
    alignment = scheduled.alignment(tensor)
    if alignment < VECTOR_BYTES:
        return Obstacle(
            f"it is aligned to {alignment} bytes",
            f"let it start at a multiple of {VECTOR_BYTES} bytes",
        )
    return None


def _partition_obstacle(access: ThreadAccess) -> Obstacle:
    """Why threads take narrower vectors of a tile that has wider ones."""
    op, width = access.operation, access.width
    if isinstance(op, sched.StoreOp):
        return Obstacle(f"each thread holds {width} of its elements side by side")
    for other in op.operands:
        in_memory = isinstance(other.type, sched.SharedType | sched.GlobalType)
        if in_memory and width * element_bytes_of(other.type) == VECTOR_BYTES:
            return Obstacle(
                f"{width} elements of {shown(other)}, which goes with it, are "
                f"{VECTOR_BYTES} bytes already"
            )
    return Obstacle(
        f"its elements are dealt out to threads {width} at a time, as operators that go with "
        f"'{op.name}' are"
    )
