"""What collectives take of the time of a program that overlap with products."""

from __future__ import annotations

import math
from collections.abc import Iterable

from xdsl.ir import Operation, SSAValue

from mugraph.dialects.device_cuts import DeviceCut
from mugraph.dialects.tensor_types import element_bytes_of, shape_of
from mugraph.passes.costs.devices import LAUNCH, MOVED_BYTES, START
from mugraph.passes.costs.memory import device_ns
from mugraph.passes.program.fuse_kernels.times import least_time, product_time
from mugraph.passes.program.overlap.cuts import Chain
from mugraph.passes.targets import Target

TILE = 128
"""The extent of the tiles in which products are computed: those of fewer rows take as long."""


def _launches_to_deliver(devices: int) -> int:
    """Two meetings, other functions than that of the product, and the sum of the parts."""
    return 2 + devices - 1 + 1


def _launches_to_gather(devices: int) -> int:
    """Two meetings, the tensor laid out, and copies of the others' parts."""
    return 3 + devices - 1


def time_delivered(value: SSAValue, devices: int, chain: Chain, target: Target) -> float:
    """Microseconds that it takes to compute in parts, and to add up what was delivered.

    Against the products by themselves, and without the collective.
    """
    return (
        START
        + LAUNCH * _launches_to_deliver(devices)
        + _delivered(value, devices, chain, 1, target)
    )


def time_in_rounds(
    value: SSAValue, devices: int, chain: Chain, rounds: int, target: Target
) -> float:
    """Microseconds that it takes to compute a sum that all devices need in rounds.

    Against the products by themselves, and without the collective.  What is gathered of a round
    comes while the next one is computed.
    """
    launches = _launches_to_deliver(devices) + _launches_to_gather(devices)
    time = 2 * START + rounds * launches * LAUNCH
    time += _delivered(value, devices, chain, rounds, target)
    fetched = _bytes(value) * (devices - 1) / devices / MOVED_BYTES
    _, parts = _times(chain.products, chain, devices * rounds, target)
    others = (rounds - 1) / rounds
    return time + fetched / rounds + max(0.0, others * (fetched - parts))


def _delivered(value: SSAValue, devices: int, chain: Chain, rounds: int, target: Target) -> float:
    """How much longer it takes to compute in parts, to deliver them and to add them up."""
    own = _bytes(value)
    whole, parts = _times(chain.products, chain, devices * rounds, target)
    # A part goes to its device while it is computed.
    others = own * (devices - 1) // devices / MOVED_BYTES
    return max(parts, others) - whole + device_ns(own + own // devices, target) / 1e3


def time_fetched(value: SSAValue, devices: int, chain: Chain | None, target: Target) -> float:
    """Microseconds that it takes to compute in parts as they arrive, against the products alone.

    Without a chain parts are put together first.
    """
    fetched = _bytes(value) * (devices - 1) / devices / MOVED_BYTES
    time = START + LAUNCH * _launches_to_gather(devices)
    if chain is None:
        return time + fetched
    whole, parts = _times(chain.products, chain, devices, target)
    time += LAUNCH * (devices - 1)
    return time + max(parts, fetched + parts / devices) - whole


def _times(
    products: Iterable[Operation], chain: Chain, devices: int, target: Target
) -> tuple[float, float]:
    """Microseconds of products, whole and in parts."""
    whole = parts = 0.0
    for op in products:
        cut = chain.cuts[op]
        computed = product_time([op], target)
        whole += max(computed, least_time(op.operands, op.results, target))
        extent = _extent(op, cut)
        share = math.ceil(extent / devices / TILE) / math.ceil(extent / TILE)
        moved = least_time(_uncut(op, cut), (), target) + sum(
            device_ns(_bytes(value) / devices, target) for value in _cut(op, cut)
        )
        parts += devices * max(computed * share, moved)
    return whole / 1e3, parts / 1e3


def _extent(op: Operation, cut: DeviceCut) -> int:
    (dim, *_) = cut.results
    assert dim is not None
    return shape_of(op.results[0].type)[dim]


def _cut(op: Operation, cut: DeviceCut) -> list[SSAValue]:
    operands = zip(op.operands, cut.operands, strict=True)
    return [*op.results, *(value for value, dim in operands if dim is not None)]


def _uncut(op: Operation, cut: DeviceCut) -> list[SSAValue]:
    return [value for value, dim in zip(op.operands, cut.operands, strict=True) if dim is None]


def _bytes(value: SSAValue) -> int:
    return math.prod(shape_of(value.type)) * element_bytes_of(value.type)
