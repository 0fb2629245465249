"""Hazards of kernels with roles: each in a schedule that has it, and in one that just has not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from access_cases import parse
from hazard_kernels import kernel_of

from mugraph.passes.schedule.analysis.hazards import (
    Finding,
    HazardKind,
    find_hazards,
    progress_of,
    read_program,
)
from mugraph.passes.schedule.analysis.hazards.simulate import Simulation

INPUTS = Path(__file__).parents[1] / "filecheck" / "passes" / "Inputs"
MATMUL = (INPUTS / "channel-matmul.mlir").read_text(encoding="utf-8")
"""Three stages of two buffers, four iterations, weights of all stages first."""
SUM = (INPUTS / "channel-sum.mlir").read_text(encoding="utf-8")
"""Two stages, four iterations, and what the loop does not move through a channel of one stage."""

ITERATIONS = 40


def matmul_of(iterations: int) -> str:
    """As ``MATMUL``, with a longer loop."""
    return (
        MATMUL.replace("forloop 4 ", f"forloop {iterations} ")
        .replace("16x256", f"16x{64 * iterations}")
        .replace("(16,256):(256,1)", f"(16,{64 * iterations}):({64 * iterations},1)")
        .replace("(16,64):(256,1)", f"(16,64):({64 * iterations},1)")
        .replace("256x64", f"{64 * iterations}x64")
        .replace("(256,64):(64,1)", f"({64 * iterations},64):(64,1)")
    )


LONG = matmul_of(ITERATIONS)
"""So long that iterations are skipped."""


def findings_of(text: str) -> list[Finding]:
    module = parse(text)
    module.verify()
    return find_hazards(kernel_of(module))


def edited(text: str, line: str, *new: str, which: int = 0) -> str:
    """A text with other lines in place of the ``which``-th that begins with ``line``."""
    lines = text.splitlines()
    begins = re.compile(rf"\s*(%\w+ = )?{re.escape(line)}")
    found = [at for at, each in enumerate(lines) if begins.match(each)]
    at = found[which]
    whole = lines[at]
    written = re.match(r"\s*(%\w+) = .* to (%\w+) ", whole)
    if written and not any("SAME" in each for each in new):
        # Without the operator the tile stays what it was.
        lines = [each.replace(f"yield {written[1]}", f"yield {written[2]}") for each in lines]
    return "\n".join(lines[:at] + [each.replace("SAME", whole) for each in new] + lines[at + 1 :])


@pytest.mark.parametrize("text", [MATMUL, SUM, LONG], ids=["matmul", "sum", "long"])
def test_right_schedules(text: str) -> None:
    assert findings_of(text) == []


@pytest.mark.parametrize("text", [MATMUL, SUM, LONG], ids=["matmul", "sum", "long"])
@pytest.mark.parametrize(
    ("line", "kinds"),
    [
        ("sched.consume %ring", {HazardKind.IN_FLIGHT, HazardKind.PROTOCOL}),
        ("sched.release %ring", {HazardKind.DEADLOCK}),
        ("sched.acquire %ring", {HazardKind.PROTOCOL, HazardKind.IN_FLIGHT}),
        ("sched.publish %ring", {HazardKind.DEADLOCK}),
        ("sched.bulk_copy %x_tile", {HazardKind.DEADLOCK}),
        ("sched.barrier", {HazardKind.PROTOCOL}),
    ],
)
def test_a_step_that_is_missing(text: str, line: str, kinds: set[HazardKind]) -> None:
    assert kinds <= {finding.kind for finding in findings_of(edited(text, line))}


@pytest.mark.parametrize("text", [MATMUL, SUM, LONG], ids=["matmul", "sum", "long"])
@pytest.mark.parametrize("line", ["sched.consume %ring", "sched.acquire %ring"])
def test_waiting_twice_is_harmless(text: str, line: str) -> None:
    assert findings_of(edited(text, line, "SAME", "SAME")) == []


@pytest.mark.parametrize("text", [MATMUL, SUM, LONG], ids=["matmul", "sum", "long"])
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("sched.release %ring", "comes a second time for iteration 0 in stage 0 of %ring"),
        ("sched.publish %ring", "comes a second time for iteration 0 in stage 0 of %ring"),
    ],
)
def test_arriving_twice(text: str, line: str, message: str) -> None:
    assert any(message in str(finding) for finding in findings_of(edited(text, line, "SAME" * 2)))


def test_a_deadlock_names_roles_channel_stage_and_iteration() -> None:
    findings = findings_of(edited(MATMUL, "sched.release %ring"))
    assert [str(finding) for finding in findings] == [
        "deadlock: role \"consumers\" waits in 'sched.consume' of %ring (operator 1 of the loop of "
        'role "consumers", iteration 3) for stage 0 of %ring to be full with iteration 3; role '
        "\"producer\" waits in 'sched.acquire' of %ring (operator 1 of the loop of role "
        '"producer", iteration 0) for stage 0 of %ring to be released by the readers of iteration 0'
    ]


def test_too_few_bytes_are_a_deadlock() -> None:
    (finding,) = findings_of(edited(MATMUL, "sched.bulk_copy %w_tile"))
    assert finding.kind is HazardKind.DEADLOCK
    assert "which has 2048 of 10240 bytes" in str(finding)


@pytest.mark.parametrize("text", [MATMUL, SUM, LONG], ids=["matmul", "sum", "long"])
def test_reading_behind_the_release(text: str) -> None:
    findings = findings_of(text.replace("release %ring ahead -1", "release %ring"))
    assert {finding.kind for finding in findings} == {HazardKind.WRITE_AFTER_READ}
    assert "and neither a barrier nor a channel orders them" in str(findings[0])


@pytest.mark.parametrize("text", [MATMUL, SUM, LONG], ids=["matmul", "sum", "long"])
def test_a_release_overtakes_loads(text: str) -> None:
    reader = next(line for line in text.splitlines() if "sched.mma" in line or "add %sx" in line)
    bare = edited(text, "sched.release %ring")
    for steps, kinds in (
        (["sched.release %ring"], {HazardKind.MISSING_FENCE}),
        (["sched.proxy_fence", "sched.release %ring"], set[HazardKind]()),
        (["sched.barrier", "sched.release %ring"], set[HazardKind]()),
    ):
        behind = edited(bare, reader.strip()[:40], "SAME", *steps)
        assert {finding.kind for finding in findings_of(behind)} == kinds


def test_releasing_one_iteration_early() -> None:
    # The stage of the next iteration is given back before it is read.
    text = LONG.replace("sched.release %ring ahead -1", "sched.release %ring ahead 1")
    kinds = {finding.kind for finding in findings_of(text)}
    assert HazardKind.PROTOCOL in kinds


@pytest.mark.parametrize(
    ("barrier", "kinds"), [("", [HazardKind.WRITE_AFTER_READ]), ("sched.barrier", [])]
)
def test_the_epilogue_may_use_the_ring_behind_a_barrier(
    barrier: str, kinds: Sequence[HazardKind]
) -> None:
    text = MATMUL.replace("sched.alloc offset 30720", "sched.alloc offset 0")
    text = edited(text, "sched.store", barrier, "SAME")
    assert sorted({finding.kind.value for finding in findings_of(text)}) == [
        kind.value for kind in kinds
    ]


def test_the_words_of_a_channel_belong_to_it() -> None:
    text = SUM.replace("%d = sched.alloc offset 6144", "%d = sched.alloc offset 6272")
    (finding,) = findings_of(text.replace("offset 8192", "offset 8200"))
    assert finding.kind is HazardKind.OVERWRITTEN
    assert "the mbarriers of %ring are bytes 8200 to 8231" in str(finding)


def test_a_plain_store_under_a_bulk_copy_needs_a_fence() -> None:
    # Consumers clear the buffer of b before the producer may know of it.
    fill = "sched.fill %sb with 0.0 : !sched.shared<16x64xf16, S<3,3,3> o (16,64):(64,1)>"
    cleared = edited(SUM, "sched.barrier", fill, "SAME")
    assert HazardKind.MISSING_FENCE in {finding.kind for finding in findings_of(cleared)}
    fenced = edited(SUM, "sched.barrier", fill, "sched.proxy_fence", "SAME")
    assert findings_of(fenced) == []
    behind = edited(SUM, "sched.barrier", fill, "SAME", "sched.proxy_fence")
    assert HazardKind.MISSING_FENCE in {finding.kind for finding in findings_of(behind)}


STORED = edited(
    SUM.replace("%d = sched.alloc offset 6144", "%d = sched.alloc offset 6144"),
    "sched.copy %d",
    "sched.bulk_copy %d to %o_tile : !sched.shared<16x64xf16, (16,64):(64,1)> to "
    "!sched.global<16x64xf16, (16,64):(64,1)>",
    "sched.bulk_wait",
)


def test_a_bulk_store_needs_a_fence_and_a_wait() -> None:
    assert {finding.kind for finding in findings_of(STORED)} == {HazardKind.MISSING_FENCE}
    fenced = edited(STORED, "sched.store", "SAME", "sched.proxy_fence")
    assert findings_of(fenced) == []
    assert {finding.kind for finding in findings_of(edited(fenced, "sched.bulk_wait"))} == {
        HazardKind.IN_FLIGHT
    }
    # The result is written again while the copy may still read it.
    store = next(line for line in STORED.splitlines() if "sched.store" in line)
    again = edited(fenced, "sched.bulk_wait", store, "SAME")
    assert {finding.kind for finding in findings_of(again)} == {HazardKind.IN_FLIGHT}
    for barrier, kinds in (
        ("", {HazardKind.WRITE_AFTER_READ}),
        ("sched.barrier", set[HazardKind]()),
    ):
        after = edited(fenced, "sched.bulk_wait", "SAME", barrier, store)
        assert {finding.kind for finding in findings_of(after)} == kinds


def test_a_barrier_in_a_role_of_one_thread() -> None:
    text = edited(SUM, "sched.acquire", "sched.barrier", "SAME")
    assert HazardKind.DIVERGENT_BARRIER in {finding.kind for finding in findings_of(text)}


WAITING = edited(
    edited(
        MATMUL.replace("inputs 2 grid", "inputs 2 constant [1] grid").replace(
            "(256,64):(64,1)>>) -> tensor<16x64xf16, #cute.layout<(16,64):(64,1)>> attributes",
            "(256,64):(64,1)>> {mugraph.constant}) -> "
            "tensor<16x64xf16, #cute.layout<(16,64):(64,1)>> attributes",
        ),
        "sched.copy %d",
        "sched.grid_wait",
        "SAME",
    ),
    "sched.bulk_copy %x_tile",
    "sched.grid_wait",
    "SAME",
)
"""Weights come before what the kernels before this one may still write."""


def test_only_constant_inputs_are_loaded_before_the_grid_waits() -> None:
    assert findings_of(WAITING) == []
    for text, message in (
        (
            WAITING.replace("constant [1] ", ""),
            '(operator 1 of the prologue of role "producer") reads %w_tile in device memory before '
            "a 'sched.grid_wait'",
        ),
        (
            edited(WAITING, "sched.grid_wait", which=1),
            '(operator 4 of the prologue of role "producer") reads %x_tile in device memory',
        ),
    ):
        findings = findings_of(text)
        assert {finding.kind for finding in findings} == {HazardKind.DEPENDENT_LAUNCH}
        assert message in str(findings[0])


def test_who_waits_for_one_that_has_waited_has_waited() -> None:
    # What the consumers store comes behind tiles for which the producer has waited.
    assert findings_of(edited(WAITING, "sched.grid_wait")) == []
    early = edited(WAITING, "sched.grid_wait").replace(
        "sched.prologue {",
        "sched.prologue {\nsched.copy %d to %o_tile by <128, vector 8, order [1, 0]> : "
        "!sched.shared<16x64xf16, S<3,3,3> o (16,64):(64,1)> to "
        "!sched.global<16x64xf16, (16,64):(64,1)>",
        1,
    )
    assert HazardKind.DEPENDENT_LAUNCH in {finding.kind for finding in findings_of(early)}


@pytest.mark.parametrize("line", ["sched.release", "sched.acquire", "sched.consume", "sched.mma"])
def test_skipped_iterations_hide_nothing(line: str) -> None:
    module = parse(edited(LONG, line))
    program = read_program(kernel_of(module))
    some, every = Simulation(program), Simulation(program, every_iteration=True)
    assert [str(finding) for finding in some.run()] == [str(each) for each in every.run()]
    assert some.protocol.ran == every.protocol.counts


def test_iterations_are_skipped() -> None:
    run = Simulation(read_program(kernel_of(parse(LONG))))
    assert run.run() == []
    # Each stage of two buffers is filled, and read by one product.
    assert len(run.memory.history) < 2 * ITERATIONS


def test_the_certificate_of_a_long_loop_takes_no_longer() -> None:
    iterations = 2**31 - 1
    program = read_program(kernel_of(parse(matmul_of(iterations))))
    run = Simulation(program, synchronisation_only=True)
    assert run.run() == []
    assert run.protocol.counts.total() < 200
    progress, short = (
        progress_of(read_program(kernel_of(parse(matmul_of(count))))) for count in (iterations, 40)
    )
    assert progress is not None and short is not None
    assert progress.iterations == iterations
    for one, other in zip(progress.channels, short.channels, strict=True):
        assert one.published - other.published in (0, iterations - 40)
        assert one.published == one.consumed
