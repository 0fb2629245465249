"""``--expand-custom``: custom operators whose functions are element-wise become such operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, ModuleOp, f32, i1
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr
from xdsl.passes import ModulePass

from mugraph.dialects import tb, te
from mugraph.dialects.elementwise import (
    COMPOSED,
    FUNCTIONS,
    Epilogue,
    ScalarFunction,
    epilogue_attribute,
)
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.shapes import broadcast_shape
from mugraph.dialects.te.functions import input_parameters
from mugraph.dialects.te.numbers import OPERATOR_NAMES, comparison_symbol
from mugraph.dialects.tensor_types import shape_of

COMPARISONS = {
    **{"<": ("less", 1), "<=": ("less_equal", 1)},
    **{">": ("less", -1), ">=": ("less_equal", -1)},
}
"""The function of each comparison, and the order of its operands."""
IDENTITY = ScalarFunction("identity")


class NotElementwiseError(Exception):
    """A function that element-wise operators do not compute."""


class _Number(NamedTuple):
    """A number of an iteration: a function of the element of a tile, or of none."""

    tile: SSAValue | None
    function: ScalarFunction


@dataclass
class _Expansion:
    """The operators of a function."""

    tiles: Mapping[SSAValue, SSAValue]
    """The tile of each parameter."""
    loops: Sequence[te.ParOp] = ()
    numbers: dict[SSAValue, _Number] = field(default_factory=dict[SSAValue, _Number])
    parts: list[Operation] = field(default_factory=list[Operation])

    def dimensions(self, access: te.AccessOp) -> list[int | None]:
        """The loop that each index of an access is; ``None`` where the index is 0."""
        found: list[int | None] = []
        variables = [loop.variable for loop in self.loops]
        for expression in access.index_map.results:
            match expression:
                case AffineDimExpr(position=place) if access.indices[place] in variables:
                    found.append(variables.index(access.indices[place]))
                case AffineConstantExpr(value=0):
                    found.append(None)
                case _:
                    raise NotElementwiseError
        return found

    def read(self, op: te.ViewOp) -> _Number:
        """The element of a tile at the variables of the loops, or at 0 of an extent of 1."""
        tile = self.tiles[op.buffer]
        dimensions = enumerate(self.dimensions(op))
        for extent, (dim, loop) in zip(shape_of(tile.type), dimensions, strict=True):
            if loop != dim and (loop is not None or extent != 1):
                raise NotElementwiseError
        return _Number(tile, IDENTITY)

    def apply(self, name: str, operands: Sequence[_Number]) -> _Number:
        """A function of numbers: one of one tile's elements, or an operator on several tiles."""
        tiles = list(dict.fromkeys(tile for tile, _function in operands if tile is not None))
        outer = ScalarFunction(name)
        if len(tiles) == 1:
            return _Number(tiles[0], _composed(outer, [one.function for one in operands]))
        if len(tiles) != len(operands):
            raise NotElementwiseError
        held = [self.held(one) for one in operands]
        shape = broadcast_shape([shape_of(tile.type) for tile in held])
        self.parts.append(tb.elementwise(outer, held, tb.STensorType(shape, f32)))
        return _Number(self.parts[-1].results[0], IDENTITY)

    def held(self, number: _Number, type_: Attribute = f32) -> SSAValue:
        """The tile of a number."""
        tile, function = number
        if tile is None:
            raise NotElementwiseError
        made = tb.STensorType(shape_of(tile.type), type_)
        if function == IDENTITY:
            if type_ == f32 or tile.type == made:
                return tile
            if self.parts and tile is self.parts[-1].results[0] and not tile.uses:
                return Rewriter.replace_value_with_new_type(tile, made)
        part = tb.CastOp(tile, made)
        functions = _chain(function)
        part.epilogue = epilogue_attribute(Epilogue(functions))
        self.parts.append(part)
        return part.result

    def number(self, op: Operation) -> _Number:
        """What an operator of the function computes."""
        if isinstance(op, te.ViewOp):
            return self.read(op)
        if isinstance(op, arith.ConstantOp) and isinstance(op.value, FloatAttr):
            return _Number(None, ScalarFunction("fill", (op.value.value.data,)))
        operands = [self.numbers[one] for one in op.operands]
        if isinstance(op, arith.TruncFOp):
            return _Number(self.held(operands[0], op.result.type), IDENTITY)
        if any(one.type not in (f32, i1) for one in op.results):
            raise NotElementwiseError
        match op:
            case arith.ExtFOp():
                return operands[0]
            case arith.NegfOp():
                minus = _Number(None, ScalarFunction("fill", (-1.0,)))
                return self.apply("mul", [minus, *operands])
            case arith.CmpfOp() if (symbol := comparison_symbol(op)) in COMPARISONS:
                name, order = COMPARISONS[symbol]
                return self.apply(name, operands[::order])
            case arith.SelectOp():
                return self.apply("where", operands)
            case _:
                name = OPERATOR_NAMES.get(type(op))
                if name not in FUNCTIONS:
                    raise NotElementwiseError
                return self.apply(name, operands)


def _composed(outer: ScalarFunction, parts: Sequence[ScalarFunction]) -> ScalarFunction:
    """A function of what others make of a number; with a constant where one is a constant."""
    fixed = [part.constants[0] for part in parts if part.name == "fill"]
    others = [part for part in parts if part.name != "fill"]
    if len(fixed) == 1 and len(others) == 1:
        if outer.name in ("add", "mul"):
            outer, parts = ScalarFunction(f"{outer.name}_scalar", (fixed[0],)), others
        elif outer.name == "sub" and parts[1].name == "fill":
            outer, parts = ScalarFunction("add_scalar", (-fixed[0],)), others
        elif outer.name == "max" and fixed[0] == 0:
            outer, parts = ScalarFunction("relu"), others
    if outer.name == "mul" and parts[0] == parts[1]:
        outer, parts = ScalarFunction("square"), parts[:1]
    if len(parts) == 1 and parts[0] == IDENTITY:
        return outer
    return ScalarFunction(COMPOSED, (), (outer, *parts))


def _chain(function: ScalarFunction) -> tuple[ScalarFunction, ...]:
    """The functions of one number that a function consists of, one after another."""
    if function == IDENTITY:
        return ()
    if len(function.parts) != 2:
        return (function,)
    outer, inner = function.parts
    return (*_chain(inner), outer)


def _innermost(function: FuncOp) -> tuple[list[te.ParOp], list[Operation]]:
    """The loops of a function, each of which holds the next one alone, and what the last holds."""
    loops: list[te.ParOp] = []
    ops = [op for op in function.body.block.ops if not isinstance(op, ReturnOp)]
    while len(ops) == 1 and isinstance(ops[0], te.ParOp):
        loops.append(ops[0])
        ops = list(ops[0].body.block.ops)
    return loops, ops


def elementwise_operators(op: tb.CustomOp) -> list[Operation]:
    """The element-wise operators of an operator's function, the one of its result last.

    None where its function is not known, or not one of nested parallel loops that write the element
    at their variables, computed in f32 from elements at the same place, each read by one operator.
    """
    function = op.declared_function()
    if function is None or len(op.outputs) != 1:
        return []
    loops, ops = _innermost(function)
    arguments = function.body.block.args
    given = [arguments[place] for place in input_parameters(function)]
    found = _Expansion(dict(zip(given, op.inputs, strict=True)), loops)
    if not ops or not isinstance(bind := ops.pop(), te.BindOp):
        return []
    type_ = op.outputs[0].type
    try:
        order = found.dimensions(bind)
        if None in order or len({*order}) != len(loops):
            return []
        found.loops = [loops[cast(int, place)] for place in order]
        for one in ops:
            if len(one.results) != 1:
                return []
            found.numbers[one.results[0]] = found.number(one)
        result = found.held(found.numbers[bind.value], type_.element_type)
    except (NotElementwiseError, KeyError, ValueError):
        return []
    extents = tuple(loop.iterations for loop in found.loops)
    if not found.parts or result is not found.parts[-1].results[0] or result.type != type_:
        return []
    # A tile that several operators read would have to be kept.
    read = [value for part in found.parts for value in part.operands]
    return found.parts if shape_of(type_) == extents and len({*read}) == len(read) else []


@dataclass(frozen=True)
class ExpandCustomPass(ModulePass):
    """Writes a custom operator with element-wise operators where its function is element-wise.

    What reads it, and what it reads, can then share registers with it: it is an epilogue of its
    producer, is cut as any operator is, and its tiles may be ragged.  A function is element-wise
    that consists of nested parallel loops, writes the element of its result at their variables,
    and computes it in f32, by functions that ``tb`` has, too, from elements at the same place;
    along extents of 1 operands are broadcast.  What is computed of the elements of one tile is one
    function of them.  Functions stay in which several operators would read a tile.

    Before, of ``par M i { par N j { result[i, j] = 2.0 * tanh(x[i, j]) * x[i, j] } }``::

        %y = tb.custom @gated(%x) : (!tb.stensor<16x64xf16>) -> !tb.stensor<16x64xf16>

    After::

        %y = tb.cast %x then [composed(mul, composed(mul_scalar(2.0), tanh), identity)] : ...
    """

    name = "expand-custom"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Expands in every threadblock graph of the module."""
        for custom in [one for one in op.walk() if isinstance(one, tb.CustomOp)]:
            parts = elementwise_operators(custom)
            if parts:
                parts[-1].results[0].name_hint = custom.outputs[0].name_hint
                Rewriter.replace_op(custom, parts, [parts[-1].results[0]])
