"""The kernel graph: device tensors, pre-defined kernels and custom ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType, f16
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from mugraph.build.append import append_operation, calling_line
from mugraph.build.elementwise import GraphOperators
from mugraph.build.errors import (
    BuildError,
    build_errors,
    require_element_type,
    require_integers,
)
from mugraph.build.tensors import DTensor
from mugraph.build.threadblock_graph import ThreadblockGraph, add_function
from mugraph.dialects import kn, tb
from mugraph.dialects.constant import mark_constant
from mugraph.dialects.cute import Layout
from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.locations import Rewriter, reported_within
from mugraph.dialects.tensor_types import (
    verify_distinct_addresses,
    verify_layout_fits,
    verify_no_broadcast,
    with_layout,
)

if TYPE_CHECKING:
    from mugraph.jit.kernel import Kernel


def new_kernel_graph(name: str = "mugraph") -> KernelGraph:
    """An empty kernel graph; ``name`` is the function's in the module and in generated code."""
    return KernelGraph(name)


class KernelGraph(GraphOperators[DTensor]):
    """A graph of kernels on device tensors, built call by call in the order of execution."""

    OPERATORS: ClassVar[dict[str, Any]] = {
        op.name.removeprefix("kn."): op for op in kn.Kn.operations
    }

    def __init__(self, name: str = "mugraph") -> None:
        if not name.isidentifier():
            raise BuildError(f"{name!r} cannot name a function; use letters, digits and '_'")
        self.name = name
        self._block = Block()
        self._region = Region(self._block)
        self._outputs: list[tuple[SSAValue, Layout[int] | None]] = []
        self._constant: set[int] = set()
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

        ``strides`` are in elements; without them the tensor is row-major and contiguous.  Elements
        may share addresses, as in a sliding window.
        ``constant`` says that nothing writes to it that may run beside the graph's kernels, as is
        so for weights: they are fetched while the kernel before still runs.
        """
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

    def reduction(self, x: DTensor, dim: int, size: int = 1, *, name: str | None = None) -> DTensor:
        """Sums along a dimension: the j-th of ``size`` results is that of the j-th run."""
        return self._reduce("reduction", x, dim, size, name)

    def rms_norm(
        self,
        x: DTensor,
        normalized_shape: Sequence[int],
        weight: DTensor | None = None,
        epsilon: float = 0.0,
        *,
        name: str | None = None,
    ) -> DTensor:
        """x / sqrt(mean of x² + epsilon) over the last dimensions, times a weight of theirs."""
        value = self._value(x)
        factor = None if weight is None else self._value(weight)
        with build_errors():
            type_ = self._type_of(x.shape, x.dtype)
            op = kn.RmsNormOp(value, normalized_shape, type_, factor, epsilon)
        return self._add(op, name)

    def chunk(self, x: DTensor, chunk_size: int, dim: int) -> list[DTensor]:
        """``chunk_size`` equal parts along a dimension."""
        extent = x.shape[dim] if 0 <= dim < len(x.shape) else 0
        if chunk_size < 1 or extent % chunk_size:
            raise BuildError(
                f"chunk: dimension {dim} of {x!r} does not fall into {chunk_size} equal parts"
            )
        return self._parts("chunk", x, [extent // chunk_size] * chunk_size, dim)

    def mark_output(self, tensor: DTensor, strides: Sequence[int] | None = None) -> None:
        """Makes a tensor a result; the order of calls is the order of results.

        With ``strides``, in elements, the result is stored so; otherwise the compiler chooses.
        """
        value = self._value(tensor)
        layout = None
        if strides is not None:
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
        outputs = [
            _stored_with(mapping[value], layout) if layout is not None else mapping[value]
            for value, layout in self._outputs
        ]
        region.block.add_op(ReturnOp(*outputs))
        types = FunctionType.from_lists(
            [argument.type for argument in region.block.args], [value.type for value in outputs]
        )
        function = FuncOp(self.name, types, region)
        if self._location is not None:
            function.location = self._location
        if self._constant:
            mark_constant(function, self._constant)
        module = ModuleOp([*(one.clone() for one in self._functions.values()), function])
        with build_errors(), reported_within(module):
            module.verify()
        return module

    def compile(self, arch: str = "native", **options: Any) -> Kernel:
        """The graph as it is now as a kernel to call; see :func:`mugraph.compile`."""
        from mugraph.jit import compile

        self._kernel = compile(self.module(), arch, **options)
        return self._kernel

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
        return TensorType(dtype, shape)

    def _handle(self, value: SSAValue) -> DTensor:
        return DTensor(value, self)

    def _append(self, op: Operation) -> None:
        append_operation(self._block, op)


def _layout(what: str, shape: Sequence[int], strides: Sequence[int]) -> Layout[int]:
    if len(strides) != len(shape):
        raise BuildError(
            f"{what}: {len(strides)} strides for a tensor of rank {len(shape)}; give one stride, "
            "in elements, a dimension"
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
    if strides is None:
        return TensorType(dtype, dims)
    return TensorType(dtype, dims, LayoutAttr(_layout("new_input", dims, strides)))


def _stored_with(value: SSAValue, layout: Layout[int]) -> SSAValue:
    """The value with a layout of the user's, in its type and where a custom kernel stores it."""
    laid_out = cast(TensorType[Attribute], with_layout(value.type, layout))
    if value.type == laid_out:
        return value
    owner = value.owner
    if isinstance(owner, kn.CustomizedOp):
        stores = [op for op in owner.body.block.ops if isinstance(op, tb.OutputOp)]
        stores[owner.results.index(value)].dtensor_type = laid_out
    return Rewriter.replace_value_with_new_type(value, laid_out)
