"""What several devices exchange, in a program that each of them runs on its own tensors."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Region

from mugraph.build.errors import BuildError, build_errors
from mugraph.build.groups import GroupOperators
from mugraph.build.tensors import DTensor
from mugraph.dialects import kn
from mugraph.dialects.reductions import Combiner
from mugraph.dialects.sharding import MESH, Axes, Mesh, Sharding, mesh_attribute, set_per_device


class CollectiveOperators(GroupOperators):
    """Collectives of all devices of a graph, ``kn.all_reduce`` and others.

    Each raises :class:`BuildError` in a graph that is for one device.
    """

    _mesh: Mesh | None = None

    def _make_for(self, devices: Sequence[int], region: Region) -> None:
        """Makes the graph the program of each device of a mesh; operators are verified in it."""
        if not devices or min(devices) < 1:
            raise BuildError(
                f"devices is {list(devices)}; expected how many there are along each axis, such as "
                "[4] or [2, 4]"
            )
        self._mesh = Mesh(tuple(devices))
        # A module needs no last operator, as a function does.
        unfinished = Region(Block([ModuleOp(region)]))
        self._around = FuncOp("devices", FunctionType.from_lists([], []), unfinished)
        self._say_devices(self._around)

    def _say_devices(self, function: FuncOp) -> None:
        """Says of a function which devices it is for, if the graph is for several."""
        if self._mesh is not None:
            function.attributes[MESH] = mesh_attribute(self._mesh)
            set_per_device(function)

    def all_reduce(
        self, x: DTensor, combiner: Combiner = Combiner.SUM, *, name: str | None = None
    ) -> DTensor:
        """The sum of what the devices hold, or the largest elements, on each of them."""
        _, axes = self._devices("all_reduce")
        return self._add(kn.AllReduceOp(self._value(x), None, axes, combiner), name)

    def all_gather(self, x: DTensor, dim: int = 0, *, name: str | None = None) -> DTensor:
        """The tensors of all devices one after the other along a dimension, on each of them."""
        mesh, axes = self._devices("all_gather")
        dim = self.dim("all_gather", x, dim)
        type_ = TensorType(x.dtype, _cut(x, dim, axes).whole_shape(x.shape, mesh))
        return self._add(kn.AllGatherOp(self._value(x), axes, dim, type_), name)

    def reduce_scatter(
        self,
        x: DTensor,
        dim: int = 0,
        combiner: Combiner = Combiner.SUM,
        *,
        name: str | None = None,
    ) -> DTensor:
        """The sum of what the devices hold, of which each gets a part of a dimension."""
        mesh, axes = self._devices("reduce_scatter")
        dim = self.dim("reduce_scatter", x, dim)
        with build_errors():
            type_ = TensorType(x.dtype, _cut(x, dim, axes).part_shape(x.shape, mesh))
        return self._add(kn.ReduceScatterOp(self._value(x), axes, dim, type_, combiner), name)

    def _devices(self, operator: str) -> tuple[Mesh, Axes]:
        if self._mesh is None:
            raise BuildError(
                f"{operator} is of several devices, and this graph is for one; make it by "
                "new_kernel_graph(devices=[4]), say"
            )
        return self._mesh, tuple(range(len(self._mesh.shape)))


def _cut(x: DTensor, dim: int, axes: Axes) -> Sharding:
    """One dimension cut by all devices."""
    return Sharding(tuple(axes if each == dim else () for each in range(len(x.shape))))
