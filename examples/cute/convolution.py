"""A convolution as a product: the kernels of ``gemm_sm90.py`` on other layouts.

Images have extents (N, ..., C), filters (K, ..., C) and results (N, ..., K), channels last, with
one to three dimensions between.  M are the places of the result, N the filters, and K the channels
and taps.  No matrix of windows is written: TMA loads boxes of an image, every ``stride``-th
element, from where a tap's window begins.  What lies in the padding comes as zeros.
"""

import sys

import gemm_predicated
import gemm_sm90
from tiles import tile_of

from mugraph import cute
from mugraph.cute import E


def views(strides, dilations, padding):
    """What makes matrices of images, filters and results."""
    rank = len(strides)
    inner = range(rank, 0, -1)  # the dimensions between, the last one first
    places, taps = tuple(E(d) for d in inner), (E(rank + 1), *(E(d) for d in inner))
    moved = tuple(E(d) * strides[d - 1] for d in inner)
    dilated = tuple(E(d) * dilations[d - 1] for d in inner)

    def of(images, filters, results):
        n, *between, k = results.shape
        _k, *window, channels = filters.shape
        m_modes, k_modes = (*reversed(between), n), (channels, *reversed(window))
        windows = cute.Layout((m_modes, k_modes), ((*moved, E(0)), (E(rank + 1), *dilated)))
        padded = cute.domain_offset((0, *(-one for one in padding), 0), images)
        return (
            padded.compose(windows),
            filters.compose(cute.Layout((k, k_modes), (E(0), taps))),
            results.compose(cute.Layout((m_modes, k), ((*places, E(0)), E(rank + 1)))),
        )

    return of


def launch(x, w, y, strides, padding, dilations=None, tile=(128, 128), stages=4, blocks=132):
    """The kernel on tensors of f16: ``tile`` is how many places and filters a block computes.

    TMA moves rows of channels that are multiples of 16 bytes; others are loaded by threads.
    """
    if strides and max(*strides, *w.shape[1:-1]) == 1 and not any(padding):
        # A plain product: places have one mode.
        flat = (one.reshape(-1, one.shape[-1]) for one in (x, w, y))
        return launch(*flat, (), (), (), tile, stages, blocks)
    (n, *between, k), channels = y.shape, x.shape[-1]
    to_matrices = views(strides, dilations or [1] * len(strides), padding)
    m_modes, ones = (*reversed(between), n), [1] * len(between)
    if channels % 8 or k % 8 or max(strides, default=1) > 8 or len(x.shape) > 5:
        tiler = tile_of(m_modes, 64), 64, tile_of((channels, *reversed(w.shape[1:-1])), 32)
        return gemm_predicated.launch(x, w, y, tiler, to_matrices)
    depth = next((one for one in (16, 32) if channels <= one), 64)
    tiler = tile_of(m_modes, tile[0]), tile[1], (depth, *ones)
    return gemm_sm90.launch(x, w, y, tiler, stages, blocks=blocks, views=to_matrices)


if __name__ == "__main__":
    n, side, c, k, window, stride = (int(one) for one in sys.argv[1:] or (32, 56, 64, 64, 3, 1))
    out = (side + 2 * (window // 2) - window) // stride + 1
    shapes = (n, side, side, c), (k, window, window, c), (n, out, out, k)
    tensors = [cute.make_fake_tensor("f16", shape) for shape in shapes]
    print(launch(*tensors, (stride,) * 2, (window // 2,) * 2).text())
