"""--resolve-layout: the analysis, both solvers against each other, and the rewrite."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from exhaustive_layouts import is_satisfied, solve_exhaustively
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp, TensorType
from xdsl.dialects.func import Func, FuncOp
from xdsl.dialects.test import Test
from xdsl.ir import Dialect, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def
from xdsl.parser import Parser
from xdsl.utils.exceptions import PassFailedException, VerifyException

from mugraph.dialects.cute.dialect import CuteDialect
from mugraph.dialects.interfaces import HasLayoutConstraints
from mugraph.dialects.kn import CustomizedOp, Kn
from mugraph.dialects.layout_problem import LayoutProblem, Literal, Role, Variable
from mugraph.dialects.sched import Sched
from mugraph.dialects.tb import CarryOp, Tb
from mugraph.dialects.tensor_types import layout_of, strides_of
from mugraph.passes.mugraph.fuse_threadblock import FuseThreadblockPass
from mugraph.passes.mugraph.insert_copies import InsertCopiesPass
from mugraph.passes.mugraph.resolve_layout import ResolveLayoutPass, layout_problem_of
from mugraph.passes.mugraph.resolve_layout.apply_layouts import CERTIFICATE
from mugraph.passes.mugraph.resolve_layout.problem import build_layout_problem
from mugraph.passes.mugraph.resolve_layout.solution import (
    Solution,
    UnsatisfiableLayouts,
    solution_of,
)
from mugraph.passes.mugraph.resolve_layout.solve import solve, solve_with_z3
from mugraph.passes.targets import target_named

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


@irdl_op_definition
class TransposedReadOp(IRDLOperation, HasLayoutConstraints):
    """An operator of somebody else: wants its operand column-major."""

    name = "foreign.transposed_read"
    input = operand_def(TensorType)
    result = result_def(TensorType)

    def add_layout_constraints(self, problem: LayoutProblem) -> None:
        problem.charge(7_000, problem.innermost(self.input, 1), reason="the operand is row-major")


def context() -> Context:
    result = Context()
    for dialect in (Builtin, Func, Kn, Tb, Sched, CuteDialect, Test):
        result.load_dialect(dialect)
    result.load_dialect(Dialect("foreign", [TransposedReadOp]))
    return result


def parse(text: str) -> ModuleOp:
    module = Parser(context(), text).parse_module()
    module.verify()
    return module


def function_of(module: ModuleOp) -> FuncOp:
    return next(op for op in module.walk() if isinstance(op, FuncOp))


def resolved(text: str) -> ModuleOp:
    """The module after the pass; checks that it verifies and reads back."""
    module = parse(text)
    ResolveLayoutPass().apply(context(), module)
    module.verify()
    assert str(parse(str(module))) == str(module)
    return module


def strides(module: ModuleOp) -> dict[str, tuple[int, ...]]:
    """The strides of every named result and every argument of the function."""
    values: list[SSAValue] = list(function_of(module).args)
    values += [result for op in module.walk() for result in op.results]
    found: dict[str, tuple[int, ...]] = {}
    for value in values:
        layout = layout_of(value.type)
        assert layout is not None and value.name_hint is not None
        found[value.name_hint] = strides_of(layout)
    return found


def error_of(text: str) -> str:
    with pytest.raises(PassFailedException) as caught:
        ResolveLayoutPass().apply(context(), parse(text))
    return str(caught.value)


def matmul_graph(
    weight_layout: str = "", columns: int = 64, tile_layout: str = "", sum_layout: str = ""
) -> str:
    """X[16,256] · W[256,2*columns] in two blocks of ``columns``, four iterations of 64 rows."""
    weight = f"tensor<256x{2 * columns}xf16{weight_layout}>"
    result = f"tensor<16x{2 * columns}xf16>"
    product = f"!tb.stensor<16x{columns}xf16>"
    total = f"!tb.stensor<16x{columns}xf16{sum_layout}>"
    x_tile = f"!tb.stensor<16x64xf16{tile_layout}>"
    w_tile = f"!tb.stensor<64x{columns}xf16>"
    return f"""
func.func @f(%x: tensor<16x256xf16>, %w: {weight}) -> {result} {{
  %o = kn.customized %x, %w grid [2, 1, 1] block [128, 1, 1] forloop 4 {{
  ^bb0(%dx: tensor<16x256xf16>, %dw: {weight}):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<16x256xf16> -> {x_tile}
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : {weight} -> {w_tile}
    %m = tb.matmul %sx, %sw : ({x_tile}, {w_tile}) -> {product}
    %a = tb.forloop_accum none %m : {product} -> {total}
    tb.output %a omap [1, -1, -1] : {total} -> {result}
  }} : (tensor<16x256xf16>, {weight}) -> {result}
  func.return %o : {result}
}}"""


# A product of 8x3 whose columns are summed: nothing but shared memory has a say in its layout.
NARROW_PRODUCT = """
func.func @f(%x: tensor<8x16xf16>, %w: tensor<16x3xf16>) -> tensor<8x1xf16> {
  %o = kn.customized %x, %w grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<8x16xf16>, %dw: tensor<16x3xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<8x16xf16> -> !tb.stensor<8x16xf16>
    %sw = tb.input %dw imap [-1, -1, -1] fordim 0 : tensor<16x3xf16> -> !tb.stensor<16x3xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<8x16xf16>, !tb.stensor<16x3xf16>)
      -> !tb.stensor<8x3xf16>
    %r = tb.reduction %m dim 1 : !tb.stensor<8x3xf16> -> !tb.stensor<8x1xf16>
    %a = tb.forloop_accum none %r : !tb.stensor<8x1xf16> -> !tb.stensor<8x1xf16>
    tb.output %a omap [-1, -1, -1] : !tb.stensor<8x1xf16> -> tensor<8x1xf16>
  } : (tensor<8x16xf16>, tensor<16x3xf16>) -> tensor<8x1xf16>
  func.return %o : tensor<8x1xf16>
}"""


def kernels(layout: str = "") -> str:
    """Two element-wise kernels between a free product and a result, perhaps of a given layout."""
    result = f"tensor<6x9xf16{layout}>"
    return f"""
func.func @f(%a: tensor<6x12xf16>, %b: tensor<12x9xf16>) -> {result} {{
  %m = kn.matmul %a, %b : (tensor<6x12xf16>, tensor<12x9xf16>) -> tensor<6x9xf16>
  %e = kn.exp %m : tensor<6x9xf16> -> tensor<6x9xf16>
  %s = kn.square %e : tensor<6x9xf16> -> {result}
  func.return %s : {result}
}}"""


ROW_MAJOR = ", #cute.layout<(6,9):(16,1)>"
COLUMN_MAJOR = ", #cute.layout<(6,9):(1,8)>"

SMALL_GRAPHS = {
    "rmsnorm_linear": (EXAMPLES / "rmsnorm_linear.mlir").read_text(),
    "matmul": matmul_graph(),
    "matmul, column-major weight": matmul_graph(", #cute.layout<(256,128):(1,256)>"),
    "narrow product": NARROW_PRODUCT,
    "kernels": kernels(),
    "kernels, row-major result": kernels(ROW_MAJOR),
    "kernels, column-major result": kernels(COLUMN_MAJOR),
}


OWNERS = range(4)
VARIABLES = [Variable(owner, Role.INNERMOST, dim) for owner in OWNERS for dim in range(2)]
VARIABLES += [Variable(owner, Role.PERMUTED, dim) for owner in (0, 1) for dim in range(2)]
VARIABLES += [Variable(9, Role.PERMUTED, dim) for dim in range(2)]
literals = st.builds(Literal, st.sampled_from(VARIABLES), st.booleans())
few_literals = st.lists(literals, min_size=1, max_size=3)


@st.composite
def layout_problems(draw: st.DrawFn) -> LayoutProblem:
    problem = LayoutProblem()
    for owner in OWNERS:
        problem.require_one([Literal(v) for v in VARIABLES[2 * owner : 2 * owner + 2]])
    problem.require_at_most_one([Literal(v) for v in VARIABLES[8:10]])
    problem.require_one([Literal(v) for v in VARIABLES[12:]])
    for index, clause in enumerate(draw(st.lists(few_literals, max_size=6))):
        problem.require_any(*clause, reason=f"clause {index}")
    for clause in draw(st.lists(few_literals, max_size=3)):
        problem.prefer_any(*clause, reason="preference")
    for when in draw(st.lists(few_literals, max_size=12)):
        problem.charge(draw(st.integers(0, 3)) * 1000, *when, reason="cost")
    return problem


@given(layout_problems())
@settings(max_examples=150, deadline=None)
def test_z3_finds_what_enumeration_finds(problem: LayoutProblem) -> None:
    try:
        expected = solve_exhaustively(problem)
    except UnsatisfiableLayouts:
        with pytest.raises(UnsatisfiableLayouts):
            solve(problem)
        with pytest.raises(UnsatisfiableLayouts) as caught:
            solve_with_z3(problem)
        assert contradicts(problem, caught.value.reasons)
        for left_out in caught.value.reasons:
            assert not contradicts(problem, [r for r in caught.value.reasons if r != left_out])
    else:
        assert solve_with_z3(problem) == expected
        assert solve(problem) == expected


def contradicts(problem: LayoutProblem, reasons: Sequence[str]) -> bool:
    """Whether the clauses with these reasons have no solution, by enumeration."""
    part = LayoutProblem()
    for group in problem.exactly_one:
        part.require_one([Literal(variable) for variable in group])
    for group in problem.at_most_one:
        part.require_at_most_one([Literal(variable) for variable in group])
    for clause in problem.clauses:
        if clause.reason in reasons:
            part.require_any(*clause.literals, reason=clause.reason)
    try:
        solve_exhaustively(part)
    except UnsatisfiableLayouts:
        return True
    return False


@given(layout_problems())
@settings(max_examples=50, deadline=None)
def test_enumeration_finds_the_least_of_all_assignments(problem: LayoutProblem) -> None:
    solutions = [
        solution_of(problem, chosen)
        for number in range(2 ** len(problem.variables))
        if number.bit_count() in range(5, 9)  # four tensors, one of two, and up to three more
        for chosen in [{v for i, v in enumerate(problem.variables) if number >> i & 1}]
        if is_satisfied(problem, chosen)
    ]
    if not solutions:
        with pytest.raises(UnsatisfiableLayouts):
            solve_exhaustively(problem)
        return

    def rank(solution: Solution) -> tuple[object, ...]:
        order = tuple(-solution.innermost[owner] for owner in OWNERS)
        return (solution.broken_preferences, solution.cost, order)

    assert solve_exhaustively(problem) == min(solutions, key=rank)


@pytest.mark.parametrize("name", SMALL_GRAPHS)
def test_solvers_agree_on_small_graphs(name: str) -> None:
    problem = layout_problem_of(function_of(parse(SMALL_GRAPHS[name])), target_named("sm_90a"))
    assert solve_with_z3(problem) == solve_exhaustively(problem) == solve(problem)


def test_twenty_solves_in_one_process_agree() -> None:
    texts = [matmul_graph(), kernels(), NARROW_PRODUCT]
    first = [str(resolved(text)) for text in texts]
    for _ in range(20):
        assert [str(resolved(text)) for text in texts] == first


def test_inputs_without_a_layout_are_row_major_and_contiguous() -> None:
    found = strides(resolved(kernels()))
    assert found["a"] == (12, 1)
    assert found["b"] == (9, 1)  # not padded: it is the user's memory


def test_free_tensors_are_padded_to_16_bytes() -> None:
    found = strides(resolved(kernels()))
    assert found["m"] == found["e"] == found["s"] == (16, 1)


def test_single_precision_is_padded_to_four_elements() -> None:
    assert strides(resolved(kernels().replace("f16", "f32")))["m"] == (12, 1)


def test_only_the_first_wide_dimension_is_padded() -> None:
    text = """
func.func @f(%x: tensor<3x5x9xf16>) -> tensor<3x5x9xf16> {
  %y = kn.exp %x : tensor<3x5x9xf16> -> tensor<3x5x9xf16>
  func.return %y : tensor<3x5x9xf16>
}"""
    assert strides(resolved(text))["y"] == (80, 16, 1)


@pytest.mark.parametrize(("layout", "row"), [(ROW_MAJOR, True), (COLUMN_MAJOR, False)])
def test_kernels_follow_the_layout_of_a_result(layout: str, row: bool) -> None:
    found = strides(resolved(kernels(layout)))
    assert found["s"] == found["e"] == found["m"] == ((16, 1) if row else (1, 8))


def test_kernels_between_two_given_layouts_are_no_contradiction() -> None:
    text = f"""
func.func @f(%x: tensor<6x9xf16>) -> tensor<6x9xf16{COLUMN_MAJOR}> {{
  %e = kn.exp %x : tensor<6x9xf16> -> tensor<6x9xf16>
  %s = kn.square %e : tensor<6x9xf16> -> tensor<6x9xf16{COLUMN_MAJOR}>
  func.return %s : tensor<6x9xf16{COLUMN_MAJOR}>
}}"""
    assert solve_with_z3(build_layout_problem(function_of(parse(text)))).broken_preferences == 1
    found = strides(resolved(text))
    assert (found["x"], found["s"]) == ((9, 1), (1, 8))


def test_a_column_major_weight_flips_its_tile() -> None:
    plain = strides(resolved(matmul_graph()))
    flipped = strides(resolved(matmul_graph(", #cute.layout<(256,128):(1,256)>")))
    assert plain["sw"] == (64, 1)
    assert flipped["sw"] == (1, 64)
    del plain["sw"], flipped["sw"], plain["w"], flipped["w"]
    assert plain == flipped


def test_a_narrow_tile_keeps_the_vectors_that_fit() -> None:
    # 12 columns are 24 bytes: copies of 8 bytes are asynchronous still, single elements are not,
    # so that the tile stays row-major though column-major would save 512 bytes.
    assert strides(resolved(matmul_graph(columns=12)))["sw"] == (16, 1)


def test_the_batched_matmul_of_the_document_keeps_its_layouts() -> None:
    x, w, o = (
        "tensor<3x6x9xf16, #cute.layout<(3,6,9):(128,16,1)>>",
        "tensor<3x9x4xf16, #cute.layout<(3,9,4):(128,8,1)>>",
        "tensor<3x6x4xf16, #cute.layout<(3,6,4):(64,1,8)>>",
    )
    text = f"""
func.func @f(%x: {x}, %w: {w}) -> {o} {{
  %o = kn.matmul %x, %w compute f16 : ({x}, {w}) -> {o}
  func.return %o : {o}
}}"""
    module = resolved(text)
    del function_of(module).attributes[CERTIFICATE]
    assert str(module) == str(parse(text))
    assert strides(module) == {"x": (128, 16, 1), "w": (128, 8, 1), "o": (64, 1, 8)}


@pytest.mark.parametrize("name", SMALL_GRAPHS)
def test_a_second_run_changes_nothing(name: str) -> None:
    once = resolved(SMALL_GRAPHS[name])
    assert str(resolved(str(once))) == str(once)


def test_shared_layouts_that_are_there_stay() -> None:
    text = matmul_graph(tile_layout=", S<3,3,3> o (16,64):(64,1)", sum_layout=", (16,64):(72,1)")
    module = resolved(text)
    assert str(module).count("16x64xf16, S<3,3,3> o (16,64):(64,1)>") == 2
    assert strides(module)["a"] == (72, 1)
    assert strides(module)["sw"] == (64, 1)


@pytest.mark.parametrize("layout", ["(16,64):(1,16)", "(16,64):(128,2)"])
def test_any_shared_layout_that_is_there_is_possible(layout: str) -> None:
    assert strides(resolved(matmul_graph(tile_layout=f", {layout}")))["sw"] == (64, 1)


def test_fused_graphs_are_resolved_as_well() -> None:
    module = parse(matmul_graph())
    FuseThreadblockPass().apply(context(), module)
    assert "then [accum]" in str(module)
    ResolveLayoutPass().apply(context(), module)
    module.verify()
    assert strides(module) == {
        "x": (256, 1),
        "w": (128, 1),
        "o": (128, 1),
        "sx": (64, 1),
        "sw": (64, 1),
        "a": (64, 1),
    }


def test_every_function_is_resolved() -> None:
    module = parse(
        kernels() + kernels().replace("@f", "@g").replace("6x9", "6x3").replace("12x9", "12x3")
    )
    ResolveLayoutPass().apply(context(), module)
    assert "(6,9):(16,1)" in str(module) and "(6,3):(8,1)" in str(module)


def test_functions_without_kernels_are_left_alone() -> None:
    text = """
func.func private @declared(tensor<4x4xf16>) -> tensor<4x4xf16>
func.func @other(%x: tensor<4x4xf16>) -> tensor<4x4xf16> {
  %y = "test.op"(%x) : (tensor<4x4xf16>) -> tensor<4x4xf16>
  func.return %y : tensor<4x4xf16>
}"""
    assert str(resolved(text)) == str(parse(text))


def test_dimensions_of_extent_1_are_never_innermost() -> None:
    text = """
func.func @f(%x: tensor<8x1xf16>, %s: tensor<1x1xf16>) -> (tensor<8x1xf16>, tensor<1x1xf16>) {
  %y = kn.exp %x : tensor<8x1xf16> -> tensor<8x1xf16>
  %t = kn.exp %s : tensor<1x1xf16> -> tensor<1x1xf16>
  func.return %y, %t : tensor<8x1xf16>, tensor<1x1xf16>
}"""
    found = strides(resolved(text))
    assert found["y"] == (1, 8)
    assert found["t"] == (1, 1)


def test_a_product_of_single_columns_needs_no_matrix_layout() -> None:
    text = """
func.func @f(%a: tensor<8x1x4xf16, #cute.layout<(8,1,4):(1,1,8)>>, %b: tensor<8x4x1xf16>)
    -> tensor<8x1x1xf16> {
  %o = kn.matmul %a, %b : (tensor<8x1x4xf16, #cute.layout<(8,1,4):(1,1,8)>>, tensor<8x4x1xf16>)
    -> tensor<8x1x1xf16>
  func.return %o : tensor<8x1x1xf16>
}"""
    assert strides(resolved(text))["o"] == (1, 8, 8)


def test_operators_of_other_dialects_take_part() -> None:
    text = """
func.func @f(%x: tensor<8x8xf16>) -> tensor<8x8xf16> {
  %y = kn.exp %x : tensor<8x8xf16> -> tensor<8x8xf16>
  %r = "foreign.transposed_read"(%z) : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return %r : tensor<8x8xf16>
}"""
    producer = "  %z = kn.matmul %y, %y : (tensor<8x8xf16>, tensor<8x8xf16>) -> tensor<8x8xf16>\n"
    found = strides(resolved(text.replace("  %r", producer + "  %r")))
    assert found["z"] == (1, 8)
    # What says nothing else is taken to walk its result and its operands alike.
    assert found["r"] == (1, 8)


def test_contradicting_layouts_are_named() -> None:
    x = "tensor<4x8x8xf16, #cute.layout<(4,8,8):(1,32,4)>>"
    y = "tensor<4x8x8xf16>"
    message = error_of(f"""
func.func @f(%x: {x}, %y: {y}) -> {y} {{
  %e = kn.exp %y : {y} -> {y}
  %o = kn.matmul %x, %e : ({x}, {y}) -> {y}
  func.return %o : {y}
}}""")
    assert message == (
        "--resolve-layout: no layouts of @f meet all requirements, because 'kn.matmul' %o calls "
        "cuBLAS, which needs stride 1 along one of the last two dimensions of %x, whose strides "
        "are (1,32,4); change a layout in the signature"
    )


def test_a_product_names_the_operand_with_a_nested_dimension() -> None:
    x = "tensor<8x16xf16, #cute.layout<((2,4),16):((16,64),1)>>"
    module = parse(f"""
func.func @f(%x: {x}, %y: tensor<16x8xf16>) -> tensor<8x8xf16> {{
  %o = kn.matmul %x, %y : ({x}, tensor<16x8xf16>) -> tensor<8x8xf16>
  func.return %o : tensor<8x8xf16>
}}""")
    with pytest.raises(VerifyException) as caught:
        InsertCopiesPass().apply(context(), module)
    assert str(caught.value) == (
        "'kn.matmul' %o: %x: layout ((2,4),16):((16,64),1) has a nested dimension; one stride was "
        "expected: run --unfold-modes before, or give the tensor a dimension for each stride"
    )


@pytest.mark.parametrize(
    ("type_", "message"),
    [
        (
            "tensor<4x8xf16, #cute.layout<(8,4):(4,1)>>",
            "%x of @f: layout (8,4):(4,1) has extents 8x4, expected 4x8: one mode a dimension",
        ),
        (
            "tensor<4x8xf16, #cute.layout<S<1,2,3> o (4,8):(8,1)>>",
            "%x of @f has the swizzled layout S<1,2,3> o (4,8):(8,1); only tensors in shared "
            "memory can be swizzled",
        ),
        (
            "tensor<4x8xf16, #cute.layout<(4,8):(-8,1)>>",
            "%x of @f has the layout (4,8):(-8,1); strides must not be negative",
        ),
        (
            "tensor<4x8xf16, #cute.layout<(4,8):(9223372036854775808,1)>>",
            "%x of @f: layout (4,8):(9223372036854775808,1) spans more than 2^60 elements; use "
            "smaller strides",
        ),
        (
            'tensor<4x8xf16, "sparse">',
            '%x of @f has the encoding "sparse"; expected none, or a #cute.layout',
        ),
        ("tensor<f16>", "%x of @f has rank 0; give it one dimension of extent 1"),
        (
            "tensor<?x8xf16>",
            "%x of @f has type tensor<?x8xf16>; every extent must be known and at least 1",
        ),
        ("tensor<4x8xindex>", "%x of @f: element type index has no fixed width"),
    ],
)
def test_types_that_cannot_be_laid_out(type_: str, message: str) -> None:
    text = f"""
func.func @f(%x: {type_}, %y: tensor<8xf16>) -> tensor<8xf16> {{
  %z = kn.exp %y : tensor<8xf16> -> tensor<8xf16>
  func.return %z : tensor<8xf16>
}}"""
    assert error_of(text) == f"--resolve-layout: {message}"


def test_nested_modes_are_unfolded_before() -> None:
    x = "tensor<4x8xf16, #cute.layout<(4,(2,4)):(8,(1,2))>>"
    message = error_of(f"""
func.func @f(%x: {x}) -> tensor<4x8xf16> {{
  %z = kn.exp %x : {x} -> tensor<4x8xf16>
  func.return %z : tensor<4x8xf16>
}}""")
    assert message == (
        "--resolve-layout: %x of @f: layout (4,(2,4)):(8,(1,2)) has a nested dimension; one stride "
        "was expected: run --unfold-modes before, or give the tensor a dimension for each stride"
    )


def test_operators_that_say_nothing_of_layouts_are_an_error() -> None:
    message = error_of("""
func.func @f(%x: tensor<8xf16>) -> tensor<8xf16> {
  %y = "test.op"(%x) : (tensor<8xf16>) -> tensor<8xf16>
  %z = kn.exp %y : tensor<8xf16> -> tensor<8xf16>
  func.return %z : tensor<8xf16>
}""")
    assert message == (
        "--resolve-layout: 'test.op' %y in @f touches %x (8) but says nothing of layouts; "
        "implement HasLayoutConstraints for it, or move it to a function of its own"
    )


def test_several_blocks_are_an_error() -> None:
    message = error_of("""
func.func @f(%x: tensor<8xf16>) -> tensor<8xf16> {
  %z = kn.exp %x : tensor<8xf16> -> tensor<8xf16>
  "test.termop"() [^bb1] : () -> ()
^bb1:
  func.return %z : tensor<8xf16>
}""")
    assert message == ("--resolve-layout: @f has 2 blocks; a µGraph is straight-line: one block")


def test_a_tensor_bound_twice_keeps_one_layout() -> None:
    module = resolved("""
func.func @f(%x: tensor<16x16xf16>) -> tensor<16x16xf16> {
  %y = kn.exp %x : tensor<16x16xf16> -> tensor<16x16xf16>
  %o = kn.customized %y, %y grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%p: tensor<16x16xf16>, %q: tensor<16x16xf16>):
    %sp = tb.input %p imap [-1, -1, -1] fordim 0 : tensor<16x16xf16> -> !tb.stensor<16x16xf16>
    %sq = tb.input %q imap [-1, -1, -1] fordim 0 : tensor<16x16xf16> -> !tb.stensor<16x16xf16>
    %m = tb.matmul %sp, %sq : (!tb.stensor<16x16xf16>, !tb.stensor<16x16xf16>)
      -> !tb.stensor<16x16xf16>
    %a = tb.forloop_accum none %m : !tb.stensor<16x16xf16> -> !tb.stensor<16x16xf16>
    tb.output %a omap [-1, -1, -1] : !tb.stensor<16x16xf16> -> tensor<16x16xf16>
  } : (tensor<16x16xf16>, tensor<16x16xf16>) -> tensor<16x16xf16>
  func.return %o : tensor<16x16xf16>
}""")
    graph = next(op for op in module.walk() if isinstance(op, CustomizedOp))
    assert len({argument.type for argument in graph.body.block.args}) == 1


def test_numbers_cannot_be_shared_after_the_fact() -> None:
    first, second = function_of(parse(kernels())).args
    problem = LayoutProblem()
    problem.innermost(first, 0)
    problem.innermost(second, 0)
    with pytest.raises(ValueError, match="already has a number"):
        problem.identify(second, first)


CARRIED = """func.func @states(%x: tensor<32x64xf32>) -> tensor<8x64xf32> {
  %o = kn.customized %x grid [1, 1, 1] block [128, 1, 1] forloop 4 {
  ^bb0(%dx: tensor<32x64xf32>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 0 : tensor<32x64xf32> -> !tb.stensor<8x64xf32>
    %s = tb.carried : !tb.stensor<8x64xf32>
    %n = tb.exp %sx : !tb.stensor<8x64xf32> -> !tb.stensor<8x64xf32>
    %l = tb.carry %n to %s : (!tb.stensor<8x64xf32>, !tb.stensor<8x64xf32>) -> !tb.stensor<8x64xf32>
    tb.output %l omap [-1, -1, -1] : !tb.stensor<8x64xf32> -> tensor<8x64xf32>
  } : (tensor<32x64xf32>) -> tensor<8x64xf32>
  func.return %o : tensor<8x64xf32>
}"""


@pytest.mark.parametrize("innermost", [0, 1])
def test_the_next_state_lies_as_the_state_does(innermost: int) -> None:
    module = parse(CARRIED)
    (carry,) = (op for op in module.walk() if isinstance(op, CarryOp))
    problem = build_layout_problem(function_of(module))
    problem.require_any(problem.innermost(carry.state, 0), reason="the state lies by columns")
    problem.require_any(problem.innermost(carry.input, innermost), reason="the next one is given")
    if innermost == 0:
        solve(problem)
        return
    with pytest.raises(UnsatisfiableLayouts):
        solve(problem)
