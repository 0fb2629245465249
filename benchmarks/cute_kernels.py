"""Kernels on CuTe tensors on a GPU: results against float64, and times beside PyTorch's.

    python -m benchmarks.cute_kernels --output benchmarks/results/cute_kernels_h200

``examples/cute`` at middle sizes, the products on tensor cores at 4096 cubed, and kernels whose
extents a call says beside the same recorded for one size (``--only "all sizes"``).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from benchmarks.cases import OURS, Built, Call, Case, Comparison, compiled, error_against, main
from benchmarks.h200.device import DEVICE
from benchmarks.h200.statistics import set_count
from mugraph import cute
from mugraph.codegen.architecture import Architecture
from mugraph.codegen.c_abi import interface_of, print_single_file
from mugraph.dialects.tensor_types import row_major_strides
from mugraph.runtime.compile import compile_library
from mugraph.runtime.cuda import only_function

EXAMPLES = Path(__file__).parents[1] / "examples" / "cute"
LARGEST_ERROR = {"f16": 1e-3, "f32": 1e-5}
SIDE = 4096

Shapes = list[tuple[tuple[int, ...], tuple[int, ...] | None]]
"""Extents and strides of each tensor; row-major where there are no strides."""


def built_module(module: ModuleOp, arch: str) -> Built:
    """The library of a module of kernels that are mapped to threads."""
    interface = interface_of(only_function(module))
    source = print_single_file(module, interface, Architecture(arch))
    return Built(compile_library(source, arch), interface, arch)


def launched(built: Built) -> Call:
    """Calls a library on its tensors, the output last; what is also read is an input, too."""
    import torch

    kernel, interface = built.kernel(), built.interface
    size = max(1, interface.workspace_bytes)
    workspace = torch.empty(size, dtype=torch.uint8, device=DEVICE)

    def call(*tensors: Any) -> Any:
        given = (*tensors[: len(interface.inputs)], tensors[-1])
        pointers = [tensor.data_ptr() for tensor in given]
        kernel.launch(pointers, workspace.data_ptr(), torch.cuda.current_stream().cuda_stream)
        return tensors[-1]

    return call


def launch_of(file: str) -> Callable[..., Any]:
    """The function of an example that launches its kernel."""
    # Examples import one another.
    sys.path.append(str(EXAMPLES))
    return importlib.import_module(file).launch


def drawn(element: str, shape: tuple[int, ...], stride: tuple[int, ...] | None = None) -> Any:
    """Small random numbers: sums of many terms shall not be large."""
    import torch

    dtype = {"f16": torch.float16, "f32": torch.float32}[element]
    strides = stride if stride is not None else row_major_strides(shape)
    return torch.empty_strided(shape, strides, dtype=dtype, device=DEVICE).normal_() / 4


def _as_written() -> dict[str, dict[str, Any]]:
    return {"": {}}


@dataclass(frozen=True)
class Example(Case):
    """A file of ``examples/cute`` on tensors of some extents."""

    file: str
    element: str
    shapes: Shapes
    function: Call
    """The result of the inputs, in PyTorch."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=_as_written)
    """Further options, by what the names of our systems end in."""
    peer: str = "torch"
    work: float = 0.0

    @property
    def name(self) -> str:
        """The file, the extents and the options."""
        shapes = ", ".join("x".join(map(str, shape)) for shape, _ in self.shapes)
        said = "".join(f", {name} {value}" for name, value in self.options.items())
        return f"{self.file} {shapes}{said}"

    def build(self, arch: str) -> dict[str, Built]:
        """A library for each variant."""
        launch = launch_of(self.file)
        tensors = [cute.make_fake_tensor(self.element, *pair) for pair in self.shapes]
        return {
            name: built_module(launch(*tensors, **self.options, **more).trace(arch), arch)
            for name, more in self.variants.items()
        }

    def comparison(self, built: dict[str, Built]) -> Comparison:
        """All variants on the same inputs, into outputs that were 0."""
        import torch

        torch.manual_seed(0)
        *inputs, output = (drawn(self.element, *pair) for pair in self.shapes)
        total = sum(each.numel() * each.element_size() for each in (*inputs, output))
        sets = [
            (*(each.clone() for each in inputs), torch.zeros_like(output))
            for _ in range(set_count(total))
        ]
        ours = {f"{OURS} {name}".strip(): launched(each) for name, each in built.items()}
        exact = self.function(*(each.double() for each in inputs))
        return Comparison(
            sets,
            {**ours, self.peer: lambda *tensors: self.function(*tensors[:-1])},
            error_against(exact),
            LARGEST_ERROR[self.element],
            self.work,
            "TFLOP/s",
            # The results of some are inputs, of which a multiple, of zero, is added.
            overwrites=all(len(each.interface.inputs) == len(inputs) for each in built.values()),
        )


@dataclass(frozen=True)
class OfAllSizes(Case):
    """An example whose extents a call says, beside the same recorded for the size alone."""

    file: str
    element: str
    extents: Callable[..., list[tuple[Any, ...]]]
    """Of the tensors, the result's last, from the sizes that a call says."""
    steps: tuple[int, ...]
    """What these are multiples of."""
    sizes: tuple[int, ...]
    function: Call

    @property
    def name(self) -> str:
        """The file and the sizes of the call."""
        return f"{self.file} of all sizes, {'x'.join(map(str, self.sizes))}"

    def build(self, arch: str) -> dict[str, Built]:
        """The kernel of all sizes, and that of one."""
        said = zip("mnk", self.steps, strict=False)
        every = [cute.sym_int(name, 8192, divisibility=step) for name, step in said]
        found: dict[str, Built] = {}
        for name, sizes in {"of all sizes": every, "of this size": self.sizes}.items():
            extents = self.extents(*sizes)
            tensors = [cute.make_fake_tensor(self.element, shape) for shape in extents]
            found[name] = compiled(launch_of(self.file)(*tensors).trace(arch), arch)
        return found

    def comparison(self, built: dict[str, Built]) -> Comparison:
        """Both on the same inputs, beside PyTorch."""
        import torch

        torch.manual_seed(0)
        inputs = [drawn(self.element, shape) for shape in self.extents(*self.sizes)[:-1]]
        count = set_count(sum(each.numel() * each.element_size() for each in inputs))
        return Comparison(
            [tuple(each.clone() for each in inputs) for _ in range(count)],
            {
                **{f"{OURS} {name}": each.kernel() for name, each in built.items()},
                "torch": self.function,
            },
            error_against(self.function(*(each.double() for each in inputs))),
            LARGEST_ERROR[self.element],
        )


def _columns(rows: int, depth: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return (rows, depth), (1, rows)


def _rows(m: int, n: int, k: int) -> Shapes:
    return [((m, k), None), ((n, k), None), ((m, n), None)]


def _sum(a: Any, b: Any) -> Any:
    return a + b


def _sums(a: Any) -> Any:
    return a.sum(1)


def _transpose(a: Any) -> Any:
    return a.mT.contiguous()


def _product(a: Any, b: Any) -> Any:
    return a @ b.mT


def _large(name: str, variants: dict[str, dict[str, Any]]) -> Example:
    """A product on tensor cores at 4096 cubed."""
    shapes = _rows(SIDE, SIDE, SIDE)
    return Example(name, "f16", shapes, _product, {}, variants, "cuBLAS", 2.0 * SIDE**3)


def _alike(m: Any, n: Any) -> list[tuple[Any, ...]]:
    return [(m, n)] * 3


def _of_product(m: Any, n: Any, k: Any) -> list[tuple[Any, ...]]:
    return [(m, k), (n, k), (m, n)]


def _of_weights(m: Any) -> list[tuple[Any, ...]]:
    return _of_product(m, SIDE, SIDE)


SWIZZLES = {"": {}, "without a swizzle": {"layout": cute.Layout((128, 64), (64, 1))}}
SGEMM: Shapes = [_columns(512, 256), _columns(384, 256), ((512, 384), None)]
CASES = [
    Example("elementwise_add", "f32", [((1000, 516), None)] * 3, _sum),
    Example("transpose", "f32", [((1000, 516), None), ((516, 1000), None)], _transpose),
    Example("swizzle", "f16", [((1 << 20, 64), None), ((1 << 20,), None)], _sums, {}, SWIZZLES),
    Example("sgemm_1", "f32", SGEMM, _product, {"tiler": (128, 128, 8)}),
    Example("sgemm_2", "f32", SGEMM, _product),
    Example("gemm_sm80", "f16", _rows(1024, 512, 768), _product),
    Example("gemm_sm90", "f16", _rows(1024, 768, 1536), _product),
    Example(
        "gemm_sm90", "f16", _rows(192, 320, 448), _product, {"tiler": (64, 64, 64), "stages": 3}
    ),
    Example("gemm_sm90", "f16", _rows(1000, 776, 1000), _product),
    _large("gemm_sm80", _as_written()),
    _large("gemm_sm90", {"": {}, "of 128 blocks": {"blocks": 128}, "of 16 rows": {"rows": 16}}),
    *(
        OfAllSizes("elementwise_add", "f32", _alike, (1, 4), sizes, _sum)
        for sizes in [(4096, 4096), (999, 1004)]
    ),
    *(
        OfAllSizes("gemm_sm80", "f16", _of_product, (128, 256, 64), sizes, _product)
        for sizes in [(4096, 4096, 4096), (512, 1024, 640)]
    ),
    *(
        OfAllSizes("gemm_predicated", "f16", _of_product, (1, 2, 8), sizes, _product)
        for sizes in [(1000, 1002, 1000), (3, 2, 8)]
    ),
    *(
        OfAllSizes("gemm_sm90", "f16", _of_weights, (1,), (rows,), _product)
        for rows in (4096, 1000, 5)
    ),
]

if __name__ == "__main__":
    raise SystemExit(main("Kernels on CuTe tensors", __doc__, CASES, output="build/cute_kernels"))
