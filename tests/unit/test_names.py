"""C++ identifiers: legal, distinct, and never a word that C++ or the generated code uses."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import f16
from xdsl.ir import Block

from mugraph.codegen.cuda.names import Names, sanitize


@pytest.mark.parametrize(
    ("name", "identifier"),
    [
        ("x", "x"),
        ("dx_tile", "dx_tile"),
        ("0", "v0"),
        ("a b;}", "a_b"),
        ("__x__", "x"),  # reserved for implementations
        ("_X", "X"),
        ("a__b", "a_b"),
        ("", "v"),
        ("µ", "v"),
        ("float", "float_v"),
        ("it", "it_v"),
        ("smem", "smem_v"),
        ("A", "A_v"),
        ("Target", "Target_v"),
        ("Source1", "Source1_v"),
        ("i0", "i0_v"),  # of a loop over batches
        ("NULL", "NULL_v"),
        ("USE_NVSHMEM", "USE_NVSHMEM_v"),
        ("errno", "errno_v"),
        ("X", "X"),
    ],
)
def test_sanitize(name: str, identifier: str) -> None:
    assert sanitize(name) == identifier


@given(st.text())
def test_any_text_becomes_an_identifier(name: str) -> None:
    identifier = sanitize(name)
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", identifier)
    assert "__" not in identifier


@given(st.lists(st.sampled_from(["x", "x 1", "x_1", "x_", "1", "", "int", "int_v"])))
def test_no_identifier_is_handed_out_twice(wishes: list[str]) -> None:
    names = Names()
    given_out = [names.fresh(wish) for wish in wishes]
    assert len(set(given_out)) == len(given_out)


def test_a_value_keeps_its_identifier() -> None:
    block = Block(arg_types=[f16, f16, f16])
    block.args[0].name_hint = block.args[1].name_hint = "x"
    names = Names()
    assert [names.of(block.args[index]) for index in (0, 1, 2, 0, 1)] == [
        *("x", "x_1", "v"),
        *("x", "x_1"),
    ]
