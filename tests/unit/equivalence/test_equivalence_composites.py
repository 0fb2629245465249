"""Operators that are made of others against other ways to compute the same, and against others."""

import pytest
from equivalence_programs import subject, tensor

from mugraph.passes.program.decompose_program import decompose_program
from mugraph.runtime.equivalence import Answer, Checker, Subject

X, T, ROW, W = tensor(6, 8), tensor(8, 6), tensor(6, 1), tensor(8)


def program(body: str) -> Subject:
    return subject(f"func.func @f(%x: {X}, %w: {W}) -> {X} {{ {body} func.return %r : {X} }}")


def unary(result: str, function: str, operand: str, type_: str = X) -> str:
    return f"%{result} = kn.{function} %{operand} : {type_} -> {type_} "


def of_rows(result: str, function: str, rows: str, type_: str = X) -> str:
    return f"%{result} = kn.{function} %{rows} dim 1 : {type_} -> {ROW} "


def binary(result: str, function: str, x: str, y: str) -> str:
    return f"%{result} = kn.{function} %{x}, %{y} : ({X}, {ROW}) -> {X} "


def mask(result: str, operand: str, conditions: str, rest: str = "-inf") -> str:
    set_ = f"affine_set<(i, j) : ({conditions})>"
    return f"%{result} = kn.mask %{operand} where {set_} else {rest} : {X} -> {X} "


WHERE = (
    f"%h = kn.fill %x with 0.5 : {X} -> {X} %i = kn.fill %x with -inf : {X} -> {X} "
    f"%c = kn.less %x, %h : ({X}, {X}) -> {X} "
    f"%s = kn.where %c, %x, %i : ({X}, {X}, {X}) -> {X} "
)
SHIFTED = of_rows("m", "reduction", "x combine max") + binary("d", "sub", "x", "m")
SOFTMAX = f"%r = kn.softmax %x dim 1 : {X} -> {X} "
CENTRED = of_rows("m", "mean", "x") + binary("d", "sub", "x", "m")
NORM = f"%r = kn.layer_norm %x affine %w over [8] epsilon 0.5 : ({X}, {W}) -> {X} "
EQUAL = {
    "softmax": (
        SOFTMAX,
        SHIFTED
        + unary("e", "exp", "d")
        + of_rows("s", "reduction", "e")
        + binary("r", "div", "e", "s"),
    ),
    "softmax of columns": (
        SOFTMAX,
        f"%t = kn.transpose %x dims [1, 0] : {X} -> {T} %s = kn.softmax %t dim 0 : {T} -> {T} "
        f"%r = kn.transpose %s dims [1, 0] : {T} -> {X} ",
    ),
    "log of softmax": (
        SOFTMAX.replace("%r", "%s") + unary("r", "log", "s"),
        of_rows("l", "log_sum_exp", "x") + binary("r", "sub", "x", "l"),
    ),
    "log of a sum of exponentials, whatever is subtracted": (
        of_rows("l", "log_sum_exp", "x") + binary("r", "sub", "x", "l"),
        CENTRED
        + unary("e", "exp", "d")
        + of_rows("s", "reduction", "e")
        + unary("l", "log", "s", ROW)
        + binary("r", "sub", "d", "l"),
    ),
    "log of a root": (
        unary("e", "exp", "x") + unary("s", "sqrt", "e") + unary("r", "log", "s"),
        unary("r", "mul_scalar", "x by 0.5"),
    ),
    "layer norm": (
        NORM,
        CENTRED
        + of_rows("v", "variance", "x")
        + unary("e", "add_scalar", "v by 0.5", ROW)
        + unary("n", "sqrt", "e", ROW)
        + binary("q", "div", "d", "n")
        + f"%a = kn.reshape %w : {W} -> {tensor(1, 8)} "
        + f"%r = kn.mul %q, %a : ({X}, {tensor(1, 8)}) -> {X} ",
    ),
    "largest in steps": (
        SHIFTED.replace("%d =", "%r ="),
        f"%p = kn.reduction %x combine max dim 1 : {X} -> {tensor(6, 2)} "
        f"%m = kn.reduction %p combine max dim 1 : {tensor(6, 2)} -> {ROW} "
        f"%n = kn.max %m, %m : ({ROW}, {ROW}) -> {ROW} " + binary("r", "sub", "x", "n"),
    ),
    "reshape": (
        unary("r", "exp", "x"),
        f"%a = kn.reshape %x : {X} -> {tensor(3, 2, 8)} "
        + unary("e", "exp", "a", tensor(3, 2, 8))
        + f"%r = kn.reshape %e : {tensor(3, 2, 8)} -> {X} ",
    ),
    "mask": (mask("r", "x", "2 * j - 2 * i >= -5"), mask("r", "x", "i - 2 <= j, j >= 0")),
    "masked by a tensor": (
        WHERE + unary("r", "exp", "s"),
        WHERE.replace("kn.less %x, %h", "kn.less_equal %h, %x").replace("%c, %x, %i", "%c, %i, %x")
        + unary("r", "exp", "s"),
    ),
    "masks add up": (
        mask("a", "x", "i >= j", "0.0")
        + mask("b", "x", "j - 1 >= i", "0.0")
        + f"%s = kn.add %a, %b : ({X}, {X}) -> {X} "
        + unary("r", "exp", "s"),
        unary("r", "exp", "x"),
    ),
    "broadcast": (
        of_rows("m", "mean", "x") + binary("r", "sub", "x", "m"),
        of_rows("m", "mean", "x")
        + f"%b = kn.broadcast %m : {ROW} -> {X} %r = kn.sub %x, %b : ({X}, {X}) -> {X} ",
    ),
    "slices": (
        unary("r", "exp", "x"),
        f"%a = kn.slice %x from [0, 0] : {X} -> {tensor(2, 8)} "
        f"%b = kn.slice %x from [2, 0] : {X} -> {tensor(4, 8)} "
        f"%c = kn.concat %a, %b dim 0 : ({tensor(2, 8)}, {tensor(4, 8)}) -> {X} "
        + unary("r", "exp", "c"),
    ),
}
DIFFERENT = {
    "another mask": (mask("r", "x", "i >= j", "0.0"), mask("r", "x", "i - 1 >= j", "0.0")),
    "another constant": (mask("r", "x", "i >= j", "0.0"), mask("r", "x", "i >= j", "1.0")),
    "softmax of the other dimension": (SOFTMAX, SOFTMAX.replace("dim 1", "dim 0")),
    "sums for maxima": (SHIFTED, SHIFTED.replace("x combine max", "x")),
    "log of a softmax": (
        SOFTMAX.replace("%r", "%s") + unary("r", "log", "s"),
        of_rows("l", "log_sum_exp", "x") + binary("r", "add", "x", "l"),
    ),
    "epsilon": (NORM, NORM.replace("0.5", "0.25")),
    "not centred": (NORM, NORM.replace("layer_norm %x affine", "rms_norm %x weight")),
    "transposed twice": (
        unary("r", "exp", "x"),
        f"%t = kn.transpose %x dims [1, 0] : {X} -> {T} %s = kn.reshape %t : {T} -> {X} "
        + unary("r", "exp", "s"),
    ),
}


@pytest.mark.parametrize("name", EQUAL)
def test_other_ways_are_equal(name: str) -> None:
    one, other = map(program, EQUAL[name])
    verdict = Checker(one).check(other)
    assert verdict.answer is Answer.PROVED, str(verdict)


@pytest.mark.parametrize("name", DIFFERENT)
def test_other_functions_are_different(name: str) -> None:
    bodies = [body.replace("%d =", "%r =") for body in DIFFERENT[name]]
    one, other = map(program, bodies)
    assert Checker(one).check(other).answer is Answer.DIFFERENT


@pytest.mark.parametrize("name", EQUAL)
def test_what_an_operator_is_made_of_is_the_same(name: str) -> None:
    whole, parts = program(EQUAL[name][0]), program(EQUAL[name][0])
    decompose_program(parts.function, kernels=True)
    parts.module.verify()
    assert Checker(whole).check(parts).answer is Answer.PROVED


TABLE, TOKENS, FOUND = tensor(9, 4), "tensor<10xi32>", tensor(10, 4)


def of_rows_of_a_table(body: str) -> Subject:
    return subject(
        f"func.func @f(%x: {TABLE}, %i: {TOKENS}) -> {FOUND} {{ {body} func.return %r : {FOUND} }}"
    )


def test_rows_of_a_table() -> None:
    """A function of rows is not known to be rows of it, but tests have numbers of existing rows."""
    rows = f"kn.gather %e rows %i : ({TABLE}, {TOKENS}) -> {FOUND} "
    exponentials = unary("e", "exp", "x", TABLE)
    reference = Checker(of_rows_of_a_table(f"{exponentials} %r = {rows}"))
    halves, regrouped = "tensor<2x5xi32>", tensor(2, 5, 4)
    for body, answer in (
        (
            f"%j = kn.reshape %i : {TOKENS} -> {halves} {exponentials} "
            f"%g = kn.gather %e rows %j : ({TABLE}, {halves}) -> {regrouped} "
            f"%r = kn.reshape %g : {regrouped} -> {FOUND} ",
            Answer.PROVED,
        ),
        (f"%g = {rows.replace('%e', '%x')} {unary('r', 'exp', 'g', FOUND)}", Answer.TESTED),
        (f"%g = {rows.replace('%e', '%x')} {unary('r', 'silu', 'g', FOUND)}", Answer.DIFFERENT),
    ):
        assert reference.check(of_rows_of_a_table(body)).answer is answer


def test_an_infinity_is_not_less_than_one_more() -> None:
    infinity = f"%i = kn.fill %x with -inf : {X} -> {X} "
    more = unary("m", "add_scalar", "i by 1.0")
    smaller = program(f"{infinity} {more} %r = kn.less %i, %m : ({X}, {X}) -> {X} ")
    verdict = Checker(program(unary("r", "fill", "x with 1.0"))).check(smaller)
    assert verdict.answer is Answer.DIFFERENT, str(verdict)
