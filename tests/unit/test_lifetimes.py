"""Each kind of buffer of the figure "tensor-lifecycle", and how its bytes become free."""

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from mugraph.dialects.sched import KernelOp
from mugraph.passes.memory.lifetimes import Lifetime, buffer_lifetimes
from mugraph.reading import make_context

SHARED = "!sched.shared<8x16xf16, (8,16):(16,1)>"
DEVICE = "!sched.global<8x16xf16, (8,16):(16,1)>"
BY = "by <32, vector 4, order [1, 0]>"


def lifetimes(
    prologue: str, loop: str, epilogue: str, stages: int = 1, iterations: int = 4
) -> dict[str, Lifetime]:
    """The lifetimes of %a to %d; ``load %a``, ``use %a to %b`` and ``barrier`` are the steps."""

    def steps(text: str) -> str:
        lines: list[str] = []
        for step in text.split(","):
            match step.split():
                case ["barrier"]:
                    lines.append("sched.barrier")
                case ["wait"]:
                    lines.append("sched.wait pending 0")
                case ["load", buffer, *ahead]:
                    lines.append(
                        f"sched.copy %x to {buffer} {BY} {' '.join(ahead)} : {DEVICE} to {SHARED}"
                    )
                case ["store", buffer]:
                    lines.append(f"sched.copy {buffer} to %o {BY} : {SHARED} to {DEVICE}")
                case ["leave", buffer]:
                    lines.append(f"sched.bulk_copy {buffer} to %t : {SHARED} to {DEVICE}")
                case ["left"]:
                    lines.append("sched.bulk_wait")
                case ["clear", buffer]:
                    lines.append(f"sched.fill {buffer} with 0.0 : {SHARED}")
                case ["use", source, "to", destination, *epilogue]:
                    lines.append(
                        f"sched.map exp {source} to {destination} {' '.join(epilogue)} "
                        f"{BY} : {SHARED} to {SHARED}"
                    )
                case other:
                    raise AssertionError(other)
        return "\n    ".join(lines)

    module: ModuleOp = Parser(
        make_context(),
        f"""
sched.kernel @k inputs 1 grid [1, 1, 1] block [32, 1, 1] {{
^bb0(%x: {DEVICE}, %o: {DEVICE}):
  %a = sched.alloc stages {stages} : {SHARED}
  %b = sched.alloc : {SHARED}
  %c = sched.alloc : {SHARED}
  %d = sched.alloc : {SHARED}
  %t = sched.local_tile %o map [-1, -1, -1] : {DEVICE} -> {DEVICE}
  sched.prologue {{
    {steps(prologue)}
  }}
  sched.forloop {iterations} {{
    {steps(loop)}
  }}
  sched.epilogue {{
    {steps(epilogue)}
  }}
}}
""",
    ).parse_module()
    module.verify()
    kernel = next(op for op in module.walk() if isinstance(op, KernelOp))
    return {
        f"%{buffer.result.name_hint}": lifetime
        for buffer, lifetime in buffer_lifetimes(kernel).items()
    }


# Regions: 0 before the loop and its start, 1 and 2 in the loop, 3 and 4 after it.
LOOP = "wait, barrier, use %a to %b, barrier, use %b to %c"


def test_an_input_of_the_loop_lives_to_the_loop_s_end() -> None:
    found = lifetimes("load %a", LOOP, "barrier, store %d")
    assert found["%a"] == Lifetime(0, 2)


def test_an_input_used_after_the_loop_lives_to_its_last_use() -> None:
    found = lifetimes("load %d", LOOP, "barrier, use %d to %a, barrier, store %a")
    assert found["%d"] == Lifetime(0, 3)
    both = lifetimes("load %a", LOOP, "barrier, use %a to %d, barrier, store %d")
    assert both["%a"] == Lifetime(0, 3)


def test_what_a_bulk_copy_reads_lives_until_that_has_been_waited_for() -> None:
    start = "barrier, use %c to %d, barrier, leave %d, clear %a, barrier, use %a to %b"
    waited = lifetimes("load %a", LOOP, f"{start}, left, barrier, store %b")
    assert waited["%d"] == Lifetime(3, 5)
    at_the_end = lifetimes("load %a", LOOP, f"{start}, barrier, store %b")
    assert at_the_end["%d"] == Lifetime(3, 6)


def test_a_pipelined_input_lives_for_the_whole_loop() -> None:
    found = lifetimes(
        "load %a iteration 0",
        "wait, barrier, load %a ahead 1, use %a to %b, barrier, use %b to %c",
        "barrier, store %d",
        stages=2,
    )
    assert found["%a"] == Lifetime(0, 2)


def test_a_stage_that_only_the_loop_loads_ahead_lives_for_the_whole_loop() -> None:
    # What one iteration loads is used in the next.
    found = lifetimes(
        "clear %d",
        "wait, barrier, load %a ahead 1, use %a to %b, barrier, use %b to %c",
        "barrier, store %d",
        stages=2,
    )
    assert found["%a"] == Lifetime(0, 2)


def test_an_input_loaded_in_each_iteration_lives_within_it() -> None:
    found = lifetimes(
        "clear %d",
        "barrier, load %a, wait, barrier, use %a to %b, barrier, use %b to %c",
        "barrier, store %d",
    )
    assert found["%a"] == Lifetime(1, 2)
    assert found["%b"] == Lifetime(2, 3)


def test_an_intermediate_of_the_loop_lives_within_an_iteration() -> None:
    found = lifetimes("load %a", LOOP, "barrier, store %d")
    assert found["%b"] == Lifetime(1, 2)
    assert found["%c"] == Lifetime(2, 2)


def test_but_not_where_it_is_made_before_the_loop_s_first_barrier() -> None:
    # A fast warp writes %b in its next iteration while a slow one is at the end of this one.
    found = lifetimes("load %a", LOOP.replace("wait, barrier, ", ""), "barrier, store %d")
    assert found["%b"] == Lifetime(0, 1)
    assert found["%c"] == Lifetime(1, 1)


def test_in_a_loop_of_one_iteration_nothing_is_kept_for_another() -> None:
    found = lifetimes("load %a", LOOP, "barrier, store %d", iterations=1)
    assert found["%a"] == Lifetime(0, 1)
    unfenced = LOOP.replace("wait, barrier, ", "")
    found = lifetimes("load %a", unfenced, "barrier, use %c to %d", iterations=1)
    assert found["%a"] == Lifetime(0, 0)
    assert found["%c"] == Lifetime(1, 2)


def test_an_accumulator_in_shared_memory_lives_from_before_the_loop() -> None:
    found = lifetimes(
        "load %a, clear %d",
        "wait, barrier, use %a to %d then [accum]",
        "barrier, use %d to %b, barrier, store %b",
    )
    assert found["%d"] == Lifetime(0, 2)


def test_a_value_carried_from_one_iteration_to_the_next_lives_for_the_loop() -> None:
    found = lifetimes("load %b", "wait, barrier, use %b to %c, barrier, use %c to %b", "barrier")
    assert found["%b"] == Lifetime(0, 2)


def test_intermediates_after_the_loop_live_to_their_last_use() -> None:
    # %b is also where an accumulator in registers is written, which happens after the loop.
    found = lifetimes("clear %a", "wait, barrier", "barrier, use %a to %b, barrier, use %b to %c")
    assert found["%b"] == Lifetime(2, 3)
    assert found["%c"] == Lifetime(3, 3)


def test_a_buffer_that_nothing_touches_has_no_lifetime() -> None:
    assert "%d" not in lifetimes("load %a", LOOP, "barrier")


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [((0, 1), (1, 2), True), ((0, 1), (2, 2), False), ((0, 5), (2, 3), True)],
)
def test_buffers_of_one_region_overlap(
    one: tuple[int, int], other: tuple[int, int], overlap: bool
) -> None:
    assert Lifetime(*one).overlaps(Lifetime(*other)) is overlap
    assert Lifetime(*other).overlaps(Lifetime(*one)) is overlap
