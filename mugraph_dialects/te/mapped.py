"""What mapping makes of parallel loops: kernels, their threads, and what these do together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Self, cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    UnitAttr,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, Block, Operation, Region, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.ir.affine import AffineExpr
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from mugraph.dialects.accessors import is_given, number_if_given, number_or
from mugraph.dialects.ancestors import ancestors, enclosing
from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.launch_extents import (
    MAX_GRID,
    GridCut,
    cut_grid,
    extents_of,
    integer_array,
    launch_fault,
)
from mugraph.dialects.programming_model import MAX_THREADS
from mugraph.dialects.te.accesses import ELEMENT, Combination, CombinationAttr, NewOp
from mugraph.dialects.te.loops import IfOp, LoopOp, ParOp, as_region
from mugraph.dialects.te.sizes import size_of
from mugraph.dialects.te.types import BufferType, Space
from mugraph.dialects.te.values import IndexExpressionOp

OF_EACH_THREAD = "te.of_each_thread"
"""The attribute of a ``te.new`` outside steps in which each thread has a number of its own."""
UNROLL = "te.unroll"
"""The attribute of a ``te.seq`` whose iterations are to be written out."""


class Scope(StrEnum):
    """The threads that a barrier is of."""

    WARP = "warp"
    BLOCK = "block"
    CLUSTER = "cluster"
    GRID = "grid"


@irdl_attr_definition
class ScopeAttr(EnumAttribute[Scope], SpacedOpaqueSyntaxAttribute):
    """``#te<scope block>``."""

    name = "te.scope"


def block_along(block: AffineExpr, grid: Sequence[int], axis: int) -> AffineExpr:
    """The number of a block along an axis of the grid; x runs fastest."""
    inner = math.prod(grid[:axis])
    number = block if inner == 1 else block // inner
    return number if inner * grid[axis] == math.prod(grid) else number % grid[axis]


@irdl_op_definition
class KernelOp(LoopOp):
    """A kernel of blocks 0 to ``extent`` - 1: ``te.kernel "softmax" %block = 64 { ... }``.

    It holds the buffers of a block, ``te.new`` in shared memory, and one ``te.threads``.  Kernels
    of a function run one after the other.  ``smem`` is the bytes of shared memory of a block.
    With ``cluster 4``, blocks 0 to 3, 4 to 7 and so on run at the same time, close to each other,
    and each has the part of its own number among the four of buffers ``cluster``.  Of a kernel
    that is ``cooperative`` all blocks run at the same time, and ``te.barrier grid`` is for them.

    ``te.kernel "add" %block = 504 grid [63, 8, 1] cut [0, 3, 16] { ... }``: block 0 to 62 are those
    along x, and so on.  Along axis 0, x, as many are launched as have one of as many elements as
    argument 3 of the function says, 16 each.  The others have nothing to do: all but buffers of
    threads stands under conditions that exclude them.
    """

    name = "te.kernel"

    symbol = prop_def(StringAttr)
    smem = opt_prop_def(IntegerAttr.constr(type=i64))
    cluster = opt_prop_def(IntegerAttr.constr(type=i64))
    grid = opt_prop_def(DenseArrayBase.constr(i64))
    cut = opt_prop_def(DenseArrayBase.constr(i64))
    cooperative = opt_prop_def(UnitAttr)

    NUMBERS: ClassVar[Mapping[str, str]] = {"cluster": "cluster", "smem": "smem"}
    LISTS: ClassVar[Sequence[str]] = ("grid", "cut")

    def __init__(self, symbol: str, extent: int, body: Region | Block) -> None:
        super().__init__(
            properties={"extent": IntegerAttr(extent, i64), "symbol": StringAttr(symbol)},
            regions=[as_region(body)],
        )

    @property
    def threads(self) -> ThreadsOp:
        """The threads of a block."""
        found = [op for op in self.body.block.ops if isinstance(op, ThreadsOp)]
        if len(found) != 1:
            raise VerifyException(f"'te.kernel' has one 'te.threads', not {len(found)}")
        return found[0]

    smem_bytes = number_if_given("smem")
    """The bytes of shared memory of a block; ``None`` before ``--te-promote``."""

    cluster_blocks = number_or("cluster", 1)
    """The blocks of a cluster; 1 where there are no clusters."""

    is_cooperative = is_given("cooperative")
    """Whether all blocks run at the same time."""

    @property
    def blocks_that_meet(self) -> int:
        """How many neighbouring blocks may wait for each other: all, or those of a cluster."""
        return self.iterations if self.is_cooperative else self.cluster_blocks

    @property
    def shares_in_clusters(self) -> bool:
        """Whether blocks of a cluster wait for each other, or have a buffer together."""
        return any(
            (isinstance(op, BarrierOp) and op.threads is Scope.CLUSTER)
            or (isinstance(op, NewOp) and op.result.type.memory_space is Space.CLUSTER)
            for op in self.walk()
        )

    @property
    def grid_dim(self) -> tuple[int, ...]:
        """The blocks along x, y and z, at the largest sizes."""
        return (self.iterations, 1, 1) if self.grid is None else extents_of(self.grid)

    @property
    def cuts(self) -> list[GridCut]:
        """What cuts off a part of the grid."""
        numbers = () if self.cut is None else extents_of(self.cut)
        return [GridCut(*numbers[start : start + 3]) for start in range(0, len(numbers), 3)]

    def cut_by(self, grid: Sequence[int], cuts: Sequence[GridCut]) -> None:
        """Lets sizes of the function cut off parts of the grid."""
        self.grid = integer_array(grid)
        self.cut = integer_array([number for cut in cuts for number in cut])

    def launched_grid(self, values: Mapping[int, int]) -> tuple[int, ...]:
        """The blocks along x, y and z where arguments have these values."""
        return cut_grid(self.grid_dim, self.cuts, values, self.cluster_blocks)

    def cut_condition(self, cut: GridCut, size: int) -> AffineExpr:
        """What is at least 0 for launched blocks: of dimension 0, the block, and of a size."""
        place = block_along(AffineExpr.dimension(0), self.grid_dim, cut.axis)
        return AffineExpr.dimension(size) - place * cut.step - 1

    def _verify_cuts(self) -> None:
        label = f"'te.kernel' \"{self.symbol.data}\""
        if math.prod(self.grid_dim) != self.iterations or len(self.grid_dim) != 3:
            raise VerifyException(
                f"{label}: grid {list(self.grid_dim)} must be three extents of "
                f"{self.iterations} blocks in all"
            )
        fault = launch_fault(self.grid_dim, (1, 1, 1))
        if fault is not None:
            raise VerifyException(f"{label}: {fault}")
        function = self.parent_op()
        arguments = function.args if isinstance(function, FuncOp) else ()
        for one in self.cuts:
            is_size = one.argument < len(arguments) and size_of(arguments[one.argument])
            if not 0 <= one.axis < 3 or one.step < 1 or not is_size:
                raise VerifyException(
                    f"{label}: cut {list(one)} must be an axis, the number of an argument of the "
                    "function that is a size, and the elements of a block"
                )
        missing = {(cut.argument, self.cut_condition(cut, 1)) for cut in self.cuts}
        rest = [op for op in self.threads.body.block.ops if op.name != "te.new"]
        if len(rest) == 1 and isinstance(rest[0], IfOp):
            missing -= set(self._found_conditions(rest[0], arguments))
        if missing:
            raise VerifyException(
                f"{label}: blocks that 'cut' leaves out must have nothing to do: one 'te.if' whose "
                "conditions exclude them stands around what its threads do"
            )

    def _found_conditions(
        self, condition: IfOp, arguments: Sequence[SSAValue]
    ) -> Iterator[tuple[int, AffineExpr]]:
        """The conditions on the block and a size, as :meth:`cut_condition` has them."""
        operands = list(condition.indices)
        for argument in arguments:
            places = {self.variable: 0, argument: 1}
            if argument in operands:
                renamed = [AffineExpr.dimension(places.get(one, 2)) for one in operands]
                for expression, equal in condition.conditions():
                    if not equal:
                        own = expression.replace_dims_and_symbols(renamed, [])
                        yield list(arguments).index(argument), own

    def verify_(self) -> None:
        """Checks that there is one ``te.threads``, and where the kernel stands."""
        super().verify_()
        if self.cluster_blocks < 1 or self.iterations % self.cluster_blocks:
            raise VerifyException(
                f"'te.kernel' has {self.iterations} blocks, which clusters of "
                f"{self.cluster_blocks} do not divide"
            )
        if self.is_cooperative and (self.cluster_blocks > 1 or self.cut is not None):
            raise VerifyException(
                "'te.kernel' is cooperative, so that all blocks wait for each other: it has "
                "neither clusters nor a cut grid"
            )
        for op in self.walk():
            if isinstance(op, BarrierOp) and op.threads is Scope.GRID and not self.is_cooperative:
                raise VerifyException(
                    "'te.barrier grid' stands in a 'te.kernel' that is not cooperative, whose "
                    "blocks may run one after another"
                )
            if not isinstance(op, NewOp) or op.result.type.memory_space is not Space.CLUSTER:
                continue
            if (parts := op.result.type.get_shape()[0]) != self.cluster_blocks:
                raise VerifyException(
                    f"'te.kernel' has clusters of {self.cluster_blocks}, and {op.result.type} has "
                    f"parts for {parts} blocks"
                )
        if self.iterations > MAX_GRID[0]:
            raise VerifyException(
                f"'te.kernel' has {self.iterations} blocks; a grid has at most {MAX_GRID[0]}"
            )
        if self.grid is not None or self.cut is not None:
            self._verify_cuts()
        _ = self.threads
        if isinstance(self.parent_op(), LoopOp):
            raise VerifyException("'te.kernel' stands in a function, not in a loop")

    def print(self, printer: Printer) -> None:
        """Prints the kernel."""
        printer.print_string(" ")
        printer.print_string_literal(self.symbol.data)
        super().print(printer)

    def _print_clauses(self, printer: Printer) -> None:
        for name in self.LISTS:
            numbers = cast("DenseArrayBase[IntegerType] | None", self.properties.get(name))
            if numbers is not None:
                printer.print_string(f" {name} {list(extents_of(numbers))}")
        if self.is_cooperative:
            printer.print_string(" cooperative")
        super()._print_clauses(printer)

    @classmethod
    def _parse_clauses(cls, parser: Parser) -> dict[str, Attribute]:
        found: dict[str, Attribute] = {}
        for name in cls.LISTS:
            if parser.parse_optional_keyword(name):
                numbers = parser.parse_comma_separated_list(
                    parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_boolean=False)
                )
                found[name] = integer_array(numbers)
        if parser.parse_optional_keyword("cooperative"):
            found["cooperative"] = UnitAttr()
        return found | super()._parse_clauses(parser)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Parses the kernel."""
        symbol = parser.parse_str_literal()
        kernel = super().parse(parser)
        kernel.symbol = StringAttr(symbol)
        return kernel


@irdl_op_definition
class ThreadsOp(LoopOp):
    """The threads 0 to ``extent`` - 1 of a block: ``te.threads %thread = 256 { ... }``.

    All run the body, which is made of loops and conditions that are the same for all of them, of
    ``te.step`` and of ``te.barrier``.  Between barriers no order holds between different threads.
    A ``te.new`` in a step is a thread's own; outside steps it is so after ``--te-promote``, and
    before, unless it has the attribute ``te.of_each_thread``, the block's.
    """

    name = "te.threads"

    def __init__(self, extent: int, body: Region | Block) -> None:
        super().__init__(properties={"extent": IntegerAttr(extent, i64)}, regions=[as_region(body)])

    def shares(self, new: Operation) -> bool:
        """Whether a ``te.new`` in it is the block's, and not a thread's own."""
        kernel = self.parent_op()
        if not isinstance(kernel, KernelOp) or kernel.smem is not None:
            return False
        is_own = enclosing(new, StepOp) is not None or OF_EACH_THREAD in new.attributes
        return self.is_ancestor(new) and not is_own

    def verify_(self) -> None:
        """Checks the number of threads and where they stand."""
        super().verify_()
        if self.iterations > MAX_THREADS:
            raise VerifyException(
                f"'te.threads': a block has at most {MAX_THREADS} threads, not {self.iterations}"
            )
        if not isinstance(self.parent_op(), KernelOp):
            raise VerifyException("'te.threads' stands in a 'te.kernel'")


@irdl_op_definition
class StepOp(IRDLOperation):
    """What each thread does by itself: ``te.step "par 64 i" { ... }``.

    Its title says where it comes from.  Of barriers only those of a warp stand in it, where all
    threads of the warp do the same.
    """

    name = "te.step"

    title = prop_def(StringAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())
    assembly_format = "$title $body attr-dict"

    def __init__(self, title: str, body: Region | Block) -> None:
        super().__init__(properties={"title": StringAttr(title)}, regions=[as_region(body)])

    def verify_(self) -> None:
        """Checks that nothing in it is for all threads together."""
        if self.body.block.args:
            raise VerifyException("'te.step': its body has no variables")
        for op in self.body.walk():
            if isinstance(op, BarrierOp) and op.threads is Scope.WARP:
                continue
            if isinstance(op, (StepOp, BarrierOp, AllReduceOp, ParOp)):
                raise VerifyException(f"'{op.name}' cannot stand in a 'te.step'")


def runs_on_threads(op: Operation, step: type[Operation]) -> bool:
    """Whether an operator stands where threads are alive together.

    In a ``step`` of a mapped kernel, or in a ``fully`` parallel loop that becomes one.
    """
    if enclosing(op, step) is not None:
        return True
    return any(isinstance(one, ParOp) and one.is_fully for one in ancestors(op))


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """All threads of a warp, block, cluster or grid come before one goes on: ``te.barrier block``.

    What they did to memory before is visible to all of them after it.
    """

    name = "te.barrier"

    scope = prop_def(ScopeAttr)
    assembly_format = "$scope attr-dict"

    def __init__(self, scope: Scope) -> None:
        super().__init__(properties={"scope": ScopeAttr(scope)})

    @property
    def threads(self) -> Scope:
        """Whose barrier it is."""
        return self.scope.data


@irdl_op_definition
class ApplyOp(IndexExpressionOp):
    """An index by its expression: ``%i = te.apply %thread floordiv 8 + %s * 32``."""

    name = "te.apply"
    RESULT_TYPE: ClassVar[Attribute] = IndexType()

    result = result_def(IndexType)


@irdl_op_definition
class AllReduceOp(IRDLOperation):
    """The numbers of all threads of a block combined: ``%s = te.all_reduce add %x : f32``.

    ``te.all_reduce warp add %x : f32`` combines those of each warp.
    Every thread gets the same number; the order of combination is fixed.  All threads have come
    before one goes on.  ``via %scratch : type`` is a shared buffer of a number a warp, which
    ``--te-promote`` gives it where a block has several.
    """

    name = "te.all_reduce"

    combination = prop_def(CombinationAttr)
    of_warp = opt_prop_def(UnitAttr)
    value = operand_def(ELEMENT)
    scratch = opt_operand_def(BufferType)
    result = result_def(ELEMENT)
    assembly_format = (
        "(`warp` $of_warp^)? $combination $value attr-dict `:` type($value) "
        "(`via` $scratch^ `:` type($scratch))?"
    )

    def __init__(
        self,
        combination: Combination,
        value: SSAValue,
        scratch: SSAValue | None = None,
        *,
        of_warp: bool = False,
    ) -> None:
        super().__init__(
            operands=[value, scratch],
            properties={
                "combination": CombinationAttr(combination),
                "of_warp": UnitAttr() if of_warp else None,
            },
            result_types=[value.type],
        )

    @property
    def combines(self) -> Combination:
        """How two numbers become one."""
        return self.combination.data

    @property
    def threads(self) -> Scope:
        """Whose numbers are combined."""
        return Scope.BLOCK if self.of_warp is None else Scope.WARP
