"""The ``linalg`` dialect as front ends write it: xDSL's, with what it lacks of MLIR's.

Products and convolutions may have results of a wider type than their operands, generics several
results, and the batched and vector products and the element-wise operators of the tables below are
there.  All have xDSL's classes as bases, so that passes on xDSL's ``linalg`` take them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

from xdsl.builder import Builder
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AffineMapAttr, AnyFloat, ArrayAttr, IntegerType, StringAttr
from xdsl.dialects.linalg import Linalg as XdslLinalg
from xdsl.dialects.linalg import ops
from xdsl.dialects.linalg.abstract_ops import ConvOperation, ElementwiseOperation, NamedOperation
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.ir import Attribute, BlockArgument, Dialect, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.irdl import prop_def
from xdsl.parser import Parser

from mugraph.dialects.definition import irdl_op_definition


class SumOfProducts(NamedOperation):
    """Adds products of the operands' elements, as extended to the result's type."""

    @classmethod
    def get_hidden_region(cls, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue]) -> Region:
        """The output's element plus the product of the inputs', in the output's type."""
        types = cls.body_arg_types((*inputs, *outputs))
        wide = types[-1]
        floats = isinstance(wide, AnyFloat)

        def extended(value: SSAValue) -> SSAValue:
            if value.type == wide:
                return value
            if isinstance(wide, IntegerType):
                return arith.ExtSIOp(value, wide).result
            return arith.ExtFOp(value, wide).result

        @Builder.implicit_region(types)
        def body(args: tuple[BlockArgument, ...]) -> None:
            left, right = (extended(argument) for argument in args[:2])
            add, mul = (arith.AddfOp, arith.MulfOp) if floats else (arith.AddiOp, arith.MuliOp)
            ops.YieldOp(add(mul(left, right), args[2]))

        return body


class GenericOp(ops.GenericOp):
    """xDSL's, whose parser takes a list of results as well."""

    @classmethod
    def parse(cls, parser: Parser) -> GenericOp:
        """Parses MLIR's form."""
        attributes = parser.parse_optional_attr_dict()
        place = parser.pos
        maps, kinds = (attributes.pop(name, None) for name in ("indexing_maps", "iterator_types"))
        if not isinstance(maps, ArrayAttr) or not isinstance(kinds, ArrayAttr):
            parser.raise_error("'linalg.generic' needs indexing_maps and iterator_types", place)
        inputs, outputs = (_parse_operands(parser, keyword) for keyword in ("ins", "outs"))
        if parser.parse_optional_keyword("attrs"):
            parser.parse_punctuation("=")
            attributes |= parser.parse_optional_attr_dict()
        body = parser.parse_region()
        results: Sequence[Attribute] = ()
        if parser.parse_optional_punctuation("->"):
            listed = parser.parse_optional_comma_separated_list(
                Parser.Delimiter.PAREN, parser.parse_type
            )
            results = [parser.parse_type()] if listed is None else listed
        op = cls(
            inputs,
            outputs,
            body,
            cast(ArrayAttr[AffineMapAttr], maps),
            [_iterator_type(kind) for kind in cast(ArrayAttr[Attribute], kinds)],
            results,
            *(cast(Any, attributes.pop(name, None)) for name in ("doc", "library_call")),
        )
        op.attributes |= attributes
        return op


def _iterator_type(kind: Attribute) -> Attribute:
    return IteratorTypeAttr(IteratorType(kind.data)) if isinstance(kind, StringAttr) else kind


def _parse_operands(parser: Parser, keyword: str) -> Sequence[SSAValue]:
    """``ins(%a, %b : type, type)``, or nothing."""
    place = parser.pos
    if not parser.parse_optional_keyword(keyword):
        return ()
    parser.parse_punctuation("(")
    separator = Parser.Delimiter.NONE
    values = parser.parse_comma_separated_list(separator, parser.parse_unresolved_operand)
    parser.parse_punctuation(":")
    types = parser.parse_comma_separated_list(separator, parser.parse_type)
    parser.parse_punctuation(")")
    return parser.resolve_operands(values, types, place)


class NamedProduct(SumOfProducts):
    """A product of matrices or vectors; which dimensions meet is said by its maps."""

    PRINT_ATTRS_IN_FRONT: ClassVar[bool] = True
    indexing_maps = prop_def(ArrayAttr[AffineMapAttr])

    def get_default_indexing_maps(self) -> Sequence[AffineMap]:
        """One an operand."""
        return [map_.data for map_ in self.indexing_maps]

    def get_iterator_types(self) -> ArrayAttr[IteratorTypeAttr]:
        """What the output lacks is summed over."""
        *_, output = self.get_default_indexing_maps()
        kept = {each.position for each in output.results if isinstance(each, AffineDimExpr)}
        parallel, reduction = IteratorTypeAttr.parallel(), IteratorTypeAttr.reduction()
        return ArrayAttr(parallel if n in kept else reduction for n in range(output.num_dims))


def _map(dims: str, loops: str) -> AffineMapAttr:
    return AffineMapAttr(
        AffineMap(len(loops), 0, tuple(AffineDimExpr(loops.index(dim)) for dim in dims))
    )


_PRODUCTS = {
    "batch_matmul": ("bmn", "bmk", "bkn"),
    "batch_matmul_transpose_a": ("bmn", "bkm", "bkn"),
    "batch_matmul_transpose_b": ("bmn", "bmk", "bnk"),
    "batch_matvec": ("bm", "bmk", "bk"),
    "batch_vecmat": ("bn", "bk", "bkn"),
    "matmul_transpose_a": ("mn", "km", "kn"),
    "matmul_transpose_b": ("mn", "mk", "nk"),
    "matvec": ("m", "mk", "k"),
    "vecmat": ("n", "k", "kn"),
    "dot": ("", "k", "k"),
}
"""Products by name: the dimensions of the result, and of both operands."""

_ELEMENTWISE: dict[str, type[Operation]] = {
    "abs": math.AbsFOp,
    "div": arith.DivfOp,
    "erf": math.ErfOp,
    "negf": arith.NegfOp,
    "powf": math.PowFOp,
    "rsqrt": math.RsqrtOp,
    "tanh": math.TanhOp,
}
"""Element-wise operators of floating-point numbers by name, and what their bodies compute."""


def _product(name: str, result: str, *operands: str) -> type[Operation]:
    loops = result + "k"
    maps = ArrayAttr(_map(dims, loops) for dims in (*operands, result))
    definition = prop_def(ArrayAttr[AffineMapAttr], default_value=maps)
    members = {"name": f"linalg.{name}", "indexing_maps": definition}
    return irdl_op_definition(type(f"{name}_op", (NamedProduct,), members))


def _elementwise(name: str, function: type[Operation]) -> type[Operation]:
    def get_hidden_region(
        cls: type[NamedOperation], inputs: Sequence[SSAValue], outputs: Sequence[SSAValue]
    ) -> Region:
        @Builder.implicit_region(cls.body_arg_types((*inputs, *outputs)))
        def body(args: tuple[BlockArgument, ...]) -> None:
            ops.YieldOp(function(*args[: len(inputs)]))

        return body

    members = {"name": f"linalg.{name}", "get_hidden_region": classmethod(get_hidden_region)}
    return irdl_op_definition(type(f"{name}_op", (ElementwiseOperation,), members))


def _extended(op: type[Operation]) -> type[Operation]:
    """xDSL's operator, with what it lacks."""
    if op is ops.GenericOp:
        return GenericOp
    if issubclass(op, ops.MatmulOp | ConvOperation):
        return type(op.__name__, (SumOfProducts, op), {})
    return op


Linalg = Dialect(
    "linalg",
    [
        *map(_extended, XdslLinalg.operations),
        *(_product(name, *dims) for name, dims in _PRODUCTS.items()),
        *(_elementwise(name, function) for name, function in _ELEMENTWISE.items()),
    ],
    list(XdslLinalg.attributes),
)
