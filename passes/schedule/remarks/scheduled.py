"""A scheduled kernel as its launches see it: the names and the alignment of its tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, SSAValue

from mugraph.dialects import sched
from mugraph.dialects.tensor_types import type_text, value_label
from mugraph.passes.schedule.analysis.remarks import Kind, Obstacle, Remark
from mugraph.passes.schedule.bulk_stores import alignments_of
from mugraph.passes.targets import Target


@dataclass(frozen=True)
class Scheduled:
    """A kernel, the operators that launch it, and the target that it is for."""

    kernel: sched.KernelOp
    launches: Sequence[sched.LaunchOp]
    target: Target

    @property
    def name(self) -> str:
        """The kernel's symbol."""
        return self.kernel.sym_name.data

    def tensor(self, value: SSAValue) -> BlockArgument:
        """The kernel's argument that a tile is cut from, or that a value is."""
        source = value.owner.source if isinstance(value.owner, sched.LocalTileOp) else value
        assert isinstance(source, BlockArgument)  # the verifier allows no other tile
        return source

    def label(self, value: SSAValue) -> str:
        """How the caller names a tensor of the kernel; other values have their own names."""
        if isinstance(value, BlockArgument) and self.launches:
            launch = self.launches[0]
            value = (*launch.arguments, *launch.outputs)[value.index]
        return shown(value)

    def alignment(self, tensor: BlockArgument) -> int:
        """The bytes that a tensor is aligned to, wherever the kernel is launched."""
        return alignments_of(self.kernel, self.launches)[tensor.index]

    def remark(self, kind: Kind, lost: str, why: Obstacle, operand: str | None = None) -> Remark:
        """A remark about the kernel."""
        return Remark(kind, self.name, lost, why, operand)


def shown(value: SSAValue) -> str:
    """How remarks name a value: with its type where it has no name, as there are several then."""
    label = value_label(value)
    return label if value.name_hint else f"{type_text(value)} ({label})"


def scheduled_kernels(module: ModuleOp, target: Target) -> list[Scheduled]:
    """Every kernel of a module, in order."""
    launches = [op for op in module.walk() if isinstance(op, sched.LaunchOp)]
    return [
        Scheduled(op, [launch for launch in launches if launch.resolve() is op], target)
        for op in module.walk()
        if isinstance(op, sched.KernelOp)
    ]
