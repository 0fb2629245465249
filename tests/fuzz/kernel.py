"""Random well-formed µGraphs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    TensorType,
    f8E4M3FN,
    f8E5M2,
    f32,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from fuzz.drawing import MAX_TENSOR, Chooser
from fuzz.ranges import OutOfRangeError, Range, input_range, range_of_result
from fuzz.threadblock import CLAMPS, SCALARS, ThreadblockDrawer
from mugraph.dialects import kn
from mugraph.dialects.alignment import ALIGNMENT
from mugraph.dialects.constant import mark_constant
from mugraph.dialects.element_types import is_integer
from mugraph.dialects.elementwise import UNARY_FUNCTIONS
from mugraph.dialects.shapes import ShapeError, broadcast_shape, matmul_shape
from mugraph.dialects.tensor_types import element_bytes_of, element_type_of, shape_of

UNARY = tuple(
    operator for name, operator in kn.UNARY_OPERATORS.items() if not UNARY_FUNCTIONS[name].constants
)
BINARY = tuple(kn.BINARY_OPERATORS.values())
FUNCTION = "fuzzed"


@dataclass
class FunctionDrawer:
    """Draws one function."""

    chooser: Chooser
    block: Block = field(default_factory=Block)
    ranges: dict[SSAValue, Range] = field(default_factory=dict[SSAValue, Range])
    values: list[SSAValue] = field(default_factory=list[SSAValue])
    """All DTensors."""
    computed: list[SSAValue] = field(default_factory=list[SSAValue])
    """Those that an operator computes."""

    def draw(self) -> ModuleOp | None:
        """The module; ``None`` where no operator came about."""
        for _ in range(self.chooser.number(1, 4)):
            if self.chooser.chance(35):
                self.draw_kernel()
            else:
                self.draw_customized()
        if not self.computed:
            return None
        unused = [value for value in self.computed if value.first_use is None]
        returned = unused[-3:] or [self.computed[-1]]
        if self.chooser.chance(15):
            # Any tensor may be returned, twice as well, and arguments.
            returned.append(self.chooser.pick(list(reversed(self.values))))
        self.block.add_op(ReturnOp(*returned))
        types = [value.type for value in self.block.args], [value.type for value in returned]
        function = FuncOp(
            FUNCTION,
            types,
            Region(self.block),
            arg_attrs=self.draw_alignments(self.block.args),
            res_attrs=self.draw_alignments(returned),
        )
        mark_constant(function, set(range(1, len(self.block.args), 2)))
        return ModuleOp([function])

    def draw_alignments(self, values: Sequence[SSAValue]) -> ArrayAttr[DictionaryAttr]:
        """What a signature says of addresses: mostly nothing."""
        entries: list[DictionaryAttr] = []
        for value in values:
            sizes = [size for size in (1, 2, 4, 8) if size >= element_bytes_of(value.type)]
            promise = IntegerAttr(self.chooser.pick(sizes), i64)
            is_said = self.chooser.chance(15)
            entries.append(DictionaryAttr({ALIGNMENT: promise} if is_said else {}))
        return ArrayAttr(entries)

    def new_argument(self, type_: TensorType[Any]) -> SSAValue:
        """Another argument of the function, of signed or of positive numbers."""
        argument = self.block.insert_arg(type_, len(self.block.args))
        kind = self.chooser.pick(("signed", "positive"))
        if is_integer(type_.element_type):
            kind = "whole"
        argument.name_hint = f"{kind}_{len(self.block.args)}"
        self.ranges[argument] = input_range(argument.name_hint)
        if kind != "whole":
            self.values.append(argument)
        return argument

    def add(self, op: Operation) -> bool:
        """Adds an operator whose ranges are known, or to be found; whether it could."""
        if not isinstance(op, kn.CustomizedOp):
            try:
                operands = [self.ranges[operand] for operand in op.operands]
                found = range_of_result(op, operands)
                self.ranges |= dict.fromkeys(op.results, found)
            except OutOfRangeError:
                op.erase()
                return False
        self.block.add_op(op)
        self.values.extend(op.results)
        self.computed.extend(op.results)
        return True

    def draw_customized(self) -> None:
        drawer = ThreadblockDrawer(self.chooser, tuple(self.values), self.ranges, self.new_argument)
        op = drawer.draw()
        if op is not None:
            self.add(op)

    def draw_operand(self) -> SSAValue:
        """A tensor that is there, or a new one."""
        if self.values and self.chooser.chance(75):
            return self.chooser.pick(list(reversed(self.values)))
        shape = self.chooser.shape(self.chooser.pick((2, 3, 1, 4, 5)), 4096)
        return self.new_argument(self.chooser.tensor_type(shape, self.chooser.element_type()))

    def result_type(self, shape: Sequence[int]) -> TensorType[Any]:
        return self.chooser.tensor_type(shape, self.chooser.element_type(), laid_out=15)

    def draw_kernel(self) -> None:
        """A pre-defined kernel."""
        kinds = (
            self.draw_unary,
            self.draw_binary,
            self.draw_matmul,
            self.draw_reduction,
            self.draw_rms_norm,
            self.draw_parts,
            self.draw_concat,
        )
        self.chooser.pick(kinds)()

    def draw_unary(self) -> None:
        operand = self.draw_operand()
        type_ = self.result_type(shape_of(operand.type))
        if self.chooser.chance(25):
            self.add(
                kn.UNARY_OPERATORS["mul_scalar"](operand, type_, (self.chooser.pick(SCALARS),))
            )
        elif self.chooser.chance(10):
            self.add(kn.UNARY_OPERATORS["clamp"](operand, type_, self.chooser.pick(CLAMPS)))
        else:
            self.add(self.chooser.pick(UNARY)(operand, type_))

    def draw_binary(self) -> None:
        operands = [self.draw_operand()]
        shape = shape_of(operands[0].type)
        fits = [value for value in self.values if _broadcast(shape, shape_of(value.type))]
        if fits and self.chooser.chance(50):
            operands.append(self.chooser.pick(fits))
        else:
            extents = [1 if self.chooser.chance(25) else extent for extent in shape]
            type_ = self.chooser.tensor_type(extents, self.chooser.element_type())
            operands.append(self.new_argument(type_))
        if self.chooser.chance(50):
            operands.reverse()
        result = _broadcast(*(shape_of(operand.type) for operand in operands))
        if result is None or math.prod(result) > MAX_TENSOR:
            return
        types = [element_type_of(operand.type) for operand in operands]
        if types[0] != types[1] and f32 not in types:
            cast = kn.CastOp(operands[0], TensorType(types[1], shape_of(operands[0].type)))
            if not self.add(cast):
                return
            operands[0] = cast.result
        self.add(self.chooser.pick(BINARY)(*operands, self.result_type(result)))

    def draw_matmul(self) -> None:
        operand = self.draw_operand()
        shape = shape_of(operand.type)
        if len(shape) < 2:
            return
        if element_type_of(operand.type) in (f8E4M3FN, f8E5M2):
            return
        element_type = element_type_of(operand.type)
        is_left = not self.chooser.chance(40)
        inner = shape[-1] if is_left else shape[-2]
        (free,) = self.chooser.shape(1, max(MAX_TENSOR // math.prod(shape[:-2]) // inner, 1))
        new = (*shape[:-2], inner, free) if is_left else (*shape[:-2], free, inner)
        fits = [
            value
            for value in self.values
            if element_type_of(value.type) == element_type
            and _product(is_left, operand, value) is not None
        ]
        if fits and self.chooser.chance(50):
            other = self.chooser.pick(fits)
        else:
            type_ = self.chooser.tensor_type(new, element_type)
            other = self.new_argument(type_)
        result = _product(is_left, operand, other)
        if result is None or math.prod(result) > MAX_TENSOR:
            return
        lhs, rhs = (operand, other) if is_left else (other, operand)
        type_ = self.chooser.tensor_type(result, element_type, laid_out=15)
        self.add(kn.MatmulOp(lhs, rhs, type_))

    def draw_reduction(self) -> None:
        """Sums along any dimension, to any extent that divides."""
        operand = self.draw_operand()
        shape = list(shape_of(operand.type))
        dim = self.chooser.number(0, len(shape) - 1)
        extent = shape[dim]
        shape[dim] = self.chooser.pick([n for n in range(1, extent + 1) if extent % n == 0])
        self.add(kn.ReductionOp(operand, dim, self.result_type(shape)))

    def draw_rms_norm(self) -> None:
        """Over some of the last dimensions, with a weight and an epsilon now and then."""
        operand = self.draw_operand()
        shape = shape_of(operand.type)
        normalized = shape[-self.chooser.number(1, min(len(shape), 2)) :]
        weight = None
        if self.chooser.chance(50):
            type_ = self.chooser.tensor_type(normalized, self.chooser.element_type())
            weight = self.new_argument(type_)
        epsilon = self.chooser.pick((0.0, 1e-5, 0.5))
        self.add(kn.RmsNormOp(operand, normalized, self.result_type(shape), weight, epsilon))

    def part_type(self, of: SSAValue, dim: int, extent: int, laid_out: int = 15) -> TensorType[Any]:
        """A tensor like another one but for its extent along ``dim``."""
        shape = list(shape_of(of.type))
        shape[dim] = extent
        return self.chooser.tensor_type(shape, element_type_of(of.type), laid_out=laid_out)

    def draw_parts(self) -> None:
        """A split in two, equal chunks, or a copy."""
        operand = self.draw_operand()
        shape = shape_of(operand.type)
        dim = self.chooser.number(0, len(shape) - 1)
        extent = shape[dim]
        if extent == 1:
            self.add(kn.CopyOp(operand, self.part_type(operand, dim, 1, laid_out=50)))
            return
        if self.chooser.chance(50):
            first = self.chooser.number(1, extent - 1)
            parts = [self.part_type(operand, dim, part) for part in (first, extent - first)]
            self.add(kn.SplitOp(operand, dim, parts))
            return
        count = self.chooser.pick([n for n in (2, 3, 4) if extent % n == 0] or [1])
        part = self.part_type(operand, dim, extent // count)
        self.add(kn.ChunkOp(operand, dim, [part] * count))

    def draw_concat(self) -> None:
        """A tensor, itself or one like it, and perhaps another."""
        operand = self.draw_operand()
        shape = shape_of(operand.type)
        dim = self.chooser.number(0, len(shape) - 1)
        (extent,) = self.chooser.shape(1, 16)
        parts = [operand, self.new_argument(self.part_type(operand, dim, extent, laid_out=30))]
        if self.chooser.chance(30):
            parts.insert(0, operand)
        total = sum(shape_of(part.type)[dim] for part in parts)
        type_ = self.part_type(operand, dim, total)
        if math.prod(shape_of(type_)) <= MAX_TENSOR:
            self.add(kn.ConcatOp(parts, dim, type_))


def _product(is_left: bool, operand: SSAValue, other: SSAValue) -> tuple[int, ...] | None:
    lhs, rhs = (operand, other) if is_left else (other, operand)
    try:
        return matmul_shape(shape_of(lhs.type), shape_of(rhs.type))
    except ShapeError:
        return None


def _broadcast(one: Sequence[int], other: Sequence[int]) -> tuple[int, ...] | None:
    try:
        return broadcast_shape([one, other])
    except ShapeError:
        return None


def draw_mugraph(chooser: Chooser) -> ModuleOp | None:
    """A well-formed µGraph: one function, @fuzzed, of up to four kernels.

    Its values stay where fp16 can tell them apart, so that results can be compared (see
    :mod:`fuzz.ranges`).  ``None`` where the choices led to no operator at all.
    """
    return FunctionDrawer(chooser).draw()
