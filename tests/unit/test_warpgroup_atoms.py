"""Instructions of warp groups as classes of a generated file."""

from __future__ import annotations

import pytest

from mugraph.codegen.cuda.cpp import Writer
from mugraph.codegen.cuda.warpgroup import print_warpgroup_atom
from mugraph.dialects.cute.atoms import mma_atom

ONE, TWO = "mma(float* d, A const& a", "mma(float* d, float* e, A const& a"


@pytest.mark.parametrize("halves", [(False,), (True,), (False, True)])
def test_an_instruction_takes_its_sums_in_every_way_that_a_file_uses(
    halves: tuple[bool, ...],
) -> None:
    """Merged products have two arrays of sums, and others of the same file may have one."""
    writer = Writer()
    print_warpgroup_atom(mma_atom("SM90_64x128x16_F32BF16BF16_SS"), writer, halves)
    text = writer.text()
    assert text.count("struct SM90_64x128x16_F32BF16BF16_SS") == 1
    assert (text.count(ONE), text.count(TWO)) == (halves.count(False), halves.count(True))
    assert text.count("template <class A, class B>") == len(halves)
