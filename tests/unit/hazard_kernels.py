"""Small schedules for the tests of the hazard checker: 64 threads, tiles of 64 x 8 f16.

With ``ROWS`` thread t handles row t; with ``HALVES`` it handles half of row t / 2, so that the two
together make two threads touch one byte.
"""

from __future__ import annotations

from collections.abc import Sequence

from access_cases import parse
from xdsl.dialects.builtin import ModuleOp

from mugraph.dialects import sched
from mugraph.passes.schedule.analysis.hazards import Finding, HazardKind, find_hazards

SHARED = "!sched.shared<64x8xf16, (64,8):(8,1)>"
DEVICE = "!sched.global<64x8xf16, (64,8):(8,1)>"
TENSOR = "!sched.global<64x{columns}xf16, (64,{columns}):({columns},1)>"
TILE = "!sched.global<64x8xf16, (64,8):({columns},1)>"
FRAGMENT = "!sched.tile<64x8xf32, #sched.linear<64, vector 4, order [1, 0]>>"
ROWS = "<64, vector 8, order [1, 0]>"
HALVES = "<64, vector 4, order [1, 0]>"
BYTES = 1024
"""The size of one buffer."""


def load(
    buffer: str,
    by: str = ROWS,
    *,
    kind: str = "",
    when: str = "",
    source: str = "%x",
    tile: str = "",
) -> str:
    return f"sched.copy {kind} {source} to {buffer} by {by} {when} : {tile or DEVICE} to {SHARED}"


def save(buffer: str, by: str = ROWS) -> str:
    return f"sched.copy {buffer} to %o by {by} : {SHARED} to {DEVICE}"


def exp(source: str, destination: str, by: str = ROWS) -> str:
    return f"sched.map exp {source} to {destination} by {by} : {SHARED} to {SHARED}"


def add_up(source: str, fragment: str = "%f") -> str:
    return (
        f"sched.map identity {source} to {fragment} then [accum] by {HALVES} "
        f": {SHARED} to {FRAGMENT}"
    )


def alloc(name: str, offset: int, stages: int = 1) -> str:
    stages_text = f"stages {stages} " if stages > 1 else ""
    return f"{name} = sched.alloc {stages_text}offset {offset} : {SHARED}"


FILL_FRAGMENT = f"sched.fill %f with 0.0 : {FRAGMENT}"
MAKE_FRAGMENT = f"%f = sched.empty : {FRAGMENT}"
BARRIER = "sched.barrier"
COMMIT = "sched.commit"


def wait(pending: int) -> str:
    return f"sched.wait pending {pending}"


def kernel_text(
    before: Sequence[str],
    *,
    allocs: Sequence[str] = (alloc("%a", 0), alloc("%b", BYTES)),
    loop: Sequence[str] = (),
    iterations: int = 1,
    after: Sequence[str] = (),
    smem: int = 16 * BYTES,
    name: str = "k",
) -> str:
    columns = 8 * iterations
    tensor = TENSOR.format(columns=columns)
    lines = [
        f"sched.kernel @{name} inputs 2 grid [1, 1, 1] block [64, 1, 1] smem {smem} {{",
        f"^bb0(%x: {DEVICE}, %y: {tensor}, %o: {DEVICE}):",
        f"%t = sched.local_tile %y map [-1, -1, -1] fordim 1 : {tensor} -> {tile_type(iterations)}",
        *allocs,
        *phase("sched.prologue", before),
        # The tile needs a loop; a group of no copies does nothing.
        *phase(f"sched.forloop {iterations}", loop or [COMMIT]),
        *phase("sched.epilogue", after),
        "}",
    ]
    return "\n".join(lines)


def phase(name: str, body: Sequence[str]) -> list[str]:
    return [f"{name} {{", *body, "}"] if body else []


def tile_type(iterations: int) -> str:
    return TILE.format(columns=8 * iterations)


def kernel_of(module: ModuleOp) -> sched.KernelOp:
    return next(op for op in module.walk() if isinstance(op, sched.KernelOp))


def findings_of(text: str) -> list[Finding]:
    module = parse(text)
    module.verify()
    return find_hazards(kernel_of(module))


def kinds_of(text: str) -> list[HazardKind]:
    return [finding.kind for finding in findings_of(text)]


def pipeline(
    iterations: int, stages: int, ahead: int, pending: int, *, commits_in_loop: bool = True
) -> str:
    """A loop whose tiles are loaded ``ahead`` iterations before they are used."""
    tile = tile_type(iterations)
    before = [FILL_FRAGMENT]
    for iteration in range(ahead):
        when = f"iteration {iteration}"
        before += [load("%a", kind="async", when=when, source="%t", tile=tile), COMMIT]
    loop = [
        wait(pending),
        BARRIER,
        load("%a", kind="async", when=f"ahead {ahead}", source="%t", tile=tile),
        *([COMMIT] if commits_in_loop else []),
        add_up("%a"),
    ]
    return kernel_text(
        before, allocs=[alloc("%a", 0, stages), MAKE_FRAGMENT], loop=loop, iterations=iterations
    )
