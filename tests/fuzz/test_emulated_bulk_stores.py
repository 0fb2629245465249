"""Results that leave by bulk copies, on the CPU: these read their buffers late, or at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from schedules import passes_as_written

from fuzz.emulated import build, check_emulated
from fuzz.products import product
from fuzz.properties import Compiled, PropertyError, make_case, parse, require_same_function
from mugraph.codegen.cuda import print_module
from mugraph.passes.sequence import verifying
from mugraph.reading import make_context


@pytest.fixture(scope="module")
def stored(needs_emulator: None) -> Compiled:
    module = parse(product(32, 32, 128, blocks=2, loop=4))
    case = make_case(module)
    transpile = verifying(passes_as_written("sm_90a", loads="tma", stores="tma"))
    transpile.apply(make_context(), module)
    return Compiled(case, module, print_module(module))


def test_bulk_copies_bring_results_to_device_memory(stored: Compiled, tmp_path: Path) -> None:
    # The tile is wider than a swizzled row.
    assert stored.cuda.count("mugraph::bulk_store(") == 2
    check_emulated(build([stored], tmp_path), 0, stored, tmp_path / "run")


def test_a_copy_that_nobody_waits_for_is_an_error(stored: Compiled, tmp_path: Path) -> None:
    hasty = replace(stored, cuda=stored.cuda.replace("mugraph::wait_bulk_stores();", ";"))
    with pytest.raises(PropertyError, match="a bulk copy to device memory may still read"):
        check_emulated(build([hasty], tmp_path), 0, hasty, tmp_path / "run")


ROW = Path(__file__).parents[1] / "filecheck/passes/Inputs/warpgroup-row.mlir"


def test_blocks_take_several_blocks_of_the_grid(stored: Compiled, tmp_path: Path) -> None:
    module = parse(product(64, 64, 64, blocks=4, loop=5))
    case = make_case(module)
    context = make_context()
    # Three stages do not divide the iterations: each block of the grid starts at another one.
    steps = passes_as_written("sm_90a", loads="tma", stages=(3,), blocks=1)
    for step in steps:
        step.apply(context, module)
    one = Compiled(case, module, print_module(module))
    assert "place += 1, before += 5" in one.cuda
    check_emulated(build([one], tmp_path), 0, one, tmp_path / "run")


def test_blocks_of_a_cluster_bring_tiles_for_each_other(stored: Compiled, tmp_path: Path) -> None:
    # Two boxes a tile of x, which all blocks of the grid have in common.
    module = parse(ROW.read_text(encoding="utf-8"))
    case = make_case(module)
    verifying(passes_as_written("sm_90a", loads="tma", cluster=2)).apply(make_context(), module)
    one = Compiled(case, module, print_module(module))
    assert "mugraph::bulk_multicast<2>(" in one.cuda
    check_emulated(build([one], tmp_path, cluster=2), 0, one, tmp_path / "run")


def test_results_leave_in_halves_where_the_whole_does_not_fit(
    stored: Compiled, tmp_path: Path
) -> None:
    module = parse(product(64, 64, 256, blocks=3, loop=7))
    case = make_case(module)
    context = make_context()
    # Five stages of 40 KB leave no room for a tile of 32 KB.
    for step in passes_as_written("sm_90a", loads="tma", stages=(5,), blocks=2):
        step.apply(context, module)
    one = Compiled(case, module, print_module(module))
    assert one.cuda.count("mugraph::bulk_store(") == 4
    check_emulated(build([one], tmp_path), 0, one, tmp_path / "run")
    require_same_function("halves", module, case)


def test_blocks_of_a_cluster_go_on_to_other_blocks_of_the_grid(
    stored: Compiled, tmp_path: Path
) -> None:
    module = parse(product(64, 128, 64, blocks=4, loop=5))
    case = make_case(module)
    context = make_context()
    for step in passes_as_written("sm_90a", loads="tma", cluster=2, stages=(4,), blocks=3):
        step.apply(context, module)
    one = Compiled(case, module, print_module(module))
    # Three blocks are no whole clusters.
    assert "place += 2, before += 5" in one.cuda
    assert "mugraph::bulk_multicast<2>(" in one.cuda
    check_emulated(build([one], tmp_path, cluster=2), 0, one, tmp_path / "run")
