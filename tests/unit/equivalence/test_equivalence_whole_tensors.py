"""Proofs about kernel-level sums, norms and parts."""

from equivalence_programs import subject, tensor

from mugraph.runtime.equivalence.prove import Proof, prove

X, W, ROW, ONE = tensor(6, 8, 4), tensor(8, 4), tensor(6, 8, 1), tensor(6, 1, 1)


def function(body: str, result: str) -> str:
    return f"func.func @f(%x: {X}, %w: {W}) -> {result} {{ {body} func.return %r : {result} }}"


def proof(one: str, other: str, result: str) -> Proof:
    return prove(subject(function(one, result)).function, subject(function(other, result)).function)


def test_a_sum_may_be_taken_in_two_steps_and_of_a_copy() -> None:
    whole = f"%s = kn.reduction %x dim 2 : {X} -> {ROW} %r = kn.reduction %s dim 1 : {ROW} -> {ONE}"
    parts = tensor(6, 2, 4)
    steps = (
        f"%c = kn.copy %x : {X} -> {X} %p = kn.reduction %c dim 1 : {X} -> {parts} "
        f"%q = kn.reduction %p dim 1 : {parts} -> {tensor(6, 1, 4)} "
        f"%r = kn.reduction %q dim 2 : {tensor(6, 1, 4)} -> {ONE}"
    )
    assert proof(whole, steps, ONE).holds


def test_a_norm_is_its_formula() -> None:
    square = f"%q = kn.square %x : {X} -> {X} %s = kn.reduction %q dim 2 : {X} -> {ROW} "
    formula = (
        f"{square} %t = kn.reduction %s dim 1 : {ROW} -> {ONE} "
        f"%m = kn.mul_scalar %t by 0.03125 : {ONE} -> {ONE} %n = kn.sqrt %m : {ONE} -> {ONE} "
        f"%r = kn.div %x, %n : ({X}, {ONE}) -> {X}"
    )
    norm = f"%r = kn.rms_norm %x over [8, 4] : ({X}) -> {X}"
    assert proof(norm, formula, X).holds
    for other in (
        f"%r = kn.rms_norm %x over [8, 4] epsilon 0.5 : ({X}) -> {X}",
        f"%r = kn.rms_norm %x weight %w over [8, 4] : ({X}, {W}) -> {X}",
        f"%r = kn.rms_norm %x over [4] : ({X}) -> {X}",
    ):
        assert not proof(norm, other, X).holds


def test_a_function_of_a_part_is_a_part_of_the_function() -> None:
    half = tensor(6, 4, 4)
    cut = f"%a, %b = kn.chunk %x dim 1 : ({X}) -> ({half}, {half}) "
    first = f"{cut} %r = kn.exp %b : {half} -> {half}"
    last = f"%e = kn.exp %x : {X} -> {X} %a, %r = kn.split %e dim 1 : ({X}) -> ({half}, {half})"
    assert proof(first, last, half).holds
    assert not proof(first, f"{cut} %r = kn.exp %a : {half} -> {half}", half).holds
