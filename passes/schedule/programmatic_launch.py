"""``--programmatic-launch``: kernels begin while the one before them in the stream still runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from mugraph.dialects import sched
from mugraph.dialects.constant import is_constant
from mugraph.dialects.interfaces import HasBufferEffects, touched_by
from mugraph.dialects.kn.overlap import CanOverlap
from mugraph.dialects.launch_extents import integer_array
from mugraph.dialects.plan import LaunchNext
from mugraph.passes.each import TargetPass

_PASSABLE = (sched.CopyOp, sched.BulkCopyOp, sched.CommitOp, sched.PublishOp, sched.FillOp)
"""What a load may be moved across: nothing of it waits, for other threads or for copies."""


def constant_inputs(kernel: sched.KernelOp, launches: Sequence[sched.LaunchOp]) -> list[int]:
    """Analysis: the inputs of a kernel that are constant in all of its launches."""
    return [
        index
        for index in range(kernel.input_count)
        if launches and all(is_constant(launch.arguments[index]) for launch in launches)
    ]


def are_constant(value: SSAValue, constant: Sequence[int]) -> bool:
    """Whether a tensor in device memory is constant, or all that whoever loads a tile of it reads.

    The numbers of its rows are read, too, where a tile has some.
    """
    owner = value.owner
    tensors = owner.tensors() if isinstance(owner, sched.LocalTileOp) else [value]
    return all(isinstance(tensor, BlockArgument) and tensor.index in constant for tensor in tensors)


def must_wait(op: Operation, constant: Sequence[int]) -> bool:
    """Whether an operator touches device memory that the kernels before may still use.

    All accesses but loads of constant inputs do.
    """
    inner = [step for region in op.regions for block in region.blocks for step in block.ops]
    if inner:
        return any(must_wait(step, constant) for step in inner)
    if isinstance(op, sched.LocalTileOp):
        return False
    touched = [value for value in op.operands if isinstance(value.type, sched.GlobalType)]
    if not touched:
        return False
    if not isinstance(op, sched.HasThreadAccesses):
        return True
    for access in op.thread_accesses():
        if access.in_device_memory and (
            access.kind is sched.AccessKind.WRITE or not are_constant(access.value, constant)
        ):
            return True
    return False


def _buffers(op: Operation) -> set[SSAValue]:
    """What an operator touches in shared memory or registers."""
    return set(touched_by(op) if isinstance(op, HasBufferEffects) else op.operands)


def loads_to_hoist(ops: Sequence[Operation], constant: Sequence[int]) -> list[Operation]:
    """Choice: the loads of constant tensors behind the first operator that waits.

    Of a phase without loops, in order, as far as no operator in between waits for other threads
    or copies, and none but another load touches the same buffer.
    """
    first = next(index for index, op in enumerate(ops) if must_wait(op, constant))
    hoisted: list[Operation] = []
    passed: set[SSAValue] = set()
    for op in ops[first:]:
        if not isinstance(op, _PASSABLE):
            break
        loads = isinstance(op, (sched.CopyOp, sched.BulkCopyOp)) and not must_wait(op, constant)
        fills = loads and not isinstance(op.operands[1].type, sched.GlobalType)
        if fills and op.operands[1] not in passed:
            hoisted.append(op)
            continue
        passed |= _buffers(op) - _channels(op)
    return hoisted


def _channels(op: Operation) -> set[SSAValue]:
    return {value for value in op.operands if isinstance(value.type, sched.ChannelType)}


def add_wait(body: Block, constant: Sequence[int]) -> bool:
    """Rewrite: a wait before the first operator of a strand that needs one, loads hoisted over it.

    ``body`` is that of a kernel or of a role; roles inside wait for themselves.  Returns whether a
    wait was added.
    """
    for phase in body.ops:
        if isinstance(phase, sched.RoleOp) or not must_wait(phase, constant):
            continue
        wait = sched.GridWaitOp()
        if not isinstance(phase, sched.PrologueOp | sched.EpilogueOp):
            # In a loop it would wait again and again.
            body.insert_op_before(wait, phase)
            return True
        ops = list(phase.body.block.ops)
        first = next(op for op in ops if must_wait(op, constant))
        for op in loads_to_hoist(ops, constant):
            op.detach()
            phase.body.block.insert_op_before(op, first)
        phase.body.block.insert_op_before(wait, first)
        return True
    return False


def strands(kernel: sched.KernelOp) -> Iterator[Block]:
    """The bodies whose operators run in order: the kernel's own, and those of its roles."""
    yield kernel.body.block
    for op in kernel.body.block.ops:
        if isinstance(op, sched.RoleOp):
            yield op.body.block


def producers(kernel: sched.KernelOp) -> list[sched.RoleOp]:
    """The roles of one thread that issues bulk copies."""
    return [op for op in kernel.body.block.ops if isinstance(op, sched.RoleOp) and op.is_elected]


def implied_waits(kernel: sched.KernelOp) -> list[sched.GridWaitOp]:
    """Analysis: the waits of roles that have got tiles from one that had waited before.

    Whoever has consumed a stage knows what its producer knew when it published it, if all stages
    of the ring are published behind a wait.  Every block runs an iteration at least.
    """
    roles = [op for op in kernel.body.block.ops if isinstance(op, sched.RoleOp)]
    late: set[SSAValue] = set()
    early: set[SSAValue] = set()
    for role in roles:
        published = early
        for op in role.walk():
            if isinstance(op, sched.GridWaitOp):
                published = late
            elif isinstance(op, sched.PublishOp):
                published.add(op.channel)
    implied: list[sched.GridWaitOp] = []
    for role in roles:
        knows = False
        for op in role.walk():
            knows = knows or (isinstance(op, sched.ConsumeOp) and op.channel in late - early)
            if knows and isinstance(op, sched.GridWaitOp):
                implied.append(op)
    return implied


def drop_implied_waits(kernel: sched.KernelOp) -> None:
    """Rewrite: leaves out waits for what has been waited for: for tasks each one takes a while."""
    for wait in implied_waits(kernel):
        wait.detach()
        wait.erase()


def place_launch(kernel: sched.KernelOp, start: LaunchNext) -> None:
    """Rewrite: says where the kernel behind may start."""
    launch = sched.GridLaunchOp()
    if start == "early":
        begin = next(
            op for op in kernel.body.block.ops if isinstance(op, sched.PhaseOp | sched.RoleOp)
        )
        if isinstance(begin, sched.PrologueOp) and begin.body.block.first_op is not None:
            begin.body.block.insert_op_before(launch, begin.body.block.first_op)
        else:
            kernel.body.block.insert_op_before(launch, begin)
    elif start == "late":
        loads = producers(kernel)
        body = loads[0].body.block if loads else kernel.body.block
        last = [op for op in body.ops if isinstance(op, sched.ForloopOp | sched.PrologueOp)][-1]
        body.insert_op_after(launch, last)


def overlap_kernel(kernel: sched.KernelOp, constant: Sequence[int], start: LaunchNext) -> None:
    """Rewrite: makes one kernel wait for those before it, and let the one behind it start."""
    in_memory = [each for each in kernel.held_lengths if not kernel.is_number(each.argument)]
    if any(length.argument not in constant for length in in_memory):
        # All threads read lengths first of all.
        first = kernel.body.block.first_op
        assert first is not None
        kernel.body.block.insert_op_before(sched.GridWaitOp(), first)
    elif not any([add_wait(body, constant) for body in strands(kernel)]):
        return
    place_launch(kernel, start)
    if constant:
        kernel.constant = integer_array(constant)


def launch_programmatically(module: ModuleOp) -> None:
    """Makes the kernels of a module overlap with those around them in their streams."""
    launches = sched.launches_by_kernel(module)
    for op in module.body.block.ops:
        if isinstance(op, sched.KernelOp):
            start = op.decided.pdl or "late"
            waits = any(isinstance(inner, sched.GridWaitOp) for inner in op.walk())
            if not waits and start != "none":
                overlap_kernel(op, constant_inputs(op, launches[op]), start)
        elif isinstance(op, FuncOp):
            for step in op.walk():
                if isinstance(step, CanOverlap):
                    step.set_overlaps()


class ProgrammaticLaunchPass(TargetPass):
    """Lets each kernel start while the kernel before it in the stream, whoever's, still runs.

    Programmatic dependent launch: ``sched.grid_wait`` stands before the first access to device
    memory but for loads of constant tensors (``mugraph.constant`` of a function's argument), and
    those that the prologue does are moved in front of it: weights are on their way while the kernel
    before ends.  Kernels that read lengths wait before that.  The kernel's plan says when the next
    kernel may begin, at ``sched.grid_launch``: ``pdl = late``, when all loads of the loop are on
    their way (what begins earlier takes bandwidth and multiprocessors from them); ``early``, first
    of all, which suits kernels of little work; ``end``, when blocks end; or ``none``, which leaves
    the kernel alone.  Where the plan leaves it free, it is ``late``.  Pre-defined kernels wait
    first of all.  Nothing changes for targets
    without the instructions.  Pre-condition: ``--pipeline-loads``, which puts loads into the
    prologue; before ``--plan-stensor-memory``.
    """

    name = "programmatic-launch"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrites the whole module."""
        if self.target.has_programmatic_launch:
            launch_programmatically(op)
