"""Tiles in registers as SSA values: what an operator writes over one is a new value.

An operator that writes a tile takes it as an operand, its destination, and returns what it has
become.  Both are the same registers: a destination is *used up*, nothing reads it afterwards.  So
every value says what it holds, and no copy is needed to hold it.  Loops carry tiles; phases return
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, cast

from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.irdl.declarative_assembly_format import (
    CustomDirective,
    ParsingState,
    PrintingState,
    TypeDirective,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.rewriter import InsertPoint
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.abstract import Abstract
from mugraph.dialects.cute.attributes import TiledMmaAttr
from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.interfaces import HasBufferEffects
from mugraph.dialects.sched.types import TileType, TokenType
from mugraph.dialects.tensor_types import op_label, value_label


def is_tile(value: SSAValue) -> bool:
    """Whether a value is a tile in registers."""
    return isinstance(value.type, TileType)


def arrangement_in(value: SSAValue) -> TiledMmaAttr | None:
    """The instruction of a product's fragment, and how warps share it."""
    return value.type.tiled_mma if isinstance(value.type, TileType) else None


def tiles_among(values: Sequence[SSAValue | None]) -> list[SSAValue]:
    """Those of some values, operands that may be absent, that are tiles in registers."""
    return [value for value in values if value is not None and is_tile(value)]


def tile_types(*values: SSAValue | None) -> list[Attribute]:
    """The types of those of some values, operands that may be absent, that are tiles."""
    return [value.type for value in tiles_among(values)]


class WritesTiles(IRDLOperation, HasBufferEffects):
    """An operator that writes destinations; those in registers come back as results.

    ``TIED`` names the operands that are destinations.  Result ``i`` is what the ``i``-th of them
    that is a tile has become.
    """

    TIED: ClassVar[Sequence[str]] = ("destination",)

    tiles = var_result_def(TileType)

    def _tied(self) -> list[SSAValue]:
        found: list[SSAValue] = []
        for name in self.TIED:
            operand: SSAValue | Sequence[SSAValue] | None = getattr(self, name)
            if operand is not None:
                found += operand if isinstance(operand, Sequence) else [operand]
        return found

    def destinations(self) -> list[SSAValue]:
        """The tiles that the operator writes over."""
        return tiles_among(self._tied())

    def buffers_written(self) -> Sequence[SSAValue]:
        """The destinations, in memory and in registers."""
        return self._tied()


@irdl_custom_directive
class TiedTiles(CustomDirective):
    """Nothing: the results have the types of the tiles among the operands that ``TIED`` names."""

    results: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Takes the results' types from the operands."""
        op_type = cast("type[WritesTiles | CarriesTiles]", state.op_type)
        names = [name for name, _ in op_type.get_irdl_definition().operands]
        types = [
            type_
            for name in op_type.TIED
            for type_ in state.operand_types[names.index(name)] or ()
            if isinstance(type_, TileType | TokenType)
        ]
        self.results.set(state, types)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Prints nothing."""


class CarriesTiles(IRDLOperation, Abstract):
    """A phase or a loop: the tiles and tokens that its body leaves behind are its results.

    ``TIED`` names the operands that are carried, those of a loop.
    """

    TIED: ClassVar[Sequence[str]] = ()
    IS_LOOP: ClassVar[bool] = False

    tiles = var_result_def(TileType | TokenType)

    def initial_tiles(self) -> Sequence[SSAValue]:
        """What the arguments of the body are at first; nothing for a body without."""
        return ()

    @property
    def body_block(self) -> Block:
        """The operators that run."""
        return self.regions[0].block

    @property
    def yielded(self) -> Sequence[SSAValue]:
        """The tiles that the body leaves behind."""
        return yielded_by(self.body_block)


@irdl_op_definition
class YieldOp(IRDLOperation):
    """The tiles and tokens that a phase leaves behind, or an iteration to the next one."""

    name = "sched.yield"

    tiles = var_operand_def(TileType | TokenType)
    traits = traits_def(IsTerminator())

    assembly_format = "$tiles attr-dict `:` type($tiles)"

    def __init__(self, tiles: Sequence[SSAValue]) -> None:
        super().__init__(operands=[tiles])


def yielded_by(block: Block) -> Sequence[SSAValue]:
    """The tiles that a block leaves behind."""
    last = block.last_op
    return last.operands if isinstance(last, YieldOp) else ()


def end_of(block: Block) -> InsertPoint:
    """Behind the last operator of a block, but before its yield, if there is one."""
    last = block.last_op
    return InsertPoint.before(last) if isinstance(last, YieldOp) else InsertPoint.at_end(block)


def yielded_types(block: Block) -> list[Attribute]:
    """The types of the tiles that a block leaves behind."""
    return [value.type for value in yielded_by(block)]


def written_over(value: SSAValue) -> SSAValue | None:
    """The tile whose registers a value took over; ``None`` for registers of its own."""
    if isinstance(value, BlockArgument):
        parent = value.block.parent_op()
        carried = parent.initial_tiles() if isinstance(parent, CarriesTiles) else ()
        return carried[value.index] if carried else None
    assert isinstance(value, OpResult)
    if isinstance(value.op, WritesTiles):
        return value.op.destinations()[value.index]
    if isinstance(value.op, CarriesTiles):
        initial = value.op.initial_tiles()
        return initial[value.index] if initial else value.op.yielded[value.index]
    return None


def registers_of(value: SSAValue) -> SSAValue:
    """The ``sched.empty`` whose registers a tile is in; other values as they are."""
    while (before := written_over(value)) is not None:
        value = before
    return value


def verify_tiles(root: Operation) -> None:
    """Raises ``VerifyException`` where a tile is used after an operator has written over it."""
    for op in root.walk():
        if isinstance(op, WritesTiles):
            _verify_types(op, "writes over", op.destinations(), op.results)
        elif isinstance(op, CarriesTiles):
            _verify_carried(op)
        for value in (*op.results, *(arg for region in op.regions for arg in _arguments(region))):
            if is_tile(value):
                _verify_used_up_once(value)


def _arguments(region: Region) -> Iterator[SSAValue]:
    for block in region.blocks:
        yield from block.args


def _types(values: Sequence[SSAValue]) -> str:
    return ", ".join(str(value.type) for value in values) or "none"


def _verify_types(
    op: Operation, does: str, tiles: Sequence[SSAValue], results: Sequence[SSAValue]
) -> None:
    if [value.type for value in tiles] != [value.type for value in results]:
        raise VerifyException(
            f"{op_label(op)} {does} tiles of types {_types(tiles)}, but {_types(results)} "
            "are expected"
        )


def _verify_carried(op: CarriesTiles) -> None:
    """What a loop begins with, what an iteration begins and ends with, and what is left, agree."""
    _verify_types(op, "yields", op.yielded, op.results)
    if op.initial_tiles() or op.body_block.args:
        _verify_types(op, "carries", op.initial_tiles(), op.body_block.args)
        _verify_types(op, "carries", op.initial_tiles(), op.results)
        for argument, last in zip(op.body_block.args, op.yielded, strict=True):
            if is_tile(last) and registers_of(last) is not registers_of(argument):
                raise VerifyException(
                    f"{op_label(op)} carries {value_label(argument)} but its body leaves "
                    f"{value_label(last)}, which is in other registers"
                )


def _uses_up(op: Operation, value: SSAValue) -> bool:
    if isinstance(op, WritesTiles):
        return value in op.destinations()
    return isinstance(op, YieldOp) or (isinstance(op, CarriesTiles) and value in op.operands)


def _verify_used_up_once(value: SSAValue) -> None:
    """At most one operator writes over a tile, once, and nothing uses the tile after it."""
    users = list(dict.fromkeys(use.operation for use in value.uses))
    block = value.owner if isinstance(value.owner, Block) else value.owner.parent
    for end in (user for user in users if _uses_up(user, value)):
        if block is None or _is_repeated(end, block):
            raise VerifyException(
                f"{op_label(end)} writes over {value_label(value)} in a loop, whose next iteration "
                "finds it overwritten; let the loop carry it"
            )
        for user in users:
            if user is not end and _comes_before(end, user, block):
                raise VerifyException(
                    f"{op_label(user)} uses {value_label(value)} after {op_label(end)} has written "
                    "over it; use what that returns"
                )


def _is_repeated(op: Operation, block: Block) -> bool:
    """Whether a loop in a block, or around a part of it, runs an operator several times."""
    while op.parent is not block:
        around = op.parent_op()
        if around is None or (isinstance(around, CarriesTiles) and around.IS_LOOP):
            return True
        op = around
    return False


def _comes_before(one: Operation, other: Operation, block: Block) -> bool:
    """Whether an operator of a block, or of a part of it, stands before another."""
    first, second = block.find_ancestor_op_in_block(one), block.find_ancestor_op_in_block(other)
    if first is None or second is None:
        return False
    if first is second and first is not one and first is not other:
        return _comes_before(one, other, first.regions[0].block)
    return first is not second and first.is_before_in_block(second)
