"""Passes that are a sequence of other passes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass, PassPipeline


class SequencePass(ModulePass, ABC):
    """A pass that runs others in order, verifying the IR after each that changed it."""

    @abstractmethod
    def passes(self) -> tuple[ModulePass, ...]:
        """The passes, for drivers that look in between."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Runs the passes on the module."""
        verified: list[object] = []

        def verify(
            _previous: ModulePass | None, module: ModuleOp, _next: ModulePass | None
        ) -> None:
            structure = structure_of(module)
            if structure != verified:
                module.verify()
                verified[:] = structure

        PassPipeline(self.passes(), callback=verify).apply(ctx, op)


def structure_of(module: Operation) -> list[object]:
    """All that verifiers may look at: equal to what it was before unless something has changed.

    Most passes change nothing in most modules, and this takes a fraction of a verification.
    """
    structure: list[object] = []
    for op in module.walk():
        structure += (op, op.parent, *op.operands, *op.result_types, *op.successors)
        structure += (dict(op.properties), dict(op.attributes))
        structure += ((region, *region.blocks) for region in op.regions)
        structure += ((block, *block.arg_types) for region in op.regions for block in region.blocks)
    return structure


def flattened(passes: Sequence[ModulePass]) -> tuple[ModulePass, ...]:
    """The passes with every sequence replaced by what it runs."""
    flat: list[ModulePass] = []
    for pass_ in passes:
        flat += flattened(pass_.passes()) if isinstance(pass_, SequencePass) else [pass_]
    return tuple(flat)
