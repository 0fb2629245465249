"""Races and accesses out of bounds of tensor expressions, as errors with a witness."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import FileLineColLoc, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects import te
from mugraph.dialects.ancestors import ancestors
from mugraph.dialects.locations import location_of, note_place
from mugraph.dialects.tensor_types import source_name, source_values
from mugraph.errors import UserError
from mugraph.passes.texpr.analysis.bounds import OutOfBounds, find_out_of_bounds
from mugraph.passes.texpr.analysis.domains import Access
from mugraph.passes.texpr.analysis.pending import pending_instructions
from mugraph.passes.texpr.analysis.races import Race, find_race, not_distinct
from mugraph.passes.texpr.te_inline import fold_sections, inline_calls


class TexprError(UserError):
    """A tensor expression without a meaning: the sentence, and the operator it is about."""

    def __init__(self, message: str, op: Operation) -> None:
        self.message = message
        self.location = location_of(op)
        super().__init__(message)
        note_place(self, op)


def check_module(module: ModuleOp) -> None:
    """Raises ``TexprError`` where a function has a race or leaves a buffer."""
    for function in module.ops:
        if isinstance(function, FuncOp):
            check_function(function)


def check_function(function: FuncOp) -> None:
    """Raises ``TexprError`` where a function has a race or leaves a buffer."""
    out = find_out_of_bounds(function)
    if out is not None:
        raise TexprError(out_of_bounds_message(out), out.op)
    inlined = function.clone()
    inline_calls(inlined, function)
    fold_sections(inlined)
    _check_nesting(inlined)
    _check_mbarriers(inlined)
    for pending in pending_instructions(inlined):
        raise TexprError(
            f"{pending.instruction} is under way when the parallel loop around it ends, and "
            "nothing behind it waits: add the instruction that does, or say what it does: "
            'asm("...") means tma.load(...)',
            pending,
        )
    for bind, loop in not_distinct(inlined):
        variable, buffer = source_name(loop.variable), source_name(bind.buffer)
        raise TexprError(
            f"iterations of the 'par'{_at(loop, ' of line {line}')} over {variable} all write the "
            f"same element of {buffer}: what is said to be 'distinct' does not depend on them",
            bind,
        )
    race = find_race(inlined)
    if race is not None:
        writer = next(access for access in race.accesses if access.writes)
        raise TexprError(race_message(race), writer.op)


def _check_nesting(inlined: FuncOp) -> None:
    """Checks levels and fully parallel loops again, where calls have brought loops into others."""
    for op in inlined.walk():
        if isinstance(op, te.ParOp):
            try:
                op.verify_()
            except VerifyException as error:
                raise TexprError(str(error), op) from error


def _check_mbarriers(inlined: FuncOp) -> None:
    """Checks that mbarriers serve one run of a fully parallel loop, whose phases they count."""
    for made in inlined.walk():
        if not isinstance(made, te.NewMbarriersOp):
            continue
        loops: list[Operation] = []
        for use in made.result.uses:
            around = ancestors(use.operation)
            loops.append(next(one for one in around if isinstance(one, te.ParOp) and one.is_fully))
        for loop in loops:
            if loop is not loops[0] or loop.parent_block() is not made.parent_block():
                name = source_name(made.result)
                message = (
                    f"the mbarriers {name} are of one 'fully par', which stands beside them: a "
                    "second run would go on with their phases; put the loop into the 'fully par'"
                )
                raise TexprError(message, loop)


def out_of_bounds_message(out: OutOfBounds) -> str:
    """What leaves its buffer, and when."""
    name = source_name(out.buffer)
    when = f" where {source_values(out.iteration)}" if out.iteration else ""
    if isinstance(out.op, te.SectionOp):
        return (
            f"this section of {name} starts at {out.index} in dimension {out.dimension}{when}; it "
            f"lies in {name} from 0 to {out.extent - 1}"
        )
    return (
        f"{name} is accessed at index {out.index}{when}; it has elements from 0 to {out.extent - 1}"
    )


def race_message(race: Race) -> str:
    """Which two iterations touch which element, and what each does."""
    first, second = race.accesses
    variable = source_name(race.loop.variable)
    one, other = race.iterations
    where = f", where {source_values(race.outer)}" if race.outer else ""
    element = f"{source_name(first.buffer)}[{', '.join(map(str, race.element))}]"
    loop = _at(race.loop, " of line {line}")
    return (
        f"iterations {variable} = {one} and {variable} = {other} of the 'par'{loop} both touch "
        f"{element}{where}: iteration {one} {first.kind.verb} it{_place(first, None)}, iteration "
        f"{other} {second.kind.verb} it{_place(second, first)}; give each iteration "
        "elements of its own, or use 'seq', 'red' or 'atomic'"
    )


def _place(access: Access, first: Access | None) -> str:
    if first is not None and first.op is access.op:
        return " there too"
    return _at(access.op, " at {line}:{column}")


def _at(op: Operation, text: str) -> str:
    location = op.location
    if not isinstance(location, FileLineColLoc):
        return ""
    return text.format(line=location.line.data, column=location.column.data)


@dataclass(frozen=True)
class TeCheckPass(ModulePass):
    """Rejects ``te`` functions that have a race, or an access out of bounds.

    Calls are taken for their bodies, whose loops must fit into those around.  Two iterations of a
    ``te.par`` must not touch the same element with one of them writing; the
    error names the two iterations and the element.  Exact: no race is missed and none is made up,
    since all indices are quasi-affine.  The parameters of a function are taken to be different
    buffers.  The module stays as it is.
    """

    name = "te-check"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Runs the pass."""
        check_module(op)
