"""Convolutions: products of windows and filters."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute

from mugraph.build.errors import BuildError, require_integers
from mugraph.build.kernel_graph import KernelGraph
from mugraph.build.named_numbers import stand_in
from mugraph.build.tensors import DTensor


def convolution(
    x: DTensor,
    filters: DTensor,
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilations: int | Sequence[int] = 1,
    *,
    dtype: Attribute | None = None,
    name: str | None = None,
) -> DTensor:
    """The convolution of images (N, ..., C) and filters (K, ..., C): (N, ..., K), channels last.

    Any number of dimensions stands between.  Sums are fp32, rounded once.  Kernels load windows of
    the images where they lie.  Raises :class:`BuildError` where the operands do not fit.
    """
    graph, rank = x.graph, len(x.shape) - 2
    if not isinstance(graph, KernelGraph) or rank < 0 or len(filters.shape) != rank + 2:
        raise BuildError(
            f"convolution: images {list(x.shape)} and filters {list(filters.shape)}; expected "
            "(N, ..., C) and (K, ..., C) of a kernel graph, of equal ranks"
        )
    images, *size, channels = x.shape
    count, *window, depth = filters.shape
    if stand_in(channels) != stand_in(depth):
        raise BuildError(f"convolution: images of {channels} channels, filters of {depth}")
    steps, pads, apart = (
        _each(what, given, rank, least)
        for what, given, least in (
            ("strides", strides, 1),
            ("padding", padding, 0),
            ("dilations", dilations, 1),
        )
    )
    out = places_of_windows(size, window, steps, pads, apart)
    if any(stand_in(extent) < 1 for extent in out):
        raise BuildError(
            f"convolution: filters of {window} with dilations {apart} are larger than images "
            f"of {size} with padding {pads}"
        )
    rows = windows_of_images(graph, x, window, steps, pads, apart)
    columns = graph.transpose(graph.reshape(filters, (count, -1)))
    product = graph.matmul(rows, columns, dtype=dtype)
    return graph.reshape(product, (images, *out, count), name=name)


def places_of_windows(
    extents: Sequence[int], window: Sequence[int], *settings: Sequence[int]
) -> list[int]:
    """How many windows there are along each dimension, by strides, padding and dilation."""
    numbers = zip(extents, window, *settings, strict=True)
    return [(n + 2 * pad - by * (taps - 1) - 1) // step + 1 for n, taps, step, pad, by in numbers]


def windows_of_images(
    graph: KernelGraph, x: DTensor, window: Sequence[int], steps: Sequence[int],
    pads: Sequence[int], apart: Sequence[int],
) -> DTensor:  # fmt: skip
    """A row for each window of images (N, ..., C): the channels of one tap after another."""
    images, *size, channels = x.shape
    out, rank = places_of_windows(size, window, steps, pads, apart), len(size)
    inner = range(rank, 0, -1)
    places = [*((out[d - 1], d, steps[d - 1]) for d in inner), (images, 0, 1)]
    taps = [(channels, rank + 1, 1), *((window[d - 1], d, apart[d - 1]) for d in inner)]
    return graph.windows(x, [places, taps], [0, *(-pad for pad in pads), 0])


def _each(what: str, given: int | Sequence[int], rank: int, least: int) -> list[int]:
    """One number a dimension."""
    numbers = [given] * rank if isinstance(given, int) else list(require_integers(what, given))
    if len(numbers) != rank or any(one < least for one in numbers):
        raise BuildError(f"convolution: {what} {numbers}; expected {rank} numbers from {least} on")
    return numbers
