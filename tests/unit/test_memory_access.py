"""Wavefronts and sectors: patterns counted by hand, against a brute force, and of whole kernels."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from access_cases import CASES, Case, copy, device, elementwise, parse, product, shared
from hypothesis import given, settings
from hypothesis import strategies as st
from schedules import passes_as_written
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from mugraph.dialects.cute.banks import wavefronts as brute_force
from mugraph.dialects.sched import (
    BulkCopyOp,
    KernelOp,
    WarpgroupMmaOp,
    enclosing_loop,
    start_bytes,
)
from mugraph.passes.memory.memory_access import (
    AccessCost,
    memory_access_costs,
    ragged_starts,
    start_residues,
    thread_accesses,
    warp_addresses,
)
from mugraph.passes.memory.wavefronts import (
    copy_sectors,
    copy_wavefronts,
    ideal_sectors,
    ideal_wavefronts,
    ldmatrix_wavefronts,
    load_wavefronts,
    sector_residues,
    sectors,
    store_wavefronts,
)
from mugraph.passes.schedule.report_memory_access import memory_access_table
from mugraph.passes.sequence import verifying
from mugraph.reading import multiverse

EXAMPLES = Path(__file__).parents[2] / "examples"
LANES = np.arange(32)


def warp(*addresses: object) -> npt.NDArray[np.int64]:
    """One instruction: the byte address of each lane."""
    return np.array([np.broadcast_to(np.asarray(part), 32) for part in addresses], dtype=np.int64)


@pytest.mark.parametrize(
    ("addresses", "size", "loads", "stores", "ideal"),
    [
        pytest.param(4 * LANES, 4, 1, 1, 1, id="a word a lane"),
        pytest.param(128 * LANES, 4, 32, 32, 1, id="all in one bank"),
        pytest.param(8 * LANES, 4, 2, 2, 1, id="every second word"),
        pytest.param(132 * LANES, 4, 1, 1, 1, id="rows padded by a word"),
        pytest.param(0 * LANES, 4, 1, 1, 1, id="one word for all"),
        pytest.param(2 * LANES, 2, 1, 1, 1, id="neighbouring halves of words"),
        pytest.param(np.where(LANES < 31, 0, 128), 4, 2, 2, 1, id="two words of one bank"),
        pytest.param(np.where(LANES < 5, 128 * LANES, -1), 4, 5, 5, 1, id="idle lanes"),
        pytest.param(8 * LANES, 8, 2, 2, 2, id="8 bytes a lane"),
        pytest.param(16 * LANES, 8, 4, 4, 2, id="8 of every 16 bytes"),
        pytest.param(LANES // 2 * 8, 8, 1, 2, 2, id="pairs of lanes want 8 bytes"),
        pytest.param(LANES % 16 * 8, 8, 2, 2, 2, id="both half-warps want the same"),
        pytest.param(0 * LANES, 8, 1, 2, 2, id="8 bytes for all"),
        pytest.param(16 * LANES, 16, 4, 4, 4, id="16 bytes a lane"),
        pytest.param(128 * LANES, 16, 32, 32, 4, id="16 bytes, one bank group"),
        pytest.param(32 * LANES, 16, 8, 8, 4, id="16 of every 32 bytes"),
        pytest.param(LANES // 2 * 16, 16, 2, 4, 4, id="pairs of lanes want 16 bytes"),
        pytest.param(LANES // 16 * 16, 16, 2, 4, 4, id="half-warps want 16 bytes"),
        pytest.param(LANES // 2 * 128, 16, 16, 16, 4, id="pairs, but conflicts"),
        # Measured: wavefront_cases.py, broadcast_halves.
        pytest.param(LANES % 16 * 16, 16, 4, 4, 4, id="half-warps want the same 16 vectors"),
        pytest.param(np.where(LANES < 8, 16 * LANES, -1), 16, 1, 1, 1, id="a quarter-warp"),
    ],
)
def test_patterns(
    addresses: npt.NDArray[np.int64], size: int, loads: int, stores: int, ideal: int
) -> None:
    assert load_wavefronts(warp(addresses), size).tolist() == [loads]
    assert store_wavefronts(warp(addresses), size).tolist() == [stores]
    assert ideal_wavefronts(warp(addresses), size).tolist() == [ideal]


def test_several_instructions_are_counted_each() -> None:
    assert load_wavefronts(warp(4 * LANES, 128 * LANES, 8 * LANES), 4).tolist() == [1, 32, 2]


def test_ldmatrix_counts_each_matrix() -> None:
    lines = LANES % 8 * 256 + LANES // 8 * 16
    swizzled = lines ^ (lines >> 8 & 7) << 4
    assert ldmatrix_wavefronts(warp(lines)).tolist() == [32]
    assert ldmatrix_wavefronts(warp(swizzled)).tolist() == [4]
    two = np.where(LANES < 16, swizzled, -1)
    assert ldmatrix_wavefronts(warp(two)).tolist() == [2]
    # Lines that stand in for those past the matrix are brought once.
    assert ldmatrix_wavefronts(warp(np.where(LANES % 8 < 4, lines, 0))).tolist() == [16]


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([2, 4, 8, 16]), st.data())
def test_wavefronts_against_a_brute_force(size: int, data: st.DataObject) -> None:
    lane = st.one_of(st.none(), st.integers(0, 64).map(lambda element: element * size))
    addresses = data.draw(st.lists(lane, min_size=32, max_size=32))
    group = min(32, 128 // size)
    expected = 0
    for first in range(0, 32, group):
        active = [a for a in addresses[first : first + group] if a is not None]
        parts = brute_force(active, size)
        expected += parts[0].conflicts() if parts else 0
    row = np.array([[-1 if a is None else a for a in addresses]], dtype=np.int64)
    assert store_wavefronts(row, size).tolist() == [expected]
    loads = int(load_wavefronts(row, size)[0])
    assert loads <= expected
    assert loads == expected or size > 4


FAR_ROWS = LANES // 4 * 1024 + LANES % 4 * 16
"""Rows of 64 bytes, 1024 bytes apart."""


@pytest.mark.parametrize(
    ("targets", "sources", "size", "wavefronts", "asked"),
    [
        pytest.param(16 * LANES, 16 * LANES, 16, 4, 16, id="lines"),
        pytest.param(128 * LANES, 16 * LANES, 16, 32, 32, id="writes conflict, sectors twice"),
        pytest.param(LANES % 2 * 16 + LANES // 2 * 128, 16 * LANES, 16, 16, 16, id="by pairs"),
        pytest.param(16 * LANES, FAR_ROWS, 16, 8, 16, id="sources conflict"),
        pytest.param(128 * LANES, FAR_ROWS, 16, 32, 32, id="both sides conflict"),
        pytest.param(4 * LANES, 4 * LANES, 4, 1, 4, id="words"),
        pytest.param(4 * LANES, 128 * LANES, 4, 32, 32, id="a column of words"),
        pytest.param(8 * LANES, 4096 + 8 * LANES, 8, 2, 8, id="8 bytes"),
        pytest.param(0 * LANES, 16 * LANES, 16, 4, 16, id="all to one place"),
        pytest.param(
            np.where(LANES < 4, 16 * LANES, -1), np.where(LANES < 4, 32 * LANES, -1), 16, 1, 4,
            id="four lanes",
        ),
    ],
)  # fmt: skip
def test_asynchronous_copies(
    targets: npt.NDArray[np.int64],
    sources: npt.NDArray[np.int64],
    size: int,
    wavefronts: int,
    asked: int,
) -> None:
    assert copy_wavefronts(warp(targets), warp(sources), size).tolist() == [wavefronts]
    assert copy_sectors(warp(targets), warp(sources), size).tolist() == [asked]
    two = copy_sectors(warp(targets, 16 * LANES), warp(sources, 16 * LANES), 16)
    assert len(two) == 2 and two[1] == 16


def passes_of(targets: list[int | None], size: int) -> dict[int, list[int]]:
    """Lanes by wavefront: each takes the first that has no other place in its banks."""
    taken: list[dict[int, int]] = []
    result: dict[int, list[int]] = {}
    for lane, target in enumerate(targets):
        if target is None:
            continue
        place = target // size
        bank = place % (128 // size)
        number = next((i for i, banks in enumerate(taken) if banks.get(bank, place) == place), None)
        if number is None:
            number = len(taken)
            taken.append({})
        taken[number][bank] = place
        result.setdefault(number, []).append(lane)
    return result


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([4, 8, 16]), st.data())
def test_copies_against_a_brute_force(size: int, data: st.DataObject) -> None:
    places = st.integers(0, 64).map(lambda element: element * size)
    lane = st.one_of(st.none(), st.tuples(places, places))
    lanes = data.draw(st.lists(lane, min_size=32, max_size=32))
    group = 128 // size if size > 4 else 32
    asked = wavefronts = 0
    for first in range(0, 32, group):
        members = lanes[first : first + group]
        passes = passes_of([m and m[0] for m in members], size)
        read = passes_of([m and m[1] for m in members], size)
        wavefronts += max(len(passes), len(read))
        for own in passes.values():
            asked += len({m[1] // 32 for m in (members[i] for i in own) if m is not None})
    targets = np.array([[-1 if m is None else m[0] for m in lanes]], dtype=np.int64)
    sources = np.array([[-1 if m is None else m[1] for m in lanes]], dtype=np.int64)
    assert copy_sectors(targets, sources, size).tolist() == [asked]
    assert copy_wavefronts(targets, sources, size).tolist() == [wavefronts]


@pytest.mark.parametrize(
    ("addresses", "size", "touched", "ideal"),
    [
        pytest.param(4 * LANES, 4, 4, 4, id="coalesced words"),
        pytest.param(16 * LANES, 16, 16, 16, id="coalesced vectors"),
        pytest.param(16 + 4 * LANES, 4, 5, 4, id="half a sector late"),
        pytest.param(4096 * LANES, 2, 32, 2, id="a column"),
        pytest.param(LANES // 4 * 4096 + LANES % 4 * 16, 16, 16, 16, id="rows of 64 bytes"),
        pytest.param(0 * LANES, 4, 1, 4, id="one word for all"),
        pytest.param(np.where(LANES < 3, 2 * LANES, -1), 2, 1, 1, id="three lanes"),
    ],
)
def test_sectors(addresses: npt.NDArray[np.int64], size: int, touched: int, ideal: int) -> None:
    assert sectors(warp(addresses), size).tolist() == [touched]
    assert ideal_sectors(warp(addresses), size).tolist() == [ideal]


def costs_of(case: Case) -> list[AccessCost]:
    (kernel,) = (op for op in parse(case.kernel()).walk() if isinstance(op, KernelOp))
    return memory_access_costs(kernel)


def test_ldmatrix_with_and_without_a_swizzle() -> None:
    def operands(lhs: str, rhs: str) -> list[tuple[str, int, int]]:
        case = product(
            "m", 32, "1,1", shared("16x64xf16", lhs), shared("64x8xf16", rhs), "16x8xf32"
        )
        return [(c.access.instruction, c.transactions, c.ideal) for c in costs_of(case)]

    plain = operands("(16,64):(64,1)", "(64,8):(1,64)")
    assert plain == [("ldmatrix.x4", 128, 16), ("ldmatrix.x2", 64, 8)]
    swizzled = operands("S<3,3,3> o (16,64):(64,1)", "S<3,3,3> o (64,8):(1,64)")
    assert swizzled == [("ldmatrix.x4", 16, 16), ("ldmatrix.x2", 8, 8)]
    padded = operands("(16,64):(72,1)", "(64,8):(1,72)")
    assert padded == [("ldmatrix.x4", 16, 16), ("ldmatrix.x2", 8, 8)]


def test_a_column_walk_conflicts() -> None:
    case = elementwise(
        "columns", 32, "32, vector 1, order [0, 1]", "exp",
        shared("32x32xf32", "(32,32):(32,1)"), shared("32x32xf32", "(32,32):(1,32)"),
    )  # fmt: skip
    assert [(c.instructions, c.transactions, c.excess) for c in costs_of(case)] == [
        (32, 32 * 32, 31 * 32),
        (32, 32, 0),
    ]


def test_both_sides_of_an_asynchronous_copy_count() -> None:
    far = copy(
        "far", 32, "32, vector 8, order [1, 0]",
        device("8x32xf16", "(8,32):(512,1)"), shared("8x32xf16", "S<2,3,3> o (8,32):(32,1)"),
        "async",
    )  # fmt: skip
    assert [(c.transactions, c.ideal) for c in costs_of(far)] == [(16, 16), (8, 4)]
    conflicts = copy(
        "conflicts", 32, "32, vector 8, order [0, 1]",
        device("8x32xf16", "(8,32):(1,8)"), shared("8x32xf16", "(8,32):(1,64)"), "async",
    )  # fmt: skip
    assert [(c.transactions, c.ideal) for c in costs_of(conflicts)] == [(32, 16), (32, 4)]


def test_idle_warps_execute_nothing() -> None:
    case = copy(
        "few", 256, "256, vector 8, order [1, 0]",
        device("8x64xf16", "(8,64):(64,1)"), shared("8x64xf16", "(8,64):(64,1)"), "async",
    )  # fmt: skip
    assert [(c.instructions, c.transactions, c.ideal) for c in costs_of(case)] == [
        (2, 32, 32),
        (2, 8, 8),
    ]


TILES = """
sched.kernel @tiles inputs 1 grid [3, 2, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<4x60xf16, (4,60):(60,1)>):
  %t = sched.local_tile %x map [1, 0, -1] fordim 1 : !sched.global<4x60xf16, (4,60):(60,1)> -> !sched.global<2x10xf16, (2,10):(60,1)>
  %s = sched.alloc stages 2 : !sched.shared<2x10xf16, (2,10):(10,1)>
  sched.prologue {
    sched.copy async %t to %s by <32, vector 2, order [1, 0]> iteration 0 : !sched.global<2x10xf16, (2,10):(60,1)> to !sched.shared<2x10xf16, (2,10):(10,1)>
  }
  sched.forloop 2 {
    sched.copy async %t to %s by <32, vector 2, order [1, 0]> ahead 1 : !sched.global<2x10xf16, (2,10):(60,1)> to !sched.shared<2x10xf16, (2,10):(10,1)>
  }
}
"""  # noqa: E501


def test_sectors_of_a_launch_follow_where_tiles_start() -> None:
    (kernel,) = (op for op in parse(TILES).walk() if isinstance(op, KernelOp))
    costs = [cost for cost in memory_access_costs(kernel) if cost.access.in_device_memory]
    for cost, iteration in zip(costs, (0, 1), strict=True):
        totals: list[int] = []
        for x in range(3):
            for y in range(2):
                start = 2 * (20 * x + 120 * y + 10 * iteration)
                touched: set[int] = set()
                for row in range(2):
                    for column in range(10):
                        touched.add((start + 2 * (60 * row + column)) // 32)
                totals.append(len(touched))
        assert cost.executions == 6
        assert cost.per_launch == sum(totals)
        assert cost.transactions == max(totals)


def transpiled(path: Path, *, swap_ab: bool = False) -> ModuleOp:
    context = Context()
    for name, factory in multiverse().all_dialects.items():
        context.register_dialect(name, factory)
    module = Parser(context, path.read_text(encoding="utf-8")).parse_module()
    verifying(passes_as_written(swap_ab=swap_ab, preferred=("swap_ab",))).apply(context, module)
    return module


@pytest.mark.one_in(2)
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.mlir")), ids=lambda path: path.stem)
@pytest.mark.parametrize("swap_ab", [False, True])
def test_planned_layouts_have_no_bank_conflicts(path: Path, swap_ab: bool) -> None:
    kernels = [op for op in transpiled(path, swap_ab=swap_ab).walk() if isinstance(op, KernelOp)]
    loads = 0
    for kernel in kernels:
        for cost in memory_access_costs(kernel):
            if not cost.access.in_device_memory:
                # Bulk copies in few boxes are worth more than loads without conflicts.
                filled = any(
                    isinstance(use.operation, BulkCopyOp) for use in cost.access.value.uses
                )
                assert filled or cost.excess == 0, memory_access_table(kernel, [cost])
                loads += cost.access.warp_collective
    assert kernels
    by_groups = any(isinstance(op, WarpgroupMmaOp) for kernel in kernels for op in kernel.walk())
    assert loads or by_groups or path.stem not in ("rmsnorm_linear", "gated_mlp", "lora")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_costs_hold_together(case: Case) -> None:
    for cost in costs_of(case):
        access = cost.access
        rows = warp_addresses(access, 0)
        assert cost.instructions == len(rows) and rows.shape[1] == 32
        assert (rows >= 0).sum() == access.active().sum()
        assert cost.ideal <= cost.transactions or not access.in_device_memory
        assert cost.per_launch == cost.transactions * cost.executions
        assert cost.transactions > 0


@given(
    st.lists(st.tuples(st.integers(0, 70), st.integers(-100, 100)), max_size=3), st.integers(0, 99)
)
def test_residues_are_those_of_all_multiples(steps: list[tuple[int, int]], start: int) -> None:
    moves = itertools.product(*([at * stride for at in range(extent)] for extent, stride in steps))
    assert sector_residues(steps, start) == Counter((start + sum(move)) % 32 for move in moves)


def test_residues_of_large_extents() -> None:
    counts = sector_residues([(2**40 + 1, 24), (2**31 - 1, 64)])
    assert counts.total() == (2**40 + 1) * (2**31 - 1)
    assert set(counts) == {0, 8, 16, 24}


RAGGED = """
!x = tensor<{rows}x{columns}xf16>
!y = tensor<{rows}x32xf16>
!tile = !tb.stensor<9x32xf16>
func.func @f(%x: !x) -> !y {{
  %o = kn.customized %x grid [{grid}, 1, 1] block [64, 1, 1] forloop {range} {{
  ^bb0(%d: !x):
    %s = tb.input %d imap [0, -1, -1] fordim 1 : !x -> !tile
    %a = tb.forloop_accum none %s : !tile -> !tile
    tb.output %a omap [0, -1, -1] : !tile -> !y
  }} : (!x) -> !y
  func.return %o : !y
}}
"""


def ragged_kernel(grid: int, iterations: int) -> KernelOp:
    rows, columns = 9 * grid - 4, 32 * iterations - 3
    text = RAGGED.format(rows=rows, columns=columns, grid=grid, range=iterations)
    context = Context()
    for name, factory in multiverse().all_dialects.items():
        context.register_dialect(name, factory)
    module = Parser(context, text).parse_module()
    verifying(passes_as_written(check_hazards=False)).apply(context, module)
    return next(op for op in module.walk() if isinstance(op, KernelOp))


def test_starts_of_ragged_tiles_are_those_of_all_blocks_and_iterations() -> None:
    kernel = ragged_kernel(5, 4)
    seen = 0
    for access in thread_accesses(kernel):
        predicate = access.predicate
        if not access.in_device_memory or predicate is None:
            continue
        seen += 1
        loop, stage = enclosing_loop(access.operation), access.stage
        iterations = [
            stage.iteration_at(current)
            for current in range(loop.iterations if loop else 1)
            if loop is None or stage.happens_at(current, loop.iterations)
        ]
        expected = Counter(
            (
                start_bytes(access.value, iteration, (block, 0, 0)) % 32,
                predicate.existing((block, 0, 0), iteration),
            )
            for block in range(5)
            for iteration in iterations
        )
        assert ragged_starts(access, predicate, kernel) == expected
    assert seen > 1


def test_a_report_takes_no_longer_for_a_large_grid_and_loop() -> None:
    kernel = ragged_kernel(2**31 - 1, 2**20)
    costs = {cost.executions for cost in memory_access_costs(kernel)}
    assert (2**31 - 1) * 2**20 in costs
    for access in thread_accesses(kernel):
        assert start_residues(access, kernel).total() in costs
