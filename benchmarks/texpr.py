"""The examples of tensor expressions on a GPU: results against float64, and times.

``python -m benchmarks.texpr OUTPUT`` checks every file of ``examples/texpr`` at a middle size, and
times transpose, softmax and layer norm at 4096 x 4096 against a copy of as many bytes and
``torch.compile``, and the products of matrices by ``mma`` and by WGMMA at 4096 cubed against
cuBLAS.  ``--only gemm_sm90,histogram`` takes some of them.  It writes ``OUTPUT.json`` and
``OUTPUT.md`` after every step.  Times as in ``benchmarks.h200.timing``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from xdsl.passes import PassPipeline

from benchmarks import pages
from benchmarks.facts import facts_of_this_run
from benchmarks.h200.statistics import set_count
from benchmarks.h200.timing import interleaved, prepared
from mugraph.codegen.architecture import Architecture
from mugraph.codegen.c_abi import CInterface, interface_of, print_single_file
from mugraph.jit import CudaKernel
from mugraph.passes.texpr.te_lower import TeLowerPass
from mugraph.reading import make_context, read_te
from mugraph.runtime.compile import compile_library
from mugraph.runtime.cuda import only_function

EXAMPLES = Path(__file__).parents[1] / "examples" / "texpr"
ARCH = "sm_90a"
LARGEST_ERROR = {"f16": 2e-3, "f32": 1e-5, "i32": 0.0}

Built = tuple[Path, CInterface, float]

SMALL = {
    "vector_add": "N=100003",
    "transpose": "M=512,N=256",
    "gemm": "M=100,N=96,K=70",
    "gemm_shared": "M=256,N=128,K=512",
    "mma": "",
    "gemm_mma": "M=1024,N=512,K=512",
    "gemm_sm90": "M=1024,N=512,K=512,BLOCKS=5",
    "softmax": "M=37,N=1000",
    "layer_norm": "M=37,N=1000",
    "stencil": "H=100,W=130",
    "batched_4x4": "B=1001",
    "scan": "B=37,N=2048",
    "histogram": "N=1048576",
    "radix_pass": "N=1048576,SHIFT=4",
}
LARGE = {
    "transpose": "",
    "softmax": "",
    "layer_norm": "",
    "gemm_mma": "",
    "gemm_sm90": "",
}
PRODUCTS = ("gemm_mma", "gemm_sm90")
"""Examples that are timed beside cuBLAS."""


def build(name: str, sizes: str) -> Built:
    """The library of an example, its interface and the seconds that lowering took."""
    start = time.perf_counter()
    module = read_te((EXAMPLES / f"{name}.te").read_text(), f"{name}.te", [sizes])
    PassPipeline((TeLowerPass(arch=ARCH),)).apply(make_context(), module)
    module.verify()
    seconds = time.perf_counter() - start
    interface = interface_of(only_function(module))
    source = print_single_file(module, interface, Architecture(ARCH))
    return compile_library(source, ARCH), interface, seconds


def reference(torch: Any, name: str) -> Callable[..., Any]:
    """What an example computes."""

    def stencil(a: Any) -> Any:
        result = a.clone()
        around = a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]
        result[1:-1, 1:-1] = a[1:-1, 1:-1] + 0.125 * (around - 4 * a[1:-1, 1:-1])
        return result

    def gemm(a: Any, b: Any, c: Any) -> Any:
        return c.view(100, 96) + a.view(100, 70) @ b.view(70, 96)

    def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
        return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, 1e-5)

    functions: dict[str, Callable[..., Any]] = {
        "vector_add": lambda a, b: a + b,
        "transpose": lambda a: a.T.contiguous(),
        "gemm": gemm,
        "softmax": lambda x: torch.softmax(x, -1),
        "layer_norm": layer_norm,
        "stencil": stencil,
        "scan": lambda x: torch.cumsum(x, -1),
        "gemm_sm90": lambda a, b: a @ b.T,
        "histogram": lambda x: torch.bincount(x.long() & 255, minlength=256),
        "radix_pass": lambda x: x[torch.argsort(x.long() >> 4 & 15, stable=True)],
    }
    matmul: Callable[..., Any] = torch.matmul
    return functions.get(name, matmul)


class Example:
    """A compiled example and its tensors."""

    def __init__(self, torch: Any, name: str, built: Built) -> None:
        library, interface, self.seconds = built
        types = {"f16": torch.float16, "f32": torch.float32, "i32": torch.int32}
        self.torch, self.name, self.interface = torch, name, interface
        self.kernel = CudaKernel(library, interface, ARCH)
        torch.manual_seed(0)
        self.inputs = [
            (torch.randn(one.shape, device="cuda") * (1000 if one.element_type == "i32" else 1)).to(
                types[one.element_type]
            )
            for one in interface.inputs
        ]
        (output,) = interface.outputs
        self.output = torch.full(output.shape, torch.nan, device="cuda")
        if output.element_type == "i32":
            self.output = torch.full(output.shape, -1, device="cuda")
        self.output = self.output.to(types[output.element_type])
        size = max(1, interface.workspace_bytes)
        self.workspace = torch.empty(size, dtype=torch.uint8, device="cuda")

    def launch(self, inputs: Sequence[Any], output: Any) -> Any:
        """One call on the current stream."""
        pointers = [tensor.data_ptr() for tensor in (*inputs, output)]
        stream = self.torch.cuda.current_stream().cuda_stream
        self.kernel.launch(pointers, self.workspace.data_ptr(), stream)
        return output

    def error(self) -> float:
        """The relative error against float64; NaN where anything was not written."""
        self.launch(self.inputs, self.output)
        self.torch.cuda.synchronize()
        exact = reference(self.torch, self.name)(*(one.double() for one in self.inputs))
        difference = self.output.double().view(-1) - exact.reshape(-1)
        return float(difference.double().norm() / exact.double().norm())


def time_example(torch: Any, example: Example) -> dict[str, float]:
    """Microseconds of ours and of the others, interleaved."""
    total = sum(one.span for one in example.interface.tensors)
    sets = set_count(total)
    inputs = [[tensor.clone() for tensor in example.inputs] for _ in range(sets)]
    outputs = [torch.empty_like(example.output) for _ in range(sets)]
    function = reference(torch, example.name)
    calls: dict[str, Callable[[int], Any]] = {
        "mugraph": lambda i: example.launch(inputs[i], outputs[i]),
        "torch": lambda i: function(*inputs[i]),
    }
    if example.name not in PRODUCTS:
        size = total // 2
        sources = [torch.zeros(size, dtype=torch.uint8, device="cuda") for _ in range(sets)]
        targets = [torch.zeros(size, dtype=torch.uint8, device="cuda") for _ in range(sets)]
        calls["copy"] = lambda i: targets[i].copy_(sources[i])
        compiled = torch.compile(function, dynamic=False)
        with torch.inference_mode():
            compiled(*inputs[0])
        calls["torch.compile"] = lambda i: compiled(*inputs[i])
    with torch.inference_mode():
        graphs = [prepared(call, sets) for call in calls.values()]
        samples = interleaved(graphs, lambda _: None)
    return {name: one.median for name, one in zip(calls, samples, strict=True)}


def report(results: dict[str, Any], output: Path) -> None:
    """Writes what is known so far."""
    checks = [(name, one["error"], one.get("seconds")) for name, one in results["checks"].items()]
    times: list[tuple[str, ...]] = []
    for name, one in results["times"].items():
        for system, value in one["microseconds"].items():
            text = f"{one['bytes'] / value / 1e6:.2f} TB/s"
            if name in PRODUCTS:
                text = f"{2 * 4096**3 / value / 1e6:.0f} TFLOP/s"
            times.append((name, system, f"{value:.2f}", text))
    lines = [
        *pages.head("Tensor expressions", results["facts"]),
        *pages.table(("example", "relative error", "lowered in s"), checks),
        "",
        *pages.table(("example", "system", "µs:", "bandwidth or TFLOP/s"), times),
    ]
    pages.write(output, results, lines)


def main(arguments: Sequence[str]) -> int:
    """Runs all of it; 1 where a result is wrong."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--only", default=",".join(SMALL), help="examples, by commas")
    options = parser.parse_args(arguments)
    output, chosen = options.output, options.only.split(",")
    results: dict[str, Any] = {"device": torch.cuda.get_device_name(), "checks": {}, "times": {}}
    results["facts"] = facts_of_this_run("sm_90a")
    wrong = False
    with ThreadPoolExecutor(8) as pool:
        small = {
            name: pool.submit(build, name, sizes) for name, sizes in SMALL.items() if name in chosen
        }
        large = {
            name: pool.submit(build, name, sizes) for name, sizes in LARGE.items() if name in chosen
        }
    for names, kind in ((small, "small"), (large, "large")):
        for name, future in names.items():
            label = name if kind == "small" else f"{name} 4096"
            try:
                example = Example(torch, name, future.result())
                error = example.error()
                bound = LARGEST_ERROR[example.interface.outputs[0].element_type]
                right = error <= bound
                results["checks"][label] = {
                    "error": f"{error:.2e}" + ("" if right else " WRONG"),
                    "seconds": round(example.seconds, 2),
                }
                if right and kind == "large":
                    total = sum(one.span for one in example.interface.tensors)
                    times = time_example(torch, example)
                    results["times"][name] = {"bytes": total, "microseconds": times}
                wrong |= not right
            except Exception as problem:
                results["checks"][label] = {"error": f"{type(problem).__name__}: {problem}"[:300]}
                wrong = True
            report(results, output)
    print(output.with_suffix(".md").read_text())
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
