"""Results that leave by bulk copies, on the CPU: these read their buffers late, or at once."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from schedules import passes_as_written

from fuzz.emulated import MUGRAPHS, Broken
from fuzz.products import product
from fuzz.properties import Compiled, make_case, parse, require_same_function
from mugraph.codegen.cuda import print_module
from mugraph.passes.sequence import verifying
from mugraph.reading import make_context

ROW = Path(__file__).parents[1] / "filecheck/passes/Inputs/warpgroup-row.mlir"


def compiled_by(text: str, **options: object) -> Compiled:
    """A µGraph whose tiles are brought by a role of their own."""
    module = parse(text)
    case = make_case(module)
    transpile = verifying(passes_as_written("sm_90a", loads="tma", **options))
    transpile.apply(make_context(), module)
    return Compiled(case, module, print_module(module))


def for_two_devices(text: str) -> str:
    """A µGraph whose one result is stored twice."""
    (type_,) = re.findall(r"return %y : (.*)", text)
    text = re.sub(
        r"( *tb\.output .*\n)", r"\1\1", text.replace(f") -> {type_}", f") -> ({type_}, {type_})")
    )
    text = text.replace("%y = ", "%y, %z = ")
    return text.replace(f"return %y : {type_}", f"return %y, %z : {type_}, {type_}")


@pytest.fixture(scope="module")
def compiled() -> dict[str, Compiled]:
    return {
        "stored": compiled_by(product(32, 32, 128, blocks=2, loop=4), stores="tma"),
        # Three stages do not divide the iterations: each block of the grid starts at another one.
        "persistent": compiled_by(product(64, 64, 64, blocks=4, loop=5), stages=(3,), blocks=1),
        # Two boxes a tile of x, which all blocks of the grid have in common.
        "cluster": compiled_by(ROW.read_text(encoding="utf-8"), cluster=2),
        # Five stages of 40 KB leave no room for a tile of 32 KB.
        "halves": compiled_by(product(64, 64, 256, blocks=3, loop=7), stages=(5,), blocks=2),
        "halves of a sum": compiled_by(
            ROW.with_name("wide-residual.mlir").read_text(encoding="utf-8"), blocks=4
        ),
        "for two devices": compiled_by(
            for_two_devices(product(64, 64, 64, blocks=4, loop=5)), stages=(3,), blocks=1
        ),
        "halves for two devices": compiled_by(
            for_two_devices(product(64, 64, 256, blocks=3, loop=7)), stages=(5,), blocks=2
        ),
        # Three blocks are no whole clusters.
        "persistent clusters": compiled_by(
            product(64, 128, 64, blocks=4, loop=5), cluster=2, stages=(4,), blocks=3
        ),
    }


PRINTED = {
    "stored": "mugraph::bulk_store(",
    "persistent": "place += 1, first_stage += 5",
    "cluster": "mugraph::bulk_multicast<2>(",
    "halves": "mugraph::bulk_store(",
    "for two devices": "place += 1, first_stage += 5",
    "halves for two devices": "::store_columns<",
    "halves of a sum": "::store_columns<",
    "persistent clusters": "place += 2, first_stage += 5",
}
"""What the CUDA of each has if it is the kernel that is meant."""


@pytest.mark.usefixtures("needs_emulator")
def test_bulk_copies_bring_results_to_device_memory(compiled: dict[str, Compiled]) -> None:
    for name, printed in PRINTED.items():
        assert printed in compiled[name].cuda, name
    MUGRAPHS.add(*compiled.values())


def test_so_many_copies_bring_a_tile(compiled: dict[str, Compiled]) -> None:
    # One buffer leaves for both devices.
    assert compiled["for two devices"].cuda.count("mugraph::bulk_store(") == 2
    assert compiled["for two devices"].cuda.count("mugraph::wait_bulk_stores();") == 2
    # The tile is wider than a swizzled row; and then it leaves in two halves.
    for name, stores in (("stored", 2), ("halves", 4), ("halves of a sum", 4)):
        assert compiled[name].cuda.count("mugraph::bulk_store(") == stores
    assert "mugraph::bulk_multicast<2>(" in compiled["persistent clusters"].cuda


@pytest.mark.usefixtures("needs_emulator")
def test_a_copy_that_nobody_waits_for_is_an_error(compiled: dict[str, Compiled]) -> None:
    stored = compiled["stored"]
    unwaited = replace(stored, cuda=stored.cuda.replace("mugraph::wait_bulk_stores();", ";"))
    MUGRAPHS.add(Broken(unwaited, "a bulk copy to device memory may still read"))


def test_results_in_halves_are_those_of_the_interpreter(compiled: dict[str, Compiled]) -> None:
    halves = compiled["halves"]
    require_same_function("halves", halves.module, halves.case)
