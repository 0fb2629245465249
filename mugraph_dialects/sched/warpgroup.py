"""Products of warp groups, which read shared memory by descriptors and run behind the program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    operand_def,
    opt_prop_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.accessors import is_given
from mugraph.dialects.assembly import ThroughFunctions
from mugraph.dialects.bulk import (
    SWIZZLE_SPANS,
    bulk_layout,
    pattern_bytes,
    row_spans,
    tensor_dims,
)
from mugraph.dialects.cute.atoms import MmaAtom, mma_atom, tensor_core_atoms
from mugraph.dialects.cute.attributes import TiledMmaAttr
from mugraph.dialects.cute.chaining import accumulator_is_operand, held_alike
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.matrix_descriptor import (
    MatrixDescriptor,
    matrix_descriptor,
)
from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.element_types import element_type_name
from mugraph.dialects.elementwise import Epilogue, EpilogueAttr
from mugraph.dialects.interfaces import (
    RestrictsSharedLayouts,
)
from mugraph.dialects.programming_model import MAX_GROUP_COLUMNS, WARPGROUP
from mugraph.dialects.sched.accesses import (
    AccessError,
    AccessKind,
    HasThreadAccesses,
    Proxy,
    StageReference,
    ThreadAccess,
    plain_access,
)
from mugraph.dialects.sched.channel import RunsAtIteration, iteration_properties
from mugraph.dialects.sched.mappings import IDLE, Stream, matrix_layout
from mugraph.dialects.sched.matrix_part import start_attribute, verify_part
from mugraph.dialects.sched.multiplies import MultipliesMatrices
from mugraph.dialects.sched.operand_mappings import MatmulOperand, element_stream
from mugraph.dialects.sched.role import enclosing_threads
from mugraph.dialects.sched.structure import AllocOp, enclosing_loop
from mugraph.dialects.sched.tile_values import (
    TiedTiles,
    WritesTiles,
    tile_types,
)
from mugraph.dialects.sched.types import SharedType, TileType
from mugraph.dialects.sched.warpgroup_mappings import warpgroup_operand_stream
from mugraph.dialects.tensor_types import (
    AnyLayout,
    base_layout,
    dims,
    element_bytes_of,
    element_type_of,
    leading_strides,
    op_label,
    resolved_layout_of,
    shape_of,
    value_label,
)


def matrix_of(value: SSAValue, *, transposed: bool = False) -> AnyLayout:
    """The last two dimensions of a buffer as a matrix, (rows, columns) or the other way round."""
    layout = resolved_layout_of(value)
    return matrix_layout(layout, shape_of(value.type), transposed=transposed)


@irdl_op_definition
class WarpgroupMmaOp(
    MultipliesMatrices,
    WritesTiles,
    RunsAtIteration,
    RestrictsSharedLayouts,
    HasThreadAccesses,
):
    """Adds the product of two matrices to a fragment, by warp groups (``wgmma``).

    The fragment's ``#cute.tiled_mma`` names the instruction and how many warp groups lie along m
    and n.  Operands in shared memory are buffers of a channel, laid out as descriptors can say:
    rows of 32, 64 or 128 bytes along k, m or n, swizzled, and boxes of rows side by side.  The left
    one may be a fragment instead, of which each thread holds what the instruction takes from it
    (``_RS``), as the layout algebra proves.

    An instruction with swapped operands, ``SM90_16x64x16_F32F16F16_SWAPPED``, computes the
    transposed product: the hardware's 64 rows are columns of the right matrix, and the rows of the
    left one, 8 or more, its columns.  Here that is a matter of who holds what: the operator's
    operands and its result are those of every other product.

    Two accumulators that are alike hold a product side by side along n, each one half of the
    columns of the right matrix; an instruction of twice the length adds to both at once.

    With ``async`` the products run behind the program, as one group: the accumulator may be used,
    a left fragment written, and the stages of the operands released, only behind a
    ``sched.warpgroup_wait`` that covers it.

    ``through [mul_scalar(0.5)]`` where elements of the right matrix are of any type, and what is
    multiplied is what these functions make of each: threads load it from shared memory and convert
    it, and an instruction with swapped operands takes it from registers (``_SWAPPED_RS``).

    ``from [0, 1, 0, 0]`` where the left matrix is that one of several in its buffer.

    A ``fresh`` product is not added to what the accumulator holds, but takes its place.

    ``ahead -1`` multiplies what the iteration before left, its stages and its fragment; the first
    iteration then has nothing to multiply, and counts as one product for waits all the same.  After
    the loop ``iteration`` says which stages are meant.
    """

    name = "sched.warpgroup_mma"

    TIED: ClassVar[Sequence[str]] = ("accumulators",)

    lhs = operand_def(SharedType | TileType)
    rhs = operand_def(SharedType)
    accumulators = var_operand_def(TileType)
    asynchronous = opt_prop_def(UnitAttr, prop_name="async")
    fresh = opt_prop_def(UnitAttr)

    assembly_format = (
        "(`async` $async^)? (`fresh` $fresh^)? $lhs (`from` $lhs_start^)? `,` $rhs "
        "`to` $accumulators (`ahead` $ahead^)? (`iteration` $iteration^)? "
        "custom<ThroughFunctions>($through) attr-dict "
        "`:` type($lhs) `,` type($rhs) `to` type($accumulators) custom<TiedTiles>(type($tiles))"
    )
    custom_directives = (ThroughFunctions, TiedTiles)

    def __init__(
        self,
        lhs: SSAValue,
        rhs: SSAValue,
        *accumulators: SSAValue,
        asynchronous: bool = False,
        ahead: int = 0,
        iteration: int | None = None,
        through: Epilogue | None = None,
        lhs_start: Sequence[int] | None = None,
    ) -> None:
        super().__init__(
            operands=[lhs, rhs, accumulators],
            result_types=[tile_types(*accumulators)],
            properties={
                "async": UnitAttr() if asynchronous else None,
                "through": None if through is None else EpilogueAttr(through),
                "lhs_start": start_attribute(lhs_start),
                **iteration_properties(ahead, iteration),
            },
        )

    @property
    def accumulator(self) -> SSAValue:
        """The first accumulator, or the only one."""
        return self.accumulators[0]

    @property
    def atom(self) -> MmaAtom:
        """The instruction that multiplies: that of the accumulator, or one of twice its length."""
        mma = self.tiled_mma
        if len(self.accumulators) == 1:
            return mma_atom(mma.atom)
        length = mma_atom(mma.atom).shape_mnk[1]
        return mma_atom(mma.atom.replace(f"x{length}x", f"x{length * len(self.accumulators)}x"))

    is_fresh = is_given("fresh")
    """Whether what the accumulator held is not added to."""

    is_async = is_given("asynchronous")
    """Whether the products go on behind the operator."""

    @property
    def tiled_mma(self) -> TiledMmaAttr:
        """The instruction and the groups; raises ``VerifyException`` for other fragments."""
        accumulator = self.accumulator.type
        mma = accumulator.tiled_mma if isinstance(accumulator, TileType) else None
        if mma is None or not is_of_warpgroups(mma_atom(mma.atom)):
            raise VerifyException(
                f"{op_label(self)}: the accumulator must be a fragment with a #cute.tiled_mma of "
                f"an instruction of warp groups, SM90_64x..., not {accumulator}"
            )
        return mma

    @property
    def lhs_offset(self) -> int:
        """The elements of the buffer before the left matrix; whole patterns of its swizzle."""
        if self.lhs_start is None:
            return 0
        return base_layout(resolved_layout_of(self.lhs))(*self.start_of_lhs)

    @property
    def in_memory(self) -> dict[int, SSAValue]:
        """The operands in shared memory, by their numbers."""
        return {1: self.rhs} if self.lhs_in_registers else {0: self.lhs, 1: self.rhs}

    @property
    def described(self) -> dict[int, SSAValue]:
        """Those of them that the hardware reads by descriptors."""
        return {0: self.lhs} if self.through is not None else self.in_memory

    @property
    def converted(self) -> MatmulOperand:
        """How threads load the right matrix where functions are applied to it: as operand A."""
        matrix = matrix_of(self.rhs, transposed=True)
        warps = WARPGROUP * self.tiled_mma.thr_layout[1]
        return MatmulOperand(True, warps, 1, matrix, self.warp_atom.packed, 1)

    @property
    def warp_atom(self) -> MmaAtom:
        """The instruction of single warps whose operand A threads hold as that of this one."""
        return tensor_core_atoms(self.atom.a_type, self.atom.b_type)[0]

    def matrices(self) -> dict[int, AnyLayout]:
        """What is read in memory, by the operand's number.

        (rows of the accumulator, k) of the left and (columns of the accumulator, k) of the right;
        a left one of several as if it were the first.
        """
        return {
            index: matrix_of(value, transposed=index == 1)
            for index, value in self.in_memory.items()
        }

    def descriptors(self) -> list[MatrixDescriptor]:
        """How the hardware walks them; raises ``VerifyException`` naming what it cannot walk."""
        found: list[MatrixDescriptor] = []
        matrices = self.matrices()
        for index, value in self.described.items():
            matrix = matrices[index]
            try:
                found.append(matrix_descriptor(matrix, element_bytes_of(value.type)))
            except LayoutError as error:
                raise VerifyException(
                    f"{op_label(self)} cannot read {value_label(value)} "
                    f"({resolved_layout_of(value)}): {error}"
                ) from error
        return found

    def buffers_read(self) -> Sequence[SSAValue]:
        """Both matrices, and the accumulators that are added to."""
        return [self.lhs, self.rhs, *([] if self.is_fresh else self.accumulators)]

    def verify_(self) -> None:
        """Checks extents, types, layouts and the threads there are."""
        self._verify_accumulators()
        mma, atom = self.tiled_mma, self.atom
        (*_, rows, depth), (*_, rhs_depth, columns) = (
            self.lhs_shape,
            shape_of(self.rhs.type),
        )
        held = shape_of(self.accumulator.type)
        held = (*held[:-1], held[-1] * len(self.accumulators))
        if depth != rhs_depth or held[-2:] != (rows, columns):
            raise OperatorError(
                f"{dims(self.lhs_shape)} times {dims(shape_of(self.rhs.type))} does not give "
                f"{dims(held)}"
            )
        groups_m, groups_n, groups_k = mma.thr_layout
        atom_m, atom_n, atom_k = atom.shape_mnk
        if groups_k != 1 or rows % (groups_m * atom_m) or columns % (groups_n * atom_n):
            raise OperatorError(f"{mma} does not divide a product of {rows}x{columns}")
        if depth % atom_k:
            raise OperatorError(f"k is {depth}, not a multiple of {atom_k}")
        types = (element_type_of(self.lhs.type), self.multiplied_type)
        for value, type_, element in zip(
            (self.lhs, self.rhs), types, (atom.a_type, atom.b_type), strict=True
        ):
            if element_type_name(type_) != element:
                raise OperatorError(
                    f"{atom.name} multiplies {element}, {value_label(value)} holds "
                    f"{element_type_of(value.type)}"
                )
        self._verify_registers(mma)
        self._verify_parts()
        self._verify_stages()
        self.descriptors()
        needed = groups_m * groups_n * atom.threads
        if needed > enclosing_threads(self):
            raise OperatorError(
                f"{mma} takes {needed} threads, there are {enclosing_threads(self)}"
            )

    def _verify_accumulators(self) -> None:
        """Checks that there is one, or two alike that an instruction can write side by side."""
        if len(self.accumulators) not in (1, 2):
            raise VerifyException(
                f"{op_label(self)} has {len(self.accumulators)} accumulators; expected one or two"
            )
        if len(self.accumulators) == 1:
            return
        if self.is_fresh:
            raise OperatorError("a fresh product has one accumulator")
        if mma_atom(self.tiled_mma.atom).swaps_operands:
            raise OperatorError("an instruction with swapped operands adds to one accumulator")
        first, second = self.accumulators
        length = mma_atom(self.tiled_mma.atom).shape_mnk[1]
        if first is second or first.type != second.type or self.lhs_in_registers:
            raise OperatorError(
                "two accumulators are different fragments of one type, and the left matrix lies in "
                "shared memory"
            )
        columns = shape_of(first.type)[-1]
        if columns != length or 2 * length > MAX_GROUP_COLUMNS or self.tiled_mma.thr_layout[1] != 1:
            raise OperatorError(
                f"one instruction of at most {MAX_GROUP_COLUMNS} columns writes two accumulators, "
                f"with one group along n; each has {columns} columns of {self.tiled_mma}"
            )

    def furthest_behind(self, stages: int) -> int:
        """A product can wait until its stage is needed again."""
        return 1 - stages

    def _verify_stages(self) -> None:
        """Checks which stages are meant, of the ring with the fewest."""
        counts = [
            value.owner.stage_count
            for value in self.in_memory.values()
            if isinstance(value.owner, AllocOp) and value.owner.stage_count > 1
        ]
        self.verify_iteration(min(counts, default=1))
        loop = enclosing_loop(self)
        if self.ahead_of >= (1 if loop is None else loop.step_of):
            raise OperatorError(f"ahead {self.ahead_of} names an iteration that is still to come")

    def _verify_parts(self) -> None:
        """Checks a right matrix that functions are applied to, and a left one of several."""
        in_registers = self.atom.b_space == "registers"
        if (self.through is not None) != in_registers:
            raise OperatorError(
                f"{self.atom.name} takes its right matrix from "
                f"{'registers' if in_registers else 'shared memory'}; write 'through' with an "
                "instruction of ..._SWAPPED_RS alone"
            )
        if self.through is not None and (self.through.data.accumulates or self.is_async):
            raise OperatorError(
                "what functions are applied to is not added to anything, and its product is waited "
                "for; write 'through' without 'accum', and no 'async'"
            )
        verify_part(self, self.lhs_shape, self.start_of_lhs, shape_of(self.lhs.type), "its buffer")
        if self.lhs_offset * element_bytes_of(self.lhs.type) % pattern_bytes(max(SWIZZLE_SPANS)):
            raise OperatorError(
                f"its left matrix starts {self.lhs_offset} elements behind "
                f"{value_label(self.lhs)}, within a pattern of its swizzle"
            )

    def _verify_registers(self, mma: TiledMmaAttr) -> None:
        """Checks that a left matrix in registers is one that the instruction takes from there."""
        atom = mma_atom(mma.atom)
        if self.lhs_in_registers != (atom.a_space == "registers"):
            where = "registers" if self.lhs_in_registers else "shared memory"
            raise OperatorError(
                f"{value_label(self.lhs)} is in {where}, from which {atom.name} does not take its "
                f"left matrix; expected one of SM90_..._{'RS' if self.lhs_in_registers else 'SS'}"
            )
        held = self.lhs.type
        if not isinstance(held, TileType):
            return
        groups = mma.thr_layout
        arranged = held.tiled_mma
        # What is held like the instruction's own accumulators is held like its operand A.
        is_operand = (
            arranged is not None
            and arranged.thr_layout[2] == 1
            and held_alike(mma_atom(arranged.atom), arranged.thr_layout[:2], atom, groups[:2])
            and accumulator_is_operand(atom, atom)
        )
        if groups[1:] != (1, 1) or not is_operand:
            raise OperatorError(
                f"threads do not hold {value_label(self.lhs)} ({held}) as {groups[0]} groups along "
                f"m of {atom.name} take it"
            )

    def possible_layouts(self, value: SSAValue) -> Sequence[AnyLayout]:
        """Rows of 128, 64 or 32 bytes along the dimension that is contiguous now, swizzled."""
        if value not in self.described.values():
            return []
        shape, element_bytes = shape_of(value.type), element_bytes_of(value.type)
        tensor = tensor_dims(shape, leading_strides(resolved_layout_of(value)), element_bytes)
        width = tensor.extents[0] * element_bytes
        return [bulk_layout(tensor, shape, element_bytes, span) for span in row_spans(width)]

    def reads(self, stage: StageReference) -> list[ThreadAccess]:
        """What the groups read in memory, at a stage."""
        groups_m, groups_n, _ = self.tiled_mma.thr_layout
        atom, block, matrices = self.atom, enclosing_threads(self), self.matrices()
        try:
            streams = [
                warpgroup_operand_stream(
                    matrices[index],
                    element_bytes_of(value.type),
                    groups_m,
                    groups_n,
                    atom.shape_mnk[index],
                    is_a=index == 0,
                    block=block,
                )
                for index, value in self.described.items()
            ]
        except LayoutError as error:
            raise AccessError(f"{op_label(self)}: {error}") from error
        found = [
            ThreadAccess(
                self,
                index,
                AccessKind.READ,
                "wgmma",
                stage,
                stream.width,
                _moved(stream, 0 if index else self.lhs_offset).offsets,
                proxy=Proxy.WARPGROUP,
            )
            for index, stream in zip(self.described, streams, strict=True)
        ]
        if self.through is not None:
            stream = element_stream(self.converted, block=block)
            found.append(plain_access(self, 1, AccessKind.READ, stage, stream))
        return found

    def thread_accesses(self) -> Sequence[ThreadAccess]:
        """The reads of the operands in memory."""
        return self.reads(self.stage)


def _moved(stream: Stream, offset: int) -> Stream:
    """What is read so many elements further on."""
    offsets = np.where(stream.offsets == IDLE, IDLE, stream.offsets + offset)
    return replace(stream, offsets=offsets) if offset else stream


def is_of_warpgroups(atom: MmaAtom) -> bool:
    """Whether an instruction is one of warp groups, which reads a matrix from shared memory."""
    return "shared" in (atom.a_space, atom.b_space)


def warpgroup_products(root: Operation) -> list[WarpgroupMmaOp]:
    """The products of warp groups under an operation, in the order of the text."""
    return [op for op in root.walk() if isinstance(op, WarpgroupMmaOp)]
