"""Small kernels of one launch: right on the emulator, and refused where one waits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emulated_programs import emulated, graph_of
from xdsl.dialects.func import FuncOp
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

import mugraph.build as mi
from mugraph.dialects.kn.overlap import CanJoin, launches_of
from mugraph.passes.memory.lifetimes import tensor_lifetimes
from mugraph.passes.program.join_launches import join_launches
from mugraph.passes.schedule.analysis.hazards import find_workspace_hazards
from mugraph.passes.targets import target_named
from mugraph.reading import make_context
from mugraph.runtime.cuda import generate_cuda


def step(keys: Any, values: Any, old_keys: Any, old_values: Any, at: Any, table: Any) -> Any:
    """Rows into two tables at one place, a row of another, and odd numbers of elements."""
    place = at + at
    return (
        mi.scatter(keys, old_keys, place, dim=1),
        mi.scatter(values, old_values, place, dim=1),
        mi.gather(table, at),
        mi.sqrt(table * table),
    )


def inputs() -> list[Any]:
    """Rows of 64 elements for a table of 4 heads and 24 places; another table of 3 by 5."""
    rng = np.random.default_rng(7)
    rows = [rng.standard_normal((4, 1, 64)).astype(np.float16) for _ in range(2)]
    tables = [rng.standard_normal((4, 24, 64)).astype(np.float16) for _ in range(2)]
    return [*rows, *tables, np.array([2], np.int64), rng.random((3, 5)).astype(np.float32)]


def test_parts_of_a_launch_compute_what_each_does_alone() -> None:
    keys, values, old_keys, old_values, at, table = given = inputs()
    results = emulated(step, *given)
    for new, rows, old in zip(results, (keys, values), (old_keys, old_values), strict=False):
        expected = old.copy()
        expected[:, 2 * at[0]] = rows[:, 0]
        np.testing.assert_array_equal(new, expected)
    np.testing.assert_array_equal(results[2], table[at])
    np.testing.assert_array_equal(results[3], np.sqrt(table * table))


def test_what_is_ready_is_launched_together() -> None:
    """The product with the place; then both scatters, the rows and the root."""
    text = generate_cuda(graph_of(step, *inputs()).module(), make_context(), "sm_90a").source
    host = text[text.index("static void _execute_mugraph") :]
    launches = [line.strip() for line in host.splitlines() if "launch_parts(" in line]
    assert [line.count("part") - 1 for line in launches] == [3, 3]
    # What is returned is in memory of its own: the tables are copied before rows are written.
    assert host.count("::run(") == 2


CHAIN = """
func.func @f(%x: !m, %y: !m) -> !m {
  %a = kn.exp %x workspace [0] : !m -> !m
  %b = kn.sqrt %a workspace [128] : !m -> !m
  %c = kn.exp %y workspace [0] : !m -> !m
  %d = kn.mul %b, %c workspace [-1] : (!m, !m) -> !m
  func.return %d : !m
}
""".replace("!m", "tensor<8x8xf16, #cute.layout<(8,8):(8,1)>>")


def chain(*joined: str) -> FuncOp:
    """Two kernels in a row and one beside them; those that share the launch before are named."""
    module = Parser(make_context(), CHAIN).parse_module()
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    for op in function.body.block.ops:
        if isinstance(op, CanJoin) and op.results[0].name_hint in joined:
            op.set_joined()
    return function


@pytest.mark.parametrize(("joined", "hazards"), [((), 0), (("c",), 1)])
def test_tensors_of_one_launch_are_needed_at_the_same_time(
    joined: tuple[str, ...], hazards: int
) -> None:
    """Alone, ``%c`` may lie where ``%a`` was; with what reads ``%a`` it must not."""
    function = chain(*joined)
    assert len(list(find_workspace_hazards(function))) == hazards
    a, _, c, *_ = (op.results[0] for op in function.body.block.ops if op.results)
    first, second = tensor_lifetimes(function, [a, c])
    assert first.overlaps(second) == bool(hazards)


def test_a_part_that_waits_for_another_is_refused() -> None:
    with pytest.raises(VerifyException, match="reads %a, which the launch that it is a part of"):
        chain("b").verify()
    with pytest.raises(VerifyException, match="nothing stands there"):
        chain("a").verify()


@pytest.mark.parametrize("count", [2, 64, 65, 130])
def test_a_launch_has_at_most_64_parts(count: int) -> None:
    """All of them depend on nothing, so that as few launches as possible are needed."""

    def program(*tensors: Any) -> Any:
        return [mi.exp(x) for x in tensors]

    module = graph_of(program, *[np.zeros((4, 4), np.float32)] * count).module()
    (function,) = (op for op in module.walk() if isinstance(op, FuncOp))
    join_launches(function, target_named("sm_90a"))
    assert len(launches_of(function.body.block.ops)) - 1 == -(-count // 64)
