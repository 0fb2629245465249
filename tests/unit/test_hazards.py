"""Each kind of hazard in a small schedule that has it, and in one that just has not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from access_cases import MMA, parse
from hazard_kernels import (
    BARRIER,
    BYTES,
    COMMIT,
    FILL_FRAGMENT,
    HALVES,
    MAKE_FRAGMENT,
    ROWS,
    add_up,
    alloc,
    exp,
    findings_of,
    kernel_of,
    kernel_text,
    kinds_of,
    load,
    pipeline,
    save,
    tile_type,
    wait,
)
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def

from mugraph.dialects import sched
from mugraph.dialects.sched import AccessKind, ThreadAccess
from mugraph.dialects.sched.accesses import StageReference
from mugraph.passes.schedule.analysis.hazards import (
    HazardKind,
    find_hazards,
    read_program,
    uniform_loops,
    unneeded_barriers,
)


def test_read_after_write_needs_a_barrier_between_threads_only() -> None:
    (finding,) = findings_of(kernel_text([load("%a"), exp("%a", "%b", HALVES)]))
    assert finding.kind is HazardKind.READ_AFTER_WRITE
    assert finding.threads == (1, 0) and finding.address == 8
    assert [op.name for op in finding.operations] == ["sched.map", "sched.copy"]
    assert findings_of(kernel_text([load("%a"), BARRIER, exp("%a", "%b", HALVES)])) == []
    assert findings_of(kernel_text([load("%a"), exp("%a", "%b")])) == []


def test_write_after_read_within_a_phase() -> None:
    racy = [load("%a"), BARRIER, exp("%a", "%b", HALVES), load("%a")]
    assert kinds_of(kernel_text(racy)) == [HazardKind.WRITE_AFTER_READ]
    assert kinds_of(kernel_text([*racy[:-1], BARRIER, racy[-1]])) == []


def test_write_after_write() -> None:
    assert kinds_of(kernel_text([load("%a"), load("%a", HALVES)])) == [HazardKind.WRITE_AFTER_WRITE]
    assert kinds_of(kernel_text([load("%a"), load("%a")])) == []


def test_a_race_across_iterations_names_both() -> None:
    loop = [load("%a", source="%t", tile=tile_type(5)), BARRIER, add_up("%a")]
    allocs = [alloc("%a", 0), MAKE_FRAGMENT]
    (finding,) = findings_of(kernel_text([FILL_FRAGMENT], allocs=allocs, loop=loop, iterations=5))
    assert finding.kind is HazardKind.WRITE_AFTER_READ
    assert "(operator 1 of the loop, iteration 1)" in finding.message
    assert "(operator 3 of the loop, iteration 0)" in finding.message
    fixed = kernel_text([FILL_FRAGMENT], allocs=allocs, loop=[*loop, BARRIER], iterations=5)
    assert findings_of(fixed) == []


def test_a_race_between_phases() -> None:
    before = [load("%a"), BARRIER, exp("%a", "%b", HALVES)]
    loop = [load("%a"), BARRIER, exp("%a", "%b"), BARRIER]
    assert kinds_of(kernel_text(before, loop=loop)) == [HazardKind.WRITE_AFTER_READ]
    assert kinds_of(kernel_text([*before, BARRIER], loop=loop)) == []
    after = [load("%a", HALVES)]
    assert kinds_of(kernel_text([], loop=loop[:-1], after=after)) == [HazardKind.WRITE_AFTER_READ]
    assert kinds_of(kernel_text([], loop=loop, after=after)) == []


@pytest.mark.parametrize(
    ("between", "by", "kinds"),
    [
        ([COMMIT, wait(0), BARRIER], HALVES, []),
        ([COMMIT, wait(0)], ROWS, []),
        ([COMMIT, wait(0)], HALVES, [HazardKind.READ_AFTER_WRITE]),
        ([COMMIT, BARRIER], ROWS, [HazardKind.IN_FLIGHT]),
        ([COMMIT, BARRIER, wait(0)], HALVES, [HazardKind.READ_AFTER_WRITE]),
        ([COMMIT, wait(1), BARRIER], ROWS, [HazardKind.IN_FLIGHT]),
        ([COMMIT, COMMIT, wait(1), BARRIER], HALVES, []),
        ([wait(0), BARRIER], ROWS, [HazardKind.IN_FLIGHT]),
    ],
)
def test_reading_an_asynchronous_copy(
    between: Sequence[str], by: str, kinds: Sequence[HazardKind]
) -> None:
    text = kernel_text([load("%a", kind="async"), *between, exp("%a", "%b", by)])
    assert kinds_of(text) == kinds


def test_a_copy_that_no_commit_closes_is_said_so() -> None:
    (finding,) = findings_of(
        kernel_text([load("%a", kind="async"), wait(0), BARRIER, exp("%a", "%b")])
    )
    assert "no 'sched.commit' between them closes the copy's group" in finding.message


def test_overwriting_bytes_in_flight() -> None:
    text = [load("%a", kind="async"), COMMIT, BARRIER, load("%a")]
    assert kinds_of(kernel_text(text)) == [HazardKind.IN_FLIGHT]
    twice = [load("%a", kind="async"), COMMIT, BARRIER, load("%a", kind="async"), COMMIT]
    assert kinds_of(kernel_text(twice)) == [HazardKind.IN_FLIGHT]


def test_an_asynchronous_copy_over_what_others_still_read() -> None:
    text = [load("%a"), BARRIER, exp("%a", "%b", HALVES), load("%a", kind="async"), COMMIT]
    assert kinds_of(kernel_text(text)) == [HazardKind.WRITE_AFTER_READ]


PIPELINES = [
    (iterations, stages, ahead)
    for iterations in (1, 2, 3, 4, 7, 50)
    for stages, ahead in ((2, 1), (3, 2), (4, 3), (4, 2), (8, 7))
    if ahead <= iterations
]


@pytest.mark.parametrize(("iterations", "stages", "ahead"), PIPELINES)
def test_a_pipeline(iterations: int, stages: int, ahead: int) -> None:
    assert kinds_of(pipeline(iterations, stages, ahead, ahead - 1)) == []
    assert HazardKind.IN_FLIGHT in kinds_of(pipeline(iterations, stages, ahead, ahead))


def test_a_group_an_iteration_must_be_committed() -> None:
    assert HazardKind.IN_FLIGHT in kinds_of(pipeline(9, 3, 2, 1, commits_in_loop=False))


def test_the_tile_of_another_iteration() -> None:
    tile = tile_type(4)
    before = [
        FILL_FRAGMENT,
        load("%a", when="iteration 1", source="%t", tile=tile),
        BARRIER,
    ]
    allocs = [alloc("%a", 0), MAKE_FRAGMENT]
    (finding,) = findings_of(kernel_text(before, allocs=allocs, loop=[add_up("%a")], iterations=4))
    assert finding.kind is HazardKind.WRONG_TILE
    assert "expects the tile of iteration 0" in finding.message
    assert "that of iteration 1" in finding.message


def test_a_stage_that_nobody_refills() -> None:
    tile = tile_type(6)
    before = [FILL_FRAGMENT]
    before += [
        load("%a", when=f"iteration {iteration}", source="%t", tile=tile) for iteration in (0, 1)
    ]
    text = kernel_text(
        [*before, BARRIER],
        allocs=[alloc("%a", 0, 2), MAKE_FRAGMENT],
        loop=[add_up("%a")],
        iterations=6,
    )
    findings = findings_of(text)
    # One for the copy of each stage.
    assert [finding.kind for finding in findings] == [HazardKind.WRONG_TILE] * 2
    assert "(operator 1 of the loop, iteration 2)" in findings[0].message
    assert "(operator 1 of the loop, iteration 3)" in findings[1].message


def test_the_stages_of_an_unrolled_loop() -> None:
    tile = tile_type(3)
    before = [FILL_FRAGMENT]
    before += [load("%a", when=f"iteration {i}", source="%t", tile=tile) for i in range(3)]
    text = kernel_text(
        [*before, BARRIER],
        allocs=[alloc("%a", 0, 3), MAKE_FRAGMENT],
        loop=[add_up("%a")],
        iterations=3,
    )
    assert findings_of(text) == []


def test_buffers_that_overlap_across_a_barrier() -> None:
    allocs = [alloc("%a", 0), alloc("%b", BYTES // 2), alloc("%c", 2 * BYTES)]
    text = [load("%a"), BARRIER, load("%b"), BARRIER, exp("%a", "%c")]
    (finding,) = findings_of(kernel_text(text, allocs=allocs))
    assert finding.kind is HazardKind.OVERWRITTEN
    assert finding.address == BYTES // 2
    assert "the two buffers overlap" in finding.message
    # Where %a is dead they may share bytes.
    alive = [load("%a"), BARRIER, exp("%a", "%c"), BARRIER, load("%b"), BARRIER, exp("%b", "%c")]
    assert findings_of(kernel_text(alive, allocs=allocs)) == []


def test_buffers_that_overlap_without_a_barrier_race() -> None:
    allocs = [alloc("%a", 0), alloc("%b", 16)]
    assert HazardKind.WRITE_AFTER_WRITE in kinds_of(
        kernel_text([load("%a"), load("%b")], allocs=allocs)
    )


def test_one_operator_through_two_buffers() -> None:
    in_place = [alloc("%a", 0), alloc("%b", 0)]
    assert findings_of(kernel_text([load("%a"), exp("%a", "%b")], allocs=in_place)) == []
    shifted = [alloc("%a", 0), alloc("%b", 16)]
    assert HazardKind.WRITE_AFTER_READ in kinds_of(
        kernel_text([load("%a"), BARRIER, exp("%a", "%b")], allocs=shifted)
    )


def test_memory_that_nothing_was_written_to() -> None:
    (finding,) = findings_of(kernel_text([exp("%a", "%b")]))
    assert finding.kind is HazardKind.NEVER_WRITTEN and finding.address == 0
    assert "to which nothing of %a has been written" in finding.message


def test_a_fragment_that_nothing_was_written_to() -> None:
    allocs = [alloc("%a", 0), MAKE_FRAGMENT]
    text = kernel_text([load("%a"), BARRIER, add_up("%a")], allocs=allocs)
    (finding,) = findings_of(text)
    assert finding.kind is HazardKind.NEVER_WRITTEN and "the fragment %f" in finding.message


def test_a_fragment_of_the_loop_is_new_in_each_iteration() -> None:
    allocs = [alloc("%a", 0)]
    loop = [MAKE_FRAGMENT, FILL_FRAGMENT, add_up("%a")]
    assert findings_of(kernel_text([load("%a"), BARRIER], allocs=allocs, loop=loop)) == []
    assert kinds_of(kernel_text([load("%a"), BARRIER], allocs=allocs, loop=[loop[0], loop[2]])) == [
        HazardKind.NEVER_WRITTEN
    ]


def product(extra: str = "") -> str:
    """A product of 9 x 9 by 9 x 9: rows of 16, of which 7 are padding that nobody writes."""
    matrix = "!sched.shared<9x9xf16, (9,9):(16,1)>"
    tensor = "!sched.global<9x9xf16, (9,9):(16,1)>"
    result = f"!sched.tile<9x9xf32, #cute.tiled_mma<{MMA}, (1,2,1)>>"
    copies = "\n".join(
        f"sched.copy %x to %{name} by <64, vector 1, order [1, 0]> : {tensor} to {matrix}"
        for name in "ab"
    )
    return f"""
sched.kernel @p inputs 1 grid [1, 1, 1] block [64, 1, 1] smem 1024 {{
^bb0(%x: {tensor}):
  %a = sched.alloc offset 0 : {matrix}
  %b = sched.alloc offset 384 : {matrix}
  %c = sched.empty : {result}
  %c_1 = sched.prologue {{
    {copies}
    {extra}
    %c_2 = sched.fill %c with 0.0 : {result}
    %c_3 = sched.mma %a, %b to %c_2 ldmatrix[true, true] : {matrix}, {matrix} to {result}
    sched.yield %c_3 : {result}
  }} -> {result}
}}"""


def test_padding_that_is_read_and_thrown_away_is_no_hazard() -> None:
    assert findings_of(product(BARRIER)) == []


def test_every_lane_reads_the_lines_of_ldmatrix() -> None:
    findings = findings_of(product())
    assert {finding.kind for finding in findings} == {HazardKind.READ_AFTER_WRITE}
    assert all(len(set(finding.threads)) == 2 for finding in findings)


def test_a_buffer_past_the_end_of_shared_memory() -> None:
    kernel = kernel_of(parse(kernel_text([])))
    # The verifier refuses this too.
    kernel.smem = IntegerAttr(2 * BYTES - 128, i64)
    (finding,) = find_hazards(kernel)
    assert finding.kind is HazardKind.OUT_OF_BOUNDS
    assert "%b takes bytes 1024 to 2047 of shared memory" in finding.message


def test_barriers_that_nothing_needs() -> None:
    text = kernel_text([load("%a"), BARRIER, exp("%a", "%b"), BARRIER, save("%b", HALVES)])
    program = read_program(kernel_of(parse(text)))
    assert [place.number for place in unneeded_barriers(program)] == [2]


def test_a_loop_whose_iterations_are_all_alike() -> None:
    loop = [add_up("%a")]
    allocs = [alloc("%a", 0), MAKE_FRAGMENT]
    text = kernel_text([FILL_FRAGMENT, load("%a"), BARRIER], allocs=allocs, loop=loop, iterations=4)
    kernel = kernel_of(parse(text))
    assert find_hazards(kernel) == []
    assert list(uniform_loops(kernel)) == []
    tile = next(op for op in kernel.body.block.ops if isinstance(op, sched.LocalTileOp))
    tile.detach()
    assert [op.iterations for op in uniform_loops(kernel)] == [4]


@irdl_op_definition
class StrayOp(IRDLOperation, sched.HasThreadAccesses):
    """An operator of somebody else, which says of itself what it touches."""

    name = "test.stray"
    buffer = operand_def(sched.SharedType | sched.GlobalType)

    def thread_accesses(self) -> Sequence[ThreadAccess]:
        return DECLARED[self]


DECLARED: dict[StrayOp, Sequence[ThreadAccess]] = {}


def stray(
    value: str, kind: AccessKind, width: int, offsets: Sequence[int], iteration: int = 0
) -> list[HazardKind]:
    """What is found where thread t reads or writes ``width`` elements at ``offsets[t]``."""
    kernel = kernel_of(parse(kernel_text([load("%a"), BARRIER], iterations=4)))
    values = {
        result.name_hint: result
        for op in kernel.body.block.ops
        for result in op.results
        if result.name_hint
    }
    op = StrayOp(operands=[values[value]])
    stage = StageReference(iteration=iteration)
    DECLARED[op] = [
        ThreadAccess(op, 0, kind, "test", stage, width, np.array([offsets], dtype=np.int64))
    ]
    prologue = next(op for op in kernel.body.block.ops if isinstance(op, sched.PrologueOp))
    prologue.body.block.add_op(op)
    return [finding.kind for finding in find_hazards(kernel)]


def test_accesses_beyond_a_stage_or_a_tensor() -> None:
    assert stray("a", AccessKind.READ, 8, [0, -1, 504]) == []
    assert HazardKind.OUT_OF_BOUNDS in stray("a", AccessKind.READ, 8, [0, -1, 512])
    # %t is 64 x 8 of 64 x 32: its last element is 63 * 32 + 7 + 3 * 8 elements in.
    last = 63 * 32
    assert stray("t", AccessKind.READ, 8, [last], iteration=3) == []
    assert stray("t", AccessKind.READ, 8, [last + 8], iteration=3) == [HazardKind.OUT_OF_BOUNDS]


def test_misaligned_vectors() -> None:
    assert stray("a", AccessKind.READ, 8, [0, 4]) == [HazardKind.MISALIGNED]
    assert stray("a", AccessKind.READ, 2, [0, 4]) == []
    assert stray("a", AccessKind.READ, 3, [0, 3]) == [HazardKind.MISALIGNED]


def test_two_threads_of_one_operator_write_one_byte() -> None:
    assert stray("a", AccessKind.WRITE, 2, [0, 1]) == [
        HazardKind.MISALIGNED,
        HazardKind.WRITE_AFTER_WRITE,
    ]


@irdl_op_definition
class SilentOp(IRDLOperation):
    """An operator of somebody else, which does not say what it touches."""

    name = "test.silent"
    buffer = operand_def(sched.SharedType)


def test_an_operator_that_says_nothing_of_its_accesses() -> None:
    kernel = kernel_of(parse(kernel_text([load("%a"), BARRIER])))
    buffer = next(op for op in kernel.body.block.ops if isinstance(op, sched.AllocOp))
    kernel.body.block.add_op(SilentOp(operands=[buffer.result]))
    assert [finding.kind for finding in find_hazards(kernel)] == [HazardKind.NOT_CHECKED]


def test_an_unplanned_buffer_is_an_error() -> None:
    kernel = kernel_of(parse(kernel_text([load("%a")])))
    buffer = next(op for op in kernel.body.block.ops if isinstance(op, sched.AllocOp))
    buffer.offset = None
    with pytest.raises(sched.AccessError, match="run --plan-stensor-memory first"):
        find_hazards(kernel)


def test_a_finding_is_reported_once_for_a_pair_of_operators() -> None:
    loop = [load("%a"), exp("%a", "%b", HALVES), BARRIER]
    text = kernel_text([], loop=loop, iterations=40)
    assert kinds_of(text) == [HazardKind.READ_AFTER_WRITE]
