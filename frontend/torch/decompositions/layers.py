"""Norms, and the encoder layer that torch has as one operator."""

from __future__ import annotations

from typing import Any

from mugraph.torch.attention import attention_operator
from mugraph.torch.decompositions.table import decomposes
from mugraph.torch.operator import import_torch


@decomposes("_native_batch_norm_legit_no_training.default")
def _batch_norm(
    x: Any, weight: Any, bias: Any, mean: Any, variance: Any, momentum: float, epsilon: float
) -> Any:
    """A scale and a shift of each channel, in fp32."""
    factor = (variance.float() + epsilon).rsqrt()
    result = (x.float() - by_channel(mean.float(), x)) * by_channel(factor, x)
    # What is for training is empty.
    return _scaled(result, x, weight, bias), x.new_empty((0,)), x.new_empty((0,))


@decomposes("native_group_norm.default")
def _group_norm(
    x: Any, weight: Any, bias: Any, batch: int, channels: int, places: int, groups: int,
    epsilon: float,
) -> Any:  # fmt: skip
    """A norm of each group of channels, in fp32."""
    rows = x.float().reshape(batch, groups, -1)
    mean, variance = rows.mean(-1, keepdim=True), rows.var(-1, correction=0, keepdim=True)
    factor = (variance + epsilon).rsqrt()
    result = ((rows - mean) * factor).reshape(x.shape)
    return _scaled(result, x, weight, bias), mean.squeeze(-1), factor.squeeze(-1)


@decomposes("_native_batch_norm_legit.no_stats")
def _norm_of_each_channel(
    x: Any, weight: Any, bias: Any, training: bool, momentum: float, epsilon: float
) -> Any:
    """A norm of each channel, of all of a batch, in fp32."""
    rows = x.float().movedim(1, 0).reshape(x.shape[1], -1)
    mean, factor = rows.mean(-1), (rows.var(-1, correction=0) + epsilon).rsqrt()
    result = (x.float() - by_channel(mean, x)) * by_channel(factor, x)
    return _scaled(result, x, weight, bias), mean, factor


def by_channel(numbers: Any, x: Any) -> Any:
    """A number for each channel, the second dimension."""
    return numbers.reshape(-1, *[1] * (x.dim() - 2))


def _scaled(result: Any, x: Any, weight: Any, bias: Any) -> Any:
    """What was computed in fp32 of ``x`` by the weight and bias of each channel, in its type."""
    if weight is not None:
        result = result * by_channel(weight.float(), x)
    if bias is not None:
        result = result + by_channel(bias.float(), x)
    return result.to(x.dtype)


@decomposes("_transformer_encoder_layer_fwd.default")
def _encoder_layer(
    x: Any, width: int, heads: int, qkv: Any, qkv_bias: Any, out: Any, out_bias: Any,
    use_gelu: bool, norm_first: bool, epsilon: float, norm_1: Any, norm_bias_1: Any, norm_2: Any,
    norm_bias_2: Any, up: Any, up_bias: Any, down: Any, down_bias: Any, mask: Any = None,
    mask_type: int | None = None,
) -> Any:  # fmt: skip
    """What ``torch.nn.TransformerEncoderLayer`` calls for inference; a true mask hides keys."""
    functional = import_torch().nn.functional
    if x.dim() != 3 or x.is_nested:
        return NotImplemented
    if mask is not None:
        mask = ~mask if not mask.is_floating_point() else mask
        mask = mask[:, None, None] if mask_type == 1 else mask

    def attend(x: Any) -> Any:
        parts = functional.linear(x, qkv, qkv_bias).chunk(3, -1)
        q, k, v = (each.unflatten(-1, (heads, -1)).transpose(1, 2) for each in parts)
        made = attention_operator()(q, k, v, mask, False, None, True)
        return functional.linear(made.transpose(1, 2).flatten(2), out, out_bias)

    def project(x: Any) -> Any:
        inner = functional.linear(x, up, up_bias)
        inner = functional.gelu(inner) if use_gelu else functional.relu(inner)
        return functional.linear(inner, down, down_bias)

    def first(x: Any) -> Any:
        return functional.layer_norm(x, (width,), norm_1, norm_bias_1, epsilon)

    def second(x: Any) -> Any:
        return functional.layer_norm(x, (width,), norm_2, norm_bias_2, epsilon)

    if norm_first:
        x = x + attend(first(x))
        return x + project(second(x))
    x = first(x + attend(x))
    return second(x + project(x))
