"""The element-wise operators of ``kn`` and ``tb``, made from the tables of scalar functions.

Both levels have the same operators: one for each function of
:mod:`mugraph.dialects.elementwise`.  A level says what its operators have in common, in a base
class for functions of one tensor and one for functions of two; the classes of the operators differ
in their name, their function and its constants only, and are made here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar, cast

from xdsl.dialects.builtin import Float32Type, FloatAttr, f32, i1
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, prop_def
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.abstract import Abstract
from mugraph.dialects.assembly import Fp32Number
from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.element_types import (
    is_integer,
    is_number_of,
    verify_joined_types,
    verify_no_integers,
    verify_same_type,
)
from mugraph.dialects.elementwise import (
    COMPARISONS,
    CONDITIONS,
    FUNCTIONS,
    WHOLE_FUNCTIONS,
    FunctionDescription,
    ScalarFunction,
    round_to_fp32,
)
from mugraph.dialects.tensor_types import element_type_of, op_label


class FunctionOperator(IRDLOperation, Abstract):
    """An operator that applies a scalar function; its constants are the operator's properties."""

    FUNCTION: ClassVar[str] = "identity"

    @property
    def function(self) -> ScalarFunction:
        """What is computed of each element."""
        constants: list[float] = []
        for constant in FUNCTIONS[self.FUNCTION].constants:
            value = self.properties[constant.name]
            assert isinstance(value, FloatAttr)
            constants.append(value.value.data)
        return ScalarFunction(self.FUNCTION, tuple(constants))

    TAKES_INTEGERS: ClassVar[bool] = False
    """Whether functions of integers are computed of them."""

    def verify_types(self) -> None:
        """Checks that the tensors are of numbers that may meet, conditions of any or of truths.

        Numbers are floating-point, or integers of one type where the function takes those.
        Comparisons may give truths.
        """
        cast_name = f"{self.dialect_name()}.cast"
        numbers, results = list(self.operands), list(self.results)
        condition = CONDITIONS.get(self.FUNCTION)
        if condition is not None and element_type_of(numbers[condition].type) == i1:
            del numbers[condition]
        if self.FUNCTION in COMPARISONS and element_type_of(results[0].type) == i1:
            results.clear()
        if self.FUNCTION == "fill":
            numbers.clear()
            if self.TAKES_INTEGERS:
                self._verify_constant(cast_name)
                return
        if self._takes(numbers):
            verify_same_type(self, [*numbers, *results], cast_name)
        else:
            verify_no_integers(self, [*numbers, *results], cast_name)
            verify_joined_types(self, numbers, cast_name)

    @property
    def computes_integers(self) -> bool:
        """Whether it computes with integers, or fills a tensor with one."""
        numbers = list(self.results if self.FUNCTION == "fill" else self.operands)
        condition = CONDITIONS.get(self.FUNCTION)
        if condition is not None:
            del numbers[condition]
        return any(is_integer(element_type_of(value.type)) for value in numbers)

    def _takes(self, numbers: Sequence[SSAValue]) -> bool:
        """Whether all numbers are integers, and the function is computed of such."""
        return (
            self.TAKES_INTEGERS
            and self.FUNCTION in WHOLE_FUNCTIONS
            and bool(numbers)
            and all(is_integer(element_type_of(value.type)) for value in numbers)
        )

    def _verify_constant(self, cast_name: str) -> None:
        """Checks that elements of the result's type have the value that they are filled with."""
        (constant,), (result,) = self.function.constants, self.results
        type_ = element_type_of(result.type)
        if is_integer(type_) and not is_number_of(type_, constant):
            raise OperatorError(
                f"{constant:g} is no number of {type_}; make the result f32 and insert a "
                f"'{cast_name}' to {type_} after it"
            )

    def verify_function(self) -> None:
        """Raises ``VerifyException`` for constants that the function does not take."""
        try:
            _ = self.function
        except ValueError as error:
            raise VerifyException(f"{op_label(self)}: {error}") from error


class UnaryFunctionOperator(FunctionOperator):
    """An operator that applies a function of one number; it keeps the type unless told not to."""

    def __init__(
        self,
        operand: SSAValue,
        result_type: Attribute | None = None,
        constants: Sequence[float] = (),
    ) -> None:
        super().__init__(
            operands=[operand],
            result_types=[result_type or operand.type],
            properties=constant_properties(self.FUNCTION, constants),
        )


class BinaryFunctionOperator(FunctionOperator):
    """An operator that applies a function of two numbers."""

    def __init__(self, lhs: SSAValue, rhs: SSAValue, result_type: Attribute) -> None:
        super().__init__(operands=[lhs, rhs], result_types=[result_type])


class TernaryFunctionOperator(FunctionOperator):
    """An operator that applies a function of three numbers."""

    def __init__(
        self, first: SSAValue, second: SSAValue, third: SSAValue, result_type: Attribute
    ) -> None:
        super().__init__(operands=[first, second, third], result_types=[result_type])


def constant_properties(function: str, constants: Sequence[float]) -> Mapping[str, Attribute]:
    """The properties of an operator with these constants, rounded to fp32.

    Raises ``ValueError`` where the function takes another number of them.
    """
    names = [constant.name for constant in FUNCTIONS[function].constants]
    if len(names) != len(constants):
        raise ValueError(f"'{function}' takes {len(names)} constants, got {len(constants)}")
    return {
        name: FloatAttr(round_to_fp32(constant), f32)
        for name, constant in zip(names, constants, strict=True)
    }


Operator = TypeVar("Operator", bound=FunctionOperator)


def make_operators(
    dialect: str, base: type[Operator], functions: Mapping[str, FunctionDescription]
) -> dict[str, type[Operator]]:
    """An operator ``dialect.function`` for each function but the identity, by function.

    ``base`` gives everything but the name and the constants, which follow the first operand in its
    assembly format.
    """
    return {
        function: _make_operator(dialect, base, function, description)
        for function, description in functions.items()
        if function != "identity"
    }


def _make_operator(
    dialect: str, base: type[Operator], function: str, description: FunctionDescription
) -> type[Operator]:
    assembly = cast(str, base.assembly_format)
    operand, _, rest = assembly.partition(" ")
    constants = [
        f"`{constant.keyword}` custom<Fp32Number>(${constant.name})"
        for constant in description.constants
    ]
    members: dict[str, Any] = {
        "__doc__": description.summary,
        "__module__": base.__module__,
        "name": f"{dialect}.{function}",
        "FUNCTION": function,
        "__annotations__": {"FUNCTION": ClassVar[str]},
        "assembly_format": " ".join([operand, *constants, rest]),
        "custom_directives": (*base.custom_directives, Fp32Number),
    } | {constant.name: prop_def(FloatAttr[Float32Type]) for constant in description.constants}
    class_name = "".join(part.capitalize() for part in function.split("_")) + "Op"
    return irdl_op_definition(cast(type[Operator], type(class_name, (base,), members)))
