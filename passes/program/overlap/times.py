"""What collectives take of the time of a program that overlap with products."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from mugraph.dialects import kn
from mugraph.dialects.device_cuts import DeviceCut
from mugraph.dialects.tensor_types import bytes_of, shape_of
from mugraph.passes.costs.devices import (
    COPIED_BYTES,
    TILE,
    WIDE_TILE,
    links_between,
    sent_beside,
)
from mugraph.passes.costs.memory import device_ns
from mugraph.passes.program.fuse_kernels.times import least_time, product_time
from mugraph.passes.program.overlap.cuts import Chain, kernel_of, regroupings_of_argument
from mugraph.passes.program.overlap.stages import Ranges, UnitRange, library_adds
from mugraph.passes.program.use_peers import meetings_of, shares_a_kernel
from mugraph.passes.targets import Target

WITHOUT_ANSWER = 1.5
"""Microseconds that stores at other devices begin sooner with than loads from them."""
STALLED = 0.12
"""How much of the time of stores at other devices blocks of several tiles wait for their buffers.

Products of 1,024 to 4,096 rows took 20 to 49 µs longer on two H200 where they stored at the other
one, what the last round sends among it.
"""
OWN_KERNEL = 0.03
"""How much longer a product takes, of its time, that a kernel of ours stores at several devices.

1,024 x 14,336 x 8,192 took 313 µs and by cuBLAS 311 on an H200, 4,096 x 4,096 x 8,192 375 and 357.
"""


MET = 12.5
"""Microseconds from the end of a function to the first byte of a copy behind a meeting beside it.

3.5, 5.5 and 3.5 in CUDA graphs on two H200, by PyTorch's profiler: until the meeting begins, until
it ends, until the copy begins.  The kernel that meets at the end of a call, and copies what is here
beside that, takes as long: 32 for 8.4 MB and 22 for 4.2 MB.
"""
COPIED = 8.0
"""Microseconds from the end of a function to the first byte of a copy of its result.

3 to 11 on four H200, by PyTorch's profiler, behind products of 1,024 x 2,048 x 8,192.
"""
MET_BEHIND = 3.5
"""Microseconds from the end of the last copy to the meeting behind it, by the same profile."""
FOLLOWED = 2.2
"""Microseconds from the product of one part to that of the next one.

By the same profile 0.3 on four; 1 to 4 on two H200, and 6 to 9 where cuBLAS clears 4 bytes first.
"""
SPLIT = 0.04
"""How much longer products take, of their time, in the ranges in which they are added up.

On an H200 4,096 x 4,096 x 8,192 took 392 µs by cuBLAS, and 408 in five ranges, three of which were
added to a matrix.  On two, reduce-scatters behind it and behind 4,096 x 14,336 x 8,192 took 11 and
22 µs longer than by the rest of the estimate.
"""
TAKEN = 6.0
"""Microseconds that a function begins later which takes a copy: 5.1 to 9.8 in the same call."""


NARROW = 0.57
"""The time of a tile of 128 columns, of that of one of 256.

256 x 8,192 x 7,168 in tiles of 128 took 44.7 us on an H200, 1,024 rows of it in two rounds of 256
took 157.5.
"""


def time_delivered(
    value: SSAValue, devices: int, chain: Chain, members: int, target: Target
) -> float:
    """Microseconds that it takes to compute in parts, and to add up what was delivered.

    Against the products by themselves, and without the collective.  A kernel computes the parts of
    so many ``members``.
    """
    own, links = _bytes(value), links_between(devices)
    count = devices // members
    whole, parts = _times(chain.products, chain, count, target)
    # Copies go one by one, each behind what computes its part; that of the device itself is last.
    part, copy, sent = parts / count, own / devices / COPIED_BYTES, 0.0
    for number in range(1, count):
        sent = max(sent, number * part + COPIED) + members * copy
    if members > 1:
        sent = max(sent, parts + COPIED) + (members - 1) * copy
    time = max(sent + MET_BEHIND, parts) - whole
    # Two meetings, the sum of the parts, and one product behind the other.
    time += links.start + links.launch * (2 + 1) + FOLLOWED * (count - 1)
    return time + device_ns(own + own // devices, target) / 1e3


def time_added(op: kn.CollectiveOp, chain: Chain, ranges: Ranges, target: Target) -> float:
    """Microseconds that it takes to add what a device got of the others to its own part.

    Against the products by themselves, and without the collective.  Infinite for sums that cuBLAS
    does not add, which were not timed, and for more than two devices: on four H200 they took up to
    60 µs longer than this, and only behind products of twice the links' time less than parts.
    """
    maker = op.input.owner
    if op.devices > 2 or not isinstance(maker, Operation) or not library_adds(op, maker):
        return math.inf
    links, units = links_between(op.devices), op.devices * ranges.units
    unit = _bytes(op.input) / units

    def computed(taken: UnitRange) -> float:
        _, parts = _times(chain.products, chain, units // taken.size, target)
        return parts * taken.size / units

    done = sent = 0.0
    arrived: dict[UnitRange, float] = {}

    def add(taken: UnitRange) -> float:
        got = next((time for around, time in arrived.items() if around.has(taken)), None)
        waited = done + links.launch if got is None else max(done, got) + TAKEN
        return waited + computed(taken)

    for _ in range(1, op.devices):
        for taken in ranges.others:
            done = add(taken)
            sent = max(sent, done + MET) + taken.size * unit / COPIED_BYTES
            arrived[taken] = sent
    for taken in ranges.own:
        done = add(taken)
        if op.cut_dim is None:
            copied = (op.devices - 1) * taken.size * unit / COPIED_BYTES
            sent = max(sent, done + MET) + copied
    whole, _ = _times(chain.products, chain, 1, target)
    # What all ranges take is laid out before them where it is no argument.
    uncut = {value for each, cut in chain.cuts.items() for value in _uncut(each, cut)}
    made = sum(
        2 * _bytes(value)
        for value in uncut
        if isinstance(value.owner, Operation) and not regroupings_of_argument(value)
    )
    return max(done, sent) + TAKEN + (SPLIT - 1) * whole + device_ns(made, target) / 1e3


def time_pushed(op: kn.CollectiveOp, target: Target) -> float:
    """Microseconds that a sum or a gather takes whose tensors go to all devices as they are made.

    Against what makes them; an argument is copied.
    """
    own, links = _bytes(op.input), links_between(op.devices)
    makers = kernel_of(op.input)
    loaded = [operand for maker in makers for operand in maker.operands]
    made = max(product_time(makers, target), least_time(loaded, [op.input], target)) / 1e3
    others = own * (op.devices - 1) / links.kernel_bytes
    # Of several others each tile is stored for one after the other, and blocks wait: on four
    # devices nothing of that was hidden.
    beside = sent_beside(made, others, op.input, target) if op.devices == 2 else made + others
    time = beside - made + STALLED * others - WITHOUT_ANSWER
    if makers:
        time += OWN_KERNEL * product_time(makers, target) / 1e3
    launches = meetings_of(op) + (not makers)
    if op.combination is not None:
        launches += not shares_a_kernel(op.result)
        time += device_ns(own * op.devices, target) / 1e3
    else:
        time += _time_returned(op.result, target)
    return time + links.start + links.launch * launches


def _time_returned(value: SSAValue, target: Target) -> float:
    """Microseconds of the copy of a result out of memory that the next call writes."""
    is_returned = any(isinstance(use.operation, ReturnOp) for use in value.uses)
    return device_ns(2 * _bytes(value), target) / 1e3 if is_returned else 0.0


def time_fetched(
    value: SSAValue, devices: int, chain: Chain | None, members: int, target: Target
) -> float:
    """Microseconds that it takes to compute in parts as they arrive, against the products alone.

    A kernel takes the parts of so many ``members``.  Without a chain parts are put together first.
    """
    links = links_between(devices)
    part = _bytes(value) / devices
    if chain is None:
        # One kernel meets and loads.
        return MET + (devices - 1) * part / links.kernel_bytes
    copy = part / links.moved_bytes
    # Two meetings, the tensor laid out, and copies of the others' parts.
    time = links.start + links.launch * (3 + devices - 1)
    count = devices // members
    whole, parts = _times(chain.products, chain, count, target)
    done = 0.0
    for number in range(count):
        done = max(done, ((number + 1) * members - 1) * copy) + parts / count
    return time + links.launch * (count - 1) + done - whole


def _times(
    products: Iterable[Operation], chain: Chain, count: int, target: Target
) -> tuple[float, float]:
    """Microseconds of products, whole and in so many parts."""
    whole = parts = 0.0
    for op in products:
        cut = chain.cuts[op]
        computed = product_time([op], target)
        whole += max(computed, least_time(op.operands, op.results, target))
        shape = shape_of(op.results[0].type)
        (dim, *_) = cut.results
        part = [extent // count if d == dim else extent for d, extent in enumerate(shape)]
        share = _rounds(part, target) / _rounds(shape, target)
        moved = least_time(_uncut(op, cut), (), target) + sum(
            device_ns(_bytes(value) / count, target) for value in _cut(op, cut)
        )
        parts += count * max(computed * share, moved)
    return whole / 1e3, parts / 1e3


def _rounds(shape: Sequence[int], target: Target) -> float:
    """How often all multiprocessors compute a wide tile of a product, at least.

    Where there are too few of them tiles are half as wide, which takes more than half the time.
    """
    *batch, rows, columns = shape
    tall = math.prod(batch) * math.ceil(rows / TILE)

    def rounds(width: int) -> int:
        return math.ceil(tall * math.ceil(columns / width) / target.multiprocessors)

    return min(rounds(WIDE_TILE), NARROW * rounds(TILE))


def _cut(op: Operation, cut: DeviceCut) -> list[SSAValue]:
    operands = zip(op.operands, cut.operands, strict=True)
    return [*op.results, *(value for value, dim in operands if dim is not None)]


def _uncut(op: Operation, cut: DeviceCut) -> list[SSAValue]:
    return [value for value, dim in zip(op.operands, cut.operands, strict=True) if dim is None]


def _bytes(value: SSAValue) -> int:
    return bytes_of(value.type)
