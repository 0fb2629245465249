"""What a user reads where a function cannot be run."""

from typing import Any

import numpy as np
import pytest
from interpreter_programs import parse
from xdsl.utils.exceptions import InterpretationError

from mugraph.errors import UserError
from mugraph.runtime.interpreter import ExecutionError, run_function

TWO_FUNCTIONS = """
func.func @double(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %y = kn.add %x, %x : (tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<4x8xf16>
  func.return %y : tensor<4x8xf16>
}
func.func @quadruple(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %y = func.call @double(%x) : (tensor<4x8xf16>) -> tensor<4x8xf16>
  %z = func.call @double(%y) : (tensor<4x8xf16>) -> tensor<4x8xf16>
  func.return %z : tensor<4x8xf16>
}
func.func private @elsewhere(%x: tensor<4x8xf16>) -> tensor<4x8xf16>
"""

OTHERS = """
func.func @i16(%x: tensor<4x8xi16>) -> tensor<4x8xi16> {
  func.return %x : tensor<4x8xi16>
}
func.func @scalar(%x: f32) -> f32 {
  func.return %x : f32
}
func.func @cast(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %y = builtin.unrealized_conversion_cast %x : tensor<4x8xf16> to tensor<4x8xf16>
  func.return %y : tensor<4x8xf16>
}
"""

ONES = np.ones((4, 8))


def message(text: str, function: str | None, *inputs: Any, precision: str = "storage") -> str:
    with pytest.raises(InterpretationError) as error:
        run_function(parse(text), function, inputs, precision)
    assert isinstance(error.value, UserError)
    return str(error.value)


def test_functions_call_each_other() -> None:
    (result,) = run_function(parse(TWO_FUNCTIONS), "quadruple", [ONES])
    np.testing.assert_array_equal(result, 4 * ONES)


def test_no_function_of_that_name() -> None:
    assert message(TWO_FUNCTIONS, "triple", ONES) == (
        "the module defines no function @triple; it defines @double, @quadruple"
    )
    assert message(TWO_FUNCTIONS, "elsewhere", ONES) == (
        "the module defines no function @elsewhere; it defines @double, @quadruple"
    )


def test_a_name_is_needed_where_there_are_several_functions() -> None:
    assert message(TWO_FUNCTIONS, None, ONES) == (
        "the module defines 2 functions (@double, @quadruple); what is run or compared has one, "
        "unless a name says which"
    )
    assert message("module {}", None) == (
        "the module defines 0 functions (none); what is run or compared has one, unless a name "
        "says which"
    )


def test_wrong_inputs() -> None:
    assert message(TWO_FUNCTIONS, "double") == "function @double takes 1 arguments, got 0"
    assert message(TWO_FUNCTIONS, "double", ONES, ONES) == (
        "function @double takes 1 arguments, got 2"
    )
    assert message(TWO_FUNCTIONS, "double", ONES.T) == (
        "argument 0 of function @double has extents [4, 8], got an array of extents [8, 4]"
    )
    assert message(TWO_FUNCTIONS, "double", ONES.astype(int)) == (
        "argument 0 of function @double needs floating-point numbers, got an array of int64"
    )


def test_unknown_precision() -> None:
    assert message(TWO_FUNCTIONS, "double", ONES, precision="half") == (
        "there is no precision 'half'; there are 'storage' and 'float64'"
    )


def test_types_that_have_no_arrays() -> None:
    assert message(OTHERS, "i16", ONES) == (
        "the interpreter has no numbers of element type i16; it has f16, bf16, f32, f8E4M3FN, "
        "f8E5M2, i8, i32, i64, i1, f64, ui8"
    )
    assert message(OTHERS, "scalar", ONES) == (
        "argument 0 of function @scalar has type f32; the interpreter takes tensors"
    )


def test_an_operator_that_is_not_known() -> None:
    assert message(OTHERS, "cast", ONES) == (
        "'builtin.unrealized_conversion_cast' %y cannot be executed by the interpreter yet"
    )


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble])
def test_inputs_of_any_floating_point_type(dtype: type[Any]) -> None:
    (result,) = run_function(parse(TWO_FUNCTIONS), "double", [np.full((4, 8), 1 / 3, dtype)])
    assert result.dtype == np.float16
    np.testing.assert_array_equal(result, np.full((4, 8), 2 * np.float16(1 / 3)))


COPIES = """
func.func @f(%x: tensor<2x4xf16> {{mugraph.sharding = #kn.sharding<[[0]]>}})
    -> (tensor<2x4xf16> {{mugraph.sharding = #kn.sharding<[[]]>}})
    attributes {{mugraph.mesh = [2], mugraph.per_device}} {{
  %y = kn.mul_scalar %x by {factor} : tensor<2x4xf16> -> tensor<2x4xf16>
  func.return %y : tensor<2x4xf16>
}}
"""


def test_copies_of_a_result_are_the_same_numbers_on_all_devices() -> None:
    # One device has zeros, and the other one negative zeros or other numbers.
    x = np.ones((4, 4)) * np.array([[1], [1], [-1], [-1]])
    zeros = parse(COPIES.format(factor="0.0"))
    assert not run_function(zeros, None, [x], "float64")[0].any()
    ones = parse(COPIES.format(factor="1.0"))
    with pytest.raises(ExecutionError, match="devices 0 and 1 should hold the same part of it"):
        run_function(ones, None, [x], "float64")
    numbers = run_function(zeros, None, [x * np.inf], "float64")[0]
    assert np.isnan(numbers).all()
