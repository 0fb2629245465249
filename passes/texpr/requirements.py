"""What kernels ask of a GPU: instructions, and shared memory."""

from __future__ import annotations

from xdsl.ir import Operation

from mugraph.dialects import te
from mugraph.dialects.ancestors import enclosing
from mugraph.dialects.locations import place_of
from mugraph.errors import UserError
from mugraph.passes.targets import TARGETS, Target, target_named


def require_target(root: Operation, arch: str) -> None:
    """Raises ``UserError`` where a GPU lacks what kernels ask of it, naming those that have it."""
    target = target_named(arch)
    for op in root.walk():
        if _has(target, op):
            continue
        kernel = op if isinstance(op, te.KernelOp) else enclosing(op, te.KernelOp)
        name = f"kernel '{kernel.symbol.data}'" if kernel is not None else "the kernel"
        at = f" ({place_of(op)})" if place_of(op) else ""
        others = " or ".join(dict.fromkeys(one.arch for one in TARGETS.values() if _has(one, op)))
        raise UserError(f"{name} {_need(op)}{at}, {_lack(op, target, others)}")


def _need(op: Operation) -> str:
    """What an operator asks of the GPU."""
    match op:
        case te.KernelOp():
            return f"needs {op.smem_bytes} bytes of shared memory a block"
        case te.WarpgroupMmaOp():
            return f"multiplies by {op.instruction.name}, an instruction of warp groups"
        case te.BulkCopyOp():
            return "copies by TMA"
        case te.AsmOp():
            return f"has the instruction {op.instruction}"
        case _:
            return "waits for copies at mbarriers"


def _lack(op: Operation, target: Target, others: str) -> str:
    """What the GPU has of it, and what to do."""
    elsewhere = f"compile it for {others}"
    if not isinstance(op, te.KernelOp):
        return f"which {target.arch} has not; {elsewhere}"
    smaller = "use smaller tiles or fewer stages"
    has = f"and {target.arch} has {target.shared_memory_per_block}"
    return f"{has}; {smaller}, or {elsewhere}" if others else f"{has}; {smaller}"


def _has(target: Target, op: Operation) -> bool:
    match op:
        case te.KernelOp():
            return (op.smem_bytes or 0) <= target.shared_memory_per_block
        case te.WarpgroupMmaOp():
            return target.multiplies_in_warpgroups
        case te.BulkCopyOp() | te.NewMbarriersOp():
            return target.bulk_bytes_in_flight is not None
        case te.AsmOp() if op.instruction.startswith("stmatrix."):
            return target.bulk_bytes_in_flight is not None  # both came with sm_90
        case _:
            return True
