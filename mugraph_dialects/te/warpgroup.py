"""Products of warp groups (``wgmma``), which run behind the program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import AffineMapAttr, IndexType, StringAttr, f32
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    operand_def,
    prop_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.ancestors import enclosing
from mugraph.dialects.cute.atoms.mma import MmaAtom, mma_atom
from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.layout import Layout
from mugraph.dialects.cute.matrix_descriptor import SharedMatrix, shared_matrix
from mugraph.dialects.cute.swizzle import ComposedLayout
from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.element_types import element_type_name
from mugraph.dialects.te.accesses import AccessKind, HasTouches, Touch, whole_touch
from mugraph.dialects.te.asynchronous import WaitsForGroups
from mugraph.dialects.te.bulk import OfOneThread, verify_dense, verify_in_step
from mugraph.dialects.te.indices import IndexList, verify_indices
from mugraph.dialects.te.mapped import StepOp
from mugraph.dialects.te.types import BufferType, Space
from mugraph.dialects.tensor_types import element_bytes_of, layout_of


@irdl_op_definition
class WarpgroupMmaOp(IRDLOperation, HasTouches):
    """One instruction of a warp group: ``sums += A B``, both matrices in shared memory.

    ``te.warpgroup_mma "SM90_64x256x16_F32F16F16_SS" %sums, %a[%i] #cute.layout<...>, %b[...] ...``.
    A is ``(m,k)`` and B ``(n,k)``: layouts of their elements from the first one on, before the
    buffer's swizzle.  ``sums`` are all elements of a buffer in registers, or of a section of it: a
    thread's values of the instruction.  From here until the thread has waited for the group that
    the next ``te.warpgroup_commit`` closes, A and B may be read and the sums hold nothing.
    """

    name = "te.warpgroup_mma"

    atom = prop_def(StringAttr)
    sums = operand_def(BufferType)
    a = operand_def(BufferType)
    a_indices = var_operand_def(IndexType)
    b = operand_def(BufferType)
    b_indices = var_operand_def(IndexType)
    a_map = prop_def(AffineMapAttr)
    b_map = prop_def(AffineMapAttr)
    a_layout = prop_def(LayoutAttr)
    b_layout = prop_def(LayoutAttr)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    custom_directives = (IndexList,)
    assembly_format = (
        "$atom $sums `,` $a custom<IndexList>($a_indices, $a_map) $a_layout `,` "
        "$b custom<IndexList>($b_indices, $b_map) $b_layout attr-dict "
        "`:` type($sums) `,` type($a) `,` type($b)"
    )

    def __init__(
        self,
        atom: str,
        sums: SSAValue,
        a: tuple[SSAValue, Sequence[SSAValue], AffineMapAttr],
        a_layout: Layout[int],
        b: tuple[SSAValue, Sequence[SSAValue], AffineMapAttr],
        b_layout: Layout[int],
    ) -> None:
        super().__init__(
            operands=[sums, *a[:2], *b[:2]],
            properties={
                "atom": StringAttr(atom),
                "a_map": a[2],
                "b_map": b[2],
                "a_layout": LayoutAttr(a_layout),
                "b_layout": LayoutAttr(b_layout),
            },
        )

    @property
    def instruction(self) -> MmaAtom:
        """The instruction.  Raises LayoutError for another name."""
        return mma_atom(self.atom.data)

    @property
    def sides(self) -> dict[str, tuple[SSAValue, Sequence[SSAValue], AffineMapAttr, Layout[int]]]:
        """A and B: buffer, indices, map and layout."""
        a_layout, b_layout = (
            cast("Layout[int]", one.data) for one in (self.a_layout, self.b_layout)
        )
        return {
            "A": (self.a, self.a_indices, self.a_map, a_layout),
            "B": (self.b, self.b_indices, self.b_map, b_layout),
        }

    def matrix(self, operand: str) -> SharedMatrix:
        """How the hardware walks A or B.  Raises LayoutError where no descriptor says it."""
        buffer, _, _, plain = self.sides[operand]
        type_ = cast(BufferType, buffer.type)
        whole = layout_of(type_)
        swizzle = whole.swizzle if isinstance(whole, ComposedLayout) else None
        return shared_matrix(plain, swizzle, element_bytes_of(type_))

    def touches(self) -> Sequence[Touch]:
        """The sums, and the elements of A and B."""
        found = [whole_touch(self.sums, AccessKind.WRITE)]
        for buffer, indices, map_, layout in self.sides.values():
            offsets = tuple(sorted(cast("list[int]", layout.indices())))
            found.append(
                Touch(
                    buffer,
                    AccessKind.READ,
                    map_.data.results,
                    tuple(indices),
                    (offsets[-1] + 1,),
                    offsets=offsets,
                )
            )
        return found

    def verify_(self) -> None:
        """Checks the instruction, its operands, and that descriptors can say them."""
        label = f"'{self.name}'"
        try:
            atom = self.instruction
        except LayoutError as error:
            raise VerifyException(f"{label}: {error}") from error
        if atom.a_space != "shared" or atom.swaps_operands or atom.c_type != "f32":
            raise VerifyException(
                f"{label} is of instructions with both matrices in shared memory and sums in f32, "
                f"not of {atom.name}"
            )
        sums = cast(BufferType, self.sums.type)
        if (
            sums.memory_space is not Space.REGISTER
            or sums.element_type != f32
            or sums.elements != atom.values_of_c
        ):
            raise VerifyException(
                f"{label}: {atom.name} adds to {atom.values_of_c} registers of f32 a thread, not "
                f"to {sums}"
            )
        for name, (buffer, indices, map_, layout) in self.sides.items():
            verify_indices(label, map_.data, indices)
            type_ = cast(BufferType, buffer.type)
            wanted = {"A": atom.a_type, "B": atom.b_type}[name]
            if type_.memory_space is not Space.SHARED:
                raise VerifyException(f"{label}: {name} lies in shared memory, not in {type_}")
            verify_dense(label, buffer, map_.data)
            if element_type_name(type_.element_type) != wanted:
                raise VerifyException(
                    f"{label}: {atom.name} takes {name} as {wanted}, not as {type_.element_type}"
                )
            rows, columns = atom.tile_shape(name)
            if layout.rank != 2 or (layout[0].size(), layout[1].size()) != (rows, columns):
                raise VerifyException(
                    f"{label}: {name} of {atom.name} is {rows} x {columns}, not {layout.shape}"
                )
            if enclosing(self, StepOp) is None:
                continue  # the buffer has no swizzle yet
            try:
                self.matrix(name)
            except LayoutError as error:
                raise VerifyException(
                    f"{label}: {name} with the layout {layout}: {error}"
                ) from error
        verify_in_step(self)


@irdl_op_definition
class WarpgroupFenceOp(OfOneThread):
    """Before the first of some products: what was done with registers of their sums is done.

    ``te.warpgroup_fence for %sums : T`` names them.
    """

    name = "te.warpgroup_fence"

    sums = var_operand_def(BufferType)
    assembly_format = "(`for` $sums^ `:` type($sums))? attr-dict"

    def __init__(self, sums: Sequence[SSAValue] = ()) -> None:
        super().__init__(operands=[sums])


@irdl_op_definition
class WarpgroupCommitOp(OfOneThread):
    """Closes a group: the products that the warp group has begun since the one before."""

    name = "te.warpgroup_commit"
    assembly_format = "attr-dict"


@irdl_op_definition
class WarpgroupWaitOp(WaitsForGroups, OfOneThread):
    """The warp group waits until only its ``in_flight`` newest groups are under way."""

    name = "te.warpgroup_wait"

    finished = var_operand_def(BufferType)
    assembly_format = "$in_flight (`for` $finished^ `:` type($finished))? attr-dict"

    def __init__(self, in_flight: int, finished: Sequence[SSAValue] = ()) -> None:
        super().__init__(in_flight, [finished])
