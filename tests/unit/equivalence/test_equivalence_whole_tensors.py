"""Proofs about kernel-level sums, norms and parts."""

from equivalence_programs import subject, tensor

import mugraph.build as mi
from mugraph.passes.program.fuse_kernels import fuse_program
from mugraph.passes.targets import target_named
from mugraph.runtime.cuda import only_function
from mugraph.runtime.equivalence.budget import DEFAULT_SECONDS, STEPS_A_SECOND, Budget
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


def test_operands_that_are_read_at_each_others_places() -> None:
    square = tensor(4, 4)

    def of(function: str, *operands: str) -> str:
        order = ", ".join(operands)
        return (
            f"func.func @f(%x: {square}) -> {square} {{ "
            f"%t = kn.transpose %x dims [1, 0] : {square} -> {square} "
            f"%r = kn.{function} {order} : ({square}, {square}) -> {square} "
            f"func.return %r : {square} }}"
        )

    def equal(one: str, other: str) -> bool:
        return prove(subject(one).function, subject(other).function).holds

    assert equal(of("mul", "%x", "%t"), of("mul", "%t", "%x"))
    assert not equal(of("sub", "%x", "%t"), of("sub", "%t", "%x"))


def test_a_tile_is_stored_after_its_places_were_taken_apart() -> None:
    whole, half = tensor(8), tensor(4)
    tile, part = "!tb.stensor<8xf16>", "!tb.stensor<4xf16>"
    program = (
        f"func.func @f(%x: {whole}, %y: {half}, %z: {half}) -> ({whole}, {whole}) {{ "
        f"%r = kn.exp %x : {whole} -> {whole} "
        f"%c = kn.concat %y, %z dim 0 : ({half}, {half}) -> {whole} "
        f"%s = kn.add %r, %c : ({whole}, {whole}) -> {whole} "
        f"func.return %r, %s : {whole}, {whole} }}"
    )
    kernel = (
        f"func.func @f(%x: {whole}, %y: {half}, %z: {half}) -> ({whole}, {whole}) {{ "
        "%r, %s = kn.customized %x, %y, %z grid [1, 1, 1] block [128, 1, 1] forloop 1 { "
        f"^bb0(%dx: {whole}, %dy: {half}, %dz: {half}): "
        f"%tx = tb.input %dx imap [-1, -1, -1] : {whole} -> {tile} "
        f"%ty = tb.input %dy imap [-1, -1, -1] : {half} -> {part} "
        f"%tz = tb.input %dz imap [-1, -1, -1] : {half} -> {part} "
        f"%e = tb.exp %tx : {tile} -> {tile} "
        f"%c = tb.concat %ty, %tz dim 0 : ({part}, {part}) -> {tile} "
        f"%a = tb.add %e, %c : ({tile}, {tile}) -> {tile} "
        f"tb.output %e omap [-1, -1, -1] : {tile} -> {whole} "
        f"tb.output %a omap [-1, -1, -1] : {tile} -> {whole} "
        f"}} : ({whole}, {half}, {half}) -> ({whole}, {whole}) "
        f"func.return %r, %s : {whole}, {whole} }}"
    )
    assert prove(subject(program).function, subject(kernel).function).holds


def test_a_norm_of_a_layer_and_its_residual_takes_few_steps() -> None:
    graph = mi.new_kernel_graph("post_norm")
    x, w1, w2 = (graph.new_input(shape) for shape in ((8, 32), (32, 16), (16, 32)))
    b1, b2, weight, bias = (graph.new_input((extent,)) for extent in (16, 32, 32, 32))
    graph.mark_output(mi.layer_norm(x + mi.gelu(x @ w1 + b1) @ w2 + b2, weight, bias, 1e-5))
    program = only_function(graph.module())
    fused = program.clone()
    fuse_program(fused, target_named("sm_90a"))
    budget = Budget()
    assert prove(fused, program, budget).holds
    assert budget.steps < 0.8 * DEFAULT_SECONDS * STEPS_A_SECOND
