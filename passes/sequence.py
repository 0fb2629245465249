"""Passes that are a sequence of other passes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassPipeline


class SequencePass(ModulePass, ABC):
    """A pass that runs others in order, verifying the IR after each."""

    @abstractmethod
    def passes(self) -> tuple[ModulePass, ...]:
        """The passes, for drivers that look in between."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Runs the passes on the module."""
        PassPipeline(self.passes(), callback=_verify).apply(ctx, op)


def _verify(previous: ModulePass | None, module: ModuleOp, following: ModulePass | None) -> None:
    module.verify()


def flattened(passes: Sequence[ModulePass]) -> tuple[ModulePass, ...]:
    """The passes with every sequence replaced by what it runs."""
    flat: list[ModulePass] = []
    for pass_ in passes:
        flat += flattened(pass_.passes()) if isinstance(pass_, SequencePass) else [pass_]
    return tuple(flat)
