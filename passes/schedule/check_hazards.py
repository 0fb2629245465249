"""``--check-hazards`` and ``--print-hazards``: are schedules free of races and stray accesses?"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects import sched, te
from mugraph.dialects.tensor_types import op_label
from mugraph.passes.schedule.analysis.hazards import (
    PROGRESS_CERTIFICATE,
    Finding,
    Progress,
    differences,
    find_cluster_hazards,
    find_last_block_hazards,
    find_task_hazards,
    find_workspace_hazards,
    hazards_of_all_blocks,
    progress_of,
    read_program,
    uniform_loops,
    unneeded_barriers,
)
from mugraph.passes.schedule.analysis.hazards.program import Program

OF_PROGRAMS = (
    find_workspace_hazards,
    find_task_hazards,
    find_cluster_hazards,
    find_last_block_hazards,
)
"""What finds hazards between the kernels of a function."""


def scheduled_kernels(module: ModuleOp) -> Iterator[sched.KernelOp]:
    """The kernels of a module."""
    return (op for op in module.walk() if isinstance(op, sched.KernelOp))


def _program_of(kernel: sched.KernelOp, pass_name: str) -> Program:
    try:
        return read_program(kernel)
    except sched.AccessError as error:
        raise PassFailedException(f"--{pass_name}: {op_label(kernel)}: {error}") from error


def texpr_kernels(module: ModuleOp) -> Iterator[te.KernelOp]:
    """The kernels of tensor expressions that have been mapped."""
    return (op for op in module.walk() if isinstance(op, te.KernelOp))


def texpr_hazards_of(kernel: te.KernelOp) -> list[Finding]:
    """Every hazard of a mapped tensor expression."""
    # What only tensor expressions need takes a while to load.
    from mugraph.passes.texpr.analysis.hazards import find_texpr_hazards

    return find_texpr_hazards(kernel)


def describe_findings(
    checked: sched.KernelOp | te.KernelOp | FuncOp, findings: list[Finding]
) -> list[str]:
    """A line that names what was checked, then one for each finding; none without findings."""
    if not findings:
        return []
    count = f"{len(findings)} hazard{'s' if len(findings) > 1 else ''}"
    return [f"{_label(checked)} has {count}:", *(f"  {finding}" for finding in findings)]


def _label(checked: sched.KernelOp | te.KernelOp | FuncOp) -> str:
    is_texpr = isinstance(checked, te.KernelOp)
    return f"kernel '{checked.symbol.data}'" if is_texpr else op_label(checked)


def describe_programs(module: ModuleOp) -> Iterator[str]:
    """What overlaps in the workspaces of a module's functions, and tasks that are out of order."""
    for op in module.walk():
        if isinstance(op, FuncOp):
            found = [finding for find in OF_PROGRAMS for finding in find(op)]
            yield from describe_findings(op, found)


def certify(kernel: sched.KernelOp, program: Program) -> list[str]:
    """Gives a kernel without hazards its certificate; what is wrong with one that it has."""
    progress = progress_of(program)
    stated = kernel.attributes.get(PROGRESS_CERTIFICATE)
    if stated is None:
        if progress is not None:
            kernel.attributes[PROGRESS_CERTIFICATE] = progress.certificate
        return []
    wrong = ["it has no channels"] if progress is None else differences(stated, progress)
    if not wrong:
        return []
    return [
        f"{op_label(kernel)} has a '{PROGRESS_CERTIFICATE}' that is not its own; without it a new "
        "one is made:",
        *(f"  {line}" for line in wrong),
    ]


@dataclass(frozen=True)
class CheckHazardsPass(ModulePass):
    """Fails where a schedule has a race or another hazard, and names all of them.

    Reports accesses of different threads that no barrier orders, accesses to bytes that an
    asynchronous copy may still be writing, values that another buffer or another iteration's tile
    has overwritten, reads of memory never written, accesses out of bounds or misaligned, steps of
    channels out of order, roles that wait for each other, tensors of the workspace that share
    bytes while both are needed, tasks of persistent kernels that do not wait for what they need,
    or for ever, kernels in clusters that read what another cluster writes, and those in last blocks
    that read what blocks write that may not have ended.  Each finding names the operators, and a
    byte and two threads, or what each role waits for.  Of mapped tensor expressions it lists what
    every thread touches between barriers, and names the element, two threads and two lines.
    A kernel with channels gets a certificate that its roles do not deadlock,
    ``sched.progress_certificate``: how often each channel is used in a run of all iterations. If a
    kernel has a certificate already, the run must give the same numbers.
    Changes nothing else.  Pre-condition: ``--plan-stensor-memory``, or ``--te-promote``.
    """

    name = "check-hazards"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Checks every kernel of the module."""
        lines: list[str] = []
        for kernel in scheduled_kernels(op):
            program = _program_of(kernel, self.name)
            findings = hazards_of_all_blocks(kernel, program)
            lines += describe_findings(kernel, findings) if findings else certify(kernel, program)
        for texpr_kernel in texpr_kernels(op):
            lines += describe_findings(texpr_kernel, texpr_hazards_of(texpr_kernel))
        lines += describe_programs(op)
        if lines:
            raise PassFailedException("\n".join([f"--{self.name}: {lines[0]}", *lines[1:]]))


@dataclass(frozen=True)
class PrintHazardsPass(ModulePass):
    """Prints what ``--check-hazards`` would fail for, and barriers that nothing needs, to stderr.

    A barrier is not needed if without it, all others staying, there is no hazard; it is looked for
    only in kernels without hazards.  Also says how often each channel is used, every iteration
    followed to the end of all roles, and names loops whose iterations are all alike.  Changes
    nothing.  Pre-condition: ``--plan-stensor-memory``.
    """

    name = "print-hazards"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Prints a paragraph for each kernel."""
        for kernel in scheduled_kernels(op):
            program = _program_of(kernel, self.name)
            lines = describe_findings(kernel, hazards_of_all_blocks(kernel, program))
            if not lines:
                unneeded = [place.describe() for place in unneeded_barriers(program)]
                lines = _without_hazards(kernel, unneeded, progress_of(program))
            lines += [
                f"  remark: the {loop.iterations} iterations of the loop are all alike: no tile "
                "moves with it"
                for loop in uniform_loops(kernel)
            ]
            print("\n".join(lines), file=sys.stderr)
        for texpr_kernel in texpr_kernels(op):
            print("\n".join(_texpr_lines(texpr_kernel)), file=sys.stderr)
        for line in describe_programs(op):
            print(line, file=sys.stderr)


def _texpr_lines(kernel: te.KernelOp) -> list[str]:
    from mugraph.passes.texpr.analysis.hazards import unneeded_texpr_barriers

    findings = texpr_hazards_of(kernel)
    if findings:
        return describe_findings(kernel, findings)
    barriers = [op for op in kernel.walk() if isinstance(op, te.BarrierOp)]
    places = [barriers.index(op) + 1 for op in unneeded_texpr_barriers(kernel)]
    return _without_hazards(kernel, [f"barrier {n} of {len(barriers)}" for n in places])


def _without_hazards(
    kernel: sched.KernelOp | te.KernelOp, unneeded: Sequence[str], progress: Progress | None = None
) -> list[str]:
    """What is said of a kernel that has no hazards, and of its barriers that nothing needs."""
    lines = [] if progress is None else progress.lines()
    remarks = [
        f"remark: {one} is not needed: without it there are no hazards either" for one in unneeded
    ]
    return [f"{_label(kernel)} has no hazards", *(f"  {line}" for line in (*lines, *remarks))]
