"""Whether a for-loop may cut dimensions into more or fewer tiles: what is added up where.

Each value of the loop body is the same in all iterations, or has a part of its own in each (one of
its dimensions is cut by the loop), or is a part of a sum over all of them.  Parts of sums may go
through operators that are linear in them, and must be added up by an accumulator.  Then any number
of iterations gives the same sum.
"""

from __future__ import annotations

from enum import Enum

from xdsl.ir import Operation, SSAValue

from mugraph.dialects import tb
from mugraph.dialects.interfaces import CarriesState, HasTileIndices, IndexKind
from mugraph.dialects.tensor_types import op_label, value_label
from mugraph.passes.mugraph.retile.dimensions import TileSpace
from mugraph.passes.mugraph.retile.errors import RetileError


class Share(Enum):
    """What a value in one iteration is of the whole."""

    SAME = "the same in every iteration, or exists after the loop"
    SLICE = "the elements of the iteration's slice"
    SUMMAND = "a summand; the value itself is the sum over all iterations"
    SPREAD = "a value after the loop that must still be summed along the dimension that was cut"


class LoopAnalysis:
    """Follows values through the loop that cuts ``looped``, numbers of dimensions.

    Raises :class:`RetileError` where the results depend on the number of iterations.
    """

    def __init__(self, space: TileSpace, looped: frozenset[int]) -> None:
        self.space = space
        self.looped = looped
        dimensions = [space.dimensions[number] for number in looped]
        self.takes_single = all(each.fixed and each.tile == 1 for each in dimensions)
        """Whether each tile has one element along what is cut, so that adding tiles up sums it."""
        self.parts: dict[SSAValue, Share] = {}
        for op in space.graph.body.block.ops:
            if isinstance(op, tb.InputOp):
                self.parts[op.result] = Share.SLICE if self.cut(op.result) else Share.SAME
            elif isinstance(op, CarriesState):
                raise self.fail(op, "carries a state from each iteration to the next")
            elif isinstance(op, tb.OutputOp):
                self.output(op)
            else:
                part = self.epilogue(op, self.operator(op))
                self.parts.update(dict.fromkeys(op.results, part))

    def cut(self, value: SSAValue) -> frozenset[int]:
        """The dimensions of a tile that the loop cuts."""
        return self.looped & {n for n in self.space.numbers[value] if n is not None}

    def fail(self, op: Operation, why: str) -> RetileError:
        """The diagnostic: results of ``op`` depend on how many iterations there are."""
        names = " and ".join(self.space.dimensions[number].name for number in sorted(self.looped))
        what = f"cuts {names} into" if names else "has"
        return RetileError(
            f"{op_label(self.space.graph)}: the result would depend on how many tiles the for-loop "
            f"{what}: {op_label(op)} {why}"
        )

    def operator(self, op: Operation) -> Share:
        """What the results of an operator are, before its epilogue."""
        parts = [self.parts[value] for value in op.operands]
        if not isinstance(op, HasTileIndices):
            if any(part is not Share.SAME for part in parts):
                raise self.fail(op, "works on whole tiles")
            return Share.SAME
        sliced = set[int]().union(
            *(self.cut(v) for v, p in zip(op.operands, parts, strict=True) if p is Share.SLICE)
        )
        if len(sliced) > 1:
            raise self.fail(op, "combines slices of different dimensions")
        indices = {self.numbered(op, index.operands): index for index in op.tile_indices()}
        summed = {number for number, index in indices.items() if index.kind is IndexKind.SUMMED}
        whole = {number for number, index in indices.items() if index.kind is IndexKind.WHOLE}
        if (whole & self.looped) - {None}:
            raise self.fail(op, "needs it whole")
        if isinstance(op, tb.AccumulatorOp):
            return self.accumulated(op, parts[0], bool(sliced & summed), adds=op.adds)
        pending = (Share.SUMMAND, Share.SPREAD)
        unfinished = frozenset(at for at, part in enumerate(parts) if part in pending)
        if unfinished:
            kinds = {parts[at] for at in unfinished}
            if sliced or len(kinds) > 1 or unfinished not in op.linear_in():
                labels = ", ".join(value_label(op.operands[at]) for at in sorted(unfinished))
                raise self.fail(op, f"is not linear in {labels}, of which each tile gives a part")
            spread = {n for at in unfinished for n in self.cut(op.operands[at])}
            is_done = Share.SPREAD in kinds and spread <= summed
            return Share.SAME if is_done else kinds.pop()
        if isinstance(op, tb.ReductionMaxOp) and (sliced or op.falls_at_first):
            raise self.fail(op, "keeps the largest of all iterations")
        if sliced:
            return Share.SUMMAND if sliced & summed else Share.SLICE
        return Share.SAME

    def numbered(self, op: Operation, dims: tuple[int | None, ...]) -> int | None:
        """The dimension that an index runs through."""
        for value, dim in zip(op.operands, dims, strict=True):
            if dim is not None and (number := self.space.numbers[value][dim]) is not None:
                return number
        return None

    def accumulated(self, op: Operation, part: Share, reduces: bool, *, adds: bool) -> Share:
        """What an accumulator makes of its operand; ``reduces`` if it sums what is sliced."""
        match part:
            case Share.SUMMAND if adds:
                return Share.SAME
            case Share.SLICE if reduces or (adds and self.takes_single):
                return Share.SAME
            case Share.SLICE if adds:
                return Share.SPREAD
            case Share.SAME if not adds:
                return Share.SAME
            case Share.SAME:
                raise self.fail(op, "adds up once an iteration what is the same in each")
            case _:
                raise self.fail(op, "combines what each tile gives in another way than by a sum")

    def epilogue(self, op: Operation, part: Share) -> Share:
        """What is left after the operator's epilogue."""
        epilogue = tb.epilogue_of(op)
        for function in epilogue.functions:
            if part in (Share.SUMMAND, Share.SPREAD) and frozenset({0}) not in function.linear_in:
                raise self.fail(op, f"applies '{function}' to what each tile gives a part of")
        return self.accumulated(op, part, False, adds=True) if epilogue.accumulates else part

    def output(self, op: tb.OutputOp) -> None:
        """Stores of whole values, after the loop, or of slices, in it."""
        part = self.parts[op.stensor]
        if op.loop_dim < 0 and part is Share.SPREAD:
            raise self.fail(op, "stores sums of tiles that are not summed further")
        if op.loop_dim >= 0:
            number = self.space.numbers[op.stensor][op.loop_dim]
            if part is not Share.SLICE or number not in self.looped:
                raise self.fail(op, "stores in every iteration what is no slice of the result")
