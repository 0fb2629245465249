"""Proofs hold for the same function in other partitions, and never for another function."""

import itertools

import pytest
from equivalence_programs import (
    RMSNORM_REFERENCE,
    attention,
    elementwise,
    rmsnorm_linear,
    subject,
)

from mugraph.runtime.equivalence.float64 import Float64Reference
from mugraph.runtime.equivalence.prove import Proof, prove


def proof(one: str, other: str) -> Proof:
    return prove(subject(one).function, subject(other).function)


@pytest.mark.parametrize(
    ("blocks", "loop"), list(itertools.product([1, 2, 3, 8, 24], [1, 2, 3, 16, 48]))
)
def test_partitions_of_rmsnorm_are_proved(blocks: int, loop: int) -> None:
    assert proof(rmsnorm_linear(blocks, loop), RMSNORM_REFERENCE).holds


@pytest.mark.parametrize(("splits", "loop"), list(itertools.product([1, 2, 4, 16], [1, 2])))
def test_split_attention_is_proved_under_the_strided_meaning(splits: int, loop: int) -> None:
    assert proof(attention(splits, loop), attention(1, 1)).holds


def test_split_attention_is_not_the_same_under_the_contiguous_meaning() -> None:
    assert proof(attention(4, 2, "contiguous"), attention(1, 1)) == Proof(
        False, "the normal forms of result 0 differ"
    )


def test_one_part_makes_both_meanings_equal() -> None:
    assert proof(attention(1, 2, "contiguous"), attention(4, 1)).holds


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (elementwise("x add a b"), elementwise("x add b a")),
        (
            elementwise("s add a b", "x mul s s"),
            elementwise(
                "p square a",
                "q square b",
                "m mul a b",
                "t mul_scalar m 2.0",
                "u add p q",
                "x add u t",
            ),
        ),
        (elementwise("p exp a", "q exp b", "x mul p q"), elementwise("s add a b", "x exp s")),
        (elementwise("s sqrt a", "x mul s s"), elementwise("x mul_scalar a 1.0")),
        # Roots of numbers that are squares, and of others.
        *(
            (
                elementwise("t add a b", f"m {scale}", "s sqrt m", "f div s m", "x mul a f"),
                elementwise("t add a b", f"m {scale}", "s sqrt m", "x div a s"),
            )
            for scale in ("mul_scalar t 0.25", "mul_scalar t 0.5")
        ),
        (elementwise("p div a b", "x div p b"), elementwise("s square b", "x div a s")),
        (
            elementwise("p mul_scalar a 3.0", "q mul_scalar b 3.0", "s add p q", "x div a s"),
            elementwise("s add a b", "t mul_scalar s 3.0", "x div a t"),
        ),
        (
            elementwise("x silu a"),
            elementwise(
                "n mul_scalar a -1.0",
                "e exp n",
                "z mul_scalar a 0.0",
                "o exp z",
                "s add o e",
                "x div a s",
            ),
        ),
        (elementwise("s sigmoid a", "x mul a s"), elementwise("x silu a")),
        (elementwise("s add a b", "x gelu s"), elementwise("s add b a", "x gelu s")),
        (elementwise("x rsqrt a"), elementwise("q sqrt a", "x reciprocal q")),
        (
            elementwise("e exp b", "p mul a e", "x reciprocal_or_zero p"),
            elementwise("n mul_scalar b -1.0", "e exp n", "r reciprocal_or_zero a", "x mul r e"),
        ),
        (
            elementwise("e exp b", "x reciprocal_or_zero e"),
            elementwise("e exp b", "x reciprocal e"),
        ),
        (elementwise("x abs a"), elementwise("n mul_scalar a -1.0", "x max n a")),
        (
            elementwise("e exp b", "r sqrt e", "p mul a r", "x abs p"),
            elementwise("e exp b", "r sqrt e", "p abs a", "x mul p r"),
        ),
        (
            elementwise("s mul b b", "r rsqrt s", "p mul a r", "n mul_scalar p -3.0", "x abs n"),
            elementwise("s mul b b", "r rsqrt s", "p abs a", "n mul p r", "x mul_scalar n 3.0"),
        ),
        (elementwise("m min a b", "x min m a"), elementwise("x min b a")),
        (elementwise("x where a b b"), elementwise("x mul_scalar b 1.0")),
        (
            elementwise("p where a a b", "q where a b a", "x add p q"),
            elementwise("x add a b"),
        ),
        (
            elementwise("c less a b", "x where c b c"),
            elementwise("c less a b", "d sub b c", "m mul c d", "x add m c"),
        ),
        (
            elementwise("c less a b", "x where c a b"),
            elementwise("c less_equal b a", "x where c b a"),
        ),
        (elementwise("s mul a b", "x pow s a"), elementwise("s mul b a", "x pow s a")),
        # An fp32 constant means the simplest fraction that rounds to it.
        (
            elementwise("p mul_scalar a 0.33333334", "x mul_scalar p 3.0"),
            elementwise("x mul_scalar a 1.0"),
        ),
    ],
)
def test_algebra_is_proved(one: str, other: str) -> None:
    assert proof(one, other).holds
    assert proof(other, one).holds


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (elementwise("x div a b"), elementwise("x div b a")),
        (elementwise("x add a a"), elementwise("x add a b")),
        (elementwise("x mul a b"), elementwise("x square a")),
        (elementwise("x exp a"), elementwise("x silu a")),
        (elementwise("x relu a"), elementwise("x gelu a")),
        (elementwise("p exp a", "x pow p b"), elementwise("p exp b", "x pow p b")),
        (elementwise("x mul_scalar a 0.5"), elementwise("x mul_scalar a 0.50000006")),
        (
            elementwise("t add a b", "m mul_scalar t 0.5", "x sqrt m"),
            elementwise("t add a b", "s sqrt t", "x mul_scalar s 0.5"),
        ),
        # |a| is not a.
        (elementwise("s square a", "x sqrt s"), elementwise("x mul_scalar a 1.0")),
        (elementwise("e exp a", "x exp e"), elementwise("e exp b", "x exp e")),
    ],
)
def test_other_functions_are_not_proved(one: str, other: str) -> None:
    assert not proof(one, other).holds
    reference = Float64Reference(subject(other))
    assert reference.test(subject(one), [0]).difference is not None


@pytest.mark.parametrize("base", ["mul_scalar a 1.0", "square a"])
def test_what_may_be_zero_does_not_leave_its_reciprocal(base: str) -> None:
    """Of 0 one is 0 and the other b, though a square is never less."""
    one = elementwise(f"s {base}", "r reciprocal_or_zero s", "q mul b r", "x mul q s")
    assert not proof(one, elementwise("x mul_scalar b 1.0")).holds


def test_a_kernel_may_read_other_tiles_than_the_one_before_wrote() -> None:
    """24 columns in tiles of 8, then in tiles of 3."""
    text = """
    func.func @f(%x: tensor<4x24xf16>) -> tensor<4x24xf16> {
      %y = kn.customized %x grid [3, 1, 1] block [128, 1, 1] forloop 1 {
      ^bb0(%d: tensor<4x24xf16>):
        %t = tb.input %d imap [1, -1, -1] fordim 0 : tensor<4x24xf16> -> !tb.stensor<4x8xf16>
        %e = tb.exp %t : !tb.stensor<4x8xf16> -> !tb.stensor<4x8xf16>
        %a = tb.forloop_accum none %e : !tb.stensor<4x8xf16> -> !tb.stensor<4x8xf16>
        tb.output %a omap [1, -1, -1] : !tb.stensor<4x8xf16> -> tensor<4x24xf16>
      } : (tensor<4x24xf16>) -> tensor<4x24xf16>
      %z = kn.customized %y grid [8, 1, 1] block [128, 1, 1] forloop 1 {
      ^bb0(%d: tensor<4x24xf16>):
        %t = tb.input %d imap [1, -1, -1] fordim 0 : tensor<4x24xf16> -> !tb.stensor<4x3xf16>
        %a = tb.forloop_accum none %t : !tb.stensor<4x3xf16> -> !tb.stensor<4x3xf16>
        tb.output %a omap [1, -1, -1] : !tb.stensor<4x3xf16> -> tensor<4x24xf16>
      } : (tensor<4x24xf16>) -> tensor<4x24xf16>
      func.return %z : tensor<4x24xf16>
    }
    """
    assert proof(text, elementwise("x exp a", inputs=1, shape=(4, 24))).holds


def test_a_value_that_is_the_same_in_all_iterations_counts_once_for_each() -> None:
    text = """
    func.func @f(%x: tensor<4x6xf16>) -> tensor<4x6xf16> {{
      %y = kn.customized %x grid [1, 1, 1] block [128, 1, 1] forloop {loop} {{
      ^bb0(%d: tensor<4x6xf16>):
        %t = tb.input %d imap [-1, -1, -1] : tensor<4x6xf16> -> !tb.stensor<4x6xf16>
        %a = tb.forloop_accum none %t : !tb.stensor<4x6xf16> -> !tb.stensor<4x6xf16>
        tb.output %a omap [-1, -1, -1] : !tb.stensor<4x6xf16> -> tensor<4x6xf16>
      }} : (tensor<4x6xf16>) -> tensor<4x6xf16>
      func.return %y : tensor<4x6xf16>
    }}
    """
    tripled = elementwise("x mul_scalar a 3.0", inputs=1)
    assert proof(text.format(loop=3), tripled).holds
    assert not proof(text.format(loop=4), tripled).holds


def test_an_operator_without_a_normal_form_is_the_reason() -> None:
    from schedules import passes_as_written
    from xdsl.passes import PassPipeline

    from mugraph.reading import make_context

    scheduled = subject(rmsnorm_linear(2, 4))
    PassPipeline(passes_as_written()).apply(make_context(), scheduled.module)
    result = prove(scheduled.function, subject(RMSNORM_REFERENCE).function)
    assert not result.holds
    assert "'sched.launch'" in result.reason and "has no normal form" in result.reason


def masked(first: str) -> str:
    """What is masked behind a length after another function, which takes ``first`` of x."""
    return f"""
    func.func @f(%x: tensor<4x8xf32>, %n: tensor<1xi32>) -> tensor<4x8xf32> {{
      {first}
      %t = kn.tanh %y : tensor<4x8xf32> -> tensor<4x8xf32>
      %s = kn.mask %t where affine_set<(i, j) : (i - j >= 0)> else -inf
        : tensor<4x8xf32> -> tensor<4x8xf32>
      %m = kn.mask %s where affine_set<(i, j)[n] : (n - j - 1 >= 0)> at %n up_to [8] else -inf
        : tensor<4x8xf32>, tensor<1xi32> -> tensor<4x8xf32>
      func.return %m : tensor<4x8xf32>
    }}
    """


@pytest.mark.parametrize(("end", "is_proved"), [(1, True), (2, False)])
def test_what_a_mask_replaces_may_be_anything(end: int, *, is_proved: bool) -> None:
    whole = "%y = kn.mul_scalar %x by 1.0 : tensor<4x8xf32> -> tensor<4x8xf32>"
    ended = (
        f"%y = kn.mask %x where affine_set<(i, j)[n] : (n - j - {end} >= 0)> at %n up_to [8] "
        "else 0.0 : tensor<4x8xf32>, tensor<1xi32> -> tensor<4x8xf32>"
    )
    assert proof(masked(whole), masked(ended)).holds is is_proved
