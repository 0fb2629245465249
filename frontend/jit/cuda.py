"""A compiled µGraph loaded into this process."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any

from mugraph.codegen.c_abi import CInterface, CTensor
from mugraph.dialects.tensor_types import row_major_strides
from mugraph.jit.arguments import (
    CPU,
    ELEMENT_TYPES,
    ArgumentError,
    ArrayView,
    check_apart,
    check_count,
    check_view,
    place_of,
    sizes_of_arrays,
    strides_fit,
    view_of,
)
from mugraph.jit.kernel import Kernel, as_sequence
from mugraph.runtime.execute import DeviceError


class CudaKernel(Kernel):
    """Calls the C function of a shared library.

    With torch tensors a call checks them, allocates outputs and workspace by torch's caching
    allocator and launches on torch's current stream, so it may be captured in a CUDA graph.
    """

    def __init__(self, library: Path, interface: CInterface, arch: str) -> None:
        super().__init__(interface)
        self._arch = arch
        self.library_path = library
        try:
            self._library = ctypes.CDLL(str(library))
        except OSError as error:
            raise DeviceError(f"cannot load {library}: {error}.") from error
        self._run = getattr(self._library, f"{interface.name}_run")
        self._run.argtypes = [
            *[ctypes.c_void_p] * len(interface.tensors),
            *[ctypes.c_int64] * len(interface.extents),
            *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p),
        ]
        self._error = getattr(self._library, f"{interface.name}_error")
        self._error.restype = ctypes.c_char_p
        self._torch: _TorchCall | None = None
        self._values: tuple[int, ...] = ()
        self._of_sizes: dict[tuple[int, ...], CudaKernel] = {}

    @property
    def arch(self) -> str:
        """The architecture."""
        return self._arch

    def __call__(self, *inputs: Any, out: Any = None) -> Any:
        """Runs it; see :meth:`Kernel.__call__`."""
        if self.interface.extents:
            return self._at(sizes_of_arrays(self.interface, inputs))(*inputs, out=out)
        call = self._torch
        torch = sys.modules.get("torch")
        # A build of torch for the CPU alone has no streams to ask for.
        if call is None and torch is not None and torch.backends.cuda.is_built():
            call = self._torch = _TorchCall(self, torch)
        if call is not None:
            result = call(inputs, out)
            if result is not NotImplemented:
                return result
        return self._call_with_views(inputs, out)

    def _at(self, sizes: Mapping[str, int]) -> CudaKernel:
        """The same kernel for calls with these extents; what it looks up stays known."""
        values = tuple(sizes.values())
        if values not in self._of_sizes:
            kernel = copy(self)
            kernel.interface, kernel._values, kernel._torch = self.interface.at(sizes), values, None
            self._of_sizes[values] = kernel
        return self._of_sizes[values]

    @property
    def _output_count(self) -> int:
        return len(self.interface.outputs)

    def launch(self, pointers: Sequence[int], workspace: int, stream: int) -> None:
        """The C function: addresses of inputs and outputs in order, of the workspace, a stream.

        Raises ``ArgumentError`` for addresses that are not aligned, ``DeviceError`` for others of
        its error codes.
        """
        needed = self.interface.workspace_bytes
        self._expect_success(self._run(*pointers, *self._values, workspace, needed, stream))

    def expect_device(self) -> None:
        """Raises ``DeviceError``, saying why, where the current device does not run this code."""
        self._expect_success(getattr(self._library, f"{self.name}_check_device")())

    def _expect_success(self, code: int) -> None:
        if code != 0:
            message = self._error().decode(errors="replace")
            raise (ArgumentError if code < 4 else DeviceError)(f"{self.name}: {message}")

    def _call_with_views(self, inputs: Sequence[Any], out: Any) -> Any:
        """A call with arrays of any library."""
        interface = self.interface
        check_count(self.name, "input", len(interface.inputs), len(inputs))
        cupy = sys.modules.get("cupy")
        stream = 0 if cupy is None else int(cupy.cuda.get_current_stream().ptr)
        views: list[ArrayView] = []

        def add_views(role: str, tensors: Sequence[CTensor], arrays: Sequence[Any]) -> None:
            for index, (tensor, array) in enumerate(zip(tensors, arrays, strict=True)):
                view = view_of(role, index, tensor, array, stream)
                check_view(role, index, tensor, view)
                _expect_gpu(role, index, tensor, view.device, (*views, view)[0].device)
                views.append(view)

        add_views("input", interface.inputs, inputs)
        if out is None:
            outputs = [_allocate(tensor) for tensor in interface.outputs]
        else:
            outputs = list(as_sequence(out, self._output_count))
            check_count(self.name, "output", self._output_count, len(outputs))
        add_views("output", interface.outputs, outputs)
        places = [view.pointer for view in views]
        count = len(interface.inputs)
        check_apart(interface, places[:count], places[count:])
        workspace = (
            _allocate_bytes(interface.workspace_bytes) if interface.workspace_bytes else None
        )
        address = (
            0 if workspace is None else view_of("workspace", 0, _BYTES, workspace, stream).pointer
        )
        self.launch(places, address, stream)
        if out is not None:
            return out
        return outputs[0] if len(outputs) == 1 else tuple(outputs)


class _TorchCall:
    """The call with torch tensors: everything that does not change is looked up once."""

    def __init__(self, kernel: CudaKernel, torch: Any) -> None:
        self._kernel = kernel
        self._torch = torch
        interface = kernel.interface
        types = [getattr(torch, ELEMENT_TYPES[tensor.element_type]) for tensor in interface.tensors]
        count = len(interface.inputs)
        self._inputs = list(zip(interface.inputs, types[:count], strict=True))
        self._outputs = list(zip(interface.outputs, types[count:], strict=True))
        self._workspace_bytes = interface.workspace_bytes
        self._stream = torch._C._cuda_getCurrentRawStream
        self._device = torch.cuda.current_device
        self._devices = [torch.device("cuda", index) for index in range(torch.cuda.device_count())]

    def __call__(self, inputs: Sequence[Any], out: Any) -> Any:
        """The outputs; ``NotImplemented`` where an argument is not a torch tensor."""
        outputs = None if out is None else as_sequence(out, len(self._outputs))
        is_tensor = self._torch.Tensor
        for array in inputs if outputs is None else (*inputs, *outputs):
            if not isinstance(array, is_tensor):
                return NotImplemented
        if len(inputs) != len(self._inputs):
            check_count(self._kernel.name, "input", len(self._inputs), len(inputs))
        device = inputs[0].get_device() if inputs else self._device()
        pointers = self._pointers("input", inputs, self._inputs, device)
        if device != self._device():
            with self._torch.cuda.device(device):
                made = self._launch(pointers, device, outputs)
        else:
            made = self._launch(pointers, device, outputs)
        if out is not None:
            return out
        return made[0] if len(made) == 1 else tuple(made)

    def _pointers(
        self,
        role: str,
        arrays: Sequence[Any],
        expected: Sequence[tuple[CTensor, Any]],
        device: int,
    ) -> list[int]:
        """The addresses of tensors that are as expected; raises ``ArgumentError`` for others."""
        pointers: list[int] = []
        for index, (array, (tensor, dtype)) in enumerate(zip(arrays, expected, strict=True)):
            if (
                array.stride() != tensor.strides
                or array.shape != tensor.shape
                or array.dtype is not dtype
                or array.get_device() != device
                or device < 0
            ):
                # It may be that only strides differ that are not used.
                view = view_of(role, index, tensor, array, None)
                _expect_gpu(role, index, tensor, view.device, device)
                check_view(role, index, tensor, view)
            is_part = tensor.is_part
            pointers.append(place_of(role, index, tensor, array) if is_part else array.data_ptr())
        return pointers

    def _launch(self, pointers: list[int], device: int, outputs: list[Any] | None) -> list[Any]:
        empty = self._torch.empty_strided
        if outputs is None:
            outputs = [
                empty(tensor.shape, tensor.strides, dtype=dtype, device=self._devices[device])
                for tensor, dtype in self._outputs
            ]
            pointers += [array.data_ptr() for array in outputs]
        else:
            check_count(self._kernel.name, "output", len(self._outputs), len(outputs))
            written = self._pointers("output", outputs, self._outputs, device)
            check_apart(self._kernel.interface, pointers, written)
            pointers += written
        workspace = 0
        if self._workspace_bytes:
            scratch = empty((self._workspace_bytes,), (1,), dtype=self._torch.uint8, device=device)
            workspace = scratch.data_ptr()
        self._kernel.launch(pointers, workspace, self._stream(device))
        return outputs


_BYTES = CTensor("workspace", (1,), (1,), "i8", 1, 1)


def _expect_gpu(role: str, index: int, tensor: CTensor, device: int, first: int) -> None:
    if device == CPU:
        raise ArgumentError(f"{role} {index} ('{tensor.name}') is in host memory; move it to a GPU")
    if first != device:
        raise ArgumentError(
            f"{role} {index} ('{tensor.name}') is on GPU {device}, but input 0 is on GPU {first}"
        )


def _allocator() -> Any:
    """torch or CuPy, whichever is loaded; an error where neither is."""
    for name in ("cupy", "torch"):
        if name in sys.modules:
            return sys.modules[name]
    raise ArgumentError(
        "neither torch nor CuPy is loaded to allocate outputs; import one of them, or pass out="
    )


def _allocate(tensor: CTensor) -> Any:
    library = _allocator()
    if library.__name__ == "torch":
        dtype = getattr(library, ELEMENT_TYPES[tensor.element_type])
        return library.empty_strided(tensor.shape, tensor.strides, dtype=dtype, device="cuda")
    if not strides_fit(tensor.shape, tensor.strides, row_major_strides(tensor.shape)):
        raise ArgumentError(
            f"output '{tensor.name}' has strides {tensor.strides}; pass an array for it as out="
        )
    return library.empty(tensor.shape, dtype=ELEMENT_TYPES[tensor.element_type])


def _allocate_bytes(count: int) -> Any:
    library = _allocator()
    if library.__name__ == "torch":
        return library.empty(count, dtype=library.int8, device="cuda")
    return library.empty(count, dtype="int8")
