"""ATen's matrix products, and attention."""

from __future__ import annotations

import math
from typing import Any

from xdsl.dialects.builtin import f16, f32, i1, i32
from xdsl.ir import Attribute

import mugraph.build as mi
from mugraph.build import DTensor
from mugraph.dialects.element_types import is_integer
from mugraph.dialects.precision import Precision
from mugraph.dialects.reductions import LEAST
from mugraph.dialects.tensor_types import STAND_INS
from mugraph.torch.aten.conversion import (
    CONVERSIONS,
    Call,
    NotConverted,
    converts,
    require,
    require_tensor,
)

ATTENTION = "mugraph.attention.default"
"""Attention as one operator, which :mod:`mugraph.torch.attention` registers with torch."""

SORT_GROUPS = "mugraph.sort_groups.default"
"""A counting sort, which :mod:`mugraph.torch.whole_numbers` registers with torch."""

GROUPED_FALLBACK = "transformers.grouped_mm_fallback.default"
"""``_grouped_mm`` of types that torch's own does not take: an operator that transformers has."""

LOWEST = -(2.0**99)
"""A score that no key has: above what running maxima start from (``online_softmax/masked.py``), so
that a row of nothing else has a softmax."""


def _product(call: Call, a: DTensor, b: DTensor, dtype: Attribute) -> DTensor:
    """A product; of f32 in plain fp32, unless torch allows TF32."""
    require(dtype == i32 or not is_integer(a.dtype), "it multiplies matrices of integers")
    ieee = a.dtype == f32 and not call.tf32
    return call.graph.matmul(a, b, dtype=dtype, precision=Precision.IEEE if ieee else None)


@converts("mm.default", "bmm.default", "_int_mm.default")
def _mm(call: Call, a: DTensor, b: DTensor) -> DTensor:
    return _product(call, a, b, call.dtype)


@converts("_grouped_mm.default")
def _grouped_mm(
    call: Call,
    x: DTensor,
    matrices: DTensor,
    ends: DTensor | None = None,
    bias: DTensor | None = None,
    out_dtype: Any = None,
) -> DTensor:
    """The rows of groups times a matrix each: tokens and their experts."""
    shapes = len(x.shape), len(matrices.shape)
    require(shapes == (2, 3), "its groups are not rows of one matrix")
    require(bias is None, "it adds a bias")
    given = require_tensor(ends)
    ieee = x.dtype == f32 and not call.tf32
    precision = Precision.IEEE if ieee else None
    return call.graph.grouped_matmul(x, matrices, given, dtype=call.dtype, precision=precision)


def _sort_groups(call: Call, groups: DTensor, count: int) -> list[DTensor]:
    return list(mi.sort_groups(groups, count))


@converts("linear.default")
def _linear(call: Call, x: DTensor, weight: DTensor, bias: DTensor | None = None) -> DTensor:
    """A product for each element along the first dimension: its extent may be a symbol."""
    first = next((extent for extent in x.shape[:-1] if extent != 1), 1)
    rows = mi.reshape(x, (first, -1, x.shape[-1]))
    matrix = mi.reshape(mi.transpose(weight), (1, *reversed(weight.shape)))
    if bias is None:
        return mi.reshape(_product(call, rows, matrix, call.dtype), call.shape)
    return mi.reshape(_addmm(call, bias, rows, matrix), call.shape)


@converts("addmm.default", "baddbmm.default")
def _addmm(
    call: Call, bias: DTensor, a: DTensor, b: DTensor, *, beta: float = 1, alpha: float = 1
) -> DTensor:
    product = _product(call, a, b, f32)
    if alpha != 1:
        product = product * float(alpha)
    if beta == 0:
        return product if call.dtype == f32 else mi.cast(product, call.dtype)
    if beta != 1:
        bias = call.graph.mul_scalar(bias, float(beta), dtype=f32)
    return call.graph.add(product, bias, dtype=call.dtype)


@converts("_scaled_mm.default")
def _scaled_mm(
    call: Call,
    a: DTensor,
    b: DTensor,
    scale_a: DTensor,
    scale_b: DTensor,
    bias: DTensor | None = None,
    scale_result: DTensor | None = None,
    out_dtype: Any = None,
    use_fast_accum: bool = False,
) -> DTensor:
    """A product of f8 with a scale for each tensor, or for each row of a and column of b."""
    require(scale_result is None, "its result has a scale")
    require(a.dtype == b.dtype, f"it multiplies {a.dtype} by {b.dtype}")
    product = _product(call, a, b, f32)
    for scale, rows in ((scale_a, (a.shape[0], 1)), (scale_b, (1, b.shape[1]))):
        if math.prod(scale.shape) == 1:
            scale = mi.reshape(scale, (1, 1))
        require(scale.shape in ((1, 1), rows), "its scales are of blocks of a row")
        product = product * scale
    if bias is not None:
        product = product + bias
    return product if product.dtype == call.dtype else mi.cast(product, call.dtype)


@converts("_weight_int8pack_mm.default")
def _weight_int8pack_mm(call: Call, x: DTensor, weights: DTensor, scales: DTensor) -> DTensor:
    """A product with the transpose of weights (n, k) of int8, of which each row has a scale."""
    wide = mi.dequantize(weights, mi.reshape(scales, (weights.shape[0], 1)), dtype=x.dtype)
    return _product(call, x, mi.transpose(wide), call.dtype)


def _attention(
    call: Call,
    q: DTensor,
    k: DTensor,
    v: DTensor,
    mask: DTensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    heads_inside: bool = False,
    at_end: bool = False,
    may_be_empty: bool = False,
    has_least: bool = False,
) -> DTensor:
    """softmax(q kᵀ scale + mask) v, scores in fp32, heads of q in groups that share k and v."""
    require(q.shape[:-3] == k.shape[:-3], "queries and keys have other batches")
    groups = q.shape[-3] // k.shape[-3] if len(q.shape) > 2 else 1
    if groups > 1:
        k, v = (mi.repeat(x, groups, -3) for x in (k, v))
    scores = _product(call, q, mi.transpose(k), f32)
    width = q.shape[len(q.shape) - 1]
    require(scale is not None or width not in STAND_INS, "its scale changes from call to call")
    scores = scores * (1 / math.sqrt(width) if scale is None else float(scale))
    if causal:
        rows, keys = scores.shape[len(scores.shape) - 2 :]
        scores = mi.causal_mask(scores, keys - rows if at_end else 0)
    alive = None
    if mask is not None and mask.dtype == i1:
        # A sum, unlike a choice, is linear: it stays in the kernel of the products.
        kept = mi.cast(mask, f32)
        alive = mi.reduction_max(kept, -1)
        scores = scores + mi.where(kept, 0.0, LOWEST)
    elif mask is not None and may_be_empty:
        # No finite number of f16 is as low as the score of no key.
        scores = scores + (_raised(mask) if has_least and mask.dtype != f16 else mask)
    elif mask is not None and k.shape[-2] in STAND_INS:
        # Its rows may be the least number all along, and behind the keys of a call scores are -inf.
        scores = scores + mi.max(mask, LOWEST)
    elif mask is not None:
        scores = scores + mask
    # Powers are rounded before they are divided by their sum: the largest, 1, is exact.
    highest = mi.reduction_max(scores, -1)
    powers = mi.exp(scores - (mi.max(highest, LEAST) if may_be_empty else highest))
    total = mi.reduction(powers, -1)
    if powers.dtype != v.dtype:
        powers = mi.cast(powers, v.dtype)
    result = _product(call, powers, v, f32)
    if may_be_empty:  # a row without any key gives zeros, as in torch
        return call.graph.mul(result, mi.reciprocal_or_zero(total), dtype=call.dtype)
    if alive is not None:
        result = result * alive
    return call.graph.div(result, total, dtype=call.dtype)


def _raised(mask: DTensor) -> DTensor:
    """What is added to scores, in fp32: finite numbers are no less than the score of no key.

    So a row of the least number all along has a softmax, and one of minus infinity has none.
    """
    wide = mask if mask.dtype == f32 else mi.cast(mask, f32)
    # The second summand counts where it is no number or infinite; others round it away.
    return mi.max(wide, LOWEST) + wide * 2.0**-60


@converts("convolution.default")
def _convolution(call: Call, x: Any, weight: DTensor, *settings: Any) -> DTensor:
    # Those that are products were decomposed.
    del call, x
    groups = settings[-1]
    few = f"its {groups} groups have too few channels for a product each ({weight.shape[1]})"
    require(groups == 1, few)
    raise NotConverted("it is no matrix product of windows")


CONVERSIONS[ATTENTION] = _attention
CONVERSIONS[SORT_GROUPS] = _sort_groups
CONVERSIONS[GROUPED_FALLBACK] = _grouped_mm
