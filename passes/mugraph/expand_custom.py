"""``--expand-custom``: custom operators become operators of the block that compute the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, ModuleOp, f32, i1
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr
from xdsl.passes import ModulePass

from mugraph.dialects import tb, te
from mugraph.dialects.ancestors import ancestors
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


class NotOfOperatorsError(Exception):
    """A function that operators of a block do not compute."""


class _Number(NamedTuple):
    """A number of an iteration: a function of the element of a tile, or of none."""

    tile: SSAValue | None
    function: ScalarFunction


@dataclass
class _Expansion:
    """The operators of a function, found as it runs: each loop at once for all its iterations."""

    shape: tuple[int, ...]
    """Of the result; loops run over its dimensions."""
    dimensions: Mapping[SSAValue, int]
    """The dimension that each loop's variable is."""
    contents: dict[SSAValue, _Number]
    """What buffers hold: for each element, what is at its place."""
    loops: tuple[SSAValue, ...] = ()
    """The variables of the loops around."""
    numbers: dict[SSAValue, _Number] = field(default_factory=dict[SSAValue, _Number])
    parts: list[Operation] = field(default_factory=list[Operation])

    def run(self, ops: Iterable[Operation]) -> None:
        """What the operators of a block do."""
        for op in ops:
            match op:
                case te.ParOp() if op.iterations == self.shape[self.dimensions[op.variable]]:
                    around = self.loops
                    if self.dimensions[op.variable] in map(self.dimensions.get, around):
                        raise NotOfOperatorsError  # as places along a dimension are combined
                    self.loops = (*around, op.variable)
                    self.run(op.body.block.ops)
                    self.loops = around
                case te.BindOp():
                    if self.apart(op):
                        raise NotOfOperatorsError
                    self.contents[op.buffer] = self.kept(self.numbers[op.value], op.buffer_type)
                case te.RedOp():
                    self.contents[op.buffer] = self.reduced(op)
                case te.NewOp() | ReturnOp():
                    pass
                case _ if len(op.results) == 1:
                    self.numbers[op.results[0]] = self.number(op)
                case _:
                    raise NotOfOperatorsError

    def apart(self, op: te.AccessOp) -> list[int]:
        """The dimensions of the loops around that an element's indices do not name.

        Not of loops around its buffer, of which each iteration has its own.
        """
        new = op.buffer.owner
        loops = ancestors(new) if isinstance(new, te.NewOp) else ()
        around = {loop.variable for loop in loops if isinstance(loop, te.ParOp)}
        named = self.places(op)
        return [self.dimensions[one] for one in self.loops if one not in (*named, *around)]

    def places(self, op: te.AccessOp) -> list[SSAValue | None]:
        """The loop's variable that each index of an access is; ``None`` where the index is 0.

        Loops run over all of a buffer, and a dimension of a tile is the same one of the result.
        """
        found: list[SSAValue | None] = []
        for extent, expression in zip(
            op.buffer_type.get_shape(), op.index_map.results, strict=True
        ):
            match expression:
                case AffineDimExpr(position=place) if op.indices[place] in self.dimensions:
                    found.append(op.indices[place])
                    if self.shape[self.dimensions[op.indices[place]]] != extent:
                        raise NotOfOperatorsError
                case AffineConstantExpr(value=0) if extent == 1:
                    found.append(None)
                case _:
                    raise NotOfOperatorsError
        return found

    def reduced(self, op: te.RedOp) -> _Number:
        """What a buffer holds combined with numbers of all iterations along a dimension."""
        (dimension,) = self.apart(op)
        if op.buffer_type.element_type != f32:
            raise NotOfOperatorsError
        before = self.contents[op.buffer]
        tile = self.held(self.numbers[op.value])
        extents = list(shape_of(tile.type))
        if extents[dimension] != self.shape[dimension]:
            raise NotOfOperatorsError
        extents[dimension] = 1
        type_ = tb.STensorType(extents, f32)
        match op.combination.data, before:
            case te.Combination.ADD, _Number(None, ScalarFunction("fill", (0.0,))):
                part = tb.ReductionOp(tile, dimension, type_)
            case te.Combination.MAX, _Number(None, ScalarFunction("fill", (least,))):
                part = tb.ReductionMaxOp(tile, dimension, (type_, type_), least)
            case _:
                raise NotOfOperatorsError
        self.parts.append(part)
        return _Number(part.results[0], IDENTITY)

    def kept(self, number: _Number, type_: te.BufferType) -> _Number:
        """A number in a buffer, from which several may read it."""
        if number.tile is None:
            return number
        return _Number(self.held(number, type_.element_type), IDENTITY)

    def apply(self, name: str, operands: Sequence[_Number]) -> _Number:
        """A function of numbers: one of one tile's elements, or an operator on several tiles."""
        tiles = list(dict.fromkeys(tile for tile, _function in operands if tile is not None))
        outer = ScalarFunction(name)
        if len(tiles) == 1:
            return _Number(tiles[0], _composed(outer, [one.function for one in operands]))
        if len(tiles) != len(operands):
            raise NotOfOperatorsError
        held = [self.held(one) for one in operands]
        shape = broadcast_shape([shape_of(tile.type) for tile in held])
        self.parts.append(tb.elementwise(outer, held, tb.STensorType(shape, f32)))
        return _Number(self.parts[-1].results[0], IDENTITY)

    def held(self, number: _Number, type_: Attribute = f32) -> SSAValue:
        """The tile of a number."""
        tile, function = number
        if tile is None:
            raise NotOfOperatorsError
        made = tb.STensorType(shape_of(tile.type), type_)
        if function == IDENTITY and (type_ == f32 or tile.type == made):
            return tile
        part = tb.CastOp(tile, made)
        functions = _chain(function)
        part.epilogue = epilogue_attribute(Epilogue(functions))
        self.parts.append(part)
        return part.result

    def number(self, op: Operation) -> _Number:
        """What an operator of the function computes."""
        if isinstance(op, te.ViewOp):
            self.places(op)  # as it must be an element at the variables of the loops
            return self.contents[op.buffer]
        if isinstance(op, arith.ConstantOp) and isinstance(op.value, FloatAttr):
            return _Number(None, ScalarFunction("fill", (op.value.value.data,)))
        operands = [self.numbers[one] for one in op.operands]
        if isinstance(op, arith.TruncFOp):
            return _Number(self.held(operands[0], op.result.type), IDENTITY)
        if any(one.type not in (f32, i1) for one in op.results):
            raise NotOfOperatorsError
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
                    raise NotOfOperatorsError
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


def _rounded_where_computed(parts: Sequence[Operation]) -> list[Operation]:
    """The operators without casts of what nothing else reads: others round their own results."""
    left = [*parts]
    for part in parts:
        if not isinstance(part, tb.CastOp) or part.epilogue is not None:
            continue
        made = part.operands[0]
        if made.owner in left and made.has_one_use():
            part.result.replace_all_uses_with(
                Rewriter.replace_value_with_new_type(made, part.result.type)
            )
            part.erase()
            left.remove(part)
    return left


def _dimensions(function: FuncOp) -> dict[SSAValue, int]:
    """The dimension of the tiles that the variable of each loop is; raises where it is several.

    A tile has its own; of another buffer a dimension is what loops over it are elsewhere.
    """
    named = [
        (op.indices[expression.position], (op.buffer, place))
        for op in function.walk()
        if isinstance(op, te.AccessOp)
        for place, expression in enumerate(op.index_map.results)
        if isinstance(expression, AffineDimExpr)
    ]
    found: dict[SSAValue | tuple[SSAValue, int], int] = {
        each: each[1] for _, each in named if each[0] in function.body.block.args
    }
    before = -1
    while before < len(found):
        before = len(found)
        for pair in named:
            dimensions = {found[one] for one in pair if one in found}
            if len(dimensions) > 1:
                raise NotOfOperatorsError
            found |= {one: dimension for dimension in dimensions for one in pair}
    return {one: dimension for one, dimension in found.items() if isinstance(one, SSAValue)}


def operators_of(op: tb.CustomOp) -> list[Operation]:
    """The operators of the block that an operator's function consists of, that of its result last.

    None where its function is not known, or does not consist of such: parallel loops, nested ones
    over different dimensions of the result, that write elements at their variables, computed in f32
    from elements at the same place, and sums and maxima in f32 of them along one dimension.
    """
    function = op.declared_function()
    if function is None or len(op.outputs) != 1:
        return []
    arguments = function.body.block.args
    given = [arguments[place] for place in input_parameters(function)]
    tiles: dict[SSAValue, _Number] = {
        one: _Number(tile, IDENTITY) for one, tile in zip(given, op.inputs, strict=True)
    }
    type_ = op.outputs[0].type
    found = _Expansion(shape_of(type_), {}, tiles)
    try:
        found.dimensions = _dimensions(function)
        found.run(function.body.block.ops)
        (result,) = [found.contents[one].tile for one in arguments if one not in given]
        if result is not None and result is found.parts[-1].results[0] and result.type == type_:
            return _rounded_where_computed(found.parts)
    except (NotOfOperatorsError, LookupError, ValueError):
        pass
    for part in reversed(found.parts):
        part.erase()
    return []


@dataclass(frozen=True)
class ExpandCustomPass(ModulePass):
    """Writes a custom operator with operators of the block where its function consists of such.

    What reads it, and what it reads, can then share registers with it: it is an epilogue of its
    producer, is cut as any operator is, and its tiles may be ragged.  The function consists of
    nested parallel loops over dimensions of its tiles, in any order and beside each other.  They
    write elements at their variables, of the result or of buffers made in it, and compute them in
    f32, by functions that ``tb`` has, too, from elements at the same place; along extents of 1
    elements are broadcast.  ``red`` sums up along a dimension, from 0 on, or takes the largest.
    What is computed of the elements of one tile is one function of them.

    Before, of ``par M i { par N j { result[i, j] = 2.0 * tanh(x[i, j]) * x[i, j] } }``, and of
    ``par M i { par N j { red s[i] += x[i, j] } par N j { result[i, j] = x[i, j] / s[i] } }``::

        %y = tb.custom @gated(%x) : (!tb.stensor<16x64xf16>) -> !tb.stensor<16x64xf16>
        %z = tb.custom @shares(%y) : (!tb.stensor<16x64xf16>) -> !tb.stensor<16x64xf16>

    After::

        %y = tb.cast %x then [composed(mul, composed(mul_scalar(2.0), tanh), identity)] : ...
        %s = tb.reduction %y dim 1 : !tb.stensor<16x64xf16> -> !tb.stensor<16x1xf32>
        %z = tb.div %y, %s : (!tb.stensor<16x64xf16>, !tb.stensor<16x1xf32>) -> ...
    """

    name = "expand-custom"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Expands in every threadblock graph of the module."""
        for custom in [one for one in op.walk() if isinstance(one, tb.CustomOp)]:
            parts = operators_of(custom)
            if parts:
                parts[-1].results[0].name_hint = custom.outputs[0].name_hint
                Rewriter.replace_op(custom, parts, [parts[-1].results[0]])
