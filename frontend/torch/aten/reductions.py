"""ATen's reductions, norms and softmaxes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import f32, i1

import mugraph.build as mi
from mugraph.build import DTensor
from mugraph.dialects.element_types import is_integer
from mugraph.torch.aten.conversion import Call, TensorLike, converts, require
from mugraph.torch.aten.elementwise import LARGEST


def _over(
    call: Call, x: DTensor, dims: Sequence[int] | int | None, reduce: Callable[..., DTensor]
) -> DTensor:
    """A reduction over several dimensions, kept in fp32 until the last."""
    require(not is_integer(call.dtype) and not is_integer(x.dtype), "it reduces integers")
    if isinstance(dims, int):
        dims = [dims]
    chosen = [dim % len(x.shape) for dim in dims] if dims else list(range(len(x.shape)))
    for dim in chosen:
        x = reduce(x, dim, dtype=call.dtype if dim == chosen[-1] else f32)
    return mi.reshape(x, call.shape)


@converts("sum.dim_IntList")
def _sum(call: Call, x: DTensor, dims: Any = None, *_: Any, **__: Any) -> DTensor:
    return _over(call, x, dims, mi.reduction)


@converts("mean.dim", "mean.default")
def _mean(call: Call, x: DTensor, dims: Any = None, *_: Any, **__: Any) -> DTensor:
    return _over(call, x, dims, mi.mean)


@converts("amax.default")
def _amax(call: Call, x: DTensor, dims: Any = None, *_: Any) -> DTensor:
    return _over(call, x, dims, mi.reduction_max)


@converts("amin.default")
def _amin(call: Call, x: DTensor, dims: Any = None, *_: Any) -> DTensor:
    return _over(call, x, dims, mi.reduction_min)


@converts("any.default", "any.dim", "any.dims")
def _any(call: Call, x: DTensor, dims: Any = None, *_: Any) -> DTensor:
    return _over_truths(call, x, dims, mi.reduction_max)


@converts("all.default", "all.dim", "all.dims")
def _all(call: Call, x: DTensor, dims: Any = None, *_: Any) -> DTensor:
    return _over_truths(call, x, dims, mi.reduction_min)


def _over_truths(call: Call, x: DTensor, dims: Any, reduce: Callable[..., DTensor]) -> DTensor:
    """Whether any or all of the truths hold: the largest or the least of ones and zeros."""
    require(x.dtype == i1, "it reduces numbers to a truth")
    ones = Call(call.graph, [TensorLike(call.shape, (), f32)], call.tf32)
    return call.graph.less(0.0, _over(ones, mi.cast(x, f32), dims, reduce), dtype=i1)


@converts("var.correction")
def _var(call: Call, x: DTensor, dims: Any = None, correction: Any = 1, **_: Any) -> DTensor:
    chosen = dims or list(range(len(x.shape)))
    require(len(chosen) == 1, "it is a variance over several dimensions")
    count = x.shape[chosen[0]]
    correction = 1 if correction is None else correction
    require(count > correction, "it is a variance of fewer elements than its correction")
    variance = _over(call, x, chosen, mi.variance)
    return variance if correction == 0 else variance * (count / (count - correction))


@converts("argmax.default")
def _argmax(call: Call, x: DTensor, dim: int | None = None, keepdim: bool = False) -> DTensor:
    require(not is_integer(x.dtype), "it compares integers")
    if dim is None:
        x, dim = mi.reshape(x, (-1,)), 0
    return mi.reshape(mi.arg_max(x, dim, dtype=call.dtype), call.shape)


@converts("topk.default")
def _topk(
    call: Call, x: DTensor, k: int, dim: int = -1, largest: bool = True, ordered: bool = True
) -> list[DTensor]:
    require(largest, "it takes the least elements")
    return list(mi.top_k(x, k, dim, dtype=call.results[1].dtype))


@converts("cumsum.default")
def _cumsum(call: Call, x: DTensor, dim: int, **_: Any) -> DTensor:
    require(not is_integer(call.dtype) and not is_integer(x.dtype), "it adds up integers")
    return mi.cumsum(x, dim, dtype=call.dtype)


@converts("_softmax.default", "_safe_softmax.default", "softmax.int")
def _softmax(call: Call, x: DTensor, dim: int, *_: Any, **__: Any) -> DTensor:
    return mi.softmax(x, dim, dtype=call.dtype)


@converts("_log_softmax.default")
def _log_softmax(call: Call, x: DTensor, dim: int, *_: Any) -> DTensor:
    return call.graph.sub(x, mi.log_sum_exp(x, dim, dtype=f32), dtype=call.dtype)


@converts("logsumexp.default")
def _log_sum_exp(call: Call, x: DTensor, dims: Sequence[int], keepdim: bool = False) -> DTensor:
    """The largest element where it is infinite: infinities less each other are no numbers."""
    require(len(dims) == 1, "it is over several dimensions")
    largest = mi.reduction_max(x, dims[0], dtype=f32)
    infinite = call.graph.less(LARGEST, mi.abs(largest), dtype=i1)
    total = mi.log_sum_exp(x, dims[0], dtype=f32)
    return mi.reshape(call.graph.where(infinite, largest, total, dtype=call.dtype), call.shape)


@converts("native_layer_norm.default")
def _layer_norm(
    call: Call, x: DTensor, shape: Sequence[int], weight: Any, bias: Any, epsilon: float
) -> list[DTensor | None]:
    result = call.graph.layer_norm(x, shape, weight, bias, epsilon, dtype=call.dtype)
    # Mean and 1 / standard deviation are for training; a call whose others are used is refused.
    return [result, None, None]


@converts("rms_norm.default")
def _rms_norm(
    call: Call, x: DTensor, shape: Sequence[int], weight: Any = None, epsilon: float | None = None
) -> DTensor:
    require(epsilon is not None, "it has no epsilon")
    return call.graph.rms_norm(x, shape, weight, epsilon or 0.0, dtype=call.dtype)


@converts("_fused_rms_norm.default")
def _fused_rms_norm(
    call: Call, x: DTensor, shape: Sequence[int], weight: Any, epsilon: float | None
) -> list[DTensor | None]:
    return [_rms_norm(call, x, shape, weight, epsilon), None]
