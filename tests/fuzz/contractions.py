"""Random contractions of tensors of several modes, and random convolutions."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from benchmarks.cute_kernels import launch_of
from mugraph import cute
from mugraph.dialects.tensor_types import row_major_strides
from mugraph.dialects.windows import Mode, Windows

Array: TypeAlias = npt.NDArray[Any]
Launched: TypeAlias = tuple[cute.Launch, list[Array], Array]
"""A kernel, its tensors, and what it shall compute."""


def _drawn(*shapes: tuple[int, ...]) -> list[Array]:
    rng = np.random.default_rng(sum(map(sum, shapes)))
    return [(rng.standard_normal(shape) / 2).astype(np.float16) for shape in shapes]


@dataclass(frozen=True)
class Matrix:
    """A row-major tensor as a matrix: the modes of rows and of columns, the fastest ones first.

    A mode is an extent and how far neighbours along it are apart in memory, in elements.
    """

    groups: tuple[tuple[tuple[int, int], ...], ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(prod(extent for extent, _ in group) for group in self.groups)

    @property
    def type(self) -> str:
        """As a type of the IR."""

        def nested(place: int) -> str:
            return ",".join(
                f"({','.join(str(mode[place]) for mode in group)})" if group else "10"[place]
                for group in self.groups
            )

        extents = "x".join(map(str, self.shape))
        return f"tensor<{extents}xf16, #cute.layout<({nested(0)}):({nested(1)})>>"

    def of(self, tensor: Array) -> Array:
        """The elements of a tensor as the matrix has them."""
        modes = [mode for group in self.groups for mode in reversed(group)]
        extents = [extent for extent, _ in modes]
        steps = [tensor.itemsize * step for _, step in modes]
        seen = np.lib.stride_tricks.as_strided(np.ascontiguousarray(tensor), extents, steps)
        return np.ascontiguousarray(seen).reshape(self.shape)


def product_text(a: Matrix, b: Matrix, c: Matrix) -> str:
    """A product of matrices as a µGraph."""
    return f"""
func.func @f(%a: {a.type}, %b: {b.type}) -> {c.type} {{
  %c = kn.matmul %a, %b : ({a.type}, {b.type}) -> {c.type}
  func.return %c : {c.type}
}}"""


@dataclass(frozen=True)
class Gett:
    """A contraction: letters name the modes of A, B and C."""

    text: str
    extents: dict[str, int]

    def tensors(self) -> tuple[list[Array], Array]:
        """A and B, and their exact product."""
        left, right = self.text.split("->")[0].split(",")
        shapes = [tuple(self.extents[one] for one in letters) for letters in (left, right)]
        a, b = _drawn(*shapes)
        return [a, b], np.einsum(self.text, a.astype(np.float64), b.astype(np.float64))

    def matrices(self) -> tuple[Matrix, Matrix, Matrix]:
        """A (M,K), B (K,N) and C (M,N) of nested modes."""
        operands, out = self.text.split("->")
        left, right = operands.split(",")
        rows, columns = ([one for one in out if one in names] for names in (left, right))
        summed = [one for one in left if one not in out]

        def of(letters: str, *groups: list[str]) -> Matrix:
            strides = row_major_strides([self.extents[one] for one in letters])
            step = dict(zip(letters, strides, strict=True))
            return Matrix(
                tuple(tuple((self.extents[one], step[one]) for one in group) for group in groups)
            )

        return of(left, rows, summed), of(right, summed, columns), of(out, rows, columns)

    def launched(self) -> Launched:
        """The kernel of ``examples/cute/contraction.py``, of small tiles and few blocks."""
        inputs, exact = self.tensors()
        c = np.full(exact.shape, np.nan, np.float16)
        return self.launch(*inputs, c, tile=(64, 64), stages=2, blocks=3), [*inputs, c], exact

    def launch(self, *tensors: Any, **options: Any) -> cute.Launch:
        """The kernel of the example."""
        return launch_of("contraction")(self.text, *tensors, **options)

    def program(self) -> str:
        """The contraction as a µGraph."""
        return product_text(*self.matrices())

    def given(self) -> list[Array]:
        """What the µGraph is given."""
        return [one.of(each) for one, each in zip(self.matrices(), self.tensors()[0], strict=False)]


@dataclass(frozen=True)
class Convolution:
    """Images (N, ..., C) and filters (K, ..., C), of one to three dimensions between."""

    images: int
    size: tuple[int, ...]
    channels: int
    filters: int
    window: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[int, ...]
    dilations: tuple[int, ...]

    @property
    def between(self) -> tuple[int, ...]:
        """The extents of a result between images and filters."""
        return tuple(
            (extent + 2 * pad - dilation * (taps - 1) - 1) // stride + 1
            for extent, taps, stride, pad, dilation in zip(
                self.size, self.window, self.strides, self.padding, self.dilations, strict=True
            )
        )

    def tensors(self) -> tuple[list[Array], Array]:
        """Images and filters, and the exact result: a sum over the taps of the window."""
        x, w = _drawn(
            (self.images, *self.size, self.channels), (self.filters, *self.window, self.channels)
        )
        rank = len(self.size)
        padded = np.pad(x.astype(np.float64), [(0, 0), *((p, p) for p in self.padding), (0, 0)])
        exact = np.zeros((self.images, *self.between, self.filters))
        for taps in np.ndindex(*self.window):
            part = padded[
                :,
                *(
                    slice(tap * dilation, tap * dilation + stride * (extent - 1) + 1, stride)
                    for tap, dilation, stride, extent in zip(
                        taps, self.dilations, self.strides, self.between, strict=True
                    )
                ),
            ]
            tap = w[:, *taps].astype(np.float64)
            exact += np.tensordot(part, tap, axes=([rank + 1], [1]))
        return [x, w], exact

    def matrices(self) -> tuple[Matrix, Matrix, Matrix]:
        """Windows (M,K), filters (K,N) and results (M,N); windows in no padding."""
        x_steps, w_steps, y_steps = (
            row_major_strides(shape)
            for shape in (
                (self.images, *self.size, self.channels),
                (self.filters, *self.window, self.channels),
                (self.images, *self.between, self.filters),
            )
        )
        inner = range(len(self.size), 0, -1)

        def places(steps: tuple[int, ...], strides: tuple[int, ...]) -> list[tuple[int, int]]:
            moved = [(self.between[d - 1], strides[d - 1] * steps[d]) for d in inner]
            return [*moved, (self.images, steps[0])]

        def taps(steps: tuple[int, ...], dilations: tuple[int, ...]) -> list[tuple[int, int]]:
            moved = [(self.window[d - 1], dilations[d - 1] * steps[d]) for d in inner]
            return [(self.channels, 1), *moved]

        ones = (1,) * len(self.size)
        filters = ((self.filters, w_steps[0]),)
        return (
            Matrix((tuple(places(x_steps, self.strides)), tuple(taps(x_steps, self.dilations)))),
            Matrix((tuple(taps(w_steps, ones)), filters)),
            Matrix((tuple(places(y_steps, ones)), ((self.filters, 1),))),
        )

    def windows(self) -> Windows:
        """What of the images is multiplied: places and taps, in the padding."""
        inner = range(len(self.size), 0, -1)
        places = [Mode(self.between[d - 1], d, self.strides[d - 1]) for d in inner]
        taps = [Mode(self.window[d - 1], d, self.dilations[d - 1]) for d in inner]
        channels = Mode(self.channels, len(self.size) + 1, 1)
        return Windows(
            ((*places, Mode(self.images, 0, 1)), (channels, *taps)),
            (0, *(-pad for pad in self.padding), 0),
        )

    def program(self) -> str:
        """The convolution as a µGraph of windows and a product."""
        windows = self.windows()
        modes = ", ".join(
            f"array<i64: {', '.join(str(number) for mode in each for number in mode)}>"
            for each in windows.modes
        )
        images = "x".join(map(str, (self.images, *self.size, self.channels)))
        seen = "x".join(map(str, windows.shape))
        _, filters, results = (matrix.type for matrix in self.matrices())
        return f"""
func.func @f(%x: tensor<{images}xf16>, %w: {filters}) -> {results} {{
  %a = kn.windows %x modes [{modes}] origin {list(windows.origin)}
    : tensor<{images}xf16> -> tensor<{seen}xf16>
  %y = kn.matmul %a, %w : (tensor<{seen}xf16>, {filters}) -> {results}
  func.return %y : {results}
}}"""

    def launched(self) -> Launched:
        """The kernel of ``examples/cute/convolution.py``, of small tiles and few blocks."""
        inputs, exact = self.tensors()
        y = np.full(exact.shape, np.nan, np.float16)
        return self.launch(*inputs, y, tile=(64, 64), stages=2, blocks=3), [*inputs, y], exact

    def launch(self, *tensors: Any, **options: Any) -> cute.Launch:
        """The kernel of the example."""
        settings = self.strides, self.padding, self.dilations
        return launch_of("convolution")(*tensors, *settings, **options)

    def given(self) -> list[Array]:
        """What the µGraph is given."""
        (x, w), _exact = self.tensors()
        return [x, self.matrices()[1].of(w)]


MOST_OPERATIONS = 1 << 20


def random_gett(rng: np.random.Generator, modes: int | None = None) -> Gett:
    """Tensors of one to five modes in any order, of few elements and odd extents.

    With ``modes`` the largest tensor has so many, and half of the contractions are of neighbours
    along K, and along N, by multiples of 8.
    """
    while True:
        counts = [int(rng.integers(1, 4)), int(rng.integers(0, 3)), int(rng.integers(1, 3))]
        if modes is None or sum(counts) - min(counts) == modes:
            break
    letters = list("abcdefg"[: sum(counts)])
    rows, columns, summed = (
        letters[sum(counts[:place]) : sum(counts[: place + 1])] for place in range(3)
    )
    names = ["".join(rng.permutation(one)) for one in (rows + summed, columns + summed)]
    out = "".join(rng.permutation(rows + columns))
    extents = {one: int(rng.choice([1, 2, 3, 5, 8, 13, 16])) for one in letters}
    most = MOST_OPERATIONS
    if modes is not None:
        most = 1 << 24
        if columns and rng.integers(2):
            last = summed[0], summed[0], columns[0]
            *names, out = (
                one.replace(letter, "") + letter
                for one, letter in zip((*names, out), last, strict=True)
            )
            extents |= {one: 8 * int(rng.integers(1, 13)) for one in last}
    while prod(extents.values()) > most:
        extents[max(extents, key=lambda one: extents[one])] //= 2
    return Gett(f"{names[0]},{names[1]}->{out}", extents)


def random_convolution(
    rng: np.random.Generator, ranks: tuple[int, ...] = (1, 2, 2, 3), largest: int = 8
) -> Convolution:
    """One to three dimensions, with strides, padding and dilation of their own."""
    while True:
        rank = int(rng.choice(ranks))

        def drawn(low: int, high: int, rank: int = rank) -> tuple[int, ...]:
            return tuple(int(one) for one in rng.integers(low, high, rank))

        channels, filters = (int(one) for one in rng.choice([1, 3, 8, 16, 20, 40], 2))
        one = Convolution(
            int(rng.integers(1, 4)),
            drawn(1, largest + 1),
            channels,
            filters,
            window=drawn(1, 4),
            strides=drawn(1, 4),
            padding=drawn(0, 3),
            dilations=drawn(1, 3),
        )
        if min(one.between) > 0:
            return one


def drawn(number: int) -> Gett | Convolution:
    """The drawn one of a number: the same in each run."""
    rng = np.random.default_rng(number)
    return random_convolution(rng) if number % 2 else random_gett(rng)


KINDS = (
    "contraction of 4 modes",
    "contraction of 5 modes",
    "convolution of 2 dimensions",
    "convolution of 3 dimensions",
)


def drawn_for_a_gpu(number: int) -> Gett | Convolution:
    """The drawn one of a number, of ``KINDS[number % 4]``, and larger."""
    rng, (half, odd) = np.random.default_rng(number), divmod(number % len(KINDS), 2)
    return random_convolution(rng, (2 + odd,), 16) if half else random_gett(rng, 4 + odd)
