"""Products of matrices by the warps of a block."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import ClassVar

from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, i64
from xdsl.ir import SSAValue
from xdsl.irdl import operand_def, opt_prop_def, prop_def

from mugraph.dialects.assembly import ThroughFunctions
from mugraph.dialects.cute import Layout
from mugraph.dialects.cute.atoms import (
    PRODUCT_ATOMS,
    MmaAtom,
    loads_as_stored,
    mma_atom,
    scalar_atom,
    swapped_atoms,
    tensor_core_atoms,
)
from mugraph.dialects.cute.attributes import TiledMmaAttr
from mugraph.dialects.cute.chaining import accumulator_is_operand
from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.element_types import element_type_name, verify_factors
from mugraph.dialects.elementwise import Epilogue, EpilogueAttr
from mugraph.dialects.sched.accesses import HasThreadAccesses, ThreadAccess
from mugraph.dialects.sched.compute_accesses import mma_accesses
from mugraph.dialects.sched.matrix_part import (
    part_of_matrix,
    start_attribute,
    start_of,
    verify_part,
)
from mugraph.dialects.sched.multiplies import MultipliesMatrices
from mugraph.dialects.sched.tile_values import TiedTiles, WritesTiles, tile_types
from mugraph.dialects.sched.types import SharedType, TileType
from mugraph.dialects.shapes import matmul_shape
from mugraph.dialects.tensor_types import (
    AnyLayout,
    dims,
    element_type_of,
    resolved_layout_of,
    shape_of,
    strides_of,
    value_label,
)


@irdl_op_definition
class MmaOp(MultipliesMatrices, WritesTiles, HasThreadAccesses):
    """Adds the product of two matrices to an accumulator fragment.

    The right one is in shared memory, the left one too or in a fragment of the same arrangement,
    whose threads hold operand A of the instruction as they hold its accumulators.

    The fragment's ``#cute.tiled_mma`` names the instruction, of tensor cores or of single threads,
    and the warps (or threads) along m and n.  ``ldmatrix [true, true]`` says which operands are
    loaded with ``ldmatrix``; others element by element, converted to what the instruction takes:
    f8 exactly to f16, f32 rounded to TF32.

    ``through [mul_scalar(0.5)]`` where elements of the right matrix are of any type, and what is
    multiplied is what these functions make of each, rounded to the type that the instruction takes:
    weights of fewer bits than activations.

    ``from [0, 1, 0, 0]`` where the left matrix is that one of several in its buffer.

    ``at [0, 64]`` where the accumulator holds only the part of the product that starts there.

    With P warps along k the accumulator is P partial sums, ``Px16x64xf32``: the steps of the
    instruction along k go to them in turn.  ``sched.reduce`` makes the product of them.  Where the
    operands are P matrices each, ``Px16x128`` and ``Px128x64``, each of these warps multiplies a
    pair of its own.
    """

    name = "sched.mma"

    TIED: ClassVar[Sequence[str]] = ("accumulator",)

    lhs = operand_def(SharedType | TileType)
    rhs = operand_def(SharedType)
    accumulator = operand_def(TileType)
    at = opt_prop_def(DenseArrayBase.constr(i64))
    ldmatrix_lhs = prop_def(BoolAttr)
    ldmatrix_rhs = prop_def(BoolAttr)

    assembly_format = (
        "$lhs (`from` $lhs_start^)? `,` $rhs (`at` $at^)? `to` $accumulator "
        "`ldmatrix` ` ` `[` $ldmatrix_lhs `,` $ldmatrix_rhs `]` custom<ThroughFunctions>($through) "
        "attr-dict "
        "`:` type($lhs) `,` type($rhs) `to` type($accumulator) custom<TiedTiles>(type($tiles))"
    )
    custom_directives = (ThroughFunctions, TiedTiles)

    def __init__(
        self,
        lhs: SSAValue,
        rhs: SSAValue,
        accumulator: SSAValue,
        ldmatrix: tuple[bool, bool],
        at: Sequence[int] | None = None,
        through: Epilogue | None = None,
        lhs_start: Sequence[int] | None = None,
    ) -> None:
        super().__init__(
            operands=[lhs, rhs, accumulator],
            result_types=[tile_types(accumulator)],
            properties={
                "at": start_attribute(at),
                "ldmatrix_lhs": BoolAttr.from_bool(ldmatrix[0]),
                "ldmatrix_rhs": BoolAttr.from_bool(ldmatrix[1]),
                "through": None if through is None else EpilogueAttr(through),
                "lhs_start": start_attribute(lhs_start),
            },
        )

    @property
    def ldmatrix(self) -> tuple[bool, bool]:
        """Whether each operand is loaded with ``ldmatrix``."""
        return bool(self.ldmatrix_lhs.value.data), bool(self.ldmatrix_rhs.value.data)

    @property
    def start(self) -> tuple[int, ...]:
        """Where in the product the accumulator starts."""
        return start_of(self.at, len(shape_of(self.lhs.type)))

    @property
    def parts(self) -> int:
        """How many partial sums the accumulator is: the warps along k."""
        accumulator = self.accumulator.type
        return accumulator.parts if isinstance(accumulator, TileType) else 1

    @property
    def is_sliced(self) -> bool:
        """Whether each of the warps along k multiplies a pair of matrices of its own."""
        rank = len(shape_of(self.lhs.type))
        return self.parts > 1 and len(shape_of(self.accumulator.type)) == rank

    @property
    def lhs_shape(self) -> tuple[int, ...]:
        """The extents of what is multiplied from the left; of pairs one matrix for each."""
        own = super().lhs_shape
        return (self.parts, *own[1:]) if self.is_sliced else own

    def strides_of_slices(self) -> tuple[int, int]:
        """How many elements one pair's matrices lie behind those before; 0 where there is one."""
        if not self.is_sliced:
            return 0, 0
        lhs, rhs = (strides_of(resolved_layout_of(value))[0] for value in (self.lhs, self.rhs))
        return lhs, rhs

    @property
    def tiled_mma(self) -> TiledMmaAttr | None:
        """The instruction and the warps that compute the product, as the accumulator says."""
        accumulator = self.accumulator.type
        return accumulator.tiled_mma if isinstance(accumulator, TileType) else None

    @property
    def atom(self) -> MmaAtom | None:
        """The instruction; ``None`` where the accumulator names none."""
        return None if self.tiled_mma is None else mma_atom(self.tiled_mma.atom)

    @property
    def multiplies_in_tf32(self) -> bool:
        """Whether the instruction rounds its operands to TF32."""
        return self.atom is not None and self.atom.a_type == "tf32"

    def matrices(self) -> tuple[AnyLayout, AnyLayout]:
        """What is read: (rows of the accumulator, k) and (columns of the accumulator, k).

        A left matrix in registers is described as if it were compact.
        """
        *_, rows, columns = shape_of(self.accumulator.type)
        *leading, row, column = self.start
        depth = shape_of(self.lhs.type)[-1]
        rhs = part_of_matrix(self.rhs, (*leading, 0, column), (depth, columns), transposed=True)
        if self.lhs_in_registers:
            return Layout((rows, depth), (depth, 1)), rhs
        start = [sum(each) for each in zip((*leading, row, 0), self.start_of_lhs, strict=True)]
        return part_of_matrix(self.lhs, start, (rows, depth)), rhs

    def buffers_read(self) -> Sequence[SSAValue]:
        """Both matrices and the accumulator."""
        return [self.lhs, self.rhs, self.accumulator]

    def verify_(self) -> None:
        """Checks extents and the accumulator."""
        expected = matmul_shape(self.lhs_shape, shape_of(self.rhs.type))
        whole = shape_of(self.lhs.type)
        verify_part(self, self.lhs_shape, self.start_of_lhs, whole, "its buffer", "the left matrix")
        accumulator = self.accumulator.type
        held = shape_of(accumulator)
        has_sums = self.parts > 1 and not self.is_sliced
        self._verify_extents(held[1:] if has_sums else held, expected)
        if not isinstance(accumulator, TileType) or accumulator.tiled_mma is None:
            raise OperatorError("the accumulator must be a fragment with a #cute.tiled_mma")
        self._verify_instruction(accumulator, accumulator.tiled_mma)
        self._verify_lhs(accumulator)

    def _verify_lhs(self, accumulator: TileType) -> None:
        """A left matrix in registers is operand A as it is."""
        lhs, mma = self.lhs.type, accumulator.tiled_mma
        if not isinstance(lhs, TileType) or mma is None:
            return
        atom = mma_atom(mma.atom)
        depth = lhs.get_shape()[-1]
        if lhs.layout != mma or mma.thr_layout[1:] != (1, 1):
            raise OperatorError(
                f"its left operand is {lhs.layout}; expected {mma} as the accumulator, and all "
                "warps along m"
            )
        if not accumulator_is_operand(atom, atom) or depth % atom.shape_mnk[2]:
            raise OperatorError(
                f"accumulators of {depth} columns are not operand A of {atom.name} thread by thread"
            )
        if self.at is not None or self.lhs_start is not None or self.ldmatrix[0]:
            raise OperatorError("a left operand in registers is whole, and no ldmatrix loads it")

    def _verify_extents(self, held: Sequence[int], product: Sequence[int]) -> None:
        if self.at is None and tuple(held) != tuple(product):
            raise OperatorError(f"the accumulator has {dims(held)}, expected {dims(product)}")
        verify_part(self, held, self.start, product, "the product")

    def _verify_instruction(self, accumulator: TileType, mma: TiledMmaAttr) -> None:
        """The operands are of types that the instruction multiplies."""
        if self.through is None:
            verify_factors(self, self.lhs, self.rhs, "sched.map identity")
        elif self.ldmatrix[1] or self.through.data.accumulates:
            raise OperatorError(
                "elements that functions are applied to are loaded one by one, and not added to "
                "anything; write 'ldmatrix [..., false]', and 'through' without 'accum'"
            )
        types = (
            element_type_name(element_type_of(self.lhs.type)),
            element_type_name(self.multiplied_type),
        )
        of_warps = tensor_core_atoms(*types)
        taken = (*of_warps, *chain(*map(swapped_atoms, of_warps)), scalar_atom(types[0]))
        atom = mma_atom(mma.atom)
        if atom.name in PRODUCT_ATOMS and atom not in taken:
            raise OperatorError(
                f"{atom.name} does not multiply {element_type_of(self.lhs.type)}; use "
                f"{' or '.join(one.name for one in taken)}"
            )
        summed = element_type_name(accumulator.element_type)
        if summed != atom.c_type:
            raise OperatorError(
                f"{atom.name} adds up in {atom.c_type}, the accumulator holds "
                f"{accumulator.element_type}"
            )
        operands = zip((self.lhs, self.rhs), types, self.ldmatrix, strict=True)
        for value, element, uses_ldmatrix in operands:
            by_lanes = atom.is_scalar or atom.reads_runs or (atom.reads_lines and value is self.rhs)
            if uses_ldmatrix and (by_lanes or not loads_as_stored(atom, element)):
                raise OperatorError(
                    f"ldmatrix cannot load {value_label(value)}, whose elements {atom.name} takes "
                    "only after a conversion"
                )

    def thread_accesses(self) -> Sequence[ThreadAccess]:
        """The reads of both operands, in the order of k."""
        apart = self.strides_of_slices()
        return mma_accesses(self, self.tiled_mma, self.matrices(), self.ldmatrix, apart)
