"""The systems beside ours, for each kind of layer.

Eager PyTorch and ``torch.compile`` compute the function as it is written; others are what a user
would call for it.  Libraries that are not installed are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from benchmarks.h200.peers import COMPILED, EAGER, MAX_AUTOTUNE, SDPA_BACKENDS, Level, Peer
from benchmarks.programs.families import several
from benchmarks.shapes.draw import Shape
from benchmarks.shapes.kinds import AS_TORCH, EPSILON, Attention, Decode, Linear, Products, Rows

COPY = "copy"
"""What only copies a row-wise kernel's large inputs: as many bytes as it reads and writes."""
CUBLASLT = "cuBLASLt"
"""PyTorch's functions, whose products cublasLt computes."""
BACKENDS = ("flash", "cudnn", "efficient")


@dataclass(frozen=True)
class Library:
    """A function of another library for one kind of layer."""

    package: str
    function: Callable[..., Any]
    suits: Callable[[Shape], bool]


def peers_of(shape: Shape, level: Level) -> tuple[Peer, ...]:
    """The peers of a shape, at a level."""
    function = partial(written, shape)
    peers = [
        Peer(EAGER, function),
        Peer(COMPILED, function, compiled="default"),
        Peer(MAX_AUTOTUNE, function, Level.ALL, compiled="max-autotune-no-cudagraphs"),
    ]
    if isinstance(shape.kind, Products):
        peers.append(Peer(CUBLASLT, partial(with_cublaslt, shape)))
    if isinstance(shape.kind, Linear) and "bias" in shape.drawn.options:
        peers.append(Peer("addmm", partial(with_addmm, shape)))
    if isinstance(shape.kind, Attention):
        peers += [
            Peer(f"SDPA {name}", partial(sdpa, shape), backend=SDPA_BACKENDS[name])
            for name in BACKENDS
        ]
    if isinstance(shape.kind, Rows):
        peers.append(Peer(COPY, copies, same_function=False))
    peers += [
        Peer(library.package, partial(library.function, shape))
        for library in LIBRARIES
        if find_spec(library.package) is not None and library.suits(shape)
    ]
    return tuple(peer for peer in peers if level.includes(peer.level))


def written(shape: Shape, *inputs: Any) -> Any:
    """The function as a user writes it."""
    return shape.of_torch()(*inputs)


def with_cublaslt(shape: Shape, *inputs: Any) -> Any:
    """The function as a user writes it, by the library that PyTorch does not prefer."""
    import torch

    prefer = torch.backends.cuda.preferred_blas_library
    usual = prefer()
    prefer("cublaslt")
    try:
        return written(shape, *inputs)
    finally:
        prefer(usual)


def with_addmm(shape: Shape, x: Any, w: Any, bias: Any, *residual: Any) -> Any:
    """A linear layer whose bias cuBLAS adds."""
    import torch

    from benchmarks.programs import on_torch

    options = shape.drawn.options
    y = torch.addmm(bias, x, w.t() if AS_TORCH in options else w)
    for name in Linear.ACTIVATIONS:
        if name in options:
            y = getattr(on_torch, name)(y)
    return y + residual[0] if residual else y


def in_heads(shape: Shape, q: Any, k: Any, v: Any) -> tuple[Any, Any, Any]:
    """As [1, heads, queries, d]: views.  Where decoding, heads that share keys are queries."""
    group, depth = shape.drawn.sizes["group"], q.shape[-1]
    rows = q.shape[-2] if group == 1 or isinstance(shape.kind, Decode) else q.shape[2]
    return q.reshape(1, -1, rows, depth), k.transpose(0, 1), v.transpose(0, 1)


def sdpa(shape: Shape, q: Any, k: Any, v: Any) -> Any:
    """PyTorch's attention."""
    import torch

    attend = torch.nn.functional.scaled_dot_product_attention
    grouped = shape.drawn.sizes["group"] > 1
    causal = "causal" in shape.drawn.options
    result = attend(*in_heads(shape, q, k, v), is_causal=causal, enable_gqa=grouped)
    return result.reshape(*q.shape[:-1], v.shape[-1])


def copies(*inputs: Any) -> Any:
    """Copies of matrices that are large."""
    return tuple(each.clone() for each in inputs if each.dim() > 1)


def flash_attention_3(shape: Shape, q: Any, k: Any, v: Any) -> Any:
    """FlashAttention 3, which takes [batch, tokens, heads, d]."""
    heads = [each.transpose(1, 2) for each in in_heads(shape, q, k, v)]
    attend = import_module("flash_attn_interface").flash_attn_func
    # Some of its releases give the logarithms of the sums, too.
    result = several(attend(*heads, causal="causal" in shape.drawn.options))[0]
    return result.transpose(1, 2).reshape(*q.shape[:-1], v.shape[-1])


def flashinfer_norm(shape: Shape, x: Any, weight: Any) -> Any:
    """FlashInfer's RMS norm."""
    del shape
    return import_module("flashinfer").rmsnorm(x, weight, EPSILON)


def quack_norm(shape: Shape, x: Any, weight: Any) -> Any:
    """quack's RMS norm."""
    del shape
    return import_module("quack").rmsnorm(x, weight, eps=EPSILON)


def liger_norm(shape: Shape, x: Any, weight: Any) -> Any:
    """Liger's RMS norm."""
    del shape
    return import_module("liger_kernel.transformers.functional").liger_rms_norm(x, weight, EPSILON)


def is_plain_rms_norm(shape: Shape) -> bool:
    """Whether a shape is an RMS norm and nothing else."""
    return isinstance(shape.kind, Rows) and [*shape.drawn.options] == ["rms norm"]


def is_attention(shape: Shape) -> bool:
    """Whether a shape is attention."""
    return isinstance(shape.kind, Attention)


LIBRARIES: Sequence[Library] = (
    Library("flash_attn_interface", flash_attention_3, is_attention),
    Library("flashinfer", flashinfer_norm, is_plain_rms_norm),
    Library("quack", quack_norm, is_plain_rms_norm),
    Library("liger_kernel", liger_norm, is_plain_rms_norm),
)
