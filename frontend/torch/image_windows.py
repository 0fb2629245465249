"""Windows of images as one operator of torch, which products load where the images lie."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

from mugraph.build import DTensor
from mugraph.build.convolution import places_of_windows, windows_of_images
from mugraph.torch.aten.conversion import CONVERSIONS, Call
from mugraph.torch.operator import define, import_torch

NAME = "image_windows"

SCHEMA = "(Tensor images, int[] taps, int[] stride, int[] padding, int[] dilation) -> Tensor"


@cache
def image_windows_operator() -> Any:
    """``torch.ops.mugraph.image_windows``, of images (batch, ..., channels): each window is a row.

    The elements of a row are those of one tap after another, of all channels each; padding is 0.
    """

    def run(
        images: Any, taps: Sequence[int], stride: Sequence[int], padding: Sequence[int],
        dilation: Sequence[int],
    ) -> Any:  # fmt: skip
        pads = [0, 0, *(pad for each in reversed(padding) for pad in (each, each))]
        seen = import_torch().nn.functional.pad(images, pads)
        rank = len(taps)
        for dim, (size, step, apart) in enumerate(zip(taps, stride, dilation, strict=True), 1):
            seen = seen.unfold(dim, apart * (size - 1) + 1, step)[..., ::apart]
        # (batch, places, channels, taps)
        order = [*range(rank + 1), *range(rank + 2, 2 * rank + 2), rank + 1]
        return seen.permute(order).reshape(-1, math.prod(taps) * images.shape[-1])

    def fake(images: Any, taps: Sequence[int], *settings: Sequence[int]) -> Any:
        rows = images.shape[0] * math.prod(places_of_windows(images.shape[1:-1], taps, *settings))
        return images.new_empty((rows, math.prod(taps) * images.shape[-1]))

    return define(NAME, SCHEMA, run, fake)


def _image_windows(call: Call, images: DTensor, *settings: Sequence[int]) -> DTensor:
    return windows_of_images(call.graph, images, *settings)


CONVERSIONS[f"mugraph.{NAME}.default"] = _image_windows
