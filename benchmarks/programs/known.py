"""The programs that the benchmarks' µGraphs were written by hand for, and decoding with MLA.

Where a program has the name of one of the workloads of :mod:`benchmarks.h200`, it is the same
function of the same tensors.
"""

from __future__ import annotations

from typing import Any

from benchmarks.programs.families import ONE_SWEEP, Sizes, family, tensor, weight

EPSILON = 1e-6
WIDE = {"width": 4096, "columns": 6144}
ATTENTION = (
    tensor("heads", "queries", "depth", scale=0.25),
    tensor("heads", "depth", "keys", scale=0.25),
    tensor("heads", "keys", "depth"),
)


def heads(number: int, queries: int, depth: int = 64) -> Sizes:
    """The sizes of attention to 4096 keys."""
    return {"heads": number, "queries": queries, "keys": 4096, "depth": depth}


@family(
    tensor("rows", "width"),
    weight("width", "columns"),
    because="the norm's factor of a row leaves the sum over columns of X",
    measured={"rmsnorm_bs8": {"rows": 16, **WIDE}, "rmsnorm_bs1": {"rows": 2, **WIDE}},
)
def rms_norm_linear(m: Any, x: Any, w: Any) -> Any:
    """rms_norm(X) · W."""
    return m.rms_norm(x) @ w


@family(
    tensor("rows", "width"),
    weight("width", "width"),
    weight("width", "width"),
    because="both products share X and their columns",
    measured={"gated_mlp": {"rows": 8, **WIDE}},
)
def gated_mlp(m: Any, x: Any, w1: Any, w2: Any) -> Any:
    """silu(X · W1) * (X · W2)."""
    return m.silu(x @ w1) * (x @ w2)


@family(
    tensor("rows", "inner"),
    weight("inner", "columns"),
    weight("inner", 16),
    tensor(16, "columns", scale=1 / 16),
    because="each block computes X · A itself, of which the rank is small",
    measured={"lora": {"rows": 16, "inner": 256, "columns": 4096}},
)
def lora(m: Any, x: Any, w: Any, a: Any, b: Any) -> Any:
    """X · W + X · A · B."""
    del m
    return x @ w + x @ a @ b


@family(
    *ATTENTION,
    because=ONE_SWEEP,
    measured={
        "gqa_bs8": heads(16, 256),
        "gqa_bs1": heads(2, 256),
        "mqa_bs8": heads(8, 1024),
        "mqa_bs1": heads(1, 1024),
        "mha_bs8": heads(256, 16),
        "mha_bs1": heads(32, 16),
        "prefill": heads(32, 4096, 128),
    },
)
def attention(m: Any, q: Any, k: Any, v: Any) -> Any:
    """softmax(Q · K) · V with K as [heads, d, S]."""
    return m.softmax(q @ k) @ v


@family(
    *ATTENTION,
    because=ONE_SWEEP,
    measured={"qknorm_gqa_bs8": heads(16, 256), "qknorm_gqa_bs1": heads(2, 256)},
)
def attention_of_norms(m: Any, q: Any, k: Any, v: Any) -> Any:
    """Attention with the norms of Q and of V in their place."""
    return m.softmax(m.rms_norm(q) @ k) @ m.rms_norm(v)


@family(
    tensor("heads", "queries", "depth"),
    tensor("heads", "keys", "depth"),
    tensor("heads", "keys", "depth"),
    tensor("depth"),
    tensor("depth"),
    because=ONE_SWEEP,
    measured={"qk_norm_bs8": heads(16, 256), "qk_norm_bs1": heads(2, 256)},
)
def qk_norm_attention(m: Any, q: Any, k: Any, v: Any, wq: Any, wk: Any) -> Any:
    """Attention of the norms of queries and keys, with a weight each and scaled scores."""
    q, k = m.rms_norm(q, wq, EPSILON), m.rms_norm(k, wk, EPSILON)
    return m.softmax(q @ m.transpose(k) * q.shape[-1] ** -0.5) @ v


@family(
    *(tensor("rows", "width"),) * 3,
    because="a row fits a block",
    measured={"ntrans_bs8": {"rows": 64, **WIDE}, "ntrans_bs1": {"rows": 8, **WIDE}},
)
def norm_transition(m: Any, h: Any, x: Any, a: Any) -> Any:
    """rms_norm(x + a * (rms_norm(h) + x))."""
    return m.rms_norm(x + a * (m.rms_norm(h) + x))


@family(
    tensor("heads", "compressed"),
    tensor("keys", "compressed"),
    because=ONE_SWEEP,
    measured={f"mla_{number}_heads": {"heads": number, "keys": 4096} for number in (16, 128)},
)
def mla_decode(m: Any, q: Any, compressed: Any) -> Any:
    """Attention whose values are the first eight ninths of its keys, one query a head."""
    values = compressed[:, : compressed.shape[1] // 9 * 8]
    return m.softmax(q @ m.transpose(compressed) * 192**-0.5) @ values
