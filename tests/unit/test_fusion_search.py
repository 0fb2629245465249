"""How ``--fuse-kernels`` searches: bounds, what is ruled out, and ways that are kept."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from fuzz.programs import launches_of

import mugraph.build as mi
from benchmarks.programs import PROGRAMS
from mugraph.passes.program.fuse_kernels import fuse_program, prepare_program, search
from mugraph.passes.program.fuse_kernels.choice import Found, find_kernels
from mugraph.passes.program.fuse_kernels.fusion import Fusion
from mugraph.passes.program.fuse_kernels.segments import in_segments
from mugraph.passes.program.fuse_kernels.times import in_a_program
from mugraph.passes.program.fuse_kernels.ways import Place, Step, Stretch, Ways
from mugraph.passes.targets import target_named
from mugraph.reading import make_context, parse_text
from mugraph.runtime.cuda import only_function
from mugraph.runtime.equivalence.prove import prove

TARGET = target_named("h200")
New = Callable[..., mi.DTensor]


def attention(new: New) -> mi.DTensor:
    q, k, v = new(8, 16, 64), new(8, 1024, 64), new(8, 1024, 64)
    return mi.softmax(q @ mi.transpose(k) * 0.125) @ v


def states_and_products(new: New) -> mi.DTensor:
    """A recurrence of outer products, between products that go along with it."""
    decay = mi.sigmoid(new(4, 64, 1, 1))
    states = mi.scan(new(4, 64, 32, 1) @ new(4, 64, 1, 32), decay, dim=1)
    return mi.exp(new(4, 64, 32, 32) @ states) @ new(4, 64, 32, 16)


def padded_norm(new: New) -> mi.DTensor:
    """Rows of a norm with others behind them, on both sides, and parts of that."""
    x = mi.layer_norm(new(64, 64, 512), new(512), eps=1e-5)
    x = mi.concat(x, new(64, 6, 512), 1)
    x = mi.concat(x, new(6, 70, 512), 0)
    parts = [x.graph.slice(x, (row, 0, 0), (64, 70, 512)) for row in range(1, 5)]
    return parts[0] * parts[1] + parts[2] * parts[3]


def searched(program: Callable[[New], mi.DTensor]) -> Fusion:
    """The search for the kernels of a program."""
    graph = mi.new_kernel_graph("searched")
    graph.mark_output(program(lambda *shape: graph.new_input(shape)))
    return find_kernels(only_function(graph.module()), TARGET).fusion


@pytest.mark.parametrize("program", [attention, states_and_products, padded_norm])
def test_kernels_take_no_less_than_their_bounds(program: Callable[[New], mi.DTensor]) -> None:
    fusion = searched(program)
    bounds, attempts = fusion.known.bounds, fusion.known.attempts
    both = bounds.keys() & attempts.keys()
    assert any(attempts[each].time < math.inf for each in both)
    for each in both:
        assert bounds[each] <= in_a_program(attempts[each].time, TARGET)


@pytest.mark.parametrize("element", ["f8E4M3FN", "bf16"])
def test_transposed_weights_take_what_columns_that_lie_so_take(element: str) -> None:
    rows, columns = f"tensor<12288x4096x{element}>", f"tensor<4096x12288x{element}"
    lies = f"{columns}, #cute.layout<(4096,12288):(1,4096)>>"
    seen = f"%w = kn.transpose %rows dims [1, 0] : {rows} -> {columns}>"

    def time(argument: str, view: str, type_: str) -> float:
        text = f"""
func.func @linear(%x: tensor<1x4096x{element}>, {argument} {{mugraph.constant}},
                  %s: tensor<1x12288xf32>) -> tensor<1x12288xf32> {{
  {view}
  %m = kn.matmul %x, %w : (tensor<1x4096x{element}>, {type_}) -> tensor<1x12288xf32>
  %y = kn.mul %m, %s : (tensor<1x12288xf32>, tensor<1x12288xf32>) -> tensor<1x12288xf32>
  func.return %y : tensor<1x12288xf32>
}}"""
        function = only_function(parse_text(make_context(), text, "<text>"))
        return find_kernels(function, TARGET).time

    assert time(f"%rows: {rows}", seen, f"{columns}>") == time(f"%w: {lies}", "", lies)


def test_what_is_in_no_kernel_is_in_no_larger_one() -> None:
    """A norm is known after its loop only, and its rows fit no block beside what is put to them."""
    fusion = searched(padded_norm)
    assert fusion.impossible
    whole = (1 << len(fusion.operators)) - 1
    for core in [*fusion.impossible]:
        for number in range(0, len(fusion.operators), 6):
            assert fusion.fastest(core | 1 << number).part is None
        assert fusion.fastest(core | whole).part is None
    tried = [each for each in fusion.known.attempts.values() if each.time == math.inf]
    assert len(tried) < 40


def test_groups_that_compute_the_same_are_tried_once() -> None:
    """In whatever order their operators and their results stand, and operands that may change."""
    graph = mi.new_kernel_graph("mirrored")
    x, y, z, w = (graph.new_input((64, 64)) for _ in range(4))
    first = mi.exp(x), mi.tanh(x) + z
    second = w + mi.tanh(y)
    last = mi.exp(y)
    for result in (*first, second, last):
        graph.mark_output(result)
    module = graph.module()
    written = only_function(module.clone())
    function = only_function(module)
    fusion = Fusion(function, TARGET)
    names = [op.name.removeprefix("kn.") for op in fusion.operators]
    assert names == ["exp", "tanh", "add", "tanh", "add", "exp"]
    one, alike, another = (fusion.structures.of(group) for group in (0b111, 0b111000, 0b110))
    assert one.structure == alike.structure != another.structure
    assert len(one.stored) == 2
    fuse_program(function, TARGET)
    assert launches_of(function) == 2
    assert prove(written, function).holds


def test_what_one_search_finds_another_one_of_the_same_operators_knows() -> None:
    first = searched(padded_norm)
    tried = dict(first.known.attempts)
    graph = mi.new_kernel_graph("again")
    graph.mark_output(padded_norm(lambda *shape: graph.new_input(shape)))
    function = only_function(graph.module())
    prepare_program(function)
    again = Found.of_prepared(function, TARGET, certificates=False, known=first.known)
    assert again.fusion.known.attempts == tried
    assert again.fusion.impossible
    assert again.time == sum(map(first.cost, first.choose()))


def test_a_search_that_ends_early_says_what_the_best_way_takes_at_least(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def found() -> Found:
        return find_kernels(only_function(PROGRAMS["layer_norm_linear_gelu_1"].module()), TARGET)

    best = found()
    assert best.fusion.least is None
    monkeypatch.setattr(search, "EXACT_TRIES", 0)
    monkeypatch.setattr(search, "TRIES_A_STEP", 1)
    monkeypatch.setattr(search, "GAP_A_STEP", 9.0)
    monkeypatch.setattr(search, "LARGEST_GAP", 9.0)
    early = found()
    assert early.fusion.least is not None
    assert len(early.fusion.known.attempts) < len(best.fusion.known.attempts)
    assert early.fusion.least <= best.time <= early.time <= 10 * early.fusion.least


def test_a_kernel_that_promises_much_is_tried_however_long_a_search_took() -> None:
    """A tenth of the whole program's time is no reason to leave it out."""
    graph = mi.new_kernel_graph()
    x = graph.new_input((8, 8))
    graph.mark_output(mi.exp(mi.exp(mi.exp(x))))
    operators = [op for op in only_function(graph.module()).body.block.ops if op.results]
    first, second, third, both = 0b001, 0b010, 0b100, 0b110
    costs = {first: 100.0, second: 1.2, third: 1.2, both: 8.0}
    asked: list[int] = []

    def cost(group: int) -> float:
        asked.append(group)
        return costs[group]

    searching = search.Search(
        program=in_segments(operators, apart=True),
        bound=lambda group: 100.0 if group == first else 1.0 if group in costs else math.inf,
        sharper_bound=lambda _: 0.0,
        cost=cost,
        parts=lambda _: (),
        structure=lambda group: "one" if group in (second, third) else group,
        kinds=lambda group: group.bit_count(),
        tried=lambda: 10**6,
    )
    assert searching.run() == [first, second, third]
    assert asked.index(both) < asked.index(second)
    assert searching.least is not None and searching.least <= 102.4


def test_a_kernel_whose_bound_is_nearly_its_time_is_tried_however_long_a_search_took() -> None:
    """What two products read takes most of its time: little can be saved of that, or lost."""
    graph = mi.new_kernel_graph()
    x, a, b = (graph.new_input((8, 8)) for _ in range(3))
    graph.mark_output(x @ a @ b)
    operators = [op for op in only_function(graph.module()).body.block.ops if op.results]
    first, second, both = 0b01, 0b10, 0b11
    costs = {first: 12_200.0, second: 12_200.0, both: 22_900.0}
    bounds = {first: 1_000.0, second: 1_000.0, both: 21_900.0}
    searching = search.Search(
        program=in_segments(operators, apart=True),
        bound=lambda group: bounds.get(group, math.inf),
        sharper_bound=lambda _: 0.0,
        cost=lambda group: costs[group],
        parts=lambda _: (),
        structure=lambda group: group,
        kinds=lambda group: group,
        tried=lambda: 10**6,
    )
    assert searching.run() == [both]


@pytest.mark.parametrize(("slow", "count"), [(400.0, 1), (60.0, 3)])
def test_kernels_like_slow_ones_are_left_out_of_a_long_search(slow: float, count: int) -> None:
    """One of two products is tried; others with both take a quarter of it at least."""
    graph = mi.new_kernel_graph()
    x, a, b = (graph.new_input((8, 8)) for _ in range(3))
    graph.mark_output(mi.exp(mi.exp(x @ a @ b)))
    operators = [op for op in only_function(graph.module()).body.block.ops if op.results]
    alone, chains = [0b0001, 0b0010, 0b0100, 0b1000], [0b0011, 0b0111, 0b1111]
    tried: list[int] = []

    def cost(group: int) -> float:
        tried.append(group)
        return 10.0 if group in alone else slow

    searching = search.Search(
        program=in_segments(operators, apart=True),
        bound=lambda group: 1.0 if group in (*alone, *chains) else math.inf,
        sharper_bound=lambda _: 0.0,
        cost=cost,
        parts=lambda _: (),
        structure=lambda group: group,
        kinds=lambda group: group,
        tried=lambda: 10**6,
    )
    assert searching.run() == alone
    assert sum(group in chains for group in {*tried}) == count
    assert searching.least is not None and searching.least <= 40.0


@pytest.mark.parametrize("seed", range(20))
def test_ways_that_are_kept_are_the_best_ones(seed: int) -> None:
    """Times that become known change a way as if it were looked for anew."""
    random = np.random.default_rng(seed)
    counts = [int(count) for count in random.integers(1, 4, 6)]
    times: dict[int, float] = {}

    def step(back: int, before: int) -> Step:
        group = len(times) + 1
        times[group] = float(random.integers(1, 9))
        return Step(back, before, group, 0)

    places: list[Place] = []
    for number, count in enumerate(counts):
        earlier = [(number + 1, 0)] if number < 2 else []
        earlier += [(n, p) for n in range(1, min(number, 3) + 1) for p in range(counts[number - n])]
        steps: list[list[Step]] = []
        for own in range(count):
            steps.append([step(*each) for each in [*earlier, *((0, p) for p in range(own))]])
        places.append(Place(Stretch(0, [0] * count, steps), 0))
    kept = Ways(times)
    kept.extend(places)
    for _ in range(12):
        some = random.choice(len(times), 3, replace=False) + 1
        grows = random.random() < 0.7
        kept.change({int(g): times[int(g)] + (1.0 if grows else -0.5) for g in some})
        anew = Ways(times)
        anew.extend(places)
        assert (kept.least, kept.last) == (anew.least, anew.last)
