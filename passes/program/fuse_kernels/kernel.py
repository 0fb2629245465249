"""Writes operators of a program as one kernel, whose loop walks along one index."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from xdsl.ir import Operation, SSAValue
from xdsl.transforms.common_subexpression_elimination import cse
from xdsl.transforms.dead_code_elimination import region_dce
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects import tb
from mugraph.dialects.element_types import rounds_for_good
from mugraph.dialects.interfaces import HasTileIndices
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.maps import AXES
from mugraph.dialects.tensor_types import (
    element_type_of,
    shape_of,
    value_label,
)
from mugraph.passes.mugraph.end_loads import end_load
from mugraph.passes.mugraph.factor_products import factor_products
from mugraph.passes.mugraph.online_softmax.kernel import is_plain_exponential, online_softmax
from mugraph.passes.program.fuse_kernels.algebra import in_the_loop, settled
from mugraph.passes.program.fuse_kernels.errors import NotFusedError
from mugraph.passes.program.fuse_kernels.forms import Form, Slices, Term, Whole
from mugraph.passes.program.fuse_kernels.indices import GroupIndices, indices_of, is_product
from mugraph.passes.program.fuse_kernels.limits import Limits
from mugraph.passes.program.fuse_kernels.sums import KernelBody, form_of
from mugraph.passes.program.fuse_kernels.times import may_loop
from mugraph.passes.program.fuse_kernels.writer import TileWriter
from mugraph.passes.targets import Target

TILE = 64
"""Elements along a dimension of the tiles that a kernel begins with; ``--plan`` chooses others."""
ROW_TILE_ELEMENTS = 4096
"""Of a tile of a kernel without products, about."""
LEAST_ROW_TILE_ELEMENTS = 256
"""Of such a tile where blocks cut several indices together, which leaves more of them idle."""
THREADS = 128


def parts_of(extent: int, tile: int) -> int:
    """Into how many equal tiles of at most so many elements an extent falls; few if it is prime."""
    return extent // next(size for size in range(min(tile, extent), 0, -1) if extent % size == 0)


class KernelBuilder:
    """Writes a group of operators, in the order of their data flow, as a kernel.

    ``stored`` are the results that others use.
    """

    def __init__(self, operators: Sequence[HasTileIndices], stored: Sequence[SSAValue]) -> None:
        self.operators = operators
        self.stored = stored
        self.indices = indices_of(operators)
        self.limits = Limits(operators, self.indices, stored)

    def loops(self) -> list[int | None]:
        """No loop, and the indices that one may walk along: what operators combine.

        What a scan goes along alone, where there is one.
        """
        scanned = sorted(self.indices.scanned)
        return [*scanned] if scanned else [None, *self.indices.looped]

    def build(self, looped: int | None) -> CustomizedOp:
        """The kernel whose loop walks along an index.

        Raises :class:`NotFusedError` where there is none that computes the same.
        """
        partition, writer, forms = self._written(looped, self.stored)
        graph = writer.finished(partition.grid, (THREADS, 1, 1), partition.iterations)
        # The program computes these itself: that no maximum is below them is no matter of ours.
        own = {form.tile for form in forms if isinstance(form, Whole)}
        try:
            _clean(graph, own, is_shifted=bool(writer.maxima))
        except NotFusedError:
            graph.erase()
            raise
        return graph

    def _written(
        self, looped: int | None, stored: Sequence[SSAValue]
    ) -> tuple[_Partition, TileWriter, Collection[Form]]:
        """The body of the kernel that stores some results, how it is cut, and all values."""
        partition = _Partition(self.indices, self.operators, stored, looped)
        writer = TileWriter()
        kernel = KernelBody(self.indices, looped, writer, partition.maps_of)
        forms: dict[SSAValue, Form] = {}
        for op in self.operators:
            for value in op.operands:
                if value not in forms:
                    forms[value] = self.loaded(value, partition, writer)
            forms[op.results[0]] = form_of(op, kernel, [forms[value] for value in op.operands])
            writer.name_last(op.results[0].name_hint)
        for value in stored:
            self.store(value, forms[value], partition, writer)
        return partition, writer, forms.values()

    def is_part_of_none(self, target: Target) -> bool:
        """Whether no kernel has these operators, whatever other operators it has.

        Others may store other results, of which blocks divide more, and combine other indices,
        along which a loop may go.  They make more dimensions one index, and no value easier.
        """
        limits = Limits(self.operators, self.indices, ())
        if len(limits.by_grid & self.indices.batched) > len(AXES):
            return False  # blocks of others may divide what those of these do not
        loops = sorted(self.indices.scanned) or sorted(
            {*range(len(self.indices.extents))} - self.indices.moved
        )
        if not all(limits.overflow(n, target) or self._is_refused(n) for n in loops):
            return False
        if self.indices.scanned or self._is_refused(None):
            return True
        return limits.overflow(None, target) and not self._may_loop()

    def _is_refused(self, looped: int | None) -> bool:
        """Whether a loop along an index cannot compute the operators, whatever is stored."""
        try:
            self._written(looped, ())
        except NotFusedError:
            return True
        return False

    def _may_loop(self) -> bool:
        """Whether ``--plan`` may give the kernel without a loop one, or that is not known."""
        try:
            graph = self.build(None)
        except NotFusedError:
            return True
        return may_loop(graph)

    def loaded(self, value: SSAValue, partition: _Partition, writer: TileWriter) -> Form:
        """A tile of a tensor that the group does not compute."""
        dim = partition.loop_dim(value)
        argument = writer.argument(value, value.name_hint)
        type_ = tb.STensorType.of(partition.tile(value), element_type_of(value.type))
        tile = writer.tile(argument, partition.map_of(value), dim, type_, value.name_hint)
        return Whole(tile) if dim < 0 else Slices((Term(tile),))

    def store(self, value: SSAValue, form: Form, partition: _Partition, writer: TileWriter) -> None:
        """Stores a result, of each iteration or after the loop."""
        dim = -1
        if isinstance(form, Slices):
            dim = partition.loop_dim(value)
            if dim < 0:
                raise NotFusedError(
                    f"{value_label(value)} differs from iteration to iteration, but the loop "
                    "does not cut it"
                )
            tile = in_the_loop(form, f"what is stored as {value_label(value)}")
        else:
            tile = settled(writer, form)
        if shape_of(tile.type) != partition.tile(value):
            raise NotFusedError(
                f"{value_label(value)} repeats one element along a dimension, and the kernel "
                "would store it once"
            )
        writer.add(tb.OutputOp(tile, partition.map_of(value), value.type, dim))


class _Partition:
    """How grid and loop cut the tensors of a kernel at first."""

    def __init__(
        self,
        indices: GroupIndices,
        operators: Sequence[HasTileIndices],
        stored: Sequence[SSAValue],
        looped: int | None,
    ) -> None:
        self.indices = indices
        self.looped = looped
        self.iterations = 1
        if looped is not None:
            tile = 1 if looped in indices.scanned else TILE
            self.iterations = parts_of(indices.extents[looped], tile)
        parallel = [number for number in indices.parallel(stored) if number != looped]
        batched = [number for number in parallel if number in indices.batched]
        products = [op for op in operators if is_product(op)]

        def usefulness(number: int) -> tuple[int, int]:
            """A product whose result lacks an index is computed anew by each block that cuts it."""
            own = sum(indices.of(op.results[0], number) is not None for op in products)
            return own, indices.extents[number]

        others = sorted(
            (number for number in parallel if number not in indices.batched),
            key=usefulness,
            reverse=True,
        )
        axes = [*batched, *others]
        joint = frozenset[int]()
        if products:
            parts = {number: self._parts_of_index(number) for number in axes}
            joint = indices.side_by_side(stored)
            if joint and looped not in joint:
                parts |= dict.fromkeys(joint, self._parts_of_joint(joint))
                axes = [min(joint), *axes]
        elif axes:
            axes = axes[: len(AXES)]
            parts = self._parts_of_rows(axes)
            parts |= {number: indices.extents[number] for number in batched}
        else:
            parts = {}
            joint = indices.side_by_side(stored)
            if joint and looped not in joint:
                parts = dict.fromkeys(joint, self._parts_of_joint_rows(joint))
                axes = [min(joint)]
        axes = [number for number in axes if parts[number] > 1][: len(AXES)]
        self.axes = [joint if number in joint else frozenset({number}) for number in axes]
        """The indices that each axis of the grid cuts."""
        self.parts = [parts[number] for number in axes]
        self.grid = (*self.parts, *(1,) * (len(AXES) - len(self.parts)))

    def _parts_of_index(self, number: int) -> int:
        extent = self.indices.extents[number]
        return extent if number in self.indices.batched else parts_of(extent, TILE)

    def _parts_of_joint(self, joint: frozenset[int]) -> int:
        """Into how many parts indices are cut together; 1 if there is no such number."""
        extents = [self.indices.extents[number] for number in joint]
        matrices = {self.indices.extents[n] for n in joint & self.indices.batched}
        parts = max(matrices, default=0) or parts_of(math.gcd(*extents), TILE)
        fits = len(matrices) < 2 and not any(extent % parts for extent in extents)
        return parts if fits else 1

    def _parts_of_joint_rows(self, joint: Collection[int]) -> int:
        """The most parts that leave blocks some elements, of results without a common index.

        Of one row these are the heads of queries and of keys, say: blocks have some of both.
        """
        common = math.gcd(*(self.indices.extents[number] for number in joint))
        elements = max(math.prod(shape_of(value.type)) for value in self.indices.of_value)
        most = max(elements // self.iterations // LEAST_ROW_TILE_ELEMENTS, 1)
        return common // parts_of(common, most)

    def _parts_of_rows(self, axes: Sequence[int]) -> dict[int, int]:
        """Cuts outer dimensions first, until the largest tile has few elements."""
        largest = max(self.indices.of_value, key=lambda v: math.prod(shape_of(v.type)))
        left = math.prod(shape_of(largest.type)) // self.iterations
        parts = dict.fromkeys(axes, 1)
        for number in self.indices.of_value[largest]:
            if number in parts:
                extent = self.indices.extents[number]
                parts[number] = parts_of(extent, max(ROW_TILE_ELEMENTS * extent // left, 1))
                left = max(left // parts[number], 1)
        return parts

    def tile(self, value: SSAValue) -> tuple[int, ...]:
        """The extents of a tensor's tiles."""
        shape = list(shape_of(value.type))
        for dim, number in enumerate(self.indices.of_value[value]):
            if number is None:
                continue
            for axis, parts in zip(self.axes, self.parts, strict=True):
                if number in axis:
                    shape[dim] = -(-shape[dim] // parts)
            if number == self.looped:
                shape[dim] = -(-shape[dim] // self.iterations)
        return tuple(shape)

    def map_of(self, value: SSAValue) -> tuple[int, ...]:
        """The dimension that each axis of the grid cuts."""
        own = self.indices.of_value[value]
        dims = [[dim for dim, number in enumerate(own) if number in axis] for axis in self.axes]
        entries = [next(iter(cut), -1) for cut in dims]
        return (*entries, *(-1,) * (len(AXES) - len(entries)))

    def maps_of(self, value: SSAValue) -> tuple[tuple[int, ...], int]:
        """Both."""
        return self.map_of(value), self.loop_dim(value)

    def loop_dim(self, value: SSAValue) -> int:
        """The dimension that the loop cuts; -1 for none."""
        dim = None if self.looped is None else self.indices.of(value, self.looped)
        return -1 if dim is None else dim


def _clean(graph: CustomizedOp, own: Collection[SSAValue], *, is_shifted: bool) -> None:
    """Drops what nothing uses, and puts running maxima where maxima cancelled.

    Raises :class:`NotFusedError` where an exponential stays that may overflow, but is none of the
    program's ``own``.
    """

    def may_overflow(op: Operation) -> bool:
        return is_plain_exponential(op) and op.results[0] not in own

    cse(graph.body)
    region_dce(graph.body)
    for op in tuple(graph.body.block.ops):
        if isinstance(op, tb.CastOp):
            _round_at_once(op)
    factor_products(graph)
    for op in tuple(graph.body.block.ops):
        end_load(op)  # a mask costs a pass over the tile, and an end of the load nothing
    if is_shifted and any(map(may_overflow, graph.body.block.ops)):
        online_softmax(graph)
        if any(map(may_overflow, graph.body.block.ops)):
            raise NotFusedError("an exponential would lose the maximum that keeps it from overflow")
    try:
        graph.verify()
    except VerifyException as error:
        raise NotFusedError(str(error)) from error


def _round_at_once(cast: tb.CastOp) -> None:
    """Rounds a tile where it is computed, if sums and products of the rounded one alone use it."""
    source = cast.input.owner
    users = [use.operation for use in cast.input.uses if use.operation is not cast]
    if not isinstance(source, tb.ElementwiseOp) or isinstance(source, tb.CastOp):
        return
    types = [element_type_of(value.type) for value in (cast.result, cast.input)]
    if rounds_for_good(types[0], types[1:]):
        return
    if all(
        isinstance(user, tb.AccumulatorOp) and not isinstance(user, tb.CarryOp) for user in users
    ):
        rounded = Rewriter.replace_value_with_new_type(cast.input, cast.result.type)
        cast.result.replace_all_uses_with(rounded)
        Rewriter.erase_op(cast)
