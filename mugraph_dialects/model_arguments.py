"""What the arguments of a model's program are: weights of a file, and state that calls change.

An argument may say which tensor of a file of weights it is,
``%w: tensor<64x64xf16> {mugraph.constant, mugraph.weight = "layers.0.weight"}``, or that it is kept
from call to call, such as a cache, and which result is its new value,
``%k: tensor<1x2x32x16xf16> {mugraph.state = {name = "keys", result = 1 : i64, zeros}}``.  A state
with ``zeros`` starts as zeros, another as the tensor of that name in a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    StringAttr,
    UnitAttr,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.tensor_types import op_label, value_label

WEIGHT = "mugraph.weight"
"""The attribute of an argument: its name in a file of weights."""
STATE = "mugraph.state"
"""The attribute of an argument that calls change."""


@dataclass(frozen=True)
class State:
    """An argument that is kept from call to call; ``result`` is the number of its new value."""

    name: str
    argument: int
    result: int
    zeros: bool
    """Whether it is zeros before the first call."""


@dataclass(frozen=True)
class ModelArguments:
    """The arguments of a program that a caller does not pass at each call, by their numbers."""

    weights: Mapping[int, str] = field(default_factory=dict[int, str])
    states: tuple[State, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.weights or self.states)

    @property
    def arguments(self) -> frozenset[int]:
        """The numbers of all of them."""
        return frozenset((*self.weights, *(state.argument for state in self.states)))

    @property
    def results(self) -> frozenset[int]:
        """The numbers of the results that are new values of a state."""
        return frozenset(state.result for state in self.states)


def model_arguments(function: FuncOp) -> ModelArguments:
    """What a function says of its arguments; raises ``VerifyException`` where that cannot be."""
    weights: dict[int, str] = {}
    states: list[State] = []
    for index, entry in enumerate(function.arg_attrs or ()):
        weight, state = entry.data.get(WEIGHT), entry.data.get(STATE)
        if weight is None and state is None:
            continue
        what = f"argument {index} ({value_label(function.args[index])}) of {op_label(function)}"
        if weight is not None and state is not None:
            raise VerifyException(f"{what} is a weight and a state; a weight does not change")
        if weight is not None:
            if not isinstance(weight, StringAttr):
                raise VerifyException(f"{what}: {WEIGHT} is a name in quotes, not {weight}")
            weights[index] = weight.data
        elif state is not None:
            states.append(_state(state, index, function, what))
    results = [state.result for state in states]
    if len({*results}) < len(results):
        raise VerifyException(f"{op_label(function)}: two states have one result")
    return ModelArguments(weights, tuple(states))


def _state(attribute: Attribute, index: int, function: FuncOp, what: str) -> State:
    empty: dict[str, Attribute] = {}
    fields = attribute.data if isinstance(attribute, DictionaryAttr) else empty
    name, result = fields.get("name"), fields.get("result")
    if not isinstance(name, StringAttr) or not isinstance(result, IntegerAttr):
        raise VerifyException(
            f'{what}: {STATE} is {{name = "NAME", result = NUMBER : i64}}, not {attribute}'
        )
    number = result.value.data
    outputs = function.function_type.outputs.data
    if not 0 <= number < len(outputs):
        raise VerifyException(
            f"{what}: its new value is result {number}, but there are {len(outputs)} results"
        )
    return State(name.data, index, number, "zeros" in fields)


def mark_model_arguments(function: FuncOp, model: ModelArguments) -> None:
    """Writes the attributes that :func:`model_arguments` reads."""
    known = function.arg_attrs.data if function.arg_attrs else ()
    entries = [dict(entry.data) for entry in known] or [
        dict[str, Attribute]() for _ in function.args
    ]
    for index, name in model.weights.items():
        entries[index][WEIGHT] = StringAttr(name)
    for state in model.states:
        fields: dict[str, Attribute] = {
            "name": StringAttr(state.name),
            "result": IntegerAttr(state.result, i64),
        }
        if state.zeros:
            fields["zeros"] = UnitAttr()
        entries[state.argument][STATE] = DictionaryAttr(fields)
    function.arg_attrs = ArrayAttr([DictionaryAttr(entry) for entry in entries])
