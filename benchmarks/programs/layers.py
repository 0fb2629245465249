"""How long whole models of identical layers take to become CUDA, by their number of layers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import PassPipeline

import mugraph.build as mi
from benchmarks import pages
from benchmarks.facts import revision
from mugraph.build import DTensor
from mugraph.codegen.cuda import print_module
from mugraph.passes.program.fuse_kernels import fuse_program
from mugraph.passes.targets import target_named
from mugraph.passes.transpile import transpile_pipeline
from mugraph.reading import make_context
from mugraph.runtime.cuda import only_function

COUNTS = (1, 2, 4, 16)
TOKENS = 512
EPSILON = 1e-5
New = Callable[..., DTensor]
"""Adds an input of some extents."""


def llama(x: DTensor, new: New, places: tuple[DTensor, DTensor]) -> DTensor:
    """A layer of Llama-3.2-1B: grouped heads with rotary embeddings, and a gated MLP."""
    heads, groups, d, hidden = 32, 8, 64, 8192
    tokens, width = x.shape
    cos, sin = places
    normal = mi.rms_norm(x, new(width), EPSILON)

    def of_heads(count: int) -> DTensor:
        return mi.transpose(
            mi.reshape(normal @ new(width, count * d), (tokens, count, d)), (1, 0, 2)
        )

    def rotated(y: DTensor) -> DTensor:
        return y * cos + mi.concat(-y[:, :, d // 2 :], y[:, :, : d // 2], -1) * sin

    def repeated(y: DTensor) -> DTensor:
        each = mi.reshape(y, (groups, 1, tokens, d))
        return mi.broadcast_to(each, (groups, heads // groups, tokens, d))

    q, k, v = of_heads(heads), of_heads(groups), of_heads(groups)
    q = mi.reshape(rotated(q), (groups, heads // groups, tokens, d))
    scores = mi.causal_mask(q @ mi.transpose(repeated(rotated(k))) * d**-0.5)
    attended = mi.reshape(mi.softmax(scores) @ repeated(v), (heads, tokens, d))
    merged = mi.reshape(mi.transpose(attended, (1, 0, 2)), (tokens, heads * d))
    x = x + merged @ new(heads * d, width)
    normal = mi.rms_norm(x, new(width), EPSILON)
    gated = mi.silu(normal @ new(width, hidden)) * (normal @ new(width, hidden))
    return x + gated @ new(hidden, width)


def gpt2(x: DTensor, new: New, places: tuple[DTensor, DTensor]) -> DTensor:
    """A layer of GPT-2, with biases; positions are added before the first layer."""
    del places
    heads, (tokens, width) = 12, x.shape
    normal = mi.layer_norm(x, new(width), new(width), EPSILON)
    qkv = normal @ new(width, 3 * width) + new(3 * width)

    def of_heads(number: int) -> DTensor:
        part = qkv[:, number * width : (number + 1) * width]
        return mi.transpose(mi.reshape(part, (tokens, heads, width // heads)), (1, 0, 2))

    q, k, v = (of_heads(number) for number in range(3))
    scores = mi.causal_mask(q @ mi.transpose(k) * (width // heads) ** -0.5)
    attended = mi.transpose(mi.softmax(scores) @ v, (1, 0, 2))
    x = x + (mi.reshape(attended, (tokens, width)) @ new(width, width) + new(width))
    normal = mi.layer_norm(x, new(width), new(width), EPSILON)
    hidden = mi.gelu(normal @ new(width, 4 * width) + new(4 * width))
    return x + (hidden @ new(4 * width, width) + new(width))


LAYERS: dict[str, tuple[Callable[..., DTensor], int]] = {
    "llama": (llama, 2048),
    "gpt2": (gpt2, 768),
}
"""Each layer, and how many elements a token has."""


def model(name: str, count: int) -> ModuleOp:
    """A prompt of :data:`TOKENS` tokens through so many layers, in bf16."""
    layer, width = LAYERS[name]
    graph = mi.new_kernel_graph(f"{name}_{count}")

    def new(*shape: int) -> DTensor:
        return graph.new_input(shape, dtype=mi.bfloat16)

    x, places = new(TOKENS, width), (new(TOKENS, 64), new(TOKENS, 64))
    for _ in range(count):
        x = layer(x, new, places)
    graph.mark_output(x)
    return graph.module()


@dataclass(frozen=True)
class Compiled:
    """What a model takes; seconds of this process alone, without nvcc."""

    name: str
    layers: int
    operators: int
    tried: int
    """Groups of operators that a kernel was tried for, those that are alike once."""
    launches: int
    kernels: int
    """In the CUDA text."""
    search: float
    transpile: float
    """And print."""


def compiled(name: str, count: int, arch: str) -> Compiled:
    """Fuses, transpiles and prints a model."""
    module: Any = model(name, count)
    start = time.process_time()
    fusion = fuse_program(only_function(module), target_named(arch))
    searched = time.process_time()
    PassPipeline(transpile_pipeline(arch)).apply(make_context(), module)
    text = print_module(module)
    done = time.process_time()
    launches = str(module).count("= sched.launch @")
    return Compiled(
        name,
        count,
        len(fusion.operators),
        len(fusion.known),
        launches,
        text.count("__global__ void"),
        searched - start,
        done - searched,
    )


COLUMNS = (
    "model", "layers:", "operators:", "tried:", "launches:", "kernels:", "search s:",
    "transpile s:",
)  # fmt: skip


def compile_all(arch: str, output: Path, counts: Sequence[int] = COUNTS) -> list[Compiled]:
    """All models with each number of layers; writes OUTPUT.json and OUTPUT.md after each."""
    facts = {"date": date.today().isoformat(), "commit": revision(), "arch": arch}
    rows: list[Compiled] = []
    for name in LAYERS:
        for count in counts:
            row = compiled(name, count, arch)
            rows.append(row)
            print(f"{name}, {count} layers: {row.search:.1f} + {row.transpile:.1f} s", flush=True)
            content = {**facts, "rows": [asdict(each) for each in rows]}
            pages.write(output, content, page(rows, facts))
    return rows


def page(rows: Sequence[Compiled], facts: dict[str, str]) -> list[str]:
    """The table."""
    return [
        *pages.head("Models of identical layers: seconds to CUDA text", facts),
        f"A prompt of {TOKENS} tokens in bf16, on one processor: seconds of processor time for the",
        "search (`--fuse-kernels`), and for `--transpile` with printing; nvcc is not counted.",
        "Groups tried, and kernels in the text, stay as they are with further layers.",
        "",
        *pages.table(COLUMNS, map(_cells, rows)),
    ]


def _cells(row: Compiled) -> list[object]:
    counts = (row.layers, row.operators, row.tried, row.launches, row.kernels)
    return [row.name, *counts, f"{row.search:.1f}", f"{row.transpile:.1f}"]
