"""The kernel graph: device tensors, pre-defined kernels and custom ones."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType, f16
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from mugraph.build.append import append_operation, calling_line
from mugraph.build.collectives import CollectiveOperators
from mugraph.build.errors import (
    BuildError,
    build_errors,
    require_element_type,
    require_integers,
)
from mugraph.build.extents import (
    Extent,
    note_extents,
    open_extents,
    require_parallel_extents,
)
from mugraph.build.named_numbers import NamedNumber, stand_in
from mugraph.build.tensors import DTensor
from mugraph.build.threadblock_graph import ThreadblockGraph, add_function
from mugraph.dialects import kn
from mugraph.dialects.constant import mark_constant
from mugraph.dialects.cute import Layout
from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.locations import reported_within
from mugraph.dialects.tensor_types import (
    STAND_INS,
    shape_of,
    verify_distinct_addresses,
    verify_layout_fits,
    verify_no_broadcast,
)

if TYPE_CHECKING:
    from mugraph.jit.kernel import Kernel


def new_kernel_graph(name: str = "mugraph", *, devices: Sequence[int] = ()) -> KernelGraph:
    """An empty kernel graph; ``name`` is the function's in the module and in generated code.

    With ``devices``, how many there are along each axis of a mesh, it is the program of each.
    """
    return KernelGraph(name, devices)


class KernelGraph(CollectiveOperators):
    """A graph of kernels on device tensors, built call by call in the order of execution."""

    def __init__(self, name: str = "mugraph", devices: Sequence[int] = ()) -> None:
        if not str(name).isidentifier():
            raise BuildError(f"{name!r} cannot name a function; use letters, digits and '_'")
        self.name = name
        self._block = Block()
        self._region = Region(self._block)
        if devices:
            self._make_for(devices, self._region)
        self._outputs: list[tuple[SSAValue, Layout[int] | None]] = []
        self._constant: set[int] = set()
        self._extents: dict[str, Extent] = {}
        self._functions: dict[str, FuncOp] = {}
        self._kernel: Kernel | None = None
        self._location = calling_line()

    def new_input(
        self,
        dims: Sequence[int],
        strides: Sequence[int] | None = None,
        dtype: Attribute = f16,
        *,
        name: str | None = None,
        constant: bool = False,
    ) -> DTensor:
        """A tensor that the caller passes; the order of calls is the order of arguments.

        Its first dimension may be a :class:`~mugraph.build.Extent`, which calls say; any may be one
        that an input holds.
        ``strides`` are in elements; without them the tensor is row-major and contiguous.  Elements
        may share addresses, as in a sliding window.
        ``constant`` says that nothing writes to it that may run beside the graph's kernels, as is
        so for weights: they are fetched while the kernel before still runs.
        """
        require_integers("new_input", dims)
        if name is not None and not (isinstance(name, str) and SSAValue.is_valid_name(name)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BuildError(
                f"new_input: {name!r} cannot name a tensor; use letters, digits and '_'"
            )
        note_extents(self._extents, dims)
        if self._extents and strides is not None and any(isinstance(dim, Extent) for dim in dims):
            raise BuildError(
                "new_input: a tensor with a named extent is row-major; leave out strides"
            )
        with build_errors():
            argument = self._block.insert_arg(
                _tensor_type(dims, strides, dtype), len(self._block.args)
            )
        argument.name_hint = name
        if constant:
            self._constant.add(argument.index)
        return DTensor(argument, self)

    def customized(
        self, inputs: Sequence[DTensor], graph: ThreadblockGraph, *, names: Sequence[str] = ()
    ) -> list[DTensor]:
        """One kernel that runs a threadblock graph in every block of its grid.

        ``inputs`` are the tensors that the graph's ``new_input`` calls were given, in that order;
        the i-th result is the graph's i-th ``new_output``.  A threadblock graph is used once.
        """
        operands = [self._value(tensor) for tensor in inputs]
        for function in graph.functions.values():
            add_function(self._functions, function)
        op = graph.finish(operands)
        self._append(op)
        for result, name in zip(op.results, names, strict=False):
            result.name_hint = name
        return [DTensor(result, self) for result in op.results]

    def mark_output(self, tensor: DTensor, strides: Sequence[int] | None = None) -> None:
        """Makes a tensor a result; the order of calls is the order of results.

        With ``strides``, in elements, the result is stored so; otherwise row-major and contiguous,
        unless it is an input that has other strides.
        """
        value = self._value(tensor)
        layout = None
        if isinstance(strides, DTensor):
            raise BuildError(
                "mark_output: a call makes one tensor a result, and the second argument is its "
                "strides; call it for each result"
            )
        if strides is not None:
            if any(isinstance(extent, NamedNumber) for extent in tensor.shape):
                raise BuildError(
                    "mark_output: a result with a named extent is row-major; leave out strides"
                )
            with build_errors():
                layout = _layout("mark_output", tensor.shape, strides)
                verify_distinct_addresses("mark_output", layout)
        self._outputs.append((value, layout))

    def module(self) -> ModuleOp:
        """A module with one function: the graph as it is now; raises where nothing is marked."""
        if not self._outputs:
            raise BuildError("the graph has no result; mark at least one tensor with mark_output")
        mapping: dict[SSAValue, SSAValue] = {}
        region = Region()
        self._region.clone_into(region, value_mapper=mapping)
        for value, layout in self._outputs:
            mapping[value] = self._laid_out(mapping[value], layout)
        outputs = [mapping[value] for value, _ in self._outputs]
        region.block.add_op(ReturnOp(*outputs))
        types = FunctionType.from_lists(
            [argument.type for argument in region.block.args], [value.type for value in outputs]
        )
        function = FuncOp(self.name, types, region)
        if self._location is not None:
            function.location = self._location
        self._say_devices(function)
        if self._constant:
            mark_constant(function, self._constant)
        if self._extents:
            open_extents(function, self._extents)
        module = ModuleOp([*(one.clone() for one in self._functions.values()), function])
        with build_errors(), reported_within(module):
            module.verify()
        return module

    def extent_of(self, stand_in: int) -> int:
        """What a number in the shape of a tensor stands in for, where it does."""
        extent = self._extents.get(STAND_INS.get(stand_in, ""))
        return stand_in if extent is None else extent.in_shape

    def _length(self, name: str) -> tuple[DTensor, int]:
        """What a call says, or the input that holds it."""
        extent = self._extents[name].named
        if extent.held is not None:
            return DTensor(self._block.args[extent.held], self), extent.largest
        op = kn.ExtentOp(name)
        self._append(op)
        return DTensor(op.result, self), extent.largest

    def require_parallel_extents(self, rows: Container[str] = ()) -> None:
        """Raises :class:`BuildError` where an operator combines elements along a named extent.

        Of those called ``rows`` not even where masks would keep out what lies behind an end.
        """
        if self._extents:
            function = FuncOp(self.name, ([], []), Region())
            self._region.clone_into(function.body)
            require_parallel_extents(function, self._extents, rows)

    def _laid_out(self, value: SSAValue, layout: Layout[int] | None) -> SSAValue:
        """A result with its layout; where there are named extents, passes write it later."""
        if self._extents and layout is None:
            return value
        return kn.lay_out_row_major(value) if layout is None else kn.lay_out(value, layout)

    def compile(self, arch: str = "native", **options: Any) -> Kernel:
        """The graph as it is now as a kernel to call; see :func:`mugraph.compile`."""
        from mugraph.jit import compile

        kernel: Kernel = cast(Any, compile)(self.module(), arch, **options)
        self._kernel = kernel
        return kernel

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Runs the graph on arrays, in the order of its inputs; returns its results, in theirs.

        Compiles it for this machine first unless :meth:`compile` has been called.  What is added to
        the graph afterwards needs another :meth:`compile`.
        """
        kernel = self._kernel or self.compile()
        results = kernel(*inputs)
        return [results] if len(self._outputs) == 1 else list(results)

    def __str__(self) -> str:
        return str(self.module()) if self._outputs else "\n".join(map(str, self._block.ops))

    def _type_of(self, shape: Sequence[int], dtype: Attribute) -> Attribute:
        return TensorType(dtype, [stand_in(extent) for extent in shape])

    def _handle(self, value: SSAValue) -> DTensor:
        return DTensor(value, self)

    def _append(self, op: Operation) -> None:
        append_operation(self._block, op)


def _layout(what: str, shape: Sequence[int], strides: Sequence[int]) -> Layout[int]:
    strides = require_integers(f"{what} (strides; write dtype= before a type)", strides)
    if len(strides) != len(shape):
        raise BuildError(
            f"{what}: {len(strides)} strides for a tensor of rank {len(shape)}; give one stride, "
            "in elements, a dimension"
        )
    if min(strides) < 0:
        raise BuildError(
            f"{what}: strides {list(strides)}; expected none below 0: a tensor begins at its first "
            "address"
        )
    layout = Layout(tuple(shape), tuple(strides))
    verify_layout_fits(what, tuple(shape), layout)
    verify_no_broadcast(what, layout)
    return layout


def _tensor_type(
    dims: Sequence[int], strides: Sequence[int] | None, dtype: Attribute
) -> TensorType[Attribute]:
    dims = require_integers("new_input", dims)
    require_element_type("new_input", dtype)
    if not dims or any(extent < 1 for extent in dims):
        raise BuildError(f"new_input: extents {list(dims)}; expected at least one, each at least 1")
    layout = None if strides is None else LayoutAttr(_layout("new_input", dims, strides))
    type_ = TensorType(dtype, dims) if layout is None else TensorType(dtype, dims, layout)
    shape_of(type_)  # which refuses those with too many elements
    return type_
