"""``--share-kernels``: kernels that are alike become one, which is launched several times."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr
from xdsl.passes import ModulePass

from mugraph.dialects import sched
from mugraph.dialects.alignment import alignment_of
from mugraph.dialects.constant import is_constant
from mugraph.dialects.likeness import likeness_of
from mugraph.dialects.locations import Rewriter


def shared_kernels(module: ModuleOp) -> dict[sched.KernelOp, sched.KernelOp]:
    """Analysis: for each kernel the first one that is like it.

    Their launches are alike, too, in what passes read of them: which tensors are constant, and how
    they are aligned.  So each kernel becomes what it would be alone.
    """
    of_launches: dict[sched.KernelOp, set[Hashable]] = {}
    for launch in module.walk():
        if isinstance(launch, sched.LaunchOp):
            of_launches.setdefault(launch.resolve(), set()).add(_look_of(launch))
    first: dict[Hashable, sched.KernelOp] = {}
    shared: dict[sched.KernelOp, sched.KernelOp] = {}
    for kernel, launches in of_launches.items():
        look = likeness_of(kernel, besides=("sym_name",)), frozenset(launches)
        shared[kernel] = first.setdefault(look, kernel)
    return shared


def _look_of(launch: sched.LaunchOp) -> Hashable:
    return tuple(
        (is_constant(value), alignment_of(value)) for value in (*launch.arguments, *launch.outputs)
    )


def share_kernels(module: ModuleOp) -> None:
    """Rewrite: launches the first of all kernels that are alike in the place of the others."""
    shared = shared_kernels(module)
    for launch in [op for op in module.walk() if isinstance(op, sched.LaunchOp)]:
        launch.kernel = SymbolRefAttr(shared[launch.resolve()].sym_name)
    for kernel, first in shared.items():
        if kernel is not first:
            Rewriter.erase_op(kernel)


@dataclass(frozen=True)
class ShareKernelsPass(ModulePass):
    """Merges identical kernels into one, such as those of layers whose extents a call says.

    Two kernels are merged if they differ only in names, and if their launches have constant
    tensors, and equally aligned tensors, in the same places. The first kernel is launched instead
    of the others, so later passes, and nvcc, see it once. Pre-condition:
    ``--lower-threadblock``.

    Before::

        sched.kernel @model_custom0 inputs 2 grid [96, 1, 1] ... { ... }
        sched.kernel @model_custom1 inputs 2 grid [96, 1, 1] ... { ... }
        ...
        %y = sched.launch @model_custom0 %x, %w0 : ...
        %z = sched.launch @model_custom1 %y, %w1 : ...

    After::

        sched.kernel @model_custom0 inputs 2 grid [96, 1, 1] ... { ... }
        ...
        %y = sched.launch @model_custom0 %x, %w0 : ...
        %z = sched.launch @model_custom0 %y, %w1 : ...
    """

    name = "share-kernels"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Treats all kernels of the module."""
        share_kernels(op)
