"""Pictures: what is in the cells, and that both formats hold all of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from mugraph.dialects.cute import Layout, LayoutError, parse_layout
from mugraph.dialects.cute.atoms import copy_atom
from mugraph.dialects.cute.pictures import (
    banks_picture,
    copy_picture,
    layout_picture,
    mma_picture,
    picture_of,
    swizzle_picture,
    tv_picture,
)
from mugraph.dialects.cute.tiled import TiledMma, make_tiled_copy, make_tiled_copy_for
from mugraph.tools.mg_viz import main

SVG = "{http://www.w3.org/2000/svg}"


def texts(panel: Any) -> list[list[str]]:
    return [["".join(cell.lines) for cell in row] for row in panel.cells]


def test_a_layout_is_its_grid() -> None:
    picture = layout_picture(parse_layout("(4,(2,2)):(2,(1,8))"))
    assert texts(picture.panels[0]) == [
        [str(index) for index in row]
        for row in ([0, 1, 8, 9], [2, 3, 10, 11], [4, 5, 12, 13], [6, 7, 14, 15])
    ]
    assert texts(layout_picture(Layout(4)).panels[0]) == [["0", "1", "2", "3"]]


def test_colours_say_bank_and_thread() -> None:
    by_bank = layout_picture(parse_layout("(2,64):(64,1)"), "bank", 16).panels[0].cells
    assert by_bank[0][0].fill == by_bank[0][1].fill == by_bank[1][0].fill
    assert len({cell.fill for cell in by_bank[0]}) == 32
    by_thread = layout_picture(Layout((4, 8)), "thread").panels[0].cells
    assert len({cell.fill for row in by_thread for cell in row}) == 32


def test_an_mma_is_three_tables() -> None:
    picture = mma_picture(TiledMma("SM80_16x8x16_F32F16F16F32_TN"))
    a, b, c = picture.panels
    assert [len(p.cells) for p in (a, b, c)] == [16, 16, 16]
    assert texts(a)[0][:4] == ["T0V0", "T0V1", "T1V0", "T1V1"] and texts(a)[8][0] == "T0V2"
    assert texts(b)[0][:3] == ["T0V0", "T4V0", "T8V0"], "B is drawn K x N"
    assert texts(c)[1][0] == "T4V0"
    volta = mma_picture(TiledMma("SM70_8x8x4_F32F16F16F32_NT"))
    assert texts(volta.panels[2])[4][0] == "T16V0", "lanes, not logical threads"
    shared = mma_picture(TiledMma("SM90_16x8x4_F64F64F64F64_TN", (2, 2)))
    assert texts(shared.panels[0])[0][0] == "T0+V0", "threads of two warps share A"


def test_a_copy_is_two_tables() -> None:
    reads, writes = copy_picture(copy_atom("SM75_U32x4_LDSM_N")).panels
    assert texts(reads)[1] == [f"T1V{value}" for value in range(8)]
    assert texts(writes)[1][:3] == ["T4V0", "T4V1", "T5V0"]


def test_a_tiled_copy_is_two_tables_of_its_tile() -> None:
    tiled = make_tiled_copy("UniversalCopy_U32", 16, Layout((4, 2), (2, 1)), Layout((1, 2)))
    for panel in picture_of(tiled).panels:
        assert texts(panel)[1] == ["T2V0", "T2V1", "T3V0", "T3V1"]
    mma = TiledMma("SM80_16x8x16_F32F16F16F32_TN")
    reads, writes = picture_of(make_tiled_copy_for("SM75_U32x4_LDSM_N", 16, mma, "A")).panels
    assert texts(reads)[1][:3] == ["T1V0", "T1V1", "T1V2"]
    assert texts(writes)[1][:3] == ["T4V0", "T4V1", "T5V0"]


def test_swizzles_before_and_after() -> None:
    picture = swizzle_picture(parse_layout("S<2,0,2> o (4,4):(4,1)"))  # type: ignore[arg-type]
    before, after = picture.panels
    assert texts(before)[1] == ["4", "5", "6", "7"] and texts(after)[1] == ["5", "4", "7", "6"]


def test_bank_conflicts_are_counted() -> None:
    layout = parse_layout("S<3,3,3> o (8,64):(64,1)")
    picture = banks_picture(layout, Layout((8, 8), (1, 8)), 16)
    captions = [panel.caption for panel in picture.panels]
    assert "8-way conflicts" in captions[1] and "no conflicts" in captions[3]
    assert texts(picture.panels[1])[0] == ["8"] * 4 + [""] * 28
    assert texts(picture.panels[3])[0] == ["1"] * 32
    with pytest.raises(LayoutError, match="not one vector"):
        banks_picture(Layout((8, 64)), Layout((8, 8), (1, 8)), 16)


def test_both_formats_hold_every_cell() -> None:
    for picture in (
        tv_picture(parse_layout("((4,8),(2,2)):((32,1),(16,8))"), (16, 8)),
        picture_of(parse_layout("S<2,0,2> o (4,4):(4,1)")),
        picture_of(parse_layout("(4,8):(1@0,1@1)")),
        picture_of(TiledMma("SM80_8x8x4_F64F64F64F64_TN")),
    ):
        svg, latex = picture.to_svg(), picture.to_latex()
        root = ElementTree.fromstring(svg)
        cells = sum(len(row) for panel in picture.panels for row in panel.cells)
        assert len(root.findall(f".//{SVG}rect")) == cells + 1, "cells and the background"
        drawn = [element.text for element in root.findall(f".//{SVG}text")]
        for panel in picture.panels:
            for row in panel.cells:
                for cell in row:
                    assert all(line in drawn for line in cell.lines)
        assert latex.count(r"\draw[fill=c]") == cells
        assert latex.count("{") == latex.count("}")


def test_jupyter_shows_values() -> None:
    for value in (
        parse_layout("(4,8):(8,1)"),
        parse_layout("S<2,0,2> o (4,4):(4,1)"),
        TiledMma("SM80_8x8x4_F64F64F64F64_TN"),
        layout_picture(Layout((4, 8))),
    ):
        assert value._repr_svg_().startswith("<?xml")  # type: ignore[union-attr]
    assert Layout((1024, 1024))._repr_svg_() is None, "too large to draw"


def test_too_large_pictures_say_so() -> None:
    with pytest.raises(LayoutError, match="Take a tile or a slice"):
        layout_picture(Layout((1024, 1024)))
    with pytest.raises(LayoutError, match="outside the tile"):
        tv_picture(Layout((4, 4)), (2, 2))


@pytest.mark.parametrize(
    "arguments",
    [
        ["layout", "(4,(2,2)):(2,(1,8))"],
        ["layout", "(4,8):(8,1)", "--color", "thread"],
        ["tv", "((4,8),(2,2)):((32,1),(16,8))", "(16,8)"],
        ["mma", "SM80_16x8x16_F32F16F16F32_TN"],
        ["mma", "SM90_16x8x4_F64F64F64F64_TN", "--atoms", "(2,2)", "--permutation",
         "<(8,2,2):(2,1,16)>"],
        ["mma", "SM100_64x8x16_F32F16F16_SS"],
        ["copy", "SM75_U32x4_LDSM_N"],
        ["copy", "UniversalCopy_U64", "--threads", "(4,2):(2,1)", "--values", "(1,4)"],
        ["swizzle", "S<3,3,3> o (8,64):(64,1)"],
        ["banks", "S<3,3,3> o (8,64):(64,1)", "(8,8):(1,8)"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)  # fmt: skip
def test_the_command_draws(arguments: list[str], tmp_path: Path) -> None:
    svg, tex = tmp_path / "picture.svg", tmp_path / "picture.tex"
    assert main([*arguments, "-o", str(svg)]) == 0 and main([*arguments, "-o", str(tex)]) == 0
    ElementTree.parse(svg)
    assert tex.read_text().rstrip().endswith(r"\end{document}")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["layout", "(4,8"], "Expected ')'"),
        (["layout", "S<1,0,1>"], "Expected a layout"),
        (["mma", "SM80_16x8x16"], "There is no MMA atom"),
        (["mma", "FMA"], "There are UniversalFMA_*, SM61_DP4A, SM70_8x8x4_*, SM80_16x8x8_*"),
        (["mma", "SM90_64x8x16"], "SM90_64x8x16_F32F16F16_SS or SM90_64x8x16_F32F16F16_RS"),
        (["copy", "SM75"], "There is no copy atom"),
        (["swizzle", "(4,8):(8,1)"], "Expected a swizzled layout"),
        (["banks", "(8,64):(64,1)", "8:1"], "two modes, (lane, value)"),
        (["layout", "(4,8)", "-o", "picture.gif"], ".svg or .tex"),
        (["layout", "(4,8)", "-o", "no/such/folder/picture.svg"], "No such file"),
        (["layout", "(4,8)", "--bits", "0"], "bits of an element"),
        (["tv", "(4,2)", "4:1"], "Expected extents"),
        (["tv", "(4,2)", "(2,2)"], "outside the tile"),
        (["mma", "SM61_DP4A", "--atoms", "(0,1)"], "Expected extents"),
        (["mma", "SM61_DP4A", "--permutation", "(8,S<1,0,1>)"], "Expected a permutation"),
        (["copy", "UniversalCopy_U32", "--threads", "(4,2):(1,1)"], "must give every number"),
        (["copy", "SM75_U32x1_LDSM_N", "--bits", "64"], "does not move elements of 64 bits"),
        (["layout", "(4,8)", "--bits", "x"], "mg-viz layout --help explains the arguments"),
        (["drawing"], "invalid choice: 'drawing'"),
        (["memory", "no-such.mlir"], "mg-viz: error: no-such.mlir: No such file or directory"),
        (["banks", "(8,8):(8,1)", "(32,64):(64,1)"], "0, 8, 16, 24, 32, 40, 48, 56 ..., which"),
    ],
)
def test_the_command_explains_errors(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 1
    assert words in capsys.readouterr().err
