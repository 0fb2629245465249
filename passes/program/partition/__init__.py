"""``--partition``: a program on several devices, with the collectives that it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.passes import ModulePass
from xdsl.transforms.dead_code_elimination import region_dce
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.functions import is_foreign
from mugraph.dialects.named_extents import EXTENTS
from mugraph.dialects.shapes import ShapeError
from mugraph.dialects.sharding import (
    MESH,
    Mesh,
    Sharding,
    argument_shardings,
    is_per_device,
    mesh_of,
    result_shardings,
)
from mugraph.dialects.tensor_types import op_label, shape_of, value_label
from mugraph.passes.program.decompose_program import decompose_program
from mugraph.passes.program.partition.rewrite import write_device_program
from mugraph.passes.program.partition.search import NoWayError, Search, ShardingPlan
from mugraph.passes.program.partition.strategies import strategies

MOST_AXES = 3
"""Of a mesh: hosts, devices of a host, and one more."""


@dataclass(frozen=True)
class Partition:
    """How the devices of a mesh share a program."""

    function: FuncOp
    mesh: Mesh
    arguments: tuple[Sharding, ...]
    plan: ShardingPlan


def partition_program(function: FuncOp) -> Partition:
    """Finds how devices share a program; operators that are made of others are taken apart.

    Raises ``VerifyException`` where the function says of its devices what cannot be.
    """
    mesh = mesh_of(function)
    if mesh is None:
        raise VerifyException(
            f"{op_label(function)} has no mesh of devices; for four add attributes {{{MESH} = [4]}}"
        )
    if len(mesh.shape) > MOST_AXES:
        raise VerifyException(
            f"{op_label(function)}: the mesh {mesh} has {len(mesh.shape)} axes; --partition takes "
            f"at most {MOST_AXES}: join some of them"
        )
    _expect_plain_tensors(function)
    arguments = tuple(
        sharding or Sharding.replicated(len(shape_of(argument.type)))
        for argument, sharding in zip(
            function.args, argument_shardings(function, mesh), strict=True
        )
    )
    wanted = result_shardings(function, mesh)
    types = function.function_type
    label = op_label(function)
    for index, (type_, sharding) in enumerate(zip(types.inputs.data, arguments, strict=True)):
        who = f"argument {index} ({value_label(function.args[index])}) of {label}"
        _expect_equal_parts(shape_of(type_), sharding, mesh, who)
    for index, (type_, sharding) in enumerate(zip(types.outputs.data, wanted, strict=True)):
        if sharding is not None:
            _expect_equal_parts(shape_of(type_), sharding, mesh, f"result {index} of {label}")
    decompose_program(function, kernels=True, views=False)
    region_dce(function.body)
    *operators, last = function.body.block.ops
    search = Search(
        mesh,
        operators,
        [strategies(op, mesh) for op in operators],
        dict(zip(function.args, arguments, strict=True)),
        last.operands,
        wanted,
    )
    try:
        return Partition(function, mesh, arguments, search.run())
    except NoWayError as error:
        raise VerifyException(
            f"result {error.result} of {label} cannot lie as {error.wanted}: no operator leaves "
            "such parts of it; say which axes cut it instead"
        ) from error


def _expect_plain_tensors(function: FuncOp) -> None:
    """Raises ``VerifyException`` for what a part cannot be made of."""
    label = op_label(function)
    if EXTENTS in function.attributes:
        raise VerifyException(
            f"{label} has named extents, of which it is not known whether devices can share them "
            "equally; give it static ones before --partition"
        )
    if not isinstance(function.body.block.last_op, ReturnOp) or len(function.body.blocks) != 1:
        raise VerifyException(f"{label} is not one block that ends in a func.return")
    types = function.function_type
    named = [
        *(
            (f"argument {index} ({value_label(argument)})", argument.type)
            for index, argument in enumerate(function.args)
        ),
        *((f"result {index}", type_) for index, type_ in enumerate(types.outputs.data)),
    ]
    for what, type_ in named:
        if not isinstance(type_, TensorType):
            raise VerifyException(f"{what} of {label} is no tensor; devices share tensors only")


def _expect_equal_parts(shape: Sequence[int], sharding: Sharding, mesh: Mesh, who: str) -> None:
    try:
        sharding.part_shape(shape, mesh)
    except ShapeError as error:
        raise VerifyException(f"{who}: {error}") from error


@dataclass(frozen=True)
class PartitionPass(ModulePass):
    """Makes the program of each device from a program of whole tensors.

    Attributes give the mesh of the function (``mugraph.mesh``) and the shardings of its arguments
    and, if that matters, of its results (``mugraph.sharding``). An argument without a sharding is
    whole on each device. Collectives are inserted so that what each device sends and multiplies
    takes the least time, where a byte counts as much as 1,000 multiplications; among such ways, one
    with the fewest collectives is taken, and then one with the least work for each device. How a
    sharding passes through an operator follows from the operator's indices. Extents that do not
    divide stay whole. Afterwards the function is ``mugraph.per_device``, and its types are those of
    parts.

    Before::

        func.func @f(%x: tensor<8x64xf16>,
                     %w: tensor<64x32xf16> {mugraph.sharding = #kn.sharding<[[0]]>})
            -> (tensor<8x32xf16> {mugraph.sharding = #kn.sharding<[[]]>})
            attributes {mugraph.mesh = [4]} {
          %y = kn.matmul %x, %w : (tensor<8x64xf16>, tensor<64x32xf16>) -> tensor<8x32xf16>

    After::

          %x_1 = kn.all_slice %x axes [0] dim 1 : tensor<8x64xf16> -> tensor<8x16xf16>
          %y = kn.matmul %x_1, %w : (tensor<8x16xf16>, tensor<16x32xf16>) -> tensor<8x32xf16>
          %y_1 = kn.all_reduce %y axes [0] : tensor<8x32xf16> -> tensor<8x32xf16>
    """

    name = "partition"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Partitions every function that names a mesh and is not of one device yet."""
        for function in op.walk():
            if isinstance(function, FuncOp) and _is_whole(function):
                found = partition_program(function)
                write_device_program(function, found.mesh, found.arguments, found.plan)


def _is_whole(function: FuncOp) -> bool:
    return not is_foreign(function) and not is_per_device(function)


__all__ = ["Partition", "PartitionPass", "partition_program"]
