"""Fits what exchanges between devices take: the numbers of ``passes/costs/devices.py``.

    PYTHONPATH=src:. python -m benchmarks.collective_costs \\
        benchmarks/results/collectives_h100x2.json

The file is what ``benchmarks.collectives`` wrote, on two devices or more.  NCCL's times are those
that were measured, the geometric mean where several collectives send the same bytes.  What loads
take of a program is NCCL's time and how much longer or shorter the program ran with loads; a kernel
or a meeting more, and a byte, are the least squares of relative errors.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any, NamedTuple

import numpy as np

from benchmarks.collective_programs import blocks, products
from mugraph.dialects import kn
from mugraph.dialects.sharding import MESH, Mesh, is_per_device, mesh_attribute
from mugraph.passes.costs.devices import MOST_LOADED, SHORT, PeerLoads, links_between
from mugraph.passes.program.partition import PartitionPass
from mugraph.passes.program.use_peers import loads_in_two, loads_of
from mugraph.reading import make_context, parse_text
from mugraph.runtime.cuda import only_function

COPY = "copy from another device"
ELEMENT_BYTES = 2
SENT = {"NCCL all-reduce": 2, "NCCL all-gather": 1, "NCCL reduce-scatter": 1}
"""How often each device sends what the others lack, the whole of a tensor but for its own part."""
Rows = Mapping[str, Mapping[str, float]]


class Point(NamedTuple):
    """A program with one collective: what loads take in it, measured."""

    label: str
    loads: PeerLoads
    sent: int
    longer: float
    """Than by the library, in microseconds."""
    alone: float | None
    """The collective of the library by itself, where that was measured."""
    added: float | None
    """To the program's functions by themselves, where those were measured."""


def library_points(rows: Rows, devices: int) -> list[tuple[int, float]]:
    """The library's times by the bytes that a device sends."""
    found: dict[int, list[float]] = {}
    for label, times in rows.items():
        if label.endswith(" bf16"):
            elements = int(label.removesuffix(" bf16").replace(",", ""))
            others = elements * ELEMENT_BYTES * (devices - 1) // devices
            for name, often in SENT.items():
                found.setdefault(others * often, []).append(times[name])
    return [(sent, geometric_mean(times)) for sent, times in sorted(found.items())]


def moved_bytes(rows: Rows) -> float | None:
    """Bytes in a microsecond of long copies from another device; ``None`` if none were measured."""
    found = {
        ELEMENT_BYTES * int(label.removesuffix(" bf16").replace(",", "")): times[COPY]
        for label, times in rows.items()
        if COPY in times
    }
    if len(found) < 2:
        return None
    (less, short), (more, long) = sorted(found.items())[-2:]
    return (more - less) / (long - short)


def collective_of(text: str, devices: int) -> kn.CollectiveOp:
    """The one collective of a program, partitioned if it is not."""
    module = parse_text(make_context(), text, "program")
    function = only_function(module)
    if not is_per_device(function):
        function.attributes[MESH] = mesh_attribute(Mesh((devices,)))
        PartitionPass().apply(make_context(), module)
    (found,) = (op for op in function.walk() if isinstance(op, kn.CollectiveOp))
    return found


def points(rows: Rows, devices: int) -> Iterator[Point]:
    """What was measured with loads."""
    for program in (*blocks(small=False), *products(small=False)):
        times = rows.get(program.label, {})
        if "mugraph, peers" in times:
            op = collective_of(program.program(devices), devices)
            longer = times["mugraph, peers"] - times["mugraph"]
            ways = [each for each in (loads_of(op), loads_in_two(op)) if each is not None]
            loads = min(ways, key=lambda each: each.microseconds)
            functions = times.get("functions of mugraph")
            added = None if functions is None else times["mugraph, peers"] - functions
            alone = times.get("NCCL alone")
            yield Point(program.label, loads, op.bytes_sent(), longer, alone, added)


Fit = tuple[float, float, float]


def fitted(measured: Sequence[tuple[PeerLoads, float]]) -> Fit:
    """Microseconds to begin with and of a launch, and bytes in one."""
    rows = np.array(
        [(1 / time, each.launches / time, each.loaded / time) for each, time in measured]
    )
    (start, launch, byte), *_ = np.linalg.lstsq(rows, np.ones(len(measured)), rcond=None)
    return float(start), float(launch), float(1 / byte)


def fitted_link(found: Sequence[Point], short: Fit) -> float:
    """Bytes in a microsecond of what is loaded beyond a short exchange, in the mean.

    Against the functions alone: behind a long product NCCL takes less than by itself.
    """
    start, launch, byte = short
    return geometric_mean(
        (loads.loaded - SHORT) / (added - start - loads.launches * launch - SHORT / byte)
        for _, loads, *_, added in found
        if added is not None and SHORT < loads.loaded <= MOST_LOADED
    )


def main() -> None:
    """Prints the numbers, and how well they agree with what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("--without", default=[], action="append", help="a label to leave out")
    options = parser.parse_args()
    record: Any = json.loads(options.results.read_text(encoding="utf-8"))
    devices: int = record["devices"]
    now = links_between(devices)
    rows: Rows = {row["label"]: row["microseconds"] for row in record["rows"]}
    library = library_points(rows, devices)
    for sent, time in library:
        print(f"    ({sent:_}, {time:.2f}),")
    found = [point for point in points(rows, devices) if point.label not in options.without]
    sizes, known = zip(*library, strict=True)

    def by_nccl(sent: int) -> float:
        return float(np.interp(sent, sizes, known))

    times = [point.longer + (point.alone or by_nccl(point.sent)) for point in found]
    short = [
        (point.loads, time)
        for point, time in zip(found, times, strict=True)
        if point.loads.loaded <= SHORT
    ]
    start, launch, byte = fitted(short)
    link = fitted_link(found, (start, launch, byte))
    print(f"start={start:.1f}, launch={launch:.1f}, loaded_bytes={byte / 1e3:.0f}e3")
    print(f"now {now.start}, {now.launch}, {now.loaded_bytes}")
    print(f"link_bytes={link / 1e3:.0f}e3, now {now.link_bytes}")
    moved = moved_bytes(rows)
    if moved is not None:
        print(f"moved_bytes={moved / 1e3:.0f}e3, now {now.moved_bytes}")
    right = 0
    for point, time in zip(found, times, strict=True):
        _, launches, loaded = point.loads
        first = min(loaded, SHORT)
        by_loads = start + launches * launch + first / byte + (loaded - first) / link
        by_library = by_nccl(point.sent)
        is_right = (by_loads < by_library) == (point.longer < 0)
        right += is_right
        print(
            f"{point.label}: {launches} launches, {loaded:,} bytes: {by_loads:.1f}, measured "
            f"{time:.1f}; longer than by NCCL {by_loads - by_library:+.1f}, measured "
            f"{point.longer:+.1f}{'' if is_right else '  WRONG'}"
        )
    print(f"{right} of {len(found)} choices are right")


if __name__ == "__main__":
    main()
