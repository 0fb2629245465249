"""Chains of products in registers, as warp groups multiply them.

An instruction of a warp group gives each thread the same values, in the same order, as the
instructions of its four warps along m: the layout algebra proves it.  So what stands between two
products of a chain stays as it is, and only the products change.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint

from mugraph.dialects import sched
from mugraph.dialects.cute.atoms import (
    MmaAtom,
    WarpgroupForm,
    mma_atom,
    warpgroup_family,
)
from mugraph.dialects.cute.attributes import TiledMmaAttr
from mugraph.dialects.cute.chaining import accumulator_is_operand, held_alike
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.matrix_descriptor import matrix_descriptor
from mugraph.dialects.element_types import operand_names
from mugraph.dialects.interfaces import writers_of
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.programming_model import GROUP_ROWS, GROUP_THREADS, WARP
from mugraph.dialects.sched.warpgroup import matrix_of
from mugraph.dialects.tensor_types import (
    AnyLayout,
    element_bytes_of,
    element_type_of,
    shape_of,
    with_layout,
)
from mugraph.passes.costs.products import group_cycles, group_latency
from mugraph.passes.costs.warp_layouts import WarpLayout, product_cost
from mugraph.passes.schedule.lower_threadblock.warpgroups import require_family
from mugraph.passes.schedule.plan_swizzle import possible_layouts
from mugraph.passes.targets import Target


@dataclass(frozen=True)
class Chain:
    """The products of a role, all by the same warps along m, and the instruction of each."""

    role: sched.RoleOp
    arrangement: TiledMmaAttr
    products: dict[sched.MmaOp, MmaAtom]

    @property
    def groups(self) -> int:
        """How many warp groups there are, side by side along m."""
        return self.role.threads // GROUP_THREADS

    def fragments(self) -> Iterator[SSAValue]:
        """The fragments that are held as the products' accumulators are."""
        return fragments_held(self.role, self.arrangement)


def fragments_held(role: sched.RoleOp, arrangement: TiledMmaAttr) -> Iterator[SSAValue]:
    """The fragments of a role that are held as an arrangement says."""
    for op in role.body.walk():
        for value in op.results:
            type_ = value.type
            if isinstance(type_, sched.TileType) and type_.arrangement == arrangement:
                yield value


def products_of_groups(kernel: sched.KernelOp) -> Iterator[tuple[sched.RoleOp, list[sched.MmaOp]]]:
    """The roles of whole warp groups that multiply by warps, and their products."""
    for role in sched.roles_of(kernel):
        products = [op for op in role.body.walk() if isinstance(op, sched.MmaOp)]
        whole = role.threads % GROUP_THREADS == 0 and role.first_thread % GROUP_THREADS == 0
        if products and whole:
            yield role, products


def find_chains(kernel: sched.KernelOp) -> Iterator[Chain]:
    """The roles in which all products could be those of warp groups."""
    for role, products in products_of_groups(kernel):
        arrangement = sched.arrangement_in(products[0].accumulator)
        if arrangement is None or arrangement.thr_layout != (role.threads // WARP, 1, 1):
            continue
        atoms = {op: _instruction(op, arrangement, role.threads) for op in products}
        found = {op: atom for op, atom in atoms.items() if atom is not None}
        if len(found) == len(products) and agree_on_sums(found):
            yield Chain(role, arrangement, found)


def agree_on_sums(products: Mapping[sched.MmaOp, MmaAtom]) -> bool:
    """Whether products that add to the same sums are computed by one instruction.

    A fragment has the name of its instruction, and that says where its left matrix is: x w in the
    loop, with x in shared memory, and behind it (x a) b, with x a in registers, have two.
    """
    of_sums = {op.accumulator: atom for op, atom in products.items()}
    return all(of_sums[op.accumulator] == atom for op, atom in products.items())


def _instruction(op: sched.MmaOp, arrangement: TiledMmaAttr, threads: int) -> MmaAtom | None:
    """The instruction by which groups compute a product of single warps, if there is one.

    Its threads hold the same, and what is in memory came there by bulk copies, in rows that a
    descriptor can say.  A left matrix that threads wrote before the loop is taken from registers.
    """
    rows, columns = shape_of(op.accumulator.type)[-2:]
    depth, family = shape_of(op.rhs.type)[-2], warpgroup_family(*operand_names(op.lhs, op.rhs))
    groups = threads // GROUP_THREADS
    if sched.arrangement_in(op.accumulator) != arrangement or op.at is not None or family is None:
        return None
    length = family.longest(columns)
    if length is None or rows % (GROUP_ROWS * groups) or depth % family.depth:
        return None
    in_registers = op.lhs_in_registers or walked_layout(op.lhs) is None
    atom = family.atom(length, form_of(in_registers=in_registers))
    if not held_alike(mma_atom(arrangement.atom), arrangement.thr_layout[:2], atom, (groups, 1)):
        return None
    if in_registers and not op.lhs_in_registers and not is_loaded_once(op):
        return None
    return atom if walked_layout(op.rhs, transposed=True) is not None else None


def form_of(*, in_registers: bool) -> WarpgroupForm:
    """The form of an instruction whose left matrix is in registers, or in shared memory."""
    return WarpgroupForm.REGISTERS if in_registers else WarpgroupForm.SHARED


def is_loaded_once(op: sched.MmaOp) -> bool:
    """Whether a product of the loop can have its left matrix in registers from before the loop."""
    owner, loop = op.lhs.owner, sched.enclosing_loop(op)
    arrangement = sched.arrangement_in(op.accumulator)
    if loop is None or arrangement is None or not isinstance(owner, sched.AllocOp):
        return False
    atom = mma_atom(arrangement.atom)
    takes_it = (
        owner.stage_count == 1
        and accumulator_is_operand(atom, atom)
        and shape_of(op.lhs.type)[-1] % atom.shape_mnk[2] == 0
    )
    return takes_it and prologue_of(loop) is not None and not _written_in_a_loop(op.lhs)


def _written_in_a_loop(value: SSAValue) -> bool:
    """Whether iterations write a buffer, of this role or of the one that loads."""
    return any(sched.enclosing_loop(op) is not None for op in writers_of(value))


def prologue_of(loop: sched.ForloopOp) -> sched.PrologueOp | None:
    """The prologue before a loop."""
    block = loop.parent_block()
    phases = () if block is None else block.ops
    return next((op for op in phases if isinstance(op, sched.PrologueOp)), None)


def walked_layout(value: SSAValue, *, transposed: bool = False) -> AnyLayout | None:
    """The layout in which a channel's buffer can be read by descriptors; ``None`` without one."""
    writers = writers_of(value)
    if not writers or not all(isinstance(op, sched.BulkCopyOp) for op in writers):
        return None
    for layout in possible_layouts(value) or []:
        trial = sched.AllocOp(with_layout(value.type, layout))
        try:
            matrix_descriptor(
                matrix_of(trial.result, transposed=transposed), element_bytes_of(value.type)
            )
        except LayoutError:
            continue
        return layout
    return None


def cycles_of_groups(op: sched.MmaOp, atom: MmaAtom, groups: int, target: Target) -> float:
    """An estimate of the cycles that a product takes by warp groups, each time."""
    rows, columns = shape_of(op.accumulator.type)[-2:]
    depth = shape_of(op.rhs.type)[-2]
    cycles = group_cycles(rows * columns * depth, target, atom.a_type)
    return cycles + group_latency(groups)


def cycles_of_warps(op: sched.MmaOp, arrangement: TiledMmaAttr, target: Target) -> float:
    """The same by the instructions of single warps."""
    rows, columns = shape_of(op.accumulator.type)[-2:]
    layout = WarpLayout(mma_atom(arrangement.atom), *arrangement.thr_layout)
    depth, size = shape_of(op.rhs.type)[-2], element_bytes_of(op.rhs.type)
    return product_cost(layout, rows, columns, depth, size, target).cycles


def is_faster(chain: Chain, target: Target) -> bool:
    """Whether warp groups take fewer cycles for the products of a chain than single warps."""
    by_groups = math.fsum(
        cycles_of_groups(op, atom, chain.groups, target) for op, atom in chain.products.items()
    )
    by_warps = math.fsum(cycles_of_warps(op, chain.arrangement, target) for op in chain.products)
    return by_groups < by_warps


def multiply_by_groups(kernel: sched.KernelOp, target: Target) -> bool:
    """Writes the chains that warp groups multiply faster; says whether there is one.

    Tiles are named by their registers.
    """
    chains = [chain for chain in find_chains(kernel) if is_faster(chain, target)]
    for chain in chains:
        use_warpgroups(chain)
    return bool(chains)


def use_warpgroups(chain: Chain) -> None:
    """Writes the products of a chain as those of warp groups."""
    groups = (chain.groups, 1, 1)
    own = {op.accumulator: TiledMmaAttr(atom.name, groups) for op, atom in chain.products.items()}
    loaded = {
        op.destination
        for op in chain.role.body.walk()
        if isinstance(op, sched.LoadOp) and op.loads_operand
    }
    first = next(iter(own.values()))
    moved: dict[SSAValue, SSAValue] = {}
    for value in tuple(chain.fragments()):
        # The instructions that load a matrix from memory are those of single warps.
        if value not in loaded:
            type_ = retyped(value, own.get(value) or first)
            moved[value] = Rewriter.replace_value_with_new_type(value, type_)
    for op, atom in chain.products.items():
        in_registers = atom.a_space == "registers"
        if in_registers and not op.lhs_in_registers:
            load_once(op, chain.arrangement)
        for index, value in enumerate((op.lhs, op.rhs)):
            if isinstance(value.type, sched.SharedType):
                layout = walked_layout(value, transposed=index == 1)
                assert layout is not None  # found by the analysis
                Rewriter.replace_value_with_new_type(value, with_layout(value.type, layout))
    for op in chain.products:
        Rewriter.replace_op(op, sched.WarpgroupMmaOp(op.lhs, op.rhs, op.accumulator))


def load_once(op: sched.MmaOp, arrangement: TiledMmaAttr) -> None:
    """Loads the left matrix of a product of the loop to registers, at the end of the prologue."""
    loop = sched.enclosing_loop(op)
    assert loop is not None
    prologue = prologue_of(loop)
    assert prologue is not None  # asked by the analysis
    type_ = sched.TileType.of(shape_of(op.lhs.type), element_type_of(op.lhs.type), arrangement)
    held = sched.EmptyOp(type_)
    held.result.name_hint = op.lhs.name_hint
    Rewriter.insert_op(held, InsertPoint.before(prologue))
    prologue.body.block.add_op(sched.LoadOp(op.lhs, held.result, ldmatrix=op.ldmatrix[0]))
    op.operands[0] = held.result


def retyped(value: SSAValue, arrangement: TiledMmaAttr) -> sched.TileType:
    """The type of a fragment that is held as another one is, or the rows and columns of that."""
    type_ = value.type
    assert isinstance(type_, sched.TileType)
    layout = arrangement
    if type_.sliced_axis != -1:
        layout = dividing(arrangement, type_.get_shape()[-1])
    if type_.slice is not None:
        layout = sched.SliceAttr.of(layout, type_.slice.dim.data)
    return sched.TileType.of(type_.get_shape(), type_.element_type, layout)


def dividing(arrangement: TiledMmaAttr, columns: int) -> TiledMmaAttr:
    """The arrangement, or that of the longest instruction that divides so many columns."""
    atom = mma_atom(arrangement.atom)
    if columns % atom.shape_mnk[1] == 0:
        return arrangement
    family = require_family((atom.a_type, atom.b_type))
    length = family.longest(columns)
    assert length is not None  # whole instructions of eight columns
    narrow = family.atom(length, form_of(in_registers=atom.a_space == "registers"))
    return TiledMmaAttr(narrow.name, arrangement.thr_layout)
