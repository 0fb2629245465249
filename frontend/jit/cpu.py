"""A µGraph behind the same call on the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from mugraph.codegen.c_abi import CInterface
from mugraph.jit.arguments import (
    CPU,
    ArgumentError,
    check_apart,
    check_count,
    check_view,
    is_torch_tensor,
    numpy_of,
    sizes_of_arrays,
    torch_of,
    view_of,
    with_strides,
)
from mugraph.jit.kernel import Kernel, as_sequence
from mugraph.runtime.cuda import only_function
from mugraph.runtime.interpreter import run_function


class CpuKernel(Kernel):
    """Runs the interpreter at storage precision: what the GPU computes, up to the order of sums.

    Results are NumPy arrays, or torch tensors where the first input is one.
    """

    def __init__(self, module: ModuleOp, interface: CInterface) -> None:
        super().__init__(interface)
        self._module = module
        self._function = only_function(module).sym_name.data

    @property
    def arch(self) -> str:
        """``cpu``."""
        return "cpu"

    def __call__(self, *inputs: Any, out: Any = None) -> Any:
        """Runs it; see :meth:`Kernel.__call__`.  Arrays must be in host memory."""
        interface = self.interface
        check_count(self.name, "input", len(interface.inputs), len(inputs))
        if interface.extents:
            interface = interface.at(sizes_of_arrays(interface, inputs))
        tensors = interface.inputs
        arrays: list[Any] = []
        places: list[int] = []
        for index, (tensor, array) in enumerate(zip(tensors, inputs, strict=True)):
            view = view_of("input", index, tensor, array, None)
            if view.device != CPU:
                raise ArgumentError(
                    f"input {index} ('{tensor.name}') is on a GPU; this kernel was compiled for "
                    "the CPU"
                )
            arrays.append(numpy_of(check_view("input", index, tensor, view)))
            places.append(view.pointer)
        results = run_function(self._module, self._function, arrays)
        if out is not None:
            return self._store(results, out, interface, places)
        outputs = interface.outputs
        results = [with_strides(*pair) for pair in zip(results, outputs, strict=True)]
        if inputs and is_torch_tensor(inputs[0]):
            types = (tensor.element_type for tensor in outputs)
            results = [torch_of(*pair) for pair in zip(results, types, strict=True)]
        return results[0] if len(results) == 1 else tuple(results)

    def _store(
        self, results: list[Any], out: Any, interface: CInterface, inputs: Sequence[int]
    ) -> Any:
        outputs = interface.outputs
        targets = as_sequence(out, len(results))
        if len(targets) != len(results):
            raise ArgumentError(
                f"{self.name} has {len(results)} outputs, got {len(targets)} in out"
            )
        pairs = enumerate(zip(outputs, targets, strict=True))
        views = [
            check_view("output", index, tensor, view_of("output", index, tensor, target, None))
            for index, (tensor, target) in pairs
        ]
        check_apart(interface, inputs, [view.pointer for view in views])
        for result, view in zip(results, views, strict=True):
            numpy_of(view)[...] = result
        return out
