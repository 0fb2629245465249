"""How many registers a thread of a block needs: a pure function of the work it does.

Registers are fragments that are alive, what the busiest operator holds besides, and room for
addresses and counters.  Checked against what ptxas reports:
``benchmarks/results/registers_ptxas.md`` and ``tests/unit/test_registers.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from xdsl.ir import Block, Operation, SSAValue

from mugraph.dialects import sched
from mugraph.dialects.cute.atoms import mma_atom
from mugraph.dialects.cute.attributes import TiledMmaAttr
from mugraph.dialects.programming_model import REGISTER_BYTES
from mugraph.dialects.sched.structure import runs_once
from mugraph.dialects.sched.types import TileType
from mugraph.dialects.tensor_types import element_bytes_of
from mugraph.passes.costs.warp_layouts import Tiles
from mugraph.passes.costs.work import WORKING_REGISTERS

OVERCOUNTED = 4
"""Registers that a thread which runs straight needs less than is counted: ptxas found room in 128
for softmaxes of 51,866 and 53,247 columns in 512 threads, which are counted as 131 and 132."""
LOADED_AT_ONCE = 4
"""Registers of a fragment that ``ldmatrix`` loads piece by piece for the operator behind it."""
PASSING = (sched.ReduceOp, sched.MapOp, sched.MaskOp, sched.CopyOp, sched.StoreOp)
"""Operators that take element by element what the one before them makes."""


def tiles_of(fragment: TileType) -> Tiles | None:
    """How each warp shares a product with this accumulator; ``None`` for other fragments."""
    mma = fragment.tiled_mma
    if mma is None:
        return None
    atom = mma_atom(mma.atom)
    *_, rows, columns = fragment.get_shape()
    return Tiles(
        atom,
        math.ceil(rows / (atom.shape_mnk[0] * mma.thr_layout[0])),
        math.ceil(columns / (atom.shape_mnk[1] * mma.thr_layout[1])),
    )


def vector_registers(vector: int, source_bytes: Sequence[int]) -> int:
    """Registers of one vector of results in fp32, and of the sources as they are stored."""
    return vector + sum(math.ceil(vector * size / REGISTER_BYTES) for size in source_bytes)


def _working_set(op: Operation) -> int:
    """Registers that an operator holds besides fragments."""
    if isinstance(op, sched.MmaOp) and isinstance(op.accumulator.type, TileType):
        tiles = tiles_of(op.accumulator.type)
        if tiles is None:
            return 0
        # Of a product from registers only B is loaded, two pairs of tiles ahead.
        return 4 * min(2, math.ceil(tiles.n / 2)) if op.lhs_in_registers else tiles.operands
    if isinstance(op, sched.MapOp | sched.MaskOp):
        sources = op.sources if isinstance(op, sched.MapOp) else [op.source]
        partition = op.linear
        if partition is None:
            return 0
        in_memory = [source for source in sources if not isinstance(source.type, TileType)]
        sizes = [element_bytes_of(source.type) for source in in_memory]
        return vector_registers(partition.vector, sizes)
    return 0


def _bodies(kernel: sched.KernelOp) -> list[Block]:
    """The blocks with phases: the kernel's, or one for each role that all its threads run."""
    roles = [role.body.block for role in sched.roles_of(kernel) if not role.is_elected]
    return roles or [kernel.body.block]


def _alive(body: Block) -> list[tuple[int, int]]:
    """Operator by operator the registers of fragments that are alive, and what it holds besides.

    Fragments of the body live through the loop, and in the epilogue as long as they are read.
    """
    found: list[tuple[int, int]] = []
    kept = [op for op in body.ops if isinstance(op, sched.EmptyOp)]
    for phase in body.ops:
        inner = [op for op in phase.walk() if op is not phase]
        last = {sched.registers_of(value): op for op in inner for value in op.operands}
        ends = isinstance(phase, sched.EpilogueOp)
        own = [op for op in kept if not ends or op.result in last]
        held: dict[SSAValue, int] = {op.result: op.registers_per_thread() for op in own}
        alive: list[int] = []
        left = [sum(held.values())]
        for op in inner:
            if isinstance(op, sched.EmptyOp):
                held[op.result] = _registers_of(op)
            alive.append(sum(held.values()))
            for value in set(map(sched.registers_of, op.operands)):
                passes = ends or value.owner not in own
                if passes and last[value] is op:
                    held.pop(value, None)
            left.append(sum(held.values()))
        for start, stop in _elementwise_runs(inner) if ends else ():
            alive[start:stop] = [max(left[start], left[stop])] * (stop - start)
        found += zip(alive, map(_working_set, inner), strict=True)
    return found


def _registers_of(fragment: sched.EmptyOp) -> int:
    """The registers of each thread while a fragment is alive."""
    if _is_loaded_in_pieces(fragment):
        return LOADED_AT_ONCE
    writers = [use.operation for use in fragment.result.uses]
    is_one_number = any(isinstance(op, sched.LoadOp) and op.loads_one_number for op in writers)
    return 1 if is_one_number else fragment.registers_per_thread()


def _is_loaded_in_pieces(fragment: sched.EmptyOp) -> bool:
    """Whether only the element-wise operator behind its load reads a fragment, such as a bias.

    The compiler loads a piece when that operator comes to it.
    """
    load = fragment.result.get_user_of_unique_use()
    if not isinstance(load, sched.LoadOp) or not load.loads_lines():
        return False
    uses = (use.operation for value in load.results for use in value.uses)
    return isinstance(load.next_op, sched.MapOp) and all(op is load.next_op for op in uses)


def _elementwise_runs(inner: Sequence[Operation]) -> list[tuple[int, int]]:
    """Operators one behind the other that the compiler runs value by value on fragments.

    A value of a fragment between them takes the register of the value that it is made of.  With
    gelu written as six such operators behind a product of 128 x 192 ptxas spills nothing.
    """
    found: list[tuple[int, int]] = []
    for arrangement, group in groupby(range(len(inner)), lambda at: _arrangement_mapped(inner[at])):
        places = [*group]
        if arrangement is not None:
            found.append((places[0], places[-1] + 1))
    return found


def _arrangement_mapped(op: Operation) -> TiledMmaAttr | None:
    """The layout in registers of a product whose values an operator maps one by one.

    It is also that of an operator that makes a fragment for such a result.  ``None`` for others.
    """
    if not isinstance(op, sched.EmptyOp | sched.MapOp):
        return None
    made = (op.result if isinstance(op, sched.EmptyOp) else op.destination).type
    return made.tiled_mma if isinstance(made, TileType) else None


def runs_straight(kernel: sched.KernelOp) -> bool:
    """Whether threads go once through operators that are no products."""
    multiplies = any(
        isinstance(op, sched.MmaOp | sched.WarpgroupMmaOp) for op in kernel.body.walk()
    )
    return runs_once(kernel) and not sched.roles_of(kernel) and not multiplies


def _straight(kernel: sched.KernelOp) -> list[tuple[int, int]]:
    """The same as of :func:`_alive`, of all phases of a kernel that runs straight.

    An element-wise operator writes where operands lay that nobody needs any more, vector by vector,
    and what alone the operator behind it reads is reduced, or stored, as it is made.
    """
    aside = sched.EmptyOp | sched.YieldOp
    ops = [op for op in kernel.body.walk() if not op.regions and not isinstance(op, aside)]
    spans: dict[sched.EmptyOp, list[int]] = {}
    for index, op in enumerate(ops):
        for value in op.operands:
            owner = sched.registers_of(value).owner
            if isinstance(owner, sched.EmptyOp):
                spans.setdefault(owner, []).append(index)
    found: list[tuple[int, int]] = []
    for index, op in enumerate(ops):
        before = after = 0
        for owner, uses in spans.items():
            first, *_, last = [uses[0], *uses]
            if last == first + 1 and isinstance(ops[last], PASSING):
                continue
            registers = owner.registers_per_thread()
            before += registers if first < index <= last else 0
            after += registers if first <= index < last else 0
        found.append((max(before, after), _working_set(op)))
    return found


def fragment_registers(kernel: sched.KernelOp) -> int:
    """The most registers of fragments that are alive at once, in any role."""
    if runs_straight(kernel):
        return max(alive for alive, _ in _straight(kernel))
    return max(alive for body in _bodies(kernel) for alive, _ in [(0, 0), *_alive(body)])


def registers_needed(kernel: sched.KernelOp) -> int:
    """The registers that each thread of a kernel needs, about; may be more than there are."""
    if runs_straight(kernel):
        return WORKING_REGISTERS + max(alive + besides for alive, besides in _straight(kernel))
    return WORKING_REGISTERS + max(
        alive + besides for body in _bodies(kernel) for alive, besides in [(0, 0), *_alive(body)]
    )
