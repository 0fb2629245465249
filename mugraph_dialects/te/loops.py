"""Parallel and sequential loops, and conditions on their variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

from xdsl.dialects.builtin import (
    AffineMapAttr,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    StringAttr,
    UnitAttr,
    i1,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
)
from xdsl.irdl import (
    IRDLOperation,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.abstract import Abstract
from mugraph.dialects.accessors import is_given, number_if_given, number_of, number_or
from mugraph.dialects.ancestors import ancestors
from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.te.indices import Conditions, verify_indices
from mugraph.dialects.te.sizes import size_of
from mugraph.dialects.te.types import Level


class LoopOp(IRDLOperation, Abstract):
    """A loop over 0 to ``extent`` - 1, whose body has the number of the iteration."""

    extent = prop_def(IntegerAttr.constr(type=i64))
    body = region_def("single_block")
    traits = traits_def(NoTerminator())

    NUMBERS: ClassVar[Mapping[str, str]] = {}
    """The numbers behind the extent in its text: the word before each, and its property."""

    iterations = number_of("extent")
    """How often the body runs."""

    @property
    def variable(self) -> SSAValue:
        """The number of the iteration."""
        return self.body.block.args[0]

    def verify_(self) -> None:
        """Checks the extent and the variable."""
        if self.iterations < 1:
            raise VerifyException(
                f"'{self.name}' runs {self.iterations} times; it must be 1 or more"
            )
        arguments = self.body.block.args
        if len(arguments) != 1 or arguments[0].type != IndexType():
            raise VerifyException(f"'{self.name}' has one variable, which is an index")

    def print(self, printer: Printer) -> None:
        """Prints the loop."""
        printer.print_string(" ")
        printer.print_ssa_value(self.variable)
        printer.print_string(f" = {self.iterations}")
        self._print_clauses(printer)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)
        printer.print_op_attributes(self.attributes)

    def _print_clauses(self, printer: Printer) -> None:
        for keyword, name in self.NUMBERS.items():
            number = self.properties.get(name)
            if isinstance(number, IntegerAttr):
                printer.print_string(f" {keyword} {number.value.data}")

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Parses the loop."""
        variable = parser.parse_argument(expect_type=False).resolve(IndexType())
        parser.parse_punctuation("=")
        extent = IntegerAttr(parser.parse_integer(allow_boolean=False), i64)
        properties = {"extent": extent, **cls._parse_clauses(parser)}
        body = parser.parse_region((variable,))
        attributes = parser.parse_optional_attr_dict()
        return cls.build(properties=properties, regions=[body], attributes=attributes)

    @classmethod
    def _parse_clauses(cls, parser: Parser) -> dict[str, Attribute]:
        return {
            name: IntegerAttr(parser.parse_integer(allow_boolean=False), i64)
            for keyword, name in cls.NUMBERS.items()
            if parser.parse_optional_keyword(keyword)
        }


def as_region(body: Region | Block) -> Region:
    """The region of a block."""
    return Region(body) if isinstance(body, Block) else body


@irdl_op_definition
class ParOp(LoopOp):
    """Iterations that are independent of each other, in any order, at once or one after another.

    ``te.par %i = 64 { ... }``.  On entry everything before is done and visible; on exit everything
    that the iterations did is.  Two iterations never touch the same element with one of them
    writing: ``--te-check`` rejects it.  A level (``te.par %i = 64 block``) says where all
    iterations stay: in the threads of one block, the lanes of one ``warp``, one ``thread``, the
    blocks of one ``cluster`` or of the ``grid``.

    ``te.par %i = 32 fully align 32 block { ... }``: all iterations run at the same time, each on a
    thread of its own, consecutive ones on consecutive threads, the first on one whose number is a
    multiple of the alignment, and they run their operators together: instructions of a warp may
    stand in it, but no other ``fully`` parallel loop.

    ``te.par %b = 132 fully grid { ... }``: all iterations run at the same time, each in a block of
    its own, whose threads the loops in it are dealt to.  Loops that stand so beside each other, and
    in ``te.seq`` and ``te.if``, are parts of one kernel.
    """

    name = "te.par"

    fully = opt_prop_def(UnitAttr)
    alignment = opt_prop_def(IntegerAttr.constr(type=i64))
    level = opt_prop_def(StringAttr)

    NUMBERS: ClassVar[Mapping[str, str]] = {"align": "alignment"}

    def __init__(
        self,
        extent: int,
        body: Region | Block,
        *,
        fully: bool = False,
        alignment: int | None = None,
        level: Level | None = None,
    ) -> None:
        super().__init__(
            properties={
                "extent": IntegerAttr(extent, i64),
                "fully": UnitAttr() if fully else None,
                "alignment": None if alignment is None else IntegerAttr(alignment, i64),
                "level": None if level is None else StringAttr(str(level)),
            },
            regions=[as_region(body)],
        )

    is_at_once = is_given("fully")
    """Whether all iterations run at the same time, each on a thread or in a block."""

    thread_alignment = number_or("alignment", 1)
    """What the first iteration's thread number is a multiple of."""

    @property
    def scope(self) -> Level | None:
        """Where all iterations stay; ``None`` where that is to be decided."""
        return None if self.level is None else Level(self.level.data)

    @property
    def is_fully(self) -> bool:
        """Whether all iterations run at the same time, each on a thread of its own."""
        return self.is_at_once and self.scope not in (Level.GRID, Level.CLUSTER)

    @property
    def is_whole_grid(self) -> bool:
        """Whether all iterations run at the same time, each in a block of its own."""
        return self.is_at_once and self.scope is Level.GRID

    def verify_(self) -> None:
        """Checks the level against those of the loops around, and where ``fully`` may stand."""
        super().verify_()
        if self.level is not None and self.level.data not in list(Level):
            raise VerifyException(
                f"'te.par': there is no level '{self.level.data}'; there are {', '.join(Level)}"
            )
        if self.alignment is not None:
            if not self.is_fully:
                raise VerifyException(
                    "'te.par': only a fully parallel loop has threads in order, which #align is of"
                )
            if self.thread_alignment < 1:
                raise VerifyException("'te.par': #align is of a number of threads, 1 or more")
        if self.is_fully and self.scope is Level.THREAD:
            raise VerifyException(
                "'te.par': iterations of a fully parallel loop run at once, not on one thread"
            )
        for outer in enclosing_loops(self):
            if not isinstance(outer, ParOp):
                continue
            if self.is_whole_grid:
                raise VerifyException(
                    "'te.par': a fully parallel loop at level grid has all blocks at once, and "
                    "stands in no other parallel loop"
                )
            if self.is_fully and outer.is_fully:
                raise VerifyException("'te.par': no fully parallel loop may stand in another")
            if outer.scope and self.scope and self.scope.depth < outer.scope.depth:
                raise VerifyException(
                    f"'te.par': a loop at level {self.scope} cannot stand in one at level "
                    f"{outer.scope}, which is narrower"
                )

    def _print_clauses(self, printer: Printer) -> None:
        if self.is_at_once:
            printer.print_string(" fully")
        super()._print_clauses(printer)
        if self.level is not None:
            printer.print_string(f" {self.level.data}")

    @classmethod
    def _parse_clauses(cls, parser: Parser) -> dict[str, Attribute]:
        fully = {"fully": UnitAttr()} if parser.parse_optional_keyword("fully") else {}
        found = fully | super()._parse_clauses(parser)
        level = next((name for name in Level if parser.parse_optional_keyword(name)), None)
        return found if level is None else {**found, "level": StringAttr(str(level))}


@irdl_op_definition
class SeqOp(LoopOp):
    """Iterations in order, each after the one before: ``te.seq %k = 64 { ... }``.

    ``te.seq %k = 64 prefetch 3 { ... }`` asks ``--te-prefetch`` to load what an iteration reads of
    device memory 3 iterations ahead.
    """

    name = "te.seq"

    prefetch = opt_prop_def(IntegerAttr.constr(type=i64))

    NUMBERS: ClassVar[Mapping[str, str]] = {"prefetch": "prefetch"}

    def __init__(self, extent: int, body: Region | Block, prefetch: int | None = None) -> None:
        super().__init__(
            properties={
                "extent": IntegerAttr(extent, i64),
                "prefetch": None if prefetch is None else IntegerAttr(prefetch, i64),
            },
            regions=[as_region(body)],
        )

    ahead = number_if_given("prefetch")
    """How many iterations ahead loads are asked to begin."""

    def end(self) -> IfOp | None:
        """The condition that ends the loop where a call says, if all of the body stands under one.

        No iteration behind one for which it does not hold does anything.
        """
        body = list(self.body.block.ops)
        if len(body) != 1 or not isinstance(body[0], IfOp):
            return None
        found = body[0]
        if self.variable not in found.indices:
            return None
        place = list(found.indices).index(self.variable)
        falls = all(not equal and _falls(one, place) for one, equal in found.conditions())
        is_of_call = any(size_of(one) is not None for one in found.indices)
        return found if falls and is_of_call else None

    def verify_(self) -> None:
        """Checks the number of iterations ahead."""
        super().verify_()
        if self.ahead is not None and self.ahead < 1:
            raise VerifyException(
                f"'te.seq' prefetches 1 or more iterations ahead, not {self.ahead}"
            )


class Conditional(IRDLOperation, Abstract):
    """An operator with conditions on induction variables, which say where it does something."""

    indices = var_operand_def(IndexType)
    map = prop_def(AffineMapAttr)
    equalities = prop_def(DenseArrayBase.constr(i1))

    @staticmethod
    def properties_of(map_: AffineMapAttr, equalities: Sequence[bool]) -> dict[str, Attribute]:
        """Expressions, and which of them are equal to 0, as properties."""
        equal = [int(one) for one in equalities]
        return {"map": map_, "equalities": DenseArrayBase.from_list(i1, equal)}

    def conditions(self) -> list[tuple[AffineExpr, bool]]:
        """Each expression, and whether it is equal to 0 (or at least 0)."""
        equal = [bool(value) for value in self.equalities.get_values()]
        return list(zip(self.map.data.results, equal, strict=True))

    def verify_(self) -> None:
        """Checks the conditions."""
        label = f"'{self.name}'"
        verify_indices(label, self.map.data, self.indices)
        if not self.map.data.results or len(self.map.data.results) != len(self.equalities):
            raise VerifyException(f"{label} has at least one condition, each '>= 0' or '== 0'")


@irdl_op_definition
class IfOp(Conditional):
    """Runs its body where all conditions on the induction variables hold.

    ``te.if %i - 1 >= 0, %j mod 2 == 0 { ... }``: each condition is a quasi-affine expression that
    is at least 0, or equal to 0.
    """

    name = "te.if"

    body = region_def("single_block")
    traits = traits_def(NoTerminator())
    custom_directives = (Conditions,)
    assembly_format = "custom<Conditions>($indices, $map, $equalities) $body attr-dict"

    def __init__(
        self,
        indices: Sequence[SSAValue],
        map_: AffineMapAttr,
        equalities: Sequence[bool],
        body: Region | Block,
    ) -> None:
        super().__init__(
            operands=[indices],
            properties=self.properties_of(map_, equalities),
            regions=[as_region(body)],
        )

    def verify_(self) -> None:
        """Checks the conditions."""
        super().verify_()
        if self.body.block.args:
            raise VerifyException("'te.if': its body has no variables")


def _falls(expression: AffineExpr, place: int, sign: int = 1) -> bool:
    """Whether an expression never rises with its dimension ``place``; with sign -1 never falls."""
    match expression:
        case AffineDimExpr(position):
            return position != place or sign < 0
        case AffineConstantExpr():
            return True
        case AffineBinaryOpExpr(kind=AffineBinaryOpKind.Add, lhs=lhs, rhs=rhs):
            return _falls(lhs, place, sign) and _falls(rhs, place, sign)
        case AffineBinaryOpExpr(
            kind=AffineBinaryOpKind.Mul, lhs=lhs, rhs=AffineConstantExpr(factor)
        ):
            return _falls(lhs, place, sign if factor > 0 else -sign)
        case AffineBinaryOpExpr(kind=AffineBinaryOpKind.FloorDiv, lhs=lhs):
            return _falls(lhs, place, sign)
        case _:
            dims = [one for one in expression.dfs() if isinstance(one, AffineDimExpr)]
            return all(one.position != place for one in dims)


def enclosing_loops(op: Operation) -> list[LoopOp]:
    """The loops around an operator, the innermost first."""
    return [one for one in ancestors(op) if isinstance(one, LoopOp)]
