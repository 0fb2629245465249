"""The reference of a check, and how far off a right run may be."""

import re

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from mugraph.reading import make_context
from mugraph.runtime.compare import TOLERANCE, compare, make_reference
from mugraph.runtime.cuda import only_function
from mugraph.runtime.interpreter import run_function
from mugraph.tools.random_inputs import largest_inputs, overflows, random_inputs


def parse(text: str) -> ModuleOp:
    module = Parser(make_context(), text).parse_module()
    module.verify()
    return module


def product(*steps: str, left: str = "f16", result: str = "f16") -> ModuleOp:
    """The product of what the steps make of %x, of 16x64, with %w, both in f16."""
    body = "\n  ".join(steps).replace("F16", "tensor<16x64xf16>")
    return parse(f"""
func.func @f(%x: tensor<16x64x{left}>, %w: tensor<64x16xf16>) -> tensor<16x16x{result}> {{
  {body}
  %m = kn.matmul %y, %w : (tensor<16x64xf16>, tensor<64x16xf16>) -> tensor<16x16x{result}>
  func.return %m : tensor<16x16x{result}>
}}""")


def quantized(type_: str) -> ModuleOp:
    """exp(x) · w with exp(x), times 3, rounded to a type."""
    narrow = f"tensor<16x64x{type_}>"
    return product(
        "%e = kn.exp %x : F16 -> F16",
        "%s = kn.mul_scalar %e by 3.0 : F16 -> F16",
        f"%q = kn.cast %s : F16 -> {narrow}",
        f"%y = kn.cast %q : {narrow} -> F16",
    )


def test_a_type_that_only_inputs_have_is_not_rounded_to() -> None:
    module = product("%y = kn.cast %x : tensor<16x64xf8E4M3FN> -> F16", left="f8E4M3FN")
    inputs = random_inputs(only_function(module), [1.0], 0)
    assert make_reference(module, "f", inputs).tolerances == [TOLERANCE]


def test_a_coarse_type_that_is_rounded_to_counts() -> None:
    module = product("%y = kn.exp %x : F16 -> F16", result="f16")
    inputs = random_inputs(only_function(module), [1.0], 0)
    assert make_reference(module, "f", inputs).tolerances == [TOLERANCE]
    text = str(module).replace("f16", "bf16")
    assert make_reference(parse(text), "f", inputs).tolerances == [2 * 2.0**-7]


def tolerances(text: str) -> list[float]:
    module = parse(text)
    inputs = random_inputs(only_function(module), [1.0], 0)
    return make_reference(module, only_function(module).sym_name.data, inputs).tolerances


def product_of(element: str, result: str) -> str:
    """The text of a product of two matrices of a type."""
    x, w, m = f"tensor<16x64x{element}>", f"tensor<64x16x{element}>", f"tensor<16x16x{result}>"
    return f"""
func.func @f(%x: {x}, %w: {w}) -> {m} {{
  %m = kn.matmul %x, %w : ({x}, {w}) -> {m}
  func.return %m : {m}
}}"""


def test_products_of_narrow_numbers_are_held_to_what_their_results_have() -> None:
    """Sums of f32 to a thousandth, of which TF32 has two; whole numbers are equal."""
    assert tolerances(product_of("f8E4M3FN", "f32")) == [1e-3]
    assert tolerances(product_of("f8E4M3FN", "bf16")) == [2 * 2.0**-7]
    assert tolerances(product_of("f32", "f32")) == [TOLERANCE]
    assert tolerances(product_of("i8", "i32")) == [0]


def test_a_type_counts_for_what_is_computed_from_it() -> None:
    """Not for the result beside that."""
    narrow, wide = "tensor<16x16xbf16>", "tensor<16x16xf32>"
    text = f"""
func.func @f(%x: {narrow}, %y: {wide}) -> ({narrow}, {wide}) {{
  %a = kn.exp %x : {narrow} -> {narrow}
  %b = kn.exp %y : {wide} -> {wide}
  func.return %a, %b : {narrow}, {wide}
}}"""
    assert tolerances(text) == [2 * 2.0**-7, 1e-3]
    assert (
        tolerances(
            text.replace("kn.exp %y", "kn.mul %y, %a").replace(
                f"{wide} -> {wide}", f"({wide}, {narrow}) -> {wide}"
            )
        )
        == [2 * 2.0**-7] * 2
    )


def test_a_product_of_integers_that_is_off_by_one_somewhere_fails() -> None:
    module = parse(product_of("i8", "i32"))
    inputs = random_inputs(only_function(module), [1.0], 0)
    reference = make_reference(module, "f", inputs)
    (result,) = run_function(module, "f", inputs)
    (right,) = compare([result], reference.outputs, reference.known)
    assert right.holds(reference.tolerances[0])
    result[3, 5] += 1
    (wrong,) = compare([result], reference.outputs, reference.known)
    assert not wrong.holds(reference.tolerances[0])


@pytest.mark.parametrize("type_", ["i8", "f8E4M3FN", "i32"])
@pytest.mark.parametrize("seed", range(3))
def test_a_quantized_run_is_within_a_budget_that_a_wrong_one_is_not(type_: str, seed: int) -> None:
    module = quantized(type_)
    inputs = random_inputs(only_function(module), [1.0], seed)
    reference = make_reference(module, "f", inputs)
    (tolerance,) = reference.tolerances
    assert tolerance < 0.025
    outputs = run_function(module, "f", inputs)
    (right,) = compare(outputs, reference.outputs, reference.known)
    assert right.holds(tolerance)
    # A kernel that leaves the rounding out, or is off by 5 %.
    (unrounded,) = compare(
        run_function(quantized("f32"), "f", inputs), reference.outputs, reference.known
    )
    assert not unrounded.holds(tolerance)
    (off,) = compare([outputs[0] * np.float16(1.05)], reference.outputs, reference.known)
    assert not off.holds(tolerance)


def test_the_largest_inputs_without_an_overflow() -> None:
    steps = ["%e = kn.exp %x : F16 -> F16", "%s = kn.square %e : F16 -> F16"]
    module = product(*steps, "%y = kn.square %s : F16 -> F16")
    function = only_function(module)
    assert overflows(module, "f", random_inputs(function, [1.0], 0))
    found = largest_inputs(module, function, 0)
    assert found is not None
    size = re.fullmatch(r"--scale ([\d.]+) \(it does from about ([\d.]+) on\)", found[0])
    assert size is not None and not overflows(module, "f", found[1])
    works, fails = (float(each) for each in size.groups())
    assert 0.25 < works < fails <= 1.25 * works
    assert overflows(module, "f", random_inputs(function, [fails], 0))


def test_positive_inputs_where_others_are_undefined() -> None:
    module = product("%y = kn.sqrt %x : F16 -> F16")
    found = largest_inputs(module, only_function(module), 0)
    assert found is not None and found[0] == "positive, --scale 1"


def test_no_inputs_help_what_is_undefined() -> None:
    steps = ["%s = kn.square %x : F16 -> F16", "%n = kn.mul_scalar %s by -1.0 : F16 -> F16"]
    module = product(*steps, "%y = kn.log %n : F16 -> F16")
    assert largest_inputs(module, only_function(module), 0) is None
