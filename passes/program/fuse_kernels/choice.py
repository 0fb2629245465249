"""Whether a program's scans are fused as they are written, or in chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from mugraph.dialects.interfaces import SharesMemory
from mugraph.dialects.kn import RegroupOp
from mugraph.passes.program.chunk_scans import chunk_scans
from mugraph.passes.program.chunk_scans.analysis import scans_of
from mugraph.passes.program.decompose_program import decompose_program
from mugraph.passes.program.fuse_kernels.fusion import Fusion
from mugraph.passes.program.fuse_kernels.groups import Group
from mugraph.passes.program.fuse_kernels.heads import join_heads
from mugraph.passes.program.fuse_kernels.simplify import simplify_program
from mugraph.passes.program.fuse_kernels.views import hoist_views
from mugraph.passes.targets import Target


def prepare_program(function: FuncOp) -> None:
    """Takes operators apart that are made of others, and moves views up to the arguments."""
    decompose_program(function, kernels=True, views=False)
    simplify_program(function)
    join_heads(function)
    hoist_views(function)
    simplify_program(function)


@dataclass
class Found:
    """The kernels found for a program."""

    fusion: Fusion
    groups: Sequence[Group]
    sequential: Sequence[str] = ()
    """Why scans of the program are not cut into chunks."""

    @classmethod
    def of(cls, function: FuncOp, target: Target, *, certificates: bool = False) -> Found:
        """The kernels of least estimated time of a function as it is written."""
        prepare_program(function)
        fusion = Fusion(function, target, certificates)
        return cls(fusion, fusion.choose() if fusion.is_worth_a_search else [])

    @property
    def time(self) -> float:
        """Nanoseconds, by estimate."""
        return sum(map(self.fusion.cost, self.groups))

    @property
    def kernels(self) -> list[Group]:
        """The groups that are no views."""
        members = self.fusion.program.members
        return [group for group in self.groups if not all(map(_is_free, members(group)))]


def _is_free(op: Operation) -> bool:
    return isinstance(op, (SharesMemory, RegroupOp))


def find_kernels(function: FuncOp, target: Target, *, certificates: bool = False) -> Found:
    """The kernels of least estimated time; the function's operators are prepared for them.

    Scans are cut into chunks where that takes less time, and no more kernels than there are
    operators.
    """
    decompose_program(function, kernels=True, views=False)
    if not scans_of([*function.body.block.ops]):
        return Found.of(function, target, certificates=certificates)
    in_chunks = function.clone()
    written = Found.of(function, target, certificates=certificates)
    count = sum(not _is_free(op) for op in written.fusion.operators)
    reasons = chunk_scans(in_chunks)
    if len(reasons) == len(scans_of(written.fusion.operators)):
        written.sequential = reasons
        return written
    chunked = Found.of(in_chunks, target, certificates=certificates)
    if chunked.time >= written.time or len(chunked.kernels) > count:
        times = f"{chunked.time / 1000:.2f} µs and {len(chunked.kernels)} kernels"
        written.sequential = [*reasons, f"in chunks of products they would take {times}"]
        return written
    function.body.detach_block(0).erase(safe_erase=False)
    function.body.add_block(in_chunks.body.detach_block(0))
    function.update_function_type()
    chunked.fusion.function = function
    chunked.sequential = reasons
    return chunked


__all__ = ["Found", "find_kernels", "prepare_program"]
