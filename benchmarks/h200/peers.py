"""The systems to beat, as functions of torch's tensors.

A peer gets the inputs of the µGraph, in its layouts.  One with ``prepare`` gets what that makes of
them, which is not timed: SDPA's K as [S, d].
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

from benchmarks.h200.workloads import Workload

Function = Callable[..., Any]

EPSILON = 1e-12
"""torch's rms_norm adds one; its default, that of fp16, would be another function."""


class Level(StrEnum):
    """Which peers are run."""

    NONE = "none"
    FAST = "fast"
    """All but max-autotune, which takes minutes to compile."""
    ALL = "all"

    def includes(self, other: Level) -> bool:
        """Whether peers of the other level are run."""
        order = list(Level)
        return order.index(other) <= order.index(self)


@dataclass(frozen=True)
class Peer:
    """One system for one workload."""

    name: str
    function: Function
    level: Level = Level.FAST
    compiled: str | None = None
    """The mode of ``torch.compile``, if it is compiled."""
    backend: str | None = None
    """The one backend that SDPA may take."""
    prepare: Callable[[Sequence[Any]], Sequence[Any]] | None = None
    same_function: bool = True
    """Whether it computes what the workload computes: only then it is checked, and a peer."""

    def ready(self) -> Function:
        """The function to call; compilation happens on its first call."""
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel

        keep_quiet()
        function = self.function
        if self.compiled is not None:
            function = torch.compile(function, mode=self.compiled, dynamic=False)
        if self.backend is None:
            return function
        backend = getattr(SDPBackend, self.backend)

        def restricted(*inputs: Any) -> Any:
            with sdpa_kernel([backend]):
                return function(*inputs)

        return restricted


def keep_quiet() -> None:
    """Keeps torch from printing a page for each product that it tunes."""
    import torch._inductor.config as config

    logging.getLogger("torch._inductor.select_algorithm").setLevel(logging.CRITICAL)
    for name, value in {
        "autotune_num_choices_displayed": 0,
        "max_autotune_report_choices_stats": False,
    }.items():
        if hasattr(config, name):
            setattr(config, name, value)


EAGER = "torch eager"
COMPILED = "torch.compile"
MAX_AUTOTUNE = "max-autotune"
CUBLAS = "cuBLAS alone"
FLASH_AND_COPY = "flash + K copy"
CUBLAS_AND_COMPILED = "cuBLAS + compiled gate"
CUBLAS_AND_TRITON = "cuBLAS + Triton gate"
TWO_PRODUCTS_AND_TRITON = "cuBLAS twice + Triton gate"

SDPA_BACKENDS = {
    "flash": "FLASH_ATTENTION",
    "cudnn": "CUDNN_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
    "math": "MATH",
}


def peers_of(workload: Workload, level: Level) -> tuple[Peer, ...]:
    """The peers of a workload, at a level."""
    function = _FUNCTIONS[workload.reference.__name__]
    peers = [
        Peer(EAGER, function),
        Peer(COMPILED, function, compiled="default"),
        Peer(MAX_AUTOTUNE, function, Level.ALL, compiled="max-autotune-no-cudagraphs"),
        *_PARTICULAR.get(workload.reference.__name__, ()),
    ]
    return tuple(peer for peer in peers if level.includes(peer.level))


def _rms_norm(x: Any) -> Any:
    import torch

    return torch.nn.functional.rms_norm(x, (x.shape[-1],), eps=EPSILON)


def _rms_norm_linear(x: Any, w: Any) -> Any:
    return _rms_norm(x) @ w


def _gated_mlp(x: Any, w1: Any, w2: Any) -> Any:
    import torch

    return torch.nn.functional.silu(x @ w1) * (x @ w2)


def _lora(x: Any, w: Any, a: Any, b: Any) -> Any:
    return x @ w + (x @ a) @ b


def _attention(q: Any, k: Any, v: Any) -> Any:
    import torch

    return torch.softmax(q @ k, dim=-1) @ v


def _attention_of_norms(q: Any, k: Any, v: Any) -> Any:
    return _attention(_rms_norm(q), k, _rms_norm(v))


def _norm_transition(h: Any, x: Any, a: Any) -> Any:
    return _rms_norm(x + a * (_rms_norm(h) + x))


def _product(a: Any, b: Any) -> Any:
    return a @ b


_FUNCTIONS: dict[str, Function] = {
    "rms_norm_linear": _rms_norm_linear,
    "gated_mlp": _gated_mlp,
    "lora": _lora,
    "attention": _attention,
    "attention_of_norms": _attention_of_norms,
    "norm_transition": _norm_transition,
    "product": _product,
}


def _transposed_keys(inputs: Sequence[Any]) -> Sequence[Any]:
    """Q, K as [heads, S, d], V."""
    q, k, v = inputs
    return q, k.transpose(1, 2).contiguous(), v


def _sdpa(q: Any, k: Any, v: Any) -> Any:
    """Attention with K as [heads, S, d]."""
    import torch

    attend = torch.nn.functional.scaled_dot_product_attention
    return attend(q[None], k[None], v[None], scale=1.0)[0]


def _sdpa_of_norms(q: Any, k: Any, v: Any) -> Any:
    return _sdpa(_rms_norm(q), k, _rms_norm(v))


def _sdpa_with_copy(q: Any, k: Any, v: Any) -> Any:
    return _sdpa(q, k.transpose(1, 2).contiguous(), v)


def _sdpa_of_norms_with_copy(q: Any, k: Any, v: Any) -> Any:
    return _sdpa(_rms_norm(q), k.transpose(1, 2).contiguous(), _rms_norm(v))


def _sdpa_peers(function: Function, copying: Function, compiled: str | None) -> tuple[Peer, ...]:
    backends = [
        Peer(f"SDPA {name}", function, compiled=compiled, backend=backend, prepare=_transposed_keys)
        for name, backend in SDPA_BACKENDS.items()
    ]
    copy = Peer(FLASH_AND_COPY, copying, compiled=compiled, backend=SDPA_BACKENDS["flash"])
    return (*backends, copy)


def _two_products(x: Any, w1: Any, w2: Any) -> Any:
    return x @ w1, x @ w2


def _weights_side_by_side(inputs: Sequence[Any]) -> Sequence[Any]:
    import torch

    x, w1, w2 = inputs
    return x, torch.cat((w1, w2), dim=1)


def _product_then_gate(x: Any, w: Any) -> Any:
    """One GEMM, then a kernel of its own that torch.compile makes."""
    return _compiled_gate()(x @ w)


def _gate(y: Any) -> Any:
    import torch

    half = y.shape[-1] // 2
    return torch.nn.functional.silu(y[:, :half]) * y[:, half:]


@cache
def _compiled_gate() -> Function:
    import torch

    return torch.compile(_gate, dynamic=False)


def _product_then_triton_gate(x: Any, w: Any) -> Any:
    """One GEMM, then the fastest of some shapes of a Triton kernel."""
    from benchmarks.h200.triton_gate import gate

    y = x @ w
    half = y.shape[-1] // 2
    return gate(y[:, :half], y[:, half:])


def _two_products_then_triton_gate(x: Any, w1: Any, w2: Any) -> Any:
    from benchmarks.h200.triton_gate import gate

    return gate(x @ w1, x @ w2)


_PARTICULAR: dict[str, tuple[Peer, ...]] = {
    "rms_norm_linear": (Peer(CUBLAS, _product, same_function=False),),
    "gated_mlp": (
        Peer(CUBLAS, _two_products, same_function=False),
        Peer(CUBLAS_AND_COMPILED, _product_then_gate, prepare=_weights_side_by_side),
        Peer(CUBLAS_AND_TRITON, _product_then_triton_gate, prepare=_weights_side_by_side),
        Peer(TWO_PRODUCTS_AND_TRITON, _two_products_then_triton_gate),
    ),
    "attention": _sdpa_peers(_sdpa, _sdpa_with_copy, None),
    "attention_of_norms": _sdpa_peers(_sdpa_of_norms, _sdpa_of_norms_with_copy, "default"),
    "product": (Peer(CUBLAS, _product),),
}
