"""Errors in `.te` text: the sentence, and where in the text it points."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import ParseError

from mugraph.codegen.cuda import CodegenError, print_module
from mugraph.errors import UserError
from mugraph.passes.texpr.te_lower import TeLowerPass
from mugraph.reading import make_context
from mugraph.reading.modules import parse_text
from mugraph.runtime.interpreter.errors import ExecutionError
from mugraph.runtime.interpreter.texpr import run_texpr
from mugraph.texpr import read_texpr
from mugraph.tools.diagnostics import describe_error

# The text between « and » is what the caret stands under.
CASES = [
    ("par 4 i { «!» }", "no token begins with '!'"),
    ('par 4 i { asm(«"»mov', "a text in quotes does not end"),
    ("par 4 i «{»", "this '{' has no '}'"),
    ("par 4 «{» }", "expected the name of the loop's variable, got '{'"),
    ("par 4 |i «{» }", "expected '|' after the loop's variable, got '{'"),
    ("fully «seq» 4 i { }", "expected 'par' after 'fully', got 'seq'"),
    ("par 4 i #«wide» { }", "there is no pragma #wide; a parallel loop has #align(n), #grid"),
    ("seq 4 i #«block» { }", "a 'seq' loop has no pragma but #prefetch(n): its iterations"),
    ("par 4 i #«prefetch»(2) { }", "#prefetch(n) is of a 'seq' loop"),
    ("seq 4 i #prefetch(«0») { }", "#prefetch is of 1 or more iterations, not 0"),
    ("par 4 i #block #«grid» { }", "the loop is at level #block already"),
    ("par 4 i { A[i] = «1e999» }", "no type has so large a number; infinity is 'inf'"),
    ("par 4 i { if i < 2 { } «else» { } }", "there is no 'else'; write another 'if' with the"),
    ("par «0» i { }", "the extent of a loop is at least 1, not 0"),
    (
        "par «N» i { }",
        "'N' is not defined; give its value with --size N=64 (in Python sizes={'N': 64}), or",
    ),
    ("par 4 i { A[«j»] = 1.0 }", "'j' is not defined"),
    ("fn f(x: f32[8]): «f32»[8] { par 8 i { x[i] = 1.0 } }", "nothing writes to the result; write"),
    ("par 4 i { A[«i * i»] = 1.0 }", "a product of two variables is not quasi-affine"),
    ("par 4 i { A[i / «0»] = 1.0 }", "the divisor of an index must be a positive constant"),
    (
        "fn g(b: f32[2]) { } fn f(a: f32[4], p: i32[4]) { g(a[«p[0]» : 2]) }",
        "an index cannot depend on the contents of 'p'",
    ),
    ("par 4 i { A[«B[i]»] = 1.0 }", "an index is a whole number, an i32, not a f32"),
    ("par 4 i { A[«1.5»] = 1.0 }", "an index is a whole number"),
    (
        "fn g(b: f32[2]) { } fn f(a: f32[4]) { let x = 1.0 g(a[«x» : 2]) }",
        "'x' is neither a loop's variable nor a size",
    ),
    (
        "fn g(b: f32[2]) { } fn f(a: f32[4]) { par 1 i { g(a[«exp(i)» : 2]) } }",
        "an index is quasi-affine: exp(...) cannot stand in it",
    ),
    ("fn f(a: f32[4, 4]) { «a[0, 0, 0]» = 1.0 }", "'a' has 2 dimensions, and 3 indices here"),
    ("fn f(a: f32[4]) { «a» = 1.0 }", "'a' has several elements: write a[...]"),
    ("fn f(a: f32[4]) { «new a: f32[2]» }", "'a' is defined already"),
    (
        "fn f(a: «f4»[4]) { }",
        "expected an element type (f16, bf16, f32, f64, i32, i8, u8, f8e4m3, f8e5m2, bool), "
        "got 'f4'",
    ),
    ("fn f(a: f32[«0»]) { }", "an extent is at least 1, not 0"),
    ("fn f(a: i32[4]) { «a[0] = 1.5» }", "1.5 is no i32"),
    ("fn f(a: i32[4], b: f32[4]) { a[0] = «a[0] * b[0]» }", "'*' of an i32 and a floating-point"),
    ("fn f(a: i32[4], b: f32[4]) { «a[0] = b[0]» }", "a f32 where i32 is expected; write i32(...)"),
    ("fn f(a: f32[4]) { a[0] = «exp(a[0], a[1])» }", "exp takes 1 argument, not 2"),
    ("fn f(a: f32[4]) { «g(a)» }", "there is no function g"),
    ("fn g(b: f32[4]) { } fn f(a: f32[8]) { «g(a)» }", "has an extent of 4, the buffer given of 8"),
    ("fn g(b: f16[N]) { } fn f(a: f32[8]) { «g(a)» }", "the parameter b of g is of f16, got f32"),
    ("fn g(b: f32[2]): f32[2] { } fn f(a: f32[2]) { «g(a)» }", "the result of g is not stored"),
    ("«fn f»(a: f32[4]) { f(a) }", "f calls itself, which no kernel can"),
    ("«fn f»(a: f32[N]) { }", "the size N of f has no value; give it with --size N=64"),
    ("size «M»", "the size M has no value; give it: --size M=64"),
    (
        "fully par 4 |i| { «fully par 4 |j|» { } }",
        "'te.par': no fully parallel loop may stand in another",
    ),
    ("par 4 i #block { «par 4 j» #grid { } }", "a loop at level grid cannot stand in one at level"),
    ('fn f(a: f32[4]) { par 4 i { «asm("x %1;", a)» } }', "refers to operand %1, but there"),
    ("par 4 i { if «i != 2» { A[i] = 1.0 } }", "'!=' is no condition of an 'if'"),
    ("par 4 i { if «i» { A[i] = 1.0 } }", "a condition compares two indices or numbers"),
    (
        "fn f(a: f32[4]) { par 4 i { if «a[i]» { a[i] = 1.0 } } }",
        "a condition compares two indices",
    ),
    (
        "fn f(a: f32[4]) { «if a[0] > 0.0» { par 4 i #block { a[i] = 1.0 } } }",
        "'te.when': a condition on numbers stands in loops over threads, not around them",
    ),
    (
        "fn f(a: f32[4]) { fully par 4 i #block { «if a[i] > 0.0» { barrier.sync(1, 32) } } }",
        "'te.when': 'te.named_barrier' stands under a condition on numbers",
    ),
    (
        "fn f(a: f32[4]) { par 4 i { if a[i] > 0.0 { «a[0] = 1.0» } } }",
        "iterations i = 0 and i = 1 of the 'par' of line 1 both touch a[0]",
    ),
    (
        "fn f(a: f32[4]) { par 8 i { «a[i] = 1.0» } }",
        "a is accessed at index 4 where i = 4; it has elements from 0 to 3",
    ),
    (
        "fn f(a: f32[4]) { par 4 i { «a[i / 2] = 1.0» } }",
        "iterations i = 0 and i = 1 of the 'par' of line 1 both touch a[0]: iteration 0 writes it "
        "at 1:29, iteration 1 writes it there too",
    ),
    (
        "fn f(a: f32[4, 8]) { seq 4 k { par 7 i { «a[k, i] = a[k, i + 1]» } } }",
        "iterations i = 0 and i = 1 of the 'par' of line 1 both touch a[0, 1], where k = 0: "
        "iteration 0 reads it at 1:52, iteration 1 writes it at 1:42",
    ),
    (
        "fn g(b: f32[2]) { b[0] = 1.0 } fn f(a: f32[4]) { par 4 i { g(a[i / 2 : 2]) } }",
        "iterations i = 0 and i = 1 of the 'par' of line 1 both touch a[0]",
    ),
    (
        "fn g(b: f32[2]) { «fully par 2 j» { b[j] = 1.0 } } "
        "fn f(a: f32[4]) { fully par 2 i { g(a[i * 2 : 2]) } }",
        "no fully parallel loop may stand in another",
    ),
    (
        "fn f(a: f32[4, 4], b: f32[4]) { g(«a[1 : 4, 0 : 4]») } fn g(c: f32[4, 4]) { }",
        "this section of a starts at 1 in dimension 0; it lies in a from 0 to 0",
    ),
]


@pytest.mark.parametrize(("marked", "message"), CASES, ids=[message for _, message in CASES])
def test_error(marked: str, message: str) -> None:
    text = marked.replace("«", "").replace("»", "")
    with pytest.raises(ParseError) as caught:
        read_texpr(text, "test.te", {})
    assert message in caught.value.msg
    if "«" in marked:
        assert caught.value.span.start == marked.index("«")


def test_an_unused_size_of_the_command_line() -> None:
    with pytest.raises(UserError, match=r"test\.te has no size K; leave it out"):
        read_texpr("par 4 i { A[i] = 1.0 }", "test.te", {"K": 3})


def test_carets_stand_under_what_follows_tabs() -> None:
    with pytest.raises(ParseError) as raised:
        read_texpr("par 4 i {\n\tC[i] = $\n}", "t.te", {})
    _, line, caret = describe_error(raised.value).split("\n")
    assert (line, caret) == ("\tC[i] = $", "\t       ^")


def test_a_file_without_statements_is_no_program() -> None:
    with pytest.raises(UserError, match=r"t\.te has no function and no statement"):
        read_texpr("-- nothing\n", "t.te", {})


UNORDERED = """
func.func @f(%x: !te.buffer<4xf32>, %y: !te.buffer<4xf32> {te.result}) {
  te.par %i = 4 {
    %a = te.view %x[%i] : !te.buffer<4xf32>
    %zero = arith.constant 0.0 : f32
    %less = arith.cmpf PREDICATE, %a, %zero : f32
    %b = arith.select %less, %a, %zero : f32
    te.bind %b, %y[%i] : !te.buffer<4xf32>
  }
  func.return
}
"""


@pytest.mark.parametrize("predicate", ["ult", "ord"])
def test_comparisons_that_no_symbol_stands_for_are_refused(predicate: str) -> None:
    context = make_context()
    module = parse_text(context, UNORDERED.replace("PREDICATE", predicate), "unordered.mlir")
    function = module.body.block.first_op
    assert isinstance(function, FuncOp)
    with pytest.raises(ExecutionError, match=r"'arith.cmpf' cannot be executed"):
        run_texpr(function, [np.zeros(4)])
    TeLowerPass().apply(context, module)
    with pytest.raises(CodegenError, match=r"cannot print 'arith.cmpf'"):
        print_module(module)
