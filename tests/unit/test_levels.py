"""Depths: the longest path from an input, in the loop and after it."""

from xdsl.ir import Operation
from xdsl.parser import Parser

from mugraph.dialects.kn import CustomizedOp
from mugraph.passes.schedule.lower_threadblock.levels import find_levels, loads_of_rings
from mugraph.reading import make_context

TILE = "!tb.stensor<8x8xf16>"


def graph_of(steps: str) -> CustomizedOp:
    """A graph of steps ``c = add a b`` or ``c = accum a``.

    Inputs are ``load a``, or ``move a`` where each iteration has a tile of its own; outputs are
    ``store a``.
    """
    lines: list[str] = []
    for step in steps.split(","):
        match step.split():
            case ["load", name]:
                lines.append(
                    f"%{name} = tb.input %tensor imap [-1, -1, -1] : tensor<8x8xf16> -> {TILE}"
                )
            case ["move", name]:
                lines.append(
                    f"%{name} = tb.input %long imap [-1, -1, -1] fordim 0 : "
                    f"tensor<16x8xf16> -> {TILE}"
                )
            case ["store", name]:
                lines.append(f"tb.output %{name} omap [-1, -1, -1] : {TILE} -> tensor<8x8xf16>")
            case [name, "=", "accum", operand]:
                lines.append(f"%{name} = tb.forloop_accum none %{operand} : {TILE} -> {TILE}")
            case [name, "=", function, operand]:
                lines.append(f"%{name} = tb.{function} %{operand} : {TILE} -> {TILE}")
            case [name, "=", function, lhs, rhs]:
                lines.append(f"%{name} = tb.{function} %{lhs}, %{rhs} : ({TILE}, {TILE}) -> {TILE}")
            case other:
                raise AssertionError(other)
    outputs = ", ".join(["tensor<8x8xf16>"] * steps.count("store"))
    results = ", ".join(f"%o{index}" for index in range(steps.count("store")))
    body = "\n    ".join(lines)
    module = Parser(
        make_context(),
        f"""
func.func @f(%x: tensor<8x8xf16>, %y: tensor<16x8xf16>) {{
  {results} = kn.customized %x, %y grid [1, 1, 1] block [32, 1, 1] forloop 2 {{
  ^bb0(%tensor: tensor<8x8xf16>, %long: tensor<16x8xf16>):
    {body}
  }} : (tensor<8x8xf16>, tensor<16x8xf16>) -> ({outputs})
  func.return
}}
""",
    ).parse_module()
    module.verify()
    return next(op for op in module.walk() if isinstance(op, CustomizedOp))


def levels(steps: str) -> tuple[list[str], list[list[str]], list[list[str]]]:
    """The names of inputs, and of the operators of each depth in the loop and after it."""
    found = find_levels(graph_of(steps))

    def name(op: Operation) -> str:
        return str(op.results[0].name_hint) if op.results else f"store {op.operands[0].name_hint}"

    return (
        [str(op.result.name_hint) for op in found.inputs],
        [[name(op) for op in level] for level in found.body],
        [[name(op) for op in level] for level in found.after],
    )


def test_depth_is_the_longest_path() -> None:
    inputs, body, after = levels(
        "load a, load b, e = exp a, s = add e b, q = square b, m = mul s q, t = accum m, store t"
    )
    assert inputs == ["a", "b"]
    assert body == [["e", "q"], ["s"], ["m"], ["t"]]
    assert after == [["store t"]]


def test_the_conflict_example_takes_two_synchronisations() -> None:
    # 1234 56 7 of the figure: two barriers between three depths.
    _, body, _ = levels(
        "load i, a = exp i, b = square i, c = sqrt i, d = silu i, e = add a b, f = add c d, "
        "g = add e f, t = accum g, store t"
    )
    assert body[:3] == [["a", "b", "c", "d"], ["e", "f"], ["g"]]


def test_depths_after_the_loop_start_anew() -> None:
    _, body, after = levels(
        "load a, e = exp a, q = square e, s = accum q, t = accum e, r = div s t, z = sqrt r, "
        "store z, store s"
    )
    assert body == [["e"], ["q", "t"], ["s"]]
    assert after == [["r", "store s"], ["z"], ["store z"]]


def test_an_input_kept_for_after_the_loop_counts_as_there() -> None:
    _, body, after = levels("load a, load w, s = accum a, r = mul s w, store r, store w")
    assert body == [["s"]]
    assert after == [["r", "store w"], ["store r"]]


def test_an_input_that_nothing_reads_is_not_loaded() -> None:
    inputs, _, _ = levels("load a, load b, s = accum b, store s")
    assert inputs == ["b"]


def rings(steps: str) -> list[list[str]]:
    """The names of the loads of each ring."""
    found = loads_of_rings(find_levels(graph_of(steps)))
    return [[str(op.result.name_hint) for op in loads] for loads in found]


def test_what_is_needed_together_shares_a_ring() -> None:
    assert rings(
        "move a, move v, move w, b = mul a w, c = mul a v, t = accum b, u = accum c, store u"
    ) == [["a", "v", "w"]]


def test_what_is_needed_late_or_alone_has_a_ring_of_its_own() -> None:
    chain = "move v, move k, load q, s = mul q k, e = exp s, m = mul e v, t = accum m, store t"
    assert rings(chain) == [["k"], ["v"]]
    assert rings("move a, move b, e = exp a, f = exp b, m = mul e f, t = accum m, store t") == [
        ["a"],
        ["b"],
    ]
    late = "move a, move b, e = exp b, f = add e a, t = accum f, store t"
    assert rings(late) == [["b"], ["a"]]


def test_what_is_the_same_in_every_iteration_makes_no_load_late() -> None:
    chain = "load q, move k, move v, n = exp q, s = mul n k, m = mul s v, t = accum m, store t"
    assert rings(chain) == [["k"], ["v"]]
