"""What the benchmarks' functions are, on arrays of numpy or torch, independent of the interpreter.

``library`` is the module, ``numpy`` or ``torch``, that the arrays are of.  The arithmetic is that
of the arrays' type; a reference is computed in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Rounded = Callable[[Any], Any]
"""Rounds an array to another type's numbers, and gives them in its own type."""


def rms_norm(library: Any, x: Any) -> Any:
    """x over the root of the mean of its squares along the last dimension."""
    return x / library.sqrt((x * x).mean(-1)[..., None])


def rms_norm_linear(library: Any, x: Any, w: Any) -> Any:
    """rms_norm(X) · W."""
    return rms_norm(library, x) @ w


def silu(library: Any, x: Any) -> Any:
    """x times its sigmoid."""
    return x / (1.0 + library.exp(-x))


def gated_mlp(library: Any, x: Any, w1: Any, w2: Any) -> Any:
    """silu(X · W1) * (X · W2)."""
    return silu(library, x @ w1) * (x @ w2)


def lora(library: Any, x: Any, w: Any, a: Any, b: Any) -> Any:
    """X · W + (X · A) · B."""
    del library
    return x @ w + (x @ a) @ b


def attention(library: Any, q: Any, k: Any, v: Any, rounded: Rounded | None = None) -> Any:
    """softmax(Q · K) · V with K given as [heads, d, S]; equal to the form without maximum.

    ``rounded`` is applied to Q · K, to see what rounding it to another type does.
    """
    scores = q @ k if rounded is None else rounded(q @ k)
    weights = library.exp(scores - library.amax(scores, -1)[..., None])
    return (weights / weights.sum(-1)[..., None]) @ v


def attention_of_norms(library: Any, q: Any, k: Any, v: Any, rounded: Rounded | None = None) -> Any:
    """Attention with the norms of Q and of V in their place."""
    return attention(library, rms_norm(library, q), k, rms_norm(library, v), rounded)


def norm_transition(library: Any, h: Any, x: Any, a: Any) -> Any:
    """rms_norm(x + a * (rms_norm(h) + x)), all of the same shape."""
    return rms_norm(library, x + a * (rms_norm(library, h) + x))


def product(library: Any, a: Any, b: Any) -> Any:
    """A · B."""
    del library
    return a @ b


def largest_score(library: Any, q: Any, k: Any, v: Any) -> float:
    """The largest exponent of attention without a maximum."""
    del library, v
    return float((q @ k).max())


def largest_score_of_norms(library: Any, q: Any, k: Any, v: Any) -> float:
    """The same with the norm of Q."""
    return largest_score(library, rms_norm(library, q), k, v)


LARGEST_EXPONENT: dict[Callable[..., Any], Callable[..., float]] = {
    attention: largest_score,
    attention_of_norms: largest_score_of_norms,
}
"""Of functions with exponentials that have no bound: the largest exponent."""

FP32_EXPONENT = 88.72
"""The exponential of more than this is not finite in fp32."""
