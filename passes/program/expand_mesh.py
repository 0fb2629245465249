"""``--expand-mesh``: what all devices of a program compute together, as a program of one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import reduce

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from mugraph.dialects import kn
from mugraph.dialects.locations import Rewriter, inherit_location
from mugraph.dialects.reductions import COMBINING, Combiner
from mugraph.dialects.sharding import (
    DeviceProgram,
    Mesh,
    Sharding,
    device_program,
    is_per_device,
)
from mugraph.dialects.tensor_types import element_type_of, layout_of, shape_of

OfDevices = tuple[SSAValue, ...]
"""What a value is on each device."""


@dataclass
class Expansion:
    """Writes one program that computes what each device of another one does.

    What devices compute alike of the same tensors is computed once: two devices hold equal tensors
    where they hold the same value.
    """

    program: DeviceProgram
    block: Block
    values: dict[SSAValue, OfDevices] = field(default_factory=dict[SSAValue, OfDevices])
    made: dict[Hashable, Sequence[SSAValue]] = field(
        default_factory=dict[Hashable, Sequence[SSAValue]]
    )

    @property
    def mesh(self) -> Mesh:
        """The devices."""
        return self.program.mesh

    def once(self, key: Hashable, make: Callable[[], Operation], like: Operation | None = None):
        """The results of an operator, which is made unless it has been made for this key."""
        if key not in self.made:
            op = make()
            self.block.add_op(op)
            if like is not None:
                inherit_location(op, like)
            self.made[key] = op.results
        return self.made[key]

    def run(self) -> list[OfDevices]:
        """Writes the operators; what each result is on each device."""
        for argument, whole, sharding in zip(
            self.program.function.args, self.block.args, self.program.arguments, strict=True
        ):
            whole.name_hint = argument.name_hint
            self.values[argument] = self.parts(whole, argument.type, sharding)
        for op in self.program.function.body.block.ops:
            if isinstance(op, ReturnOp):
                return [self.values[value] for value in op.operands]
            results = self.collective(op) if isinstance(op, kn.CollectiveOp) else self.local(op)
            self.values |= zip(op.results, results, strict=True)
        return []

    def parts(self, whole: SSAValue, part: Attribute, sharding: Sharding) -> OfDevices:
        """What each device has of an argument."""
        extents = shape_of(part)
        type_ = TensorType(element_type_of(part), extents)
        found: list[SSAValue] = []
        for device in self.mesh.devices:
            start = sharding.start(extents, self.mesh, device)
            value = whole
            if shape_of(whole.type) != extents:
                (value,) = self.once(
                    ("part", whole, start), lambda start=start: kn.SliceOp(whole, start, type_)
                )
            found.append(value)
        return tuple(found)

    def local(self, op: Operation) -> list[OfDevices]:
        """An operator on each device."""
        found: list[Sequence[SSAValue]] = []
        for device in self.mesh.devices:
            known = {value: self.laid_out(value, device) for value in op.operands}
            key = (op, tuple(known.values()))
            found.append(self.once(key, lambda known=known: op.clone(known), op))
        return [tuple(results) for results in zip(*found, strict=True)]

    def laid_out(self, value: SSAValue, device: int) -> SSAValue:
        """What a value is on a device, with the layout that is written for it.

        Views see memory, so that the layout of their operand says which elements they have.
        """
        found = self.values[value][device]
        if layout_of(value.type) in (None, layout_of(found.type)):
            return found
        (copy,) = self.once(("laid out", found, value.type), lambda: kn.CopyOp(found, value.type))
        return copy

    def collective(self, op: kn.CollectiveOp) -> list[OfDevices]:
        """What the devices of each group have from one another."""
        found: dict[int, SSAValue] = {}
        of_devices = self.values[op.input]
        for group in self.mesh.groups(op.grid_axes):
            for place, device in enumerate(group):
                pieces = [self.piece(op, of_devices[other], place) for other in group]
                found[device] = self.together(op, pieces, place)
        return [tuple(found[device] for device in self.mesh.devices)]

    def piece(self, op: kn.CollectiveOp, value: SSAValue, place: int) -> SSAValue:
        """What the device at a place takes of the tensor of one of its group."""
        dim = op.cut_dim
        if dim is None:
            return value
        shape = list(shape_of(op.input.type))
        shape[dim] //= op.devices
        place = op.taken_place(place)
        start = tuple(place * shape[dim] if d == dim else 0 for d in range(len(shape)))
        type_ = TensorType(element_type_of(op.input.type), shape)
        (piece,) = self.once(
            ("part", value, start, type_), lambda: kn.SliceOp(value, start, type_), op
        )
        return piece

    def together(self, op: kn.CollectiveOp, pieces: Sequence[SSAValue], place: int) -> SSAValue:
        """What a device makes of the pieces of all of its group."""
        type_ = TensorType(element_type_of(op.result.type), shape_of(op.result.type))
        combination, dim = op.combination, op.joined_dim
        if combination is not None:
            return self.combined(pieces, combination, op)
        if dim is None:
            return pieces[place if op.cut_dim is not None else op.taken_place(place)]
        (joined,) = self.once(
            ("joined", dim, tuple(pieces)), lambda: kn.ConcatOp(pieces, dim, type_), op
        )
        return joined

    def combined(
        self, values: Sequence[SSAValue], combination: Combiner, like: Operation | None = None
    ) -> SSAValue:
        """The sum of tensors, or the largest elements."""
        function = kn.BINARY_OPERATORS[COMBINING[combination]]

        def combine(one: SSAValue, other: SSAValue) -> SSAValue:
            key = (combination, one, other)
            (result,) = self.once(key, lambda: function(one, other, one.type), like)
            return result

        return reduce(combine, values)

    def copies(self, of_devices: OfDevices, sharding: Sharding) -> list[SSAValue]:
        """A tensor of which each device has a part; more than one where devices do not agree."""
        held = dict(enumerate(of_devices))
        for group in self.mesh.groups(sharding.partial):
            value = self.combined([of_devices[each] for each in group], sharding.combiner)
            held |= dict.fromkeys(group, value)
        extents = shape_of(of_devices[0].type)
        parts: dict[tuple[int, ...], list[SSAValue]] = {}
        for device, value in held.items():
            known = parts.setdefault(sharding.start(extents, self.mesh, device), [])
            if value not in known:
                known.append(value)
        return [
            self.whole({start: known[min(copy, len(known) - 1)] for start, known in parts.items()})
            for copy in range(max(map(len, parts.values())))
        ]

    def whole(self, chosen: dict[tuple[int, ...], SSAValue]) -> SSAValue:
        """A tensor of its parts, by where they begin."""
        for dim in reversed(range(len(next(iter(chosen))))):
            rows: dict[tuple[int, ...], list[SSAValue]] = {}
            for start, value in sorted(chosen.items()):
                rows.setdefault((*start[:dim], 0, *start[dim + 1 :]), []).append(value)
            chosen = {start: self.row(dim, parts) for start, parts in rows.items()}
        (result,) = chosen.values()
        return result

    def row(self, dim: int, parts: Sequence[SSAValue]) -> SSAValue:
        """Parts one after the other."""
        if len(parts) == 1:
            return parts[0]
        shape = list(shape_of(parts[0].type))
        shape[dim] *= len(parts)
        type_ = TensorType(element_type_of(parts[0].type), shape)
        (joined,) = self.once(("joined", dim, tuple(parts)), lambda: kn.ConcatOp(parts, dim, type_))
        return joined


def expand_program(program: DeviceProgram) -> tuple[FuncOp, list[int]]:
    """A function of whole tensors that computes what all devices do, and copies of its results.

    Of each result it returns a copy for each way in which devices compute what they should agree
    on: one where none computes it otherwise.
    """
    function = program.function
    types = program.argument_types
    expansion = Expansion(program, Block(arg_types=types))
    copies = [
        expansion.copies(of_devices, sharding)
        for of_devices, sharding in zip(expansion.run(), program.results, strict=True)
    ]
    returned = [value for each in copies for value in each]
    expansion.block.add_op(ReturnOp(*returned))
    whole = FuncOp(
        function.sym_name.data,
        (types, [value.type for value in returned]),
        Region(expansion.block),
    )
    return whole, [len(each) for each in copies]


def keep_results(function: FuncOp, kept: Sequence[int]) -> None:
    """Lets a function return some of its results, each as often as it is named."""
    last = function.get_return_op()
    assert last is not None
    returned = [last.operands[number] for number in kept]
    Rewriter.replace_op(last, ReturnOp(*returned), [])
    function.update_function_type()


def expand_function(function: FuncOp) -> FuncOp:
    """The function of whole tensors that a program of each device is; itself if it is none.

    Where devices do not agree on a result, it is one of theirs.
    """
    program = device_program(function)
    if program is None:
        return function
    whole, counts = expand_program(program)
    keep_results(whole, [*itertools.accumulate(counts, initial=0)][:-1])
    return whole


@dataclass(frozen=True)
class ExpandMeshPass(ModulePass):
    """Writes what all devices of a mesh compute as one program of whole tensors.

    Shards are slices, and collectives sums and concatenations.  What devices compute alike of equal
    tensors is written once.  ``mg-check`` compares such programs with the one that
    ``--partition`` has cut; one that runs on one device is left as it is.  Where devices that
    should hold the same part of a result compute it differently, the result is one of theirs.

    Before::

        func.func @f(%x: tensor<2x4xf16> {mugraph.sharding = #kn.sharding<[[0]]>})
            -> tensor<1x4xf16> attributes {mugraph.mesh = [2], mugraph.per_device} {
          %p = kn.reduction %x dim 0 : tensor<2x4xf16> -> tensor<1x4xf16>
          %y = kn.all_reduce %p axes [0] : tensor<1x4xf16> -> tensor<1x4xf16>

    After::

        func.func @f(%x: tensor<4x4xf16>) -> tensor<1x4xf16> {
          %0 = kn.slice %x from [0, 0] : tensor<4x4xf16> -> tensor<2x4xf16>
          %1 = kn.slice %x from [2, 0] : tensor<4x4xf16> -> tensor<2x4xf16>
          %p = kn.reduction %0 dim 0 : tensor<2x4xf16> -> tensor<1x4xf16>
          %p_1 = kn.reduction %1 dim 0 : tensor<2x4xf16> -> tensor<1x4xf16>
          %y = kn.add %p, %p_1 : (tensor<1x4xf16>, tensor<1x4xf16>) -> tensor<1x4xf16>
    """

    name = "expand-mesh"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Expands every program of several devices of the module."""
        for function in list(op.body.block.ops):
            if isinstance(function, FuncOp) and is_per_device(function):
                whole = expand_function(function)
                op.body.block.insert_op_before(whole, function)
                function.detach()
                function.erase()
