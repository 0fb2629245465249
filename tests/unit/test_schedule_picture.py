"""``mg-viz schedule``: lanes, columns, what waits for what, and the stages of rings."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from mugraph.tools.memory_plans import kernels_of, planned_module
from mugraph.tools.mg_viz import main
from mugraph.tools.schedule_chart import Arrow, Box, Kind, ScheduleChart, schedule_chart

ROOT = Path(__file__).parents[2]
ONE_LANE = ROOT / "examples" / "rmsnorm_linear.mlir"
ROLES = ROOT / "examples" / "rmsnorm_in_loop.mlir"
SEVERAL = ROOT / "examples" / "attention_split_kv.mlir"


def charts(path: Path, arch: str = "sm_90a") -> list[ScheduleChart]:
    return [schedule_chart(kernel) for kernel in kernels_of(planned_module(str(path), arch))]


@pytest.fixture(scope="module")
def roles(tmp_path_factory: pytest.TempPathFactory) -> ScheduleChart:
    """A producer and consumers, 32 iterations, five stages."""
    path = tmp_path_factory.mktemp("schedules") / "long.mlir"
    text = ROLES.read_text().replace("1024", "4096").replace("forloop 8", "forloop 32")
    path.write_text(text)
    return charts(path)[0]


def labels(chart: ScheduleChart, lane: int, column: int) -> list[str]:
    boxes = [box for box in chart.boxes if (box.lane, box.column) == (lane, column)]
    return [box.label for box in sorted(boxes, key=lambda box: box.slot)]


def arrows_to(chart: ScheduleChart, label: str, column: int) -> list[tuple[Box, Arrow]]:
    return [
        (chart.boxes[arrow.source], arrow)
        for arrow in chart.arrows
        if chart.boxes[arrow.target].label == label and chart.boxes[arrow.target].column == column
    ]


def test_a_block_without_roles_is_one_lane_and_waits_for_its_groups() -> None:
    (chart,) = charts(ONE_LANE, "sm_80")
    assert list(chart.lanes) == ["the block"]
    assert [column.title.split(",")[0] for column in chart.columns] == [
        "prologue",
        "iteration 0 of 32",
        "iteration k",
        "iteration 31 of 32",
        "epilogue",
    ]
    assert [column.steady for column in chart.columns] == [False, False, True, False, False]
    first, copy = labels(chart, 0, 2)[0], labels(chart, 0, 2)[2]
    assert (first, copy) == ("wait 1", "cp.async sx, sw")
    # Iteration 0 waits for the first of the two groups before the loop.
    ((source, arrow),) = arrows_to(chart, "wait 1", 1)
    assert (source.column, source.details, arrow.distance) == (0, ("commit", "tile 0"), 0)
    ((source, arrow),) = arrows_to(chart, "wait 1", 2)
    assert (source.column, source.details, arrow.distance) == (2, ("commit", "tile k+2"), 2)
    (last,) = [box for box in chart.boxes if box.label == "wait 1" and box.column == 3]
    assert last.waits_outside == "commit in iteration 29"
    # The last iterations copy nothing, and close groups with nothing in them.
    assert "cp.async sx, sw" not in labels(chart, 0, 3)
    assert "commit" in labels(chart, 0, 3)


def test_roles_are_lanes_and_wait_for_each_other(roles: ScheduleChart) -> None:
    assert list(roles.lanes) == ["the block", "consumers (2 warps)", "producer (one thread)"]
    assert [column.title.split(",")[0] for column in roles.columns] == [
        "before",
        "prologue",
        "iteration 0 of 32",
        "iteration k",
        "iteration 31 of 32",
        "epilogue",
    ]
    ((source, arrow),) = arrows_to(roles, "consume ring", 2)
    assert (source.lane, source.column, source.label) == (2, 1, "TMA sx")
    assert source.details == ("publish ring", "tile 0, stage 0")
    assert (arrow.label, arrow.distance) == ("ring 0", 0)
    ((source, arrow),) = arrows_to(roles, "consume ring", 3)
    assert (source.lane, source.column, arrow.label, arrow.distance) == (2, 3, "ring 0", 9)
    # Consumers release a tile an iteration later, so the producer waits for the one after its own.
    ((source, arrow),) = arrows_to(roles, "acquire ring", 3)
    assert (source.lane, source.label, source.details) == (
        1,
        "release ring",
        ("tile k-1, stage 8",),
    )
    assert (arrow.label, arrow.distance) == ("ring 0", -1)
    # The producer has done all its copies before the last iteration.
    assert not labels(roles, 2, 4)


def test_barriers_stand_in_the_lanes_that_arrive(roles: ScheduleChart) -> None:
    barriers = [box for box in roles.boxes if box.kind is Kind.BARRIER]
    arriving = {box.column: list(roles.arriving(box)) for box in barriers}
    assert arriving == {0: [0, 1, 2], 2: [1], 3: [1], 4: [1], 5: [1]}


def test_what_waits_in_a_column_stands_behind_what_it_waits_for(roles: ScheduleChart) -> None:
    exact = [arrow for arrow in roles.arrows if not arrow.distance]
    ends = [(roles.boxes[arrow.source], roles.boxes[arrow.target]) for arrow in exact]
    assert any(source.column == target.column for source, target in ends)
    assert all((s.column, s.slot) < (t.column, t.slot) for s, t in ends)
    places = [(box.lane, box.column, box.slot) for box in roles.boxes]
    assert len(set(places)) == len(places)


def test_a_stage_holds_one_tile_at_a_time(roles: ScheduleChart) -> None:
    ring, _, once = roles.rings
    assert (ring.label, ring.stages, once.stages) == ("ring", 9, 1)
    steady = [fill for fill in ring.fills if fill.column == 3]
    by_stage = {stage: [f.label for f in steady if f.stage == stage] for stage in range(9)}
    ahead = {stage: [f"k+{stage}"] for stage in range(1, 8)}
    assert by_stage == {0: ["k"], **ahead, 8: ["k-1", "k+8"]}
    out, into = (fill for fill in steady if fill.stage == 8)
    assert out.last is not None and into.first is not None and out.last < into.first
    # What is loaded once stays.
    assert [fill.label for fill in once.fills] == ["0"] * 5


def test_ping_pong_waits_for_the_role_before(tmp_path: Path) -> None:
    text = (ROOT / "tests/filecheck/dialects/sched/order-barrier.mlir").read_text()
    text = text.replace("stages 2 :", "stages 2 offset 0 :").replace("%a :", "%a offset 512 :", 1)
    path = tmp_path / "ping-pong.mlir"
    path.write_text(text)
    chart = charts(path)[0]
    waits = [arrow for arrow in chart.arrows if arrow.label == "block before"]
    taken = {(chart.boxes[a.source].lane, chart.boxes[a.target].lane) for a in waits}
    first, second = (number for number, lane in enumerate(chart.lanes) if ", ping-pong" in lane)
    assert taken == {(first, second), (second, first)}
    assert "blocks of the grid" in chart.title


def test_products_behind_the_program_are_waited_for_one_by_one(tmp_path: Path) -> None:
    text = (ROOT / "tests/filecheck/passes/Inputs/warpgroup-attention.mlir").read_text()
    path = tmp_path / "attention.mlir"
    path.write_text(text.replace("forloop 8 {", "forloop 8 plan <tiles = written, loads = tma> {"))
    chart = charts(path)[0]
    # The product of the iteration before comes second: in the first one it has nothing in it.
    for column, details in ((2, ("nothing in it",)), (3, ())):
        ((scores, _),) = arrows_to(chart, "wait wgmma 1", column)
        assert (scores.label, scores.column, scores.details) == ("wgmma scores", column, ())
        ((numerator, _),) = arrows_to(chart, "wait wgmma 0", column)
        assert (numerator.label, numerator.details) == ("wgmma numerator", details)


def test_a_loop_without_a_steady_state_says_so() -> None:
    (chart,) = charts(ROLES)
    assert [column.title for column in chart.columns if column.title.startswith("iter")] == [
        "iteration 0 of 8",
        "iteration 1 of 8",
        "iteration 7 of 8",
    ]
    assert not any(column.steady for column in chart.columns)


def test_the_picture_is_svg_of_all_kernels_or_of_one(tmp_path: Path) -> None:
    path = tmp_path / "schedule.svg"
    assert main(["schedule", str(SEVERAL), "-o", str(path)]) == 0
    root = ElementTree.parse(path).getroot()
    texts = [node.text or "" for node in root.iter() if node.tag.endswith("text")]
    assert sum(text.startswith("schedule of @attention_split_kv_custom") for text in texts) == 3
    one = ["schedule", str(SEVERAL), "--kernel", "attention_split_kv_custom1", "-o", str(path)]
    assert main(one) == 0
    assert path.read_text().count("schedule of @") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.mlir"], "nothing.mlir"),
        ([str(ONE_LANE), "--arch", "sm_1"], "unknown architecture 'sm_1'"),
        ([str(ONE_LANE), "-o", "plan.tex"], "Schedules are drawn as SVG only"),
        (
            [str(ONE_LANE), "--kernel", "other"],
            "There is no kernel 'other'; the module has 'rmsnorm_linear_custom0'.",
        ),
        (
            [str(ROOT / "examples" / "texpr" / "softmax.te")],
            "softmax.te is a tensor expression; mg-viz draws memory and schedules of µGraphs.",
        ),
    ],
)
def test_mistakes_are_one_message(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schedule", *arguments]) == 1
    printed = capsys.readouterr().err
    assert printed.startswith("mg-viz: ")
    assert message in printed
    assert "Traceback" not in printed
