"""Passes that are a sequence of other passes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass, PassPipeline


class SequencePass(ModulePass, ABC):
    """A pass that runs others in order, verifying the IR after each that changed it."""

    verified_after: ClassVar[tuple[type[ModulePass], ...]] = (ModulePass,)
    """The kinds of passes after which it verifies."""

    @abstractmethod
    def passes(self) -> tuple[ModulePass, ...]:
        """The passes, for drivers that look in between."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Runs the passes on the module."""
        verifying(self.passes(), self.verified_after).apply(ctx, op)


def verifying(
    passes: Sequence[ModulePass], kinds: tuple[type[ModulePass], ...] = (ModulePass,)
) -> PassPipeline:
    """Runs passes in order, verifying the IR after each of these kinds that changed it."""
    changes = VerifiedChanges()

    def verify(before: ModulePass | None, module: ModuleOp, _after: ModulePass | None) -> None:
        if isinstance(before, kinds):
            changes.verify(module)

    return PassPipeline(tuple(passes), verify)


class VerifiedChanges:
    """Verifies a module after each of several passes, where the pass changed something."""

    def __init__(self) -> None:
        self._verified: list[object] = []

    def verify(self, module: ModuleOp) -> bool:
        """Verifies the module, unless it is what it was when that was last done: then false."""
        structure = structure_of(module)
        if structure == self._verified:
            return False
        module.verify()
        self._verified = structure
        return True


def structure_of(module: ModuleOp) -> list[object]:
    """All that verifiers may look at: equal to what it was before unless something has changed.

    Most passes change nothing in most modules, and this takes a fraction of a verification.
    """
    structure: list[object] = []
    pending: list[Operation] = [module]
    while pending:
        op = pending.pop()
        structure += (op, op.parent, *op.operands, *op.successors)
        structure += [result.type for result in op.results]
        structure += (op.properties.copy(), op.attributes.copy())
        for region in op.regions:
            structure.append(region)
            # Along their links: with xDSL's views of them all of this takes four tenths longer.
            block = region.first_block
            while block is not None:
                structure.append(block)
                structure += [argument.type for argument in block.args]
                inner = block.first_op
                while inner is not None:
                    pending.append(inner)
                    inner = inner.next_op
                block = block.next_block
    return structure


def flattened(passes: Sequence[ModulePass]) -> tuple[ModulePass, ...]:
    """The passes with every sequence replaced by what it runs."""
    flat: list[ModulePass] = []
    for pass_ in passes:
        flat += flattened(pass_.passes()) if isinstance(pass_, SequencePass) else [pass_]
    return tuple(flat)
