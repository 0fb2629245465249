"""A small transformer block with its RMSNorm + linear and its gated MLP replaced by µGraphs.

The block is that of a Llama-like model: pre-norm attention and a SwiGLU feed-forward network, in
fp16.  With 16 tokens at a time its two matrix products behind norms read far more weights than
activations, which is what fused kernels are for:

- ``rms_norm(x) @ w_qkv`` becomes one kernel: the norm is divided out after the product,
- ``silu(n @ w_gate) * (n @ w_up)`` becomes one kernel that reads ``n`` once.

Run it on a machine with PyTorch and a GPU; it compares the outputs of the two blocks, their times
in eager mode and under ``torch.compile``, and says which of the kernels ``torch.export`` keeps.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable

import torch
from torch.nn import functional

import mugraph.build as mi
import mugraph.torch

TOKENS = 16
WIDTH = 4096
HEADS = 32
HIDDEN = 8192


def rms_norm_linear(rows: int, inner: int, columns: int) -> mi.KernelGraph:
    """rms_norm(x) @ w as one kernel; each block owns 64 columns."""
    graph = mi.new_kernel_graph("rms_norm_linear")
    x = graph.new_input((rows, inner), name="x")
    w = graph.new_input((inner, columns), name="w")
    block = mi.new_threadblock_graph((columns // 64, 1, 1), (128, 1, 1), inner // 128)
    tile_x = block.new_input(x, (-1, -1, -1), 1, name="tile_x")
    tile_w = block.new_input(w, (1, -1, -1), 0, name="tile_w")
    product = block.forloop_accum(block.matmul(tile_x, tile_w), name="product")
    norm = block.forloop_accum(tile_x, "rms", name="norm")
    block.new_output(block.div(product, norm), (1, -1, -1))
    graph.mark_output(*graph.customized([x, w], block, names=["y"]))
    return graph


def gated_mlp(rows: int, inner: int, columns: int) -> mi.KernelGraph:
    """silu(x @ w_gate) * (x @ w_up) as one kernel; each block owns 64 columns of both."""
    graph = mi.new_kernel_graph("gated_mlp")
    x = graph.new_input((rows, inner), name="x")
    gate = graph.new_input((inner, columns), name="w_gate")
    up = graph.new_input((inner, columns), name="w_up")
    block = mi.new_threadblock_graph((columns // 64, 1, 1), (128, 1, 1), inner // 128)
    tile_x = block.new_input(x, (-1, -1, -1), 1, name="tile_x")
    tile_gate = block.new_input(gate, (1, -1, -1), 0, name="tile_gate")
    tile_up = block.new_input(up, (1, -1, -1), 0, name="tile_up")
    gated = block.silu(block.forloop_accum(block.matmul(tile_x, tile_gate)))
    block.new_output(
        block.mul(gated, block.forloop_accum(block.matmul(tile_x, tile_up))), (1, -1, -1)
    )
    graph.mark_output(*graph.customized([x, gate, up], block, names=["y"]))
    return graph


def reference_rms_norm_linear(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """What the first kernel replaces, as a model writes it."""
    return functional.rms_norm(x, (x.shape[-1],)) @ w


def reference_gated_mlp(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """What the second kernel replaces."""
    return functional.silu(x @ gate) * (x @ up)


class Block(torch.nn.Module):
    """One transformer block; its two fused functions are given."""

    def __init__(
        self, normed_linear: Callable[..., torch.Tensor], mlp: Callable[..., torch.Tensor]
    ) -> None:
        super().__init__()
        self.normed_linear, self.mlp = normed_linear, mlp

        def weight(inner: int, columns: int) -> torch.nn.Parameter:
            return torch.nn.Parameter(torch.randn(inner, columns) / inner**0.5, requires_grad=False)

        self.qkv, self.out = weight(WIDTH, 3 * WIDTH), weight(WIDTH, WIDTH)
        self.gate, self.up = weight(WIDTH, HIDDEN), weight(WIDTH, HIDDEN)
        self.down = weight(HIDDEN, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The block on (tokens, width)."""
        heads = self.normed_linear(x, self.qkv).view(TOKENS, 3, HEADS, -1).permute(1, 2, 0, 3)
        attended = functional.scaled_dot_product_attention(
            heads[0], heads[1], heads[2], is_causal=True
        )
        x = x + attended.permute(1, 0, 2).reshape(TOKENS, WIDTH) @ self.out
        return x + self.mlp(functional.rms_norm(x, (WIDTH,)), self.gate, self.up) @ self.down


def median_microseconds(function: Callable[[], object], samples: int = 30) -> float:
    """The median time of one call, from CUDA events around runs of 20."""
    times: list[float] = []
    for _ in range(samples + 3):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(20):
            function()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) * 50)
    return statistics.median(times[3:])


def main() -> None:
    """Compares outputs and times."""
    if not torch.cuda.is_available():
        sys.exit("this program needs a GPU, and a PyTorch that is built for it")
    torch.manual_seed(0)
    fused_linear = mugraph.torch.op(rms_norm_linear(TOKENS, WIDTH, 3 * WIDTH))
    fused_mlp = mugraph.torch.op(gated_mlp(TOKENS, WIDTH, HIDDEN))
    plain = Block(reference_rms_norm_linear, reference_gated_mlp).half().cuda()
    fused = Block(fused_linear, fused_mlp).half().cuda()
    fused.load_state_dict(plain.state_dict())
    exact = Block(reference_rms_norm_linear, reference_gated_mlp).double().cuda()
    exact.load_state_dict({name: value.double() for name, value in plain.state_dict().items()})

    x = torch.randn(TOKENS, WIDTH, dtype=torch.float16, device="cuda")
    with torch.inference_mode():
        expected = exact(x.double())
        compiled_plain, compiled_fused = torch.compile(plain), torch.compile(fused)
        blocks = {
            "PyTorch": plain,
            "PyTorch compiled": compiled_plain,
            "mugraph": fused,
            "mugraph compiled": compiled_fused,
        }
        print(f"{'block':<18} {'largest error':>13} {'µs':>8}")
        for name, block in blocks.items():
            error = ((block(x) - expected).abs().max() / expected.abs().max()).item()
            microseconds = median_microseconds(lambda block=block: block(x))
            print(f"{name:<18} {error:>13.1e} {microseconds:>8.1f}")
        exported = torch.export.export(fused, (x,))
        calls = [str(node.target) for node in exported.graph.nodes if "mugraph" in str(node.target)]
        print("torch.export keeps:", ", ".join(calls))


if __name__ == "__main__":
    main()
