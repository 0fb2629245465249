"""Which GPUs have the instructions that a kernel names."""

from __future__ import annotations

from xdsl.ir import Operation

from mugraph.dialects import te
from mugraph.dialects.locations import place_of
from mugraph.errors import UserError
from mugraph.passes.targets import TARGETS, Target, target_named


def require_instructions(root: Operation, arch: str) -> None:
    """Raises ``UserError`` where a GPU lacks what kernels ask of it, naming those that have it."""
    target = target_named(arch)
    for op in root.walk():
        need = _need(op)
        if need is None or _has(target, op):
            continue
        others = dict.fromkeys(one.arch for one in TARGETS.values() if _has(one, op))
        kernel = op.parent_op()
        while kernel is not None and not isinstance(kernel, te.KernelOp):
            kernel = kernel.parent_op()
        name = f"kernel '{kernel.symbol.data}'" if kernel is not None else "the kernel"
        at = place_of(op)
        raise UserError(
            f"{name} {need}{f' ({at})' if at else ''}, which {arch} has not; compile it for "
            f"{' or '.join(others)}"
        )


def _need(op: Operation) -> str | None:
    """What an operator asks of the GPU."""
    match op:
        case te.WarpgroupMmaOp():
            return f"multiplies by {op.instruction.name}, an instruction of warp groups"
        case te.BulkCopyOp():
            return "copies by TMA"
        case te.NewMbarriersOp():
            return "waits for copies at mbarriers"
        case _:
            return None


def _has(target: Target, op: Operation) -> bool:
    if isinstance(op, te.WarpgroupMmaOp):
        return target.multiplies_in_warpgroups
    return target.bulk_bytes_in_flight is not None
