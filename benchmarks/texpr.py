"""The examples of tensor expressions on a GPU: results against float64, and times.

    python -m benchmarks.texpr --only gemm_sm90 --output benchmarks/results/texpr_h200

Every file of ``examples/texpr`` at a middle size; some also at the sizes that they have in their
files, beside a copy of as many bytes and ``torch.compile``, and the products of matrices by ``mma``
and by WGMMA, 4096 cubed, beside cuBLAS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdsl.passes import PassPipeline

from benchmarks.cases import OURS, Built, Call, Case, Comparison, error_against, main
from benchmarks.cute_kernels import built_module, launched
from benchmarks.h200.device import DEVICE
from benchmarks.h200.statistics import set_count
from benchmarks.narrow import COPY, copy_of_half
from mugraph.codegen.c_abi import CTensor
from mugraph.passes.texpr.te_lower import TeLowerPass
from mugraph.reading import make_context, read_te

EXAMPLES = Path(__file__).parents[1] / "examples" / "texpr"
LARGEST_ERROR = {"f16": 2e-3, "f32": 1e-5, "i32": 0.0}

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
    "stencil_3d": "Z=32,Y=48,X=256,LEVELS=8",
    "paged_decode": "B=3,PAGES=200,MOST=64,PART=256",
    "life": "BOARDS=5,H=64,W=16",
    "heat": "H=96,W=130,BLOCKS=24",
}
LARGE = (
    *("transpose", "softmax", "layer_norm", "histogram", "stencil_3d", "paged_decode"),
    *("gemm_mma", "gemm_sm90", "life", "heat"),
)
"""Examples that are also taken at the sizes that they have in their files."""
PRODUCTS = ("gemm_mma", "gemm_sm90")
"""Of these: examples that are timed beside cuBLAS."""
ON_CHIP = (*PRODUCTS, "life", "heat")
"""Of these: examples whose times are not those of moving bytes."""
STEPS = 64
"""Generations of the game of life, and steps of heat in time."""


def reference(torch: Any, name: str) -> Callable[..., Any]:
    """What an example computes."""

    def stencil(a: Any) -> Any:
        result = a.clone()
        around = a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]
        result[1:-1, 1:-1] = a[1:-1, 1:-1] + 0.125 * (around - 4 * a[1:-1, 1:-1])
        return result

    def stencil_3d(a: Any) -> Any:
        inner = a[1:-1, 1:-1, 1:-1]
        around = a[:-2, 1:-1, 1:-1] + a[2:, 1:-1, 1:-1]
        around += a[1:-1, :-2, 1:-1] + a[1:-1, 2:, 1:-1]
        around += a[1:-1, 1:-1, :-2] + a[1:-1, 1:-1, 2:]
        result = a.clone()
        result[1:-1, 1:-1, 1:-1] += 0.125 * (around - 6 * inner)
        return result

    def histogram(x: Any) -> Any:
        counts = torch.zeros(256, dtype=torch.int32, device=x.device)
        return counts.scatter_add_(0, x.long() & 255, torch.ones_like(x, dtype=torch.int32))

    def paged_decode(q: Any, k: Any, v: Any, table: Any, lengths: Any) -> Any:
        (sequences, heads, size), (_pages, _page, groups, _) = q.shape, k.shape
        keys, values = (
            one[table.long()].reshape(sequences, -1, groups, size).transpose(1, 2) for one in (k, v)
        )
        exists = torch.arange(keys.shape[2], device=q.device) < lengths.view(-1, 1)
        return torch.nn.functional.scaled_dot_product_attention(
            q.view(sequences, groups, heads // groups, size),
            keys,
            values,
            attn_mask=exists[:, None, None],
        ).reshape(q.shape)

    def gemm(a: Any, b: Any, c: Any) -> Any:
        return c.view(100, 96) + a.view(100, 70) @ b.view(70, 96)

    def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
        return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, 1e-5)

    def life(start: Any) -> Any:
        cells = start.view(torch.uint8)
        for _ in range(STEPS):
            rows = cells + cells.roll(1, 1) + cells.roll(-1, 1)
            around = rows + rows.roll(1, 2) + rows.roll(-1, 2)
            cells = ((around == 3) | (around - cells == 3)).to(torch.uint8)
        return cells.view(torch.int32)

    def heat(start: Any) -> Any:
        plate = start
        for _ in range(STEPS):
            wide = torch.nn.functional.pad(plate, (1, 1, 1, 1))
            around = wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]
            plate = plate + 0.125 * (around - 4 * plate)
        return plate

    functions: dict[str, Callable[..., Any]] = {
        "vector_add": lambda a, b: a + b,
        "transpose": lambda a: a.T.contiguous(),
        "gemm": gemm,
        "softmax": lambda x: torch.softmax(x, -1),
        "layer_norm": layer_norm,
        "stencil": stencil,
        "scan": lambda x: torch.cumsum(x, -1),
        "gemm_sm90": lambda a, b: a @ b.T,
        "histogram": histogram,
        "stencil_3d": stencil_3d,
        "paged_decode": paged_decode,
        "life": life,
        "heat": heat,
        "radix_pass": lambda x: x[torch.argsort(x.long() >> 4 & 15, stable=True)],
    }
    matmul: Callable[..., Any] = torch.matmul
    return functions.get(name, matmul)


def inputs_of(file: str, tensors: Sequence[CTensor]) -> list[Any]:
    """Random inputs; the pages of sequences lie anywhere, and each belongs to one of them."""
    import torch

    drawn = [tensor_like(tensor) for tensor in tensors]
    if file == "paged_decode":
        _q, keys, _values, table, lengths = drawn
        pages = torch.randperm(keys.shape[0], device=DEVICE)[: table.numel()]
        table.copy_(pages.reshape(table.shape))
        lengths.fill_(table.shape[1] * keys.shape[1])
        lengths[0] //= 3
    if file == "life":
        drawn = [one & 0x01010101 for one in drawn]
    return drawn


def tensor_like(tensor: CTensor) -> Any:
    """Random numbers, or integers."""
    import torch

    drawn = torch.randn(tensor.shape, device=DEVICE)
    if tensor.element_type == "i32":
        return (1000 * drawn).int()
    return drawn.to({"f16": torch.float16, "f32": torch.float32}[tensor.element_type])


@dataclass(frozen=True)
class Example(Case):
    """A file at some sizes; without them at those that it has."""

    file: str
    sizes: str = ""
    is_large: bool = False

    @property
    def name(self) -> str:
        """The file and the sizes."""
        return f"{self.file} {'as written' if self.is_large else self.sizes}".strip()

    def build(self, arch: str) -> Built:
        """Lowers the file and compiles it."""
        text = (EXAMPLES / f"{self.file}.te").read_text(encoding="utf-8")
        module = read_te(text, f"{self.file}.te", [self.sizes])
        PassPipeline((TeLowerPass(arch=arch),)).apply(make_context(), module)
        module.verify()
        return built_module(module, arch)

    def comparison(self, built: Built) -> Comparison:
        """Beside PyTorch, and at large sizes a copy or cuBLAS."""
        import torch

        torch.manual_seed(0)
        interface = built.interface
        total = sum(one.span for one in interface.tensors)
        inputs = inputs_of(self.file, interface.inputs)
        output = tensor_like(interface.outputs[0])
        sets = [
            (*(each.clone() for each in inputs), torch.empty_like(output))
            for _ in range(set_count(total))
        ]
        function = reference(torch, self.file)
        wide = (each.double() if each.is_floating_point() else each for each in inputs)
        exact = function(*wide).double()
        systems: dict[str, Call] = {
            OURS: launched(built),
            "torch": lambda *tensors: function(*tensors[:-1]),
        }
        is_product = self.file in PRODUCTS
        if self.is_large and self.file not in ON_CHIP:
            half = torch.empty(total, dtype=torch.uint8, device=DEVICE)
            compiled = torch.compile(function, dynamic=False)
            systems["torch.compile"] = lambda *tensors: compiled(*tensors[:-1])
            systems[COPY] = lambda *_: copy_of_half(half)
        return Comparison(
            sets,
            systems,
            error_against(exact),
            LARGEST_ERROR[interface.outputs[0].element_type],
            work=2.0 * 4096**3 if is_product and self.is_large else float(total),
            unit="TFLOP/s" if is_product and self.is_large else "TB/s",
            unchecked=frozenset({COPY}),
        )


CASES = [
    *(Example(name, sizes) for name, sizes in SMALL.items()),
    *(Example(name, is_large=True) for name in LARGE),
]

if __name__ == "__main__":
    raise SystemExit(main("Tensor expressions", __doc__, CASES, output="build/texpr"))
