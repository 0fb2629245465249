"""A µGraph behind the same call on the interpreter."""

from __future__ import annotations

import sys
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from mugraph.codegen.c_abi import CInterface
from mugraph.jit.arguments import CPU, ArgumentError, check_view, view_of
from mugraph.jit.kernel import Kernel, as_sequence
from mugraph.runtime.cuda import only_function
from mugraph.runtime.interpreter import run_function


def _as_numpy(array: Any) -> Any:
    return cast(Any, array if isinstance(array, np.ndarray) else np.from_dlpack(array))


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
        tensors = self.interface.inputs
        if len(inputs) != len(tensors):
            raise ArgumentError(f"{self.name} takes {len(tensors)} inputs, got {len(inputs)}")
        arrays: list[Any] = []
        for index, (tensor, array) in enumerate(zip(tensors, inputs, strict=True)):
            view = view_of("input", index, tensor, array, None)
            if view.device != CPU:
                raise ArgumentError(
                    f"input {index} ('{tensor.name}') is on a GPU; this kernel was compiled for "
                    "the CPU"
                )
            check_view("input", index, tensor, view)
            arrays.append(_as_numpy(array))
        results = run_function(self._module, self._function, arrays)
        if out is not None:
            return self._store(results, out)
        torch = sys.modules.get("torch")
        if torch is not None and inputs and isinstance(inputs[0], torch.Tensor):
            results = [torch.from_numpy(result) for result in results]
        return results[0] if len(results) == 1 else tuple(results)

    def _store(self, results: list[Any], out: Any) -> Any:
        targets = as_sequence(out, len(results))
        if len(targets) != len(results):
            raise ArgumentError(
                f"{self.name} has {len(results)} outputs, got {len(targets)} in out"
            )
        for index, (result, target) in enumerate(zip(results, targets, strict=True)):
            tensor = self.interface.outputs[index]
            check_view("output", index, tensor, view_of("output", index, tensor, target, None))
            _as_numpy(target)[...] = result
        return out
