"""Kernels of several devices together; the devices and their axes are those of the function's mesh.

Devices that differ along an operator's axes only form a group, in which each has a place: the first
axis counts most.  Names are those of MLIR's ``shard`` dialect.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, TensorType, UnitAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.ancestors import enclosing
from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.element_types import verify_no_integers, verify_same_type
from mugraph.dialects.kn.kernel import KernelOp, prefer_same_innermost
from mugraph.dialects.kn.rearrange import ConcatOp
from mugraph.dialects.launch_extents import extents_of, integer_array
from mugraph.dialects.layout_problem import LayoutProblem
from mugraph.dialects.reductions import Combiner, CombinerAttr, combiner_attribute
from mugraph.dialects.shapes import ShapeError
from mugraph.dialects.sharding import MESH, PER_DEVICE, Axes, Mesh, Sharding, is_per_device, mesh_of
from mugraph.dialects.tensor_types import (
    bytes_of,
    dims,
    op_label,
    shape_of,
)


class CollectiveOp(KernelOp):
    """An operator on the tensors that the devices of a group hold.

    A device takes of each member's tensor the part of its own place along :attr:`cut_dim`, or all
    of it; then it combines what it took, or joins it along :attr:`joined_dim`, or keeps one: the
    part, or the tensor, of :meth:`taken_place`.
    """

    input = operand_def(TensorType)
    axes = opt_prop_def(DenseArrayBase.constr(i64))

    @property
    def cut_dim(self) -> int | None:
        """The dimension that the group cuts; ``None`` for none."""
        return None

    @property
    def joined_dim(self) -> int | None:
        """The dimension along which what the members hold is joined; ``None`` for none."""
        return None

    @property
    def combination(self) -> Combiner | None:
        """How what the members hold is combined; ``None`` where it is not."""
        return None

    @property
    def places_further(self) -> int:
        """How many places further the member is whose part is taken, or tensor kept; 0: its own."""
        return 0

    def taken_place(self, place: int) -> int:
        """The member whose part the device at a place takes, or whose tensor it keeps.

        Where it cuts no dimension, and combines and joins nothing, it keeps one member's tensor.
        """
        return (place + self.places_further) % self.devices

    def taken_place_text(self, place: str) -> str:
        """The same in C++, from what this device's place is there."""
        shift = self.places_further
        return f"(({place} + {shift}) % {self.devices})" if shift else place

    @property
    def mesh(self) -> Mesh:
        """The devices; raises ``VerifyException`` where the function says none."""
        function = enclosing(self, FuncOp)
        mesh = None if function is None else mesh_of(function)
        if mesh is None:
            raise VerifyException(
                f"{op_label(self)} is of several devices, but the function around it has no "
                f"mesh; for four devices add attributes {{{MESH} = [4], {PER_DEVICE}}}"
            )
        return mesh

    @property
    def grid_axes(self) -> Axes:
        """The axes along which devices of a group differ; all of them where none are written."""
        if self.axes is None:
            return tuple(range(len(self.mesh.shape)))
        return extents_of(self.axes)

    @property
    def devices(self) -> int:
        """How many devices a group has."""
        return self.mesh.size(self.grid_axes)

    def bytes_sent(self) -> int:
        """The bytes that each device sends, in a ring or straight to the others."""
        return bytes_sent(
            self.input.type,
            self.devices,
            cuts=self.cut_dim is not None,
            joins=self.joined_dim is not None,
            combines=self.combination is not None,
        )

    def expected_shape(self) -> tuple[int, ...]:
        """The operand's extents, with fewer elements where it is cut, and more where joined."""
        shape = shape_of(self.input.type)
        for dim in (self.cut_dim, self.joined_dim):
            if dim is not None and not 0 <= dim < len(shape):
                raise ShapeError(
                    f"dimension {dim} does not exist in {dims(shape)}: expected 0 to "
                    f"{len(shape) - 1}"
                )
        if self.cut_dim is not None:
            shape = self._along(self.cut_dim).part_shape(shape, self.mesh)
        if self.joined_dim is not None:
            shape = self._along(self.joined_dim).whole_shape(shape, self.mesh)
        return shape

    def _along(self, dim: int) -> Sharding:
        """One dimension cut by the operator's axes."""
        rank = len(shape_of(self.input.type))
        return Sharding(tuple(self.grid_axes if other == dim else () for other in range(rank)))

    def verify_(self) -> None:
        """As any kernel; axes are of the mesh, each once, and elements stay of their type."""
        function = enclosing(self, FuncOp)
        if function is None or not is_per_device(function):
            raise VerifyException(
                f"{op_label(self)} stands in a program of whole tensors; write {PER_DEVICE} beside "
                f"{MESH} for the program of each device, or leave the operator to --partition"
            )
        fault = Sharding(((), self.grid_axes)).fault(2, self.mesh)
        if fault is not None or not self.grid_axes:
            raise VerifyException(f"{op_label(self)} {fault or 'names no axis of the mesh'}")
        super().verify_()
        verify_same_type(self, [self.input, self.result], "kn.cast")

    def add_layout_constraints(self, problem: LayoutProblem) -> None:
        """Operand and result share their innermost dimension."""
        prefer_same_innermost(problem, self, self.input, self.result)


def bytes_sent(type_: Attribute, devices: int, *, cuts: bool, joins: bool, combines: bool) -> int:
    """The bytes that each device of a group sends of a tensor of its own.

    No way to exchange them takes fewer.  A sum that every device needs is sent twice: its parts to
    the one that adds them up, and from there to all.
    """
    own = bytes_of(type_)
    if joins and not cuts:
        return own * (devices - 1)
    times = 2 if combines and not cuts else 1 if combines or joins else 0
    return times * own * (devices - 1) // devices


def axes_attribute(axes: Sequence[int] | None) -> DenseArrayBase | None:
    """Axes as an operator has them; ``None`` for all of the mesh."""
    return None if axes is None else integer_array(axes)


class CombiningOp(CollectiveOp):
    """A collective that adds up what the devices hold, or takes the largest elements."""

    combiner = opt_prop_def(CombinerAttr)

    @property
    def combination(self) -> Combiner:
        """How two numbers become one."""
        return Combiner.SUM if self.combiner is None else self.combiner.data

    def verify_(self) -> None:
        """As any collective; of floating-point numbers."""
        super().verify_()
        verify_no_integers(self, [self.input, self.result], "kn.cast")


class AlongDimensionOp(CollectiveOp):
    """A collective that cuts or joins one dimension, and combines nothing."""

    dim = prop_def(IntegerAttr.constr(type=i64))

    assembly_format = (
        "$input `axes` $axes `dim` $dim (`workspace` $workspace^)? attr-dict "
        "`:` type($input) `->` type($result)"
    )

    def __init__(
        self, operand: SSAValue, axes: Sequence[int], dim: int, result_type: Attribute
    ) -> None:
        super().__init__(
            operands=[operand],
            result_types=[result_type],
            properties={"axes": axes_attribute(axes), "dim": IntegerAttr(dim, i64)},
        )


@irdl_op_definition
class AllReduceOp(CombiningOp):
    """The sum of the tensors of all devices of a group, or their largest elements, on each of them.

    ``axes`` are those along which the devices differ, all of the mesh where none are written;
    ``inplace`` says that the result may take the operand's memory.  In a function without a mesh,
    as imported from Mirage, it can be written but not run.
    ``%y = kn.all_reduce %x combine max axes [0] : tensor<8x1xf32> -> tensor<8x1xf32>``.
    """

    name = "kn.all_reduce"

    inplace = opt_prop_def(UnitAttr)

    assembly_format = (
        "$input (`combine` $combiner^)? (`axes` $axes^)? (`inplace` $inplace^)? "
        "(`workspace` $workspace^)? attr-dict `:` type($input) `->` type($result)"
    )

    def __init__(
        self,
        operand: SSAValue,
        result_type: Attribute | None = None,
        axes: Sequence[int] | None = None,
        combiner: Combiner = Combiner.SUM,
        *,
        inplace: bool = False,
    ) -> None:
        super().__init__(
            operands=[operand],
            result_types=[result_type or operand.type],
            properties={
                "inplace": UnitAttr() if inplace else None,
                "axes": axes_attribute(axes),
                "combiner": combiner_attribute(combiner),
            },
        )

    def verify_(self) -> None:
        """As any collective; without axes also where nothing is said of devices."""
        function = enclosing(self, FuncOp)
        says_nothing = function is None or MESH not in function.attributes
        if self.axes is None and says_nothing:
            KernelOp.verify_(self)
            return
        super().verify_()


@irdl_op_definition
class AllGatherOp(AlongDimensionOp):
    """The tensors of all devices of a group, one after the other along a dimension, on each.

    ``%y = kn.all_gather %x axes [0] dim 1 : tensor<8x16xf16> -> tensor<8x64xf16>``.
    """

    name = "kn.all_gather"

    @property
    def joined_dim(self) -> int:
        """As written."""
        return self.dim.value.data


@irdl_op_definition
class ReduceScatterOp(CombiningOp):
    """The sum of the tensors of all devices of a group, of which each gets a part of a dimension.

    Or their largest elements, with ``combine max``.
    ``%y = kn.reduce_scatter %x axes [0] dim 1 : tensor<8x64xf16> -> tensor<8x16xf16>``.
    """

    name = "kn.reduce_scatter"

    dim = prop_def(IntegerAttr.constr(type=i64))

    assembly_format = (
        "$input (`combine` $combiner^)? `axes` $axes `dim` $dim (`workspace` $workspace^)? "
        "attr-dict `:` type($input) `->` type($result)"
    )

    def __init__(
        self,
        operand: SSAValue,
        axes: Sequence[int],
        dim: int,
        result_type: Attribute,
        combiner: Combiner = Combiner.SUM,
    ) -> None:
        super().__init__(
            operands=[operand],
            result_types=[result_type],
            properties={
                "axes": axes_attribute(axes),
                "dim": IntegerAttr(dim, i64),
                "combiner": combiner_attribute(combiner),
            },
        )

    @property
    def cut_dim(self) -> int:
        """As written."""
        return self.dim.value.data


@irdl_op_definition
class AllToAllOp(CollectiveOp):
    """Each device of a group sends a part to each: one dimension is cut, another one whole again.

    A device takes the part of its place of all tensors, and joins them in the order of places.
    One that is ``delivered`` is of a ``kn.concat`` of the parts, and nothing is sent by the
    operator itself: what makes a part writes it into the memory of the device that it is for.
    ``%y = kn.all_to_all %x axes [0] split 1 concat 0 : tensor<2x64xf16> -> tensor<8x16xf16>``.
    """

    name = "kn.all_to_all"

    split = prop_def(IntegerAttr.constr(type=i64))
    concat = prop_def(IntegerAttr.constr(type=i64))
    delivered = opt_prop_def(UnitAttr)

    assembly_format = (
        "$input `axes` $axes `split` $split `concat` $concat (`delivered` $delivered^)? "
        "(`workspace` $workspace^)? attr-dict `:` type($input) `->` type($result)"
    )

    def __init__(
        self,
        operand: SSAValue,
        axes: Sequence[int],
        split: int,
        concat: int,
        result_type: Attribute,
        *,
        delivered: bool = False,
    ) -> None:
        super().__init__(
            operands=[operand],
            result_types=[result_type],
            properties={
                "axes": axes_attribute(axes),
                "split": IntegerAttr(split, i64),
                "concat": IntegerAttr(concat, i64),
                "delivered": UnitAttr() if delivered else None,
            },
        )

    @property
    def cut_dim(self) -> int:
        """As written."""
        return self.split.value.data

    @property
    def joined_dim(self) -> int:
        """As written."""
        return self.concat.value.data

    @property
    def pieces(self) -> tuple[SSAValue, ...]:
        """Of one that is delivered: what the members get, by their places."""
        assert isinstance(self.input.owner, ConcatOp)
        return tuple(self.input.owner.inputs)

    def verify_(self) -> None:
        """As any collective; what is delivered is in parts that are ranges of memory."""
        super().verify_()
        if self.delivered is None:
            return
        made = self.input.owner
        if (
            not isinstance(made, ConcatOp)
            or len(made.inputs) != self.devices
            or made.joined_dim != self.cut_dim
            or len({shape_of(piece.type) for piece in made.inputs}) != 1
            or not self.input.has_one_use()
        ):
            raise VerifyException(
                f"{op_label(self)} is delivered, so that its operand is a kn.concat of "
                f"{self.devices} equal parts along dimension {self.cut_dim} which it alone reads; "
                "leave 'delivered' out, or write the concat"
            )
        for type_, dim in ((self.input.type, self.cut_dim), (self.result.type, self.joined_dim)):
            if math.prod(shape_of(type_)[:dim]) != 1:
                raise VerifyException(
                    f"{op_label(self)} is delivered along dimension {dim} of "
                    f"{dims(shape_of(type_))}, whose parts are no ranges of memory; expected "
                    "dimension 0, or one behind dimensions of one element"
                )
