"""What a device keeps of one member of a group: a part that is there, or a tensor of its own.

A ``shift`` says by how many places the member is further than the device itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import opt_prop_def
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.kn.collective import AlongDimensionOp, CollectiveOp, axes_attribute
from mugraph.dialects.tensor_types import bytes_of, op_label


def _shift(places: int) -> IntegerAttr | None:
    return IntegerAttr(places, i64) if places else None


def _shift_of(attribute: IntegerAttr | None) -> int:
    return 0 if attribute is None else attribute.value.data


def _verify_shift(op: CollectiveOp, shift: IntegerAttr | None) -> None:
    if shift is not None and not 0 < shift.value.data < op.devices:
        raise VerifyException(
            f"{op_label(op)} is of the member {shift.value.data} places further, expected 1 to "
            f"{op.devices - 1} places in a group along axes {list(op.grid_axes)}"
        )


@irdl_op_definition
class AllSliceOp(AlongDimensionOp):
    """The part of its place of a tensor that all devices of a group hold: nothing is sent.

    With a ``shift`` it is the part of the member so many places further; the first one comes behind
    the last one.
    ``%y = kn.all_slice %x axes [0] dim 1 : tensor<8x64xf16> -> tensor<8x16xf16>``.
    """

    name = "kn.all_slice"

    shift = opt_prop_def(IntegerAttr.constr(type=i64))

    assembly_format = (
        "$input `axes` $axes `dim` $dim (`shift` $shift^)? (`workspace` $workspace^)? attr-dict "
        "`:` type($input) `->` type($result)"
    )

    def __init__(
        self,
        operand: SSAValue,
        axes: Sequence[int],
        dim: int,
        result_type: Attribute,
        shift: int = 0,
    ) -> None:
        super().__init__(operand, axes, dim, result_type)
        self.shift = _shift(shift)

    def verify_(self) -> None:
        """As any collective; the part is one's own, or that of another member."""
        super().verify_()
        _verify_shift(self, self.shift)

    @property
    def places_further(self) -> int:
        """As written."""
        return _shift_of(self.shift)

    @property
    def cut_dim(self) -> int:
        """As written."""
        return self.dim.value.data


@irdl_op_definition
class PeerOp(CollectiveOp):
    """The tensor that the member at a place of the group holds, on each device of the group.

    Devices of one host read it where it is, in that member's memory: nothing is sent before an
    operator loads it, and each load is one over the link between the devices.  With a ``shift`` in
    place of a ``place`` it is the member so many places further than the device itself; the first
    one comes behind the last one.
    ``%y = kn.peer %x axes [0] place 1 : tensor<8x16xf16> -> tensor<8x16xf16>``.
    """

    name = "kn.peer"

    place = opt_prop_def(IntegerAttr.constr(type=i64))
    shift = opt_prop_def(IntegerAttr.constr(type=i64))

    assembly_format = (
        "$input `axes` $axes (`place` $place^)? (`shift` $shift^)? (`workspace` $workspace^)? "
        "attr-dict `:` type($input) `->` type($result)"
    )

    def __init__(
        self,
        operand: SSAValue,
        axes: Sequence[int],
        place: int | None,
        *,
        shift: int = 0,
    ) -> None:
        super().__init__(
            operands=[operand],
            result_types=[operand.type],
            properties={
                "axes": axes_attribute(axes),
                "place": None if place is None else IntegerAttr(place, i64),
                "shift": _shift(shift),
            },
        )

    @property
    def places_further(self) -> int:
        """As written."""
        return _shift_of(self.shift)

    def taken_place(self, place: int) -> int:
        """As written, or so many places further than the device."""
        return super().taken_place(place) if self.place is None else self.place.value.data

    def taken_place_text(self, place: str) -> str:
        """The same in C++."""
        if self.place is not None:
            return str(self.place.value.data)
        return super().taken_place_text(place)

    def bytes_sent(self) -> int:
        """What the member sends where each device loads its tensor once, shared out over all."""
        own = bytes_of(self.input.type)
        return own * (self.devices - 1) // self.devices

    def verify_(self) -> None:
        """As any collective; the group has a member at the place."""
        super().verify_()
        if (self.place is None) == (self.shift is None):
            raise VerifyException(
                f"{op_label(self)} reads of one member: write its 'place', or by how many places "
                "it is further than the device itself, 'shift'"
            )
        _verify_shift(self, self.shift)
        if not 0 <= self.taken_place(0) < self.devices:
            raise VerifyException(
                f"{op_label(self)} reads of place {self.taken_place(0)}, but a group along axes "
                f"{list(self.grid_axes)} has places 0 to {self.devices - 1}"
            )
