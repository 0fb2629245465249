"""mg-layout: the result alone on the first line, then the explanation; errors with a caret."""

from __future__ import annotations

import random

import pytest

from mugraph.dialects.cute import NotationError
from mugraph.tools.mg_layout import OPERATIONS, evaluate, explain, main


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("composition((6,2):(8,2), (4,3):(3,1))", "((2,2),3):((24,2),8)"),
        ("(6,2):(8,2) o (4,3):(3,1)", "((2,2),3):((24,2),8)"),
        ("composition(20:2, (5,4):(4,1))", "(5,4):(8,2)"),
        ("S<3,3,3> o (8,64):(64,1)", "S<3,3,3> o (8,64):(64,1)"),
        ("Sw<2,0,2> o _4 o (_4,_4):(_4,_1)", "S<2,0,2> o 4 o (4,4):(4,1)"),
        ("composition(S<3,3,3>, (8,64):(64,1))", "S<3,3,3> o (8,64):(64,1)"),
        ("S<1,0,2> o S<1,1,2>", "S<2,0,2>"),
        ("coalesce((2,(1,6)):(1,(6,2)))", "12:1"),
        ("coalesce((2,(1,6)):(1,(6,2)), (1,1))", "(2,6):(1,2)"),
        ("complement(4:2, 24)", "(2,3):(1,8)"),
        ("complement((2,2):(1,6))", "3:2"),
        ("right_inverse((4,8):(8,1))", "(8,4):(4,1)"),
        ("left_inverse((4,8):(1,5))", "(5,8):(1,4)"),
        ("logical_divide((4,2,3):(2,1,8), 4:2)", "((2,2),(2,3)):((4,1),(2,8))"),
        (
            "zipped_divide((9,(4,8)):(59,(13,1)), <3:3,(2,4):(1,8)>)",
            "((3,(2,4)),(3,(2,2))):((177,(13,2)),(59,(26,1)))",
        ),
        ("zipped_divide((8,8), (4,2))", "((4,2),(2,4)):((1,8),(4,16))"),
        ("flat_divide((8,8), (4,2))", "(4,2,2,4):(1,8,4,16)"),
        ("logical_product((2,2):(4,1), 6:1)", "((2,2),(2,3)):((4,1),(2,8))"),
        ("blocked_product((2,5):(5,1), (3,4):(1,3))", "((2,3),(5,4)):((5,10),(1,30))"),
        ("raked_product((2,5):(5,1), (3,4):(1,3))", "((3,2),(4,5)):((10,5),(30,1))"),
        ("blocked_product(2:1, 6:1)", "((2,6)):((1,2))"),
        ("raked_product(2:1, 6:1)", "((6,2)):((2,1))"),
        ("blocked_product((4):(2), 8:1)", "((4,(2,4))):((2,(1,8)))"),
        ("raked_product((4):(2), 8:1)", "(((2,4),(4))):(((1,8),(2)))"),
        ("left_inverse(composition(S<3,0,3>, 8:32))", "S<0,0,0> o (32,8):(0,1)"),
        ("tile_to_shape((2,2):(1,2), (8,8))", "((2,4),(2,4)):((1,4),(2,16))"),
        ("tile_to_shape((2,2):(1,2), (8,8), (1,0))", "((2,4),(2,4)):((1,16),(2,4))"),
        ("make_layout(4:1, 8:4)", "(4,8):(1,4)"),
        ("make_ordered_layout((4,8,2), (1,0,2))", "(4,8,2):(8,1,32)"),
        ("make_identity_layout((2,3))", "(2,3):(1@0,1@1)"),
        ("slice((3,_), (8,(2,2)):(2,(1,16)))", "((2,2)):((1,16))"),
        ("slice_and_offset((5,(_,1)), (8,(2,2)):(2,(1,16)))", "<(2):(1),26>"),
        ("crd2idx((1,(0,1)), (8,(2,2)):(2,(1,16)))", "18"),
        ("idx2crd(17, (8,(2,2)))", "(1,(0,1))"),
        ("crd2crd((1,2), (8,4), (8,(2,2)))", "(1,(0,1))"),
        ("recast_layout((8,4):(1,8), 16, 32)", "(4,4):(1,4)"),
        ("max_common_vector((8,4):(1,8), (8,4):(1,16))", "8"),
        ("get((4,(2,2)):(2,(1,8)), 1, 0)", "2:1"),
        ("size((4,(2,2)))", "16"),
        ("cosize((4,8):(1,5))", "39"),
        ("compatible(24, (4,6))", "true"),
        ("congruent(24, (4,6))", "false"),
        ("shape_div((4,5,6), 40)", "(1,1,3)"),
    ],
)
def test_results(expression: str, result: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([expression]) == 0
    assert capsys.readouterr().out.splitlines()[0] == result
    assert main(["--quiet", expression]) == 0
    assert capsys.readouterr().out == result + "\n"


def test_explanation(capsys: pytest.CaptureFixture[str]) -> None:
    main(["(4,8):(8,1)"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:5] == [
        "domain     (4,8): 4 x 8, 32 coordinates",
        "codomain   [0, 32)",
        "injective  yes, a permutation of [0, 32)",
        "image      0 ... 31, all 32",
    ]
    assert lines[6].split() == ["0", "1", "2", "3", "4", "5", "6", "7"]
    main(["(4,2):(0,3)"])
    text = capsys.readouterr().out
    assert "no: 8 coordinates, 2 indices" in text
    main(["8:4"])
    assert "in steps of 4: 8" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("expression", "injective"),
    [
        # Neither do strides nest, nor can all coordinates be counted.
        ("coalesce((100000000000000000000,2):(1,3))", "no"),
        ("(10000000000,10000000000):(10000000000,10000000001)", "yes"),
        ("(10000000000,10000000000,1000):(10000000000,10000000001,37)", "no"),
        ("(99999999999,99999999999,99999999999,2):(100,101,10200000000000000,1)", "no"),
        (
            "(1000000,1000000,1000000):"
            "(98765432109876543210987654321,31415926535897932384626433832,27182818284590452353602)",
            "not known, the layout is too large",
        ),
    ],
)
def test_large_layouts_are_explained_without_counting(
    expression: str, injective: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([expression]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"injective  {injective}"


@pytest.mark.parametrize(
    ("expression", "position", "words"),
    [
        ("compositoin(4:1,4:1)", 0, "did you mean composition"),
        ("frobnicate(4:1)", 0, "mg-layout --list"),
        ("composition(4:1 4:1)", 16, "Expected ',' or ')'"),
        ("coalesce(4:1, (1), 5)", 0, "takes 1 or 2 arguments"),
        ("coalesce(S<1,0,1>)", 9, "Expected a layout, found S<1,0,1>"),
        ("upcast(4:1, 2:1)", 12, "Expected an integer"),
        ("composition((4,6):(1,8), 2:6)", 0, "stride divisibility"),
        ("(4,8):(8,1", 10, "found the end"),
        ("(4,8):(8,1) x", 12, "end of the expression"),
        ("4 o 4:1", 0, "An offset stands between"),
        ("stride(S<1,0,1> o 4:1)", 0, "no strides"),
        ("get(4:1, 3)", 0, "no mode 3"),
        ("size(_)", 5, "Expected a layout, found _"),
        ("", 0, "Expected an integer"),
        ("S<3,100000000000000000000,3> o 8:1", 0, "at most 64 together"),
        ("(2,1" + 1001 * "0" + ")", 3, "at most 1000 digits"),
    ],
)
def test_errors_point_at_the_character(
    expression: str, position: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([expression]) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("mg-layout: ")
    assert words in captured.err, captured.err
    assert captured.err.splitlines()[-1] == "  " + " " * position + "^", captured.err


def test_an_expression_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 1
    assert capsys.readouterr().err == (
        "mg-layout: error: give an expression, or --list; mg-layout --help explains the "
        "arguments.\n"
    )


def test_list_names_every_operation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    output = capsys.readouterr().out
    assert all(f"{name}(" in output for name in OPERATIONS)


def test_evaluate_is_usable_as_a_function() -> None:
    assert str(evaluate("right_inverse((4,8):(8,1))")) == "(8,4):(4,1)"


POOL = (
    "4:1",
    "(4,8):(8,1)",
    "(8,(2,2)):(2,(1,16))",
    "(4,(2,2))",
    "(6,5):(5,0)",
    "8:-2",
    "((2)):((3))",
    "(1,1)",
    "()",
    "0",
    "-3",
    "S<2,0,2>",
    "S<2,0,2> o (4,4):(4,1)",
    "S<1,1,-2> o 3 o (8,8):(1,8)",
    "make_identity_layout((4,8))",
    "<2:1,_>",
    "<2,4>",
    "(_,1)",
    "_",
    "3",
    "2",
    "(1,0)",
)


def test_no_expression_is_a_traceback() -> None:
    """Whatever is given to an operation, it has a value or an error with its place."""
    rng = random.Random(0)
    values = errors = 0
    for name, operation in OPERATIONS.items():
        for _attempt in range(400):
            count = len(operation.kinds) - rng.randint(0, operation.optional)
            arguments = ", ".join(rng.choice(POOL) for _argument in range(count))
            try:
                value = evaluate(f"{name}({arguments})")
                explain(value)
                values += 1
            except NotationError:
                errors += 1
    assert values > 500 and errors > 500, (values, errors)
