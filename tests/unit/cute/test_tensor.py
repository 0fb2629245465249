"""Tensors: slicing, tiling, copy and gemm, and what these do by layout alone."""

from __future__ import annotations

import numpy as np
import pytest

from mugraph.dialects.cute import Layout, LayoutError, _, logical_divide, parse_layout
from mugraph.dialects.cute.algorithms import clear, copy, gemm
from mugraph.dialects.cute.tensor import (
    CountingEngine,
    Tensor,
    TransformEngine,
    local_partition,
    local_tile,
    make_counting_tensor,
    make_fragment_layout,
    make_fragment_like,
    make_identity_tensor,
    make_tensor,
)


def test_tensors_are_views() -> None:
    storage = np.arange(24.0)
    tensor = make_tensor(storage, parse_layout("(4,6):(6,1)"))
    row = tensor[2, _]
    row[1] = -1.0
    assert storage[13] == -1.0 and tensor[2, 1] == -1.0
    matrix = np.zeros((4, 6))
    make_tensor(matrix, parse_layout("(4,6):(6,1)"))[3, 5] = 7.0
    assert matrix[3, 5] == 7.0
    with pytest.raises(LayoutError, match="not contiguous"):
        make_tensor(matrix[:, ::2], parse_layout("(4,3):(6,2)"))
    with pytest.raises(IndexError, match="element 30 of storage of 24"):
        tensor[5, 0]


def test_filling_a_matrix_as_on_the_slide() -> None:
    tensor = make_tensor(np.zeros(22 * 19), Layout((22, 19)))
    for i in range(22):
        for j in range(19):
            tensor[i, j] = i * 1 + j * 22
    assert tensor.values() == list(range(22 * 19))


def test_computing_engines() -> None:
    squares = Tensor(TransformEngine(CountingEngine(), lambda i: i * i), Layout(5))
    assert squares.values() == [0, 1, 4, 9, 16]
    with pytest.raises(LayoutError, match="no storage"):
        squares[0] = 1
    with pytest.raises(LayoutError, match="no storage"):
        make_counting_tensor(Layout(4))[0] = 1


def test_identity_tensors_hold_coordinates() -> None:
    identity = make_identity_tensor((16, (4, 2)))
    assert identity[3, 5] == (3, (1, 1)) and identity[0] == (0, (0, 0))
    tile = local_tile(identity, (4, 8), (2, 0))
    assert tile[1, 3] == (9, (3, 0))
    assert make_identity_tensor(8)[5] == 5


def test_local_tile_and_projection() -> None:
    tensor = make_counting_tensor(Layout((64, 32)))
    assert local_tile(tensor, (16, 8), (1, 2)).values() == [
        16 + i + 64 * (16 + j) for j in range(8) for i in range(16)
    ]
    a = local_tile(tensor, (16, 24, 8), (3, 5, _), (1, _, 1))
    assert a.shape == (16, 8, 4) and a[2, 3, 1] == 48 + 2 + 64 * (8 + 3)


def test_local_partition() -> None:
    tensor = make_counting_tensor(Layout((8, 8)))
    threads = Layout((2, 4))
    owned = [local_partition(tensor, threads, t).values() for t in range(8)]
    assert sorted(index for mine in owned for index in mine) == list(range(64))
    assert owned[3] == [i + 8 * j for j in (1, 5) for i in (1, 3, 5, 7)]


def test_fragments_are_dense_and_keep_the_order() -> None:
    assert str(make_fragment_layout(parse_layout("((2,2),4,8):((1,64),128,16)"))) == (
        "((2,2),4,8):((1,2),32,4)"
    )
    fragment = make_fragment_like(make_tensor(np.ones(64, np.float32), Layout((4, 16))))
    assert fragment.values() == [0.0] * 64
    assert make_fragment_like(make_counting_tensor(Layout(4)), np.int8).values() == [0] * 4
    with pytest.raises(LayoutError, match="give the element type"):
        make_fragment_like(make_counting_tensor(Layout(4)))


def test_apply_takes_any_operation() -> None:
    tensor = make_counting_tensor(Layout(12)).apply(logical_divide, Layout(4, 3))
    assert tensor[_, 1].values() == [1, 4, 7, 10]


# --- copy ---


@pytest.mark.parametrize(
    ("source", "destination"),
    [
        ("8:1", "8:1"),
        ("(8,2,3):(1,8,16)", "(8,2,3):(1,8,16)"),
        ("(2,2,2):(42,1,128)", "8:1"),  # gather
        ("8:1", "(2,2,2):(42,1,128)"),  # scatter
        ("8:0", "8:1"),  # broadcast
        ("8:0", "8:0"),  # constant
        ("(8,3):(1,8)", "(8,3):(3,1)"),  # transpose
    ],
)
def test_copy_by_layout_alone(source: str, destination: str) -> None:
    a, b = parse_layout(source), parse_layout(destination)
    data = np.arange(a.cosize()) + 100
    target = np.full(b.cosize(), -1)
    copy(make_tensor(data, a), make_tensor(target, b))
    assert all(target[b(i)] == data[a(i)] for i in range(a.size()))
    assert np.count_nonzero(target != -1) == len(set(b.indices()))


def test_copy_checks_sizes() -> None:
    with pytest.raises(LayoutError, match="has 8 elements, the destination 4:1 4"):
        copy(make_counting_tensor(Layout(8)), make_tensor(np.zeros(4), Layout(4)))


# --- gemm ---


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(-4, 5, shape).astype(np.float64)


@pytest.mark.parametrize("a_major", ["(4,6):(1,4)", "(4,6):(6,1)"])
@pytest.mark.parametrize("b_major", ["(5,6):(1,5)", "(5,6):(6,1)"])
@pytest.mark.parametrize("c_major", ["(4,5):(1,4)", "(4,5):(5,1)"])
def test_gemm_of_every_major(a_major: str, b_major: str, c_major: str) -> None:
    a, b = random(24), random(30)
    layouts = [parse_layout(text) for text in (a_major, b_major, c_major)]
    tensors = [
        make_tensor(data, layout)
        for data, layout in zip((a, b, np.zeros(20)), layouts, strict=True)
    ]
    clear(tensors[2])
    gemm(*tensors)
    left = np.array([[tensors[0][m, k] for k in range(6)] for m in range(4)])
    right = np.array([[tensors[1][n, k] for k in range(6)] for n in range(5)])
    result = np.array([[tensors[2][m, n] for n in range(5)] for m in range(4)])
    assert np.array_equal(result, left @ right.T)


def test_gett_is_gemm() -> None:
    """C[m1,m2,n] = sum over k1,k2 of A[m1,k1,m2,k2] * B[k2,n,k1]."""
    a, b = random(2, 3, 4, 2), random(2, 5, 3)
    c = np.zeros((2, 4, 5))
    gemm(
        make_tensor(a, Layout(((2, 4), (3, 2)), ((24, 2), (8, 1)))),
        make_tensor(b, Layout((5, (3, 2)), (3, (1, 15)))),
        make_tensor(c, Layout(((2, 4), 5), ((20, 5), 1))),
    )
    assert np.array_equal(c, np.einsum("akbl,lnk->abn", a, b))


def test_convolution_is_gemm() -> None:
    """The slide's CONV: filters (K,(C,T,R,S)), activations ((N,Z,P,Q),(C,T,R,S))."""
    n, c, k, d, h, w, t, r, s = 2, 3, 4, 3, 5, 6, 2, 3, 3
    z, p, q = d - t + 1, h - r + 1, w - s + 1
    filters, image = random(k, c, t, r, s), random(n, c, d, h, w)
    output = np.zeros((k, n, z, p, q))
    image_c, image_d = d * h * w, h * w
    gemm(
        make_tensor(filters, Layout((k, (c, t, r, s)), (c * t * r * s, (t * r * s, r * s, s, 1)))),
        make_tensor(
            image,
            Layout(
                ((n, z, p, q), (c, t, r, s)),
                ((c * image_c, image_d, w, 1), (image_c, image_d, w, 1)),
            ),
        ),
        make_tensor(output, Layout((k, (n, z, p, q)), (n * z * p * q, (z * p * q, p * q, q, 1)))),
    )
    windows = np.lib.stride_tricks.sliding_window_view(image, (t, r, s), axis=(2, 3, 4))
    assert np.array_equal(output, np.einsum("nczpqtrs,kctrs->knzpq", windows, filters))


def test_gemm_names_the_mode_that_does_not_fit() -> None:
    a, b, c = (make_counting_tensor(Layout(shape)) for shape in ((4, 3), (5, 2), (4, 5)))
    with pytest.raises(LayoutError, match="mode K has 3 elements in A and 2 in B"):
        gemm(a, b, c)
    with pytest.raises(LayoutError, match="its rank must be 2"):
        gemm(make_counting_tensor(Layout(4)), b, c)
