"""``mg-viz memory``: what a picture of a plan shows, and that it is SVG."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mugraph.passes.memory.lifetimes import Lifetime
from mugraph.tools.memory_picture import Box, MemoryChart, memory_charts, to_svg
from mugraph.tools.memory_plans import kernels_of, planned_module
from mugraph.tools.mg_viz import main
from mugraph.tools.schedule_chart import schedule_chart

ROOT = Path(__file__).parents[2]
EXAMPLE = str(ROOT / "examples" / "attention_split_kv.mlir")
PLANNED = str(ROOT / "tests" / "filecheck" / "passes" / "plan-stensor-memory.mlir")


def test_charts_say_what_the_plan_says() -> None:
    charts = memory_charts(planned_module(EXAMPLE, "sm_90a"))
    assert [chart.title.split(" of ")[0] for chart in charts] == [
        "workspace",
        "shared memory",
        "shared memory",
        "shared memory",
    ]
    for chart in charts:
        ends = [box.offset + box.size for box in chart.boxes]
        # Mbarriers at the end fill no whole line.
        assert 0 <= chart.peak - max(ends) < 128
        assert all(box.life.last < len(chart.columns) for box in chart.boxes)
        assert chart.bound is not None
        assert max(chart.load(column) for column in range(len(chart.columns))) <= chart.bound
    assert any("before + loop" in column for column in charts[1].columns)


def test_a_schedule_without_offsets_is_planned_and_bytes_in_place_count_once() -> None:
    charts = memory_charts(planned_module(PLANNED, "sm_90a"))
    in_place = next(chart for chart in charts if "@in_place" in chart.title)
    assert [box.offset for box in in_place.boxes][:2] == [0, 0]
    assert in_place.boxes[0].life.overlaps(in_place.boxes[1].life)
    assert in_place.load(1) == in_place.peak == 512


def test_the_picture_is_svg_with_every_buffer_and_the_bound(tmp_path: Path) -> None:
    path = tmp_path / "plan.svg"
    assert main(["memory", EXAMPLE, "-o", str(path), "--arch", "sm_80"]) == 0
    root = ElementTree.parse(path).getroot()
    texts = [node.text or "" for node in root.iter() if node.tag.endswith("text")]
    for name in ("%sk", "%sv", "%parts"):
        assert any(text.startswith(name) for text in texts)
    assert sum("optimal" in text for text in texts) == 4
    assert texts.count("lower bound") == 4
    assert any("166,912" in text for text in texts)  # what a block of sm_80 has


def test_a_plan_that_misses_its_bound_says_by_how_much() -> None:
    boxes = [
        Box("%a<b", "8xf16", 0, 90, Lifetime(0, 0)),
        Box("%c", "8xf16", 90, 10, Lifetime(0, 1)),
    ]
    chart = MemoryChart("plan", boxes, ["", ""], 100, 90, "greedy")
    assert chart.verdict() == "peak 100 bytes, bound 90, at most 10.0 % from optimal (greedy)"
    svg = to_svg([chart])
    assert "%a&lt;b" in svg
    colours = set(re.findall(r'fill="(#[0-9a-f]{6})" fill-opacity', svg))
    assert len(colours) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["memory", "nothing.mlir"], "nothing.mlir"),
        (["memory", EXAMPLE, "--arch", "sm_1"], "unknown architecture 'sm_1'"),
        (["memory", EXAMPLE, "-o", "plan.tex"], "SVG only"),
    ],
)
def test_mistakes_are_one_message(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 1
    printed = capsys.readouterr().err
    assert printed.startswith("mg-viz: ")
    assert message in printed
    assert "Traceback" not in printed


def test_what_has_no_name_is_called_by_its_type(tmp_path: Path) -> None:
    """All of it, so that the rows of the table differ."""
    numbers: dict[str, str] = {}
    text = re.sub(
        r"%[a-z]\w*",
        lambda name: numbers.setdefault(name[0], f"%{len(numbers)}"),
        Path(EXAMPLE).read_text(),
    )
    path = tmp_path / "nameless.mlir"
    path.write_text(text)
    module = planned_module(str(path), "sm_90a")
    labels = [box.label for chart in memory_charts(module) for box in chart.boxes]
    assert "2x16x256xf16" in labels and not any("result of" in label for label in labels)
    boxes = [box for kernel in kernels_of(module) for box in schedule_chart(kernel).boxes]
    assert any(re.fullmatch(r"store [\dx]+xf16", box.label) for box in boxes)
    assert not any("result of" in box.label for box in boxes)
