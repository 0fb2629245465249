"""What layouts cost a custom operator: the accesses that its steps will make for given strides."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from xdsl.ir import SSAValue

from mugraph.dialects import tb
from mugraph.dialects.cute import Layout
from mugraph.dialects.partition import choose_lanes
from mugraph.dialects.sched.custom_accesses import Footprint, footprints_of
from mugraph.dialects.sched.mappings import IDLE, coordinate_offsets
from mugraph.dialects.tensor_types import (
    AnyLayout,
    element_bytes_of,
    innermost_dimension,
    padded_strides,
    shape_of,
)
from mugraph.passes.memory.wavefronts import lane_addresses, load_wavefronts, store_wavefronts
from mugraph.passes.mugraph.resolve_layout.access_work import AccessWork, shared_work
from mugraph.passes.mugraph.resolve_layout.operator_costs import (
    AccessCosts,
    LaunchUses,
    SharedUse,
    Strides,
    layout_costs,
)
from mugraph.passes.mugraph.resolve_layout.site import Site

# What tensor expressions need takes a while to load; it is imported where there are operators.
if TYPE_CHECKING:
    from mugraph.passes.texpr.te_block import Reduction
    from mugraph.passes.texpr.te_map.family import BandMapping

MOST_TOGETHER = 4
"""Choices of innermost dimensions that are all counted; else one tensor's at a time."""


def step_work(accesses: Sequence[Footprint], element_bytes: int, layout: AnyLayout) -> AccessWork:
    """What the accesses of all steps to one tensor take under a layout, in one execution."""
    total = AccessWork()
    for one in accesses:
        if not one.active.any():
            continue
        offsets = np.broadcast_to(coordinate_offsets(layout, one.coordinates), one.active.shape)
        addresses = lane_addresses(np.where(one.active, offsets, IDLE), element_bytes)
        size = one.width * element_bytes
        if one.reads:
            total += shared_work(load_wavefronts(addresses, size), addresses, size)
        if one.writes:
            total += shared_work(store_wavefronts(addresses, size), addresses, size)
    return total


def reduction_work(
    reduction: Reduction, shape: Sequence[int], threads: int, element_bytes: int, layout: AnyLayout
) -> AccessWork:
    """The loads of a reduction: neighbouring lanes take neighbours along the reduced dimension."""
    dim, extent = reduction.dim, shape[reduction.dim]
    rows = math.prod(shape) // extent
    lanes = choose_lanes(rows, extent, threads)
    rest = [other for other in range(len(shape)) if other != dim]
    groups = threads // lanes
    thread = np.arange(threads, dtype=np.int64)
    rounds = np.arange(-(-rows // groups) * -(-extent // lanes), dtype=np.int64)[:, None]
    row = thread // lanes + rounds % -(-rows // groups) * groups
    along = thread % lanes + rounds // -(-rows // groups) * lanes
    active = (row < rows) & (along < extent)
    coordinates = [np.zeros_like(row) for _ in shape]
    left = np.minimum(row, rows - 1)
    for other in rest:
        left, coordinates[other] = np.divmod(left, shape[other])
    coordinates[dim] = np.minimum(along, extent - 1)
    offsets = np.where(active, coordinate_offsets(layout, coordinates), IDLE)
    addresses = lane_addresses(offsets, element_bytes)
    return shared_work(load_wavefronts(addresses, element_bytes), addresses, element_bytes)


Mappings: TypeAlias = "dict[tuple[object, ...], BandMapping]"
"""How steps are dealt to threads, by the step and by which dimensions are innermost."""


def uses_of(
    op: tb.CustomOp,
    site: Site,
    mappings: Mappings,
    values: Sequence[SSAValue],
    strides: Sequence[Strides],
) -> LaunchUses:
    """What a launch does for given strides of some tensors, the others row-major.

    Mappings are chosen once for the same innermost dimensions, whatever the padding of rows.
    """
    from mugraph.passes.texpr.te_block import (
        Reduction,
        block_program,
        choose_mapping,
        lay_out,
        make_step,
        spaces_of,
    )
    from mugraph.passes.texpr.te_map.bands import band_at

    given = dict(zip(values, strides, strict=True))
    program = block_program(op.function(), op.label, site.threads)
    tensors = dict(
        zip((*program.parameters, *program.results), (*op.inputs, *op.outputs), strict=True)
    )
    layouts: dict[SSAValue, AnyLayout] = {
        parameter: Layout(shape_of(value.type), given.get(value) or row_major(value))
        for parameter, value in tensors.items()
    }
    laid_out, became = lay_out(program, layouts)
    of_value = {became[parameter]: value for parameter, value in tensors.items()}
    accesses: dict[SSAValue, list[Footprint]] = {}
    works: dict[SSAValue, list[Callable[[AnyLayout], AccessWork]]] = {}
    innermost = [
        innermost_dimension(shape_of(value.type), given.get(value) or row_major(value))
        for value in tensors.values()
    ]
    for number, item in enumerate(laid_out.items):
        if isinstance(item, Reduction):
            value = of_value.get(item.source)
            if value is not None:
                shape, size = shape_of(value.type), element_bytes_of(value.type)
                works.setdefault(value, []).append(
                    partial(reduction_work, item, shape, site.threads, size)
                )
            continue
        band = band_at(item)
        key = (number, *innermost)
        if key not in mappings:
            mappings[key] = choose_mapping(band, site.threads, spaces_of(band))
        step = make_step(item, site.threads, {}, mappings[key])
        for one in footprints_of(op, step.body, site.threads):
            value = of_value.get(step.buffers[one.operand])
            if value is not None:
                accesses.setdefault(value, []).append(one)
    for value, found in accesses.items():
        works.setdefault(value, []).append(partial(step_work, found, element_bytes_of(value.type)))
    times = site.executions(op)
    return LaunchUses(
        [
            SharedUse(value, partial(_total, works[value], times))
            for value in values
            if value in works
        ]
    )


def _total(
    works: Sequence[Callable[[AnyLayout], AccessWork]], times: int, layout: AnyLayout
) -> AccessWork:
    total = AccessWork()
    for work in works:
        total += work(layout)
    return total.times(times)


def row_major(value: SSAValue) -> Strides:
    """The strides of a tensor whose last dimension is innermost."""
    shape = shape_of(value.type)
    return padded_strides(shape, len(shape) - 1, element_bytes_of(value.type))[0]


@layout_costs.register
def _(op: tb.CustomOp, site: Site) -> Sequence[AccessCosts]:
    if op.declared_function() is None:
        return []
    values = list(dict.fromkeys((*op.inputs, *op.outputs)))
    choices = math.prod(max(1, sum(extent > 1 for extent in shape_of(v.type))) for v in values)
    groups = [values] if choices <= MOST_TOGETHER else [[value] for value in values]
    mappings: Mappings = {}
    return [
        AccessCosts(tuple(group), partial(uses_of, op, site, mappings, group)) for group in groups
    ]
