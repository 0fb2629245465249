"""Neighbouring elements of a buffer that a thread loads or stores at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

from xdsl.dialects.builtin import AffineMapAttr
from xdsl.ir import SSAValue
from xdsl.irdl import operand_def
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.te.accesses import PLACE, AccessKind, AccessOp
from mugraph.dialects.te.types import ELEMENT_TYPES, BufferType, Space
from mugraph.dialects.tensor_types import element_bytes_of


class VectorOp(AccessOp):
    """Neighbouring elements of a buffer in memory, and as many registers.

    The index is that of the first element, a multiple of their number in memory.
    """

    registers = operand_def(BufferType)
    assembly_format: ClassVar[str | None] = f"$registers `:` type($registers) `,` {PLACE}"

    def __init__(
        self,
        registers: SSAValue,
        buffer: SSAValue,
        indices: Sequence[SSAValue],
        map_: AffineMapAttr,
    ) -> None:
        super().__init__(operands=[registers, buffer, indices], properties={"map": map_})

    @property
    def width(self) -> int:
        """How many elements."""
        return cast(BufferType, self.registers.type).elements

    def verify_(self) -> None:
        """Checks the indices, the registers and their number."""
        super().verify_()
        registers = cast(BufferType, self.registers.type)
        if registers.memory_space is not Space.REGISTER or len(registers.get_shape()) != 1:
            raise VerifyException(f"'{self.name}': {registers} is no row of registers")
        if registers.element_type != self.buffer_type.element_type:
            raise VerifyException(
                f"'{self.name}': registers of {registers.element_type} for elements of type "
                f"{self.buffer_type.element_type}"
            )
        if registers.element_type not in ELEMENT_TYPES.values():
            raise VerifyException(f"'{self.name}': no elements of {registers.element_type}")
        if self.width * element_bytes_of(registers) not in (2, 4, 8, 16):
            raise VerifyException(f"'{self.name}': a thread accesses 2, 4, 8 or 16 bytes at once")


@irdl_op_definition
class LoadOp(VectorOp):
    """Reads neighbouring elements at once: ``te.load %r : T, %x[%row, %j] : U`` into ``%r``."""

    name = "te.load"
    KIND: ClassVar[AccessKind] = AccessKind.READ


@irdl_op_definition
class StoreOp(VectorOp):
    """Writes neighbouring elements at once: ``te.store %r : T, %x[%row, %j] : U`` from ``%r``."""

    name = "te.store"
    KIND: ClassVar[AccessKind] = AccessKind.WRITE
