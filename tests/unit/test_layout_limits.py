"""Layouts of large graphs: what is counted stays within limits, and what is said of it holds."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from thorough import inputs
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.parser import Parser

from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.layout_problem import LayoutProblem
from mugraph.passes.mugraph.decompose_threadblock import DecomposeThreadblockPass
from mugraph.passes.mugraph.fuse_threadblock import FuseThreadblockPass
from mugraph.passes.mugraph.resolve_layout import (
    ResolveLayoutPass,
    access_work,
    exact,
    layout_problem_of,
)
from mugraph.passes.mugraph.resolve_layout.apply_layouts import CERTIFICATE
from mugraph.passes.mugraph.resolve_layout.domains import domains_of
from mugraph.passes.mugraph.resolve_layout.solution import price_of
from mugraph.passes.mugraph.resolve_layout.solve import Solution, solve, solve_with_bounds
from mugraph.passes.targets import target_named
from mugraph.reading import make_context

Shape = tuple[int, ...]
KINDS = {
    "chain": ("exp", "add", "broadcast", "matmul", "reduction"),
    "tree": ("exp", "add", "broadcast", "matmul", "reduction"),
    "fan": ("exp", "add", "broadcast", "matmul", "reduction"),
    "shared": ("matmul", "matmul", "add"),
    "pieces": ("split", "concat", "concat", "add"),
    "mixed": ("exp", "add", "broadcast", "matmul", "reduction", "split", "concat"),
}
"""How graphs hang together, and what their operators are."""


def tile(shape: Shape) -> str:
    return f"!tb.stensor<{'x'.join(map(str, shape))}xf16>"


class Graph:
    """A random threadblock graph of tiles of some ranks, as text."""

    def __init__(self, kind: str, operators: int, seed: int, ranks: Sequence[int]) -> None:
        self.kind = kind
        self.random = Random(seed)
        self.ranks = ranks
        self.lines: list[str] = []
        self.tensors: list[str] = []
        self.values: list[tuple[str, Shape]] = []
        self.unused: list[tuple[str, Shape]] = []
        for _ in range(3):
            self.add_input(self.draw_shape())
        while len(self.lines) < operators:
            self.add_operator(self.random.choice(KINDS[kind]), *self.draw_value())

    def draw_shape(self) -> Shape:
        draw = self.random.choice
        lead = (draw((1, 2, 3, 4, 5)) for _ in range(draw(self.ranks) - 2))
        return *lead, draw((8, 12, 16, 17, 24, 32)), draw((8, 9, 16, 24, 40))

    def draw_value(self) -> tuple[str, Shape]:
        if self.kind == "tree" and self.unused:
            return self.unused.pop(self.random.randrange(len(self.unused)))
        reach = {"chain": self.values[-1:], "fan": self.values[:6], "shared": self.values[:12]}
        return self.random.choice(reach.get(self.kind, self.values[-12:]))

    def add(self, operator: str, operands: Sequence[tuple[str, Shape]], *results: Shape) -> None:
        number = len(self.lines)
        found = [(f"%v{number}_{index}", shape) for index, shape in enumerate(results)]
        before, _, after = operator.partition(" ")
        self.lines.append(
            f"{', '.join(name for name, _ in found)} = tb.{before} "
            f"{', '.join(name for name, _ in operands)} {after} : "
            f"({', '.join(tile(shape) for _, shape in operands)}) -> "
            + (f"({', '.join(map(tile, results))})" if before == "split" else tile(results[0]))
        )
        if before in ("exp", "reduction"):
            self.lines[-1] = self.lines[-1].replace(": (", ": ").replace(") ->", " ->")
        self.values += found
        self.unused += found

    def add_input(self, shape: Shape) -> tuple[str, Shape]:
        number, device = len(self.tensors), f"tensor<{'x'.join(map(str, shape))}xf16>"
        self.tensors.append(device)
        self.lines.append(
            f"%s{number} = tb.input %d{number} imap [-1, -1, -1] : {device} -> {tile(shape)}"
        )
        self.values.append((f"%s{number}", shape))
        self.unused.append(self.values[-1])
        return self.values[-1]

    def add_operator(self, operator: str, name: str, shape: Shape) -> None:
        value, draw = (name, shape), self.random
        dim = draw.randrange(len(shape))
        around = shape[:dim], shape[dim + 1 :]
        match operator:
            case "exp":
                self.add("exp", [value], shape)
            case "add":
                alike = [other for other in self.values if other[1] == shape]
                self.add("add", [value, draw.choice(alike)], shape)
            case "broadcast":
                narrow = tuple(1 if draw.random() < 0.4 else extent for extent in shape)
                self.add("add", [value, self.add_input(narrow)], shape)
            case "matmul":
                *lead, rows, depth = shape
                fits = [v for v in self.values if v[1][:-1] == (*lead, depth)]
                new = (*lead, depth, draw.choice((8, 16, 24)))
                other = draw.choice(fits) if fits else self.add_input(new)
                self.add("matmul", [value, other], (*lead, rows, other[1][-1]))
            case "reduction":
                self.add(f"reduction dim {dim}", [value], (*around[0], 1, *around[1]))
            case "split" if shape[dim] > 1:
                cut = draw.randrange(1, shape[dim])
                extents = draw.choice(((cut, shape[dim] - cut), (1,) * shape[dim]))
                parts = [(*around[0], extent, *around[1]) for extent in extents]
                self.add(f"split dim {dim}", [value], *parts)
            case "concat":
                fits = [v for v in self.values if v[1][:dim] + v[1][dim + 1 :] == sum(around, ())]
                parts = [draw.choice(fits) for _ in range(draw.randint(2, 12))]
                extent = sum(part[dim] for _, part in parts)
                if extent <= 64:
                    self.add(f"concat dim {dim}", parts, (*around[0], extent, *around[1]))
            case _:
                pass

    def __str__(self) -> str:
        name, shape = self.values[-1]
        device = f"tensor<{'x'.join(map(str, shape))}xf16>"
        numbers = range(len(self.tensors))
        given, bound = (
            ", ".join(f"%{letter}{at}: {self.tensors[at]}" for at in numbers) for letter in "xd"
        )
        body = "\n".join(self.lines)
        return f"""func.func @f({given}) -> {device} {{
  %o = kn.customized {", ".join(f"%x{at}" for at in numbers)} grid [1, 1, 1] block [128, 1, 1]
      forloop 1 {{
  ^bb0({bound}):
    {body}
    %sum = tb.forloop_accum none {name} : {tile(shape)} -> {tile(shape)}
    tb.output %sum omap [-1, -1, -1] : {tile(shape)} -> {device}
  }} : ({", ".join(self.tensors)}) -> {device}
  func.return %o : {device}
}}"""


def prepared(text: str) -> tuple[ModuleOp, FuncOp]:
    module = Parser(make_context(), text).parse_module()
    module.verify()
    for step in (DecomposeThreadblockPass(), FuseThreadblockPass()):
        step.apply(make_context(), module)
    return module, next(op for op in module.walk() if isinstance(op, FuncOp))


def problem_of(text: str) -> LayoutProblem:
    return layout_problem_of(prepared(text)[1], target_named("sm_90a"))


def counted_addresses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sees how many addresses are looked at from now on; nothing is remembered from before."""
    seen: list[int] = []
    original = access_work.lane_addresses
    for name in ("partitioned_work", "operand_work", "fragment_work", "reduction_source_work"):
        getattr(access_work, name).cache_clear()

    def lane_addresses(offsets: access_work.IntArray, element_bytes: int, start: int = 0) -> object:
        seen.append(offsets.size)
        return original(offsets, element_bytes, start)

    monkeypatch.setattr(access_work, "lane_addresses", lane_addresses)
    return seen


MANY = [(kind, (2, 3, 4)) for kind in KINDS] + [(kind, (2,)) for kind in KINDS]


@pytest.mark.parametrize(("kind", "ranks"), MANY[: inputs(len(KINDS), len(MANY))])
def test_many_operators_take_so_many_steps(
    kind: str, ranks: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hundred, or 60 of which as many fewer steps are allowed: the work grows with both."""
    seen = counted_addresses(monkeypatch)
    operators = inputs(60, 200)
    monkeypatch.setattr(exact, "COUNTING_STEPS", exact.COUNTING_STEPS * operators // 200)
    problem = problem_of(str(Graph(kind, operators, 3, ranks)))
    # A combination charges two terms of each tensor under at most four swizzles.
    assert len(problem.soft) + len(problem.lower_bounds) < 12 * exact.COUNTING_STEPS
    assert len(seen) < 3 * exact.COUNTING_STEPS
    assert sum(seen) < 4 * exact.COUNTING_STEPS * exact.BYTES_OF_A_STEP
    solution = solve_with_bounds(problem, solve)
    assert solution.bound <= solution.cost
    assert solution.is_optimal or solution.cost < 2 * solution.bound


def limited(text: str, limit: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Solution, int]:
    """The layouts found in so many steps, and for how many operators only bounds were known."""
    with monkeypatch.context() as patch:
        patch.setattr(exact, "COUNTING_STEPS", limit)
        problem = problem_of(text)
        operators = sum(len(each.operators) for each in problem.bounded)
        return solve_with_bounds(problem, solve), operators


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(inputs(1, 4)))
@pytest.mark.parametrize("kind", KINDS)
def test_bounds_are_on_either_side_of_the_best(
    kind: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = str(Graph(kind, 14, seed, (2, 3)))
    whole = problem_of(text)
    assert not whole.bounded
    best = solve(whole)
    assert best.is_optimal
    for limit in (0, 40, 150):
        found, operators = limited(text, limit, monkeypatch)
        assert operators or limit
        assert found.bound <= best.cost <= found.cost
        # What is said of the choice is what it costs where all is counted.
        assert found.cost <= price_of(whole, found.chosen)[1]


def test_more_steps_bring_bounds_together(monkeypatch: pytest.MonkeyPatch) -> None:
    text = str(Graph("mixed", 14, 1, (2, 3)))
    none, all_ = (limited(text, limit, monkeypatch)[0] for limit in (0, 10_000))
    assert not none.is_optimal and all_.is_optimal
    assert none.bound < all_.bound == all_.cost <= none.cost


BATCHED = """
!a = tensor<{n}x16x64xf16>
!b = tensor<{n}x64x16xf16>
!c = tensor<{n}x16x16xf16>
!x = !tb.stensor<{n}x16x16xf16>
func.func @f(%a: !a, %b: !b) -> !c {{
  %o = kn.customized %a, %b grid [1, 1, 1] block [128, 1, 1] forloop 4 {{
  ^bb0(%da: !a, %db: !b):
    %x = tb.input %da imap [-1, -1, -1] fordim 2 : !a -> !x
    %y = tb.input %db imap [-1, -1, -1] fordim 1 : !b -> !x
    %m = tb.matmul %x, %y : (!x, !x) -> !x
    %s = tb.forloop_accum none %m : !x -> !x
    tb.output %s omap [-1, -1, -1] : !x -> !c
  }} : (!a, !b) -> !c
  func.return %o : !c
}}
"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("matrices", [10, 80])
def test_a_product_of_many_matrices_is_laid_out_best(matrices: int) -> None:
    module, function = prepared(BATCHED.format(n=matrices))
    ResolveLayoutPass().apply(make_context(), module)
    module.verify()
    certificate = function.attributes[CERTIFICATE]
    assert isinstance(certificate, DictionaryAttr)
    assert certificate.data["status"] == StringAttr("optimal")


def test_a_concatenation_of_many_tensors_is_laid_out_best() -> None:
    names = [f"%e{number}" for number in range(70)]
    lines = "\n".join(f"{name} = kn.exp %x : tensor<4x8xf16> -> tensor<4x8xf16>" for name in names)
    module, function = prepared(
        f"""func.func @f(%x: tensor<4x8xf16>) -> tensor<280x8xf16> {{
  {lines}
  %c = kn.concat {", ".join(names)} dim 0 : ({", ".join(["tensor<4x8xf16>"] * 70)}) ->
      tensor<280x8xf16>
  func.return %c : tensor<280x8xf16>
}}"""
    )
    ResolveLayoutPass().apply(make_context(), module)
    assert 'status = "optimal"' in str(function)
    assert str(function).count("(4,8):(8,1)") > 70


def test_a_choice_that_may_not_be_the_best_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(exact, "COUNTING_STEPS", 20)
    module, function = prepared(str(Graph("mixed", 14, 1, (2, 3))))
    ResolveLayoutPass().apply(make_context(), module)
    certificate = function.attributes[CERTIFICATE]
    assert isinstance(certificate, DictionaryAttr)
    assert certificate.data["status"] == StringAttr("bounded")
    cost, bound = certificate.data["cost"], certificate.data["bound"]
    assert isinstance(cost, IntegerAttr) and isinstance(bound, IntegerAttr)
    said = capsys.readouterr().err
    assert said.startswith("--resolve-layout: note: layouts of @f cost ")
    assert f" {cost.value.data} ps, and no others less than {bound.value.data} ps; 'tb." in said
    assert said.endswith("can be laid out in too many ways to count them together\n")


LAYERS = """
!x = tensor<1x16x64xf16>
!w = tensor<1x64x64xf16>
!s = !tb.stensor<1x16x16xf16>
!m = !tb.stensor<1x16x64xf16>
func.func @f(%x0: !x, %w: !w) -> !x {
KERNELS
  func.return %xLAST : !x
}
"""
LAYER = """  %xNEXT = kn.customized %xTHIS, %w grid [1, 1, 1] block [128, 1, 1] forloop 4 {
  ^bb0(%da: !x, %db: !w):
    %a = tb.input %da imap [-1, -1, -1] fordim 2 : !x -> !s
    %b = tb.input %db imap [-1, -1, -1] fordim 1 : !w -> !m
    %p = tb.matmul %a, %b : (!s, !m) -> !m
    %q = tb.forloop_accum none %p : !m -> !m
    tb.output %q omap [-1, -1, -1] : !m -> !x
  } : (!x, !w) -> !x"""


def layers(count: int) -> str:
    """So many identical kernels, each on the results of the one before."""
    kernels = [
        LAYER.replace("NEXT", str(number + 1)).replace("THIS", str(number))
        for number in range(count)
    ]
    return LAYERS.replace("KERNELS", "\n".join(kernels)).replace("LAST", str(count))


def test_identical_layers_take_the_steps_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of 36 layers of Qwen3-8B is laid out as one of two is."""
    counted = [
        limit for limit in range(10, 400, 10) if not limited(layers(1), limit, monkeypatch)[1]
    ]
    found, operators = limited(layers(12), counted[0], monkeypatch)
    assert not operators and found.is_optimal


def two_chains(count: int) -> str:
    """So many kernels of f16, and as many of bf16 between them, which take as many steps."""
    one, other = layers(count), layers(count).replace("f16", "bf16")
    for name in ("!x", "!w", "!s", "!m"):
        other = other.replace(name, f"{name}b")
    other = other.replace("%x", "%y").replace("%w", "%v")
    types = [line for text in (one, other) for line in text.splitlines() if line.startswith("!")]
    own, others = (text.split("\n  %", 1)[1].split("\n  func", 1)[0] for text in (one, other))
    pairs = zip(own.split("\n  %"), others.split("\n  %"), strict=True)
    kernels = "\n".join(f"  %{each}" for pair in pairs for each in pair)
    return "\n".join(types) + (
        "\nfunc.func @f(%x0: !x, %w: !w, %y0: !xb, %v: !wb) -> (!x, !xb) {\n"
        f"{kernels}\n  func.return %x{count}, %y{count} : !x, !xb\n}}"
    )


def test_kinds_that_take_as_many_steps_are_counted_in_all_layers_or_in_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where steps end between them, each layer behind the first leaves as many to bounds."""
    for limit in range(12, 36, 4):
        monkeypatch.setattr(exact, "COUNTING_STEPS", limit)
        problems = (problem_of(two_chains(count)) for count in (1, 2, 3))
        one, two, three = (
            sum(len(each.operators) for each in problem.bounded) for problem in problems
        )
        assert three - two == two - one


def layouts_of_layers(count: int) -> list[list[Attribute]]:
    """The types of all tensors of each of so many identical kernels."""
    module, function = prepared(layers(count))
    ResolveLayoutPass().apply(make_context(), module)
    kernels = [op for op in function.body.block.ops if isinstance(op, CustomizedOp)]
    return [[result.type for op in kernel.walk() for result in op.results] for kernel in kernels]


def test_many_layers_are_laid_out_as_few_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first and the last of them stand apart: what one reads and one writes is given."""
    monkeypatch.setattr(exact, "COUNTING_STEPS", 100)
    first, between, last = layouts_of_layers(3)
    assert layouts_of_layers(12) == [first, *[between] * 10, last]


def test_numbers_that_rank_layouts_do_not_grow_with_each_layer() -> None:
    """Layers that meet in tensors of given layouts have nothing to do with each other."""
    free, given = "!x = tensor<1x16x64xf16", ", #cute.layout<(1,16,64):(1024,64,1)>"
    few, many = (
        domains_of(problem_of(layers(count).replace(free, free + given))).scale for count in (3, 12)
    )
    assert many.cost < 5 * few.cost
