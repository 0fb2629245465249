"""Programs in Python: operators on whole tensors against numpy, and what the builder refuses."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mugraph.build as mi
from mugraph.passes.sequence import verifying
from mugraph.passes.transpile import TranspilePass, transpile_pipeline
from mugraph.reading import make_context
from mugraph.runtime.interpreter import run_function
from mugraph.runtime.interpreter.errors import ExecutionError
from mugraph.runtime.interpreter.run import bound_rounding

Array = Any
FACTOR = 2.0**-22
"""A mean multiplies by 1 over a number of elements, which is rounded to fp32."""
RANDOM = np.random.default_rng(19)
SHAPES = [
    (5, 7),
    (3, 1, 33),
    (2, 3, 4, 6),
    tuple(int(extent) for extent in RANDOM.integers(1, 9, 3)),
]


def computed(program: Callable[..., mi.DTensor], *inputs: Array) -> Array:
    """What a program computes in float64, once runs that round have been found near enough."""
    graph = mi.new_kernel_graph("program")
    tensors = [graph.new_input(x.shape) for x in inputs]
    graph.mark_output(program(*tensors))
    module = graph.module()
    arrays = [x.astype(np.float16) for x in inputs]
    (exact,) = run_function(module, None, arrays, "float64")
    (bound,) = bound_rounding(module, None, arrays)
    (stored,) = run_function(module, None, arrays)
    TranspilePass().apply(make_context(), module)
    module.verify()
    (scheduled,) = run_function(module, None, arrays, level="address")
    for result in (stored, scheduled):
        assert (np.abs(result.astype(np.float64) - exact) <= bound).all()
    return exact


def normal(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float16).astype(np.float64)


def softmax(x: Array, axis: int) -> Array:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def layer_norm(x: Array, dims: int, eps: float) -> Array:
    axes = tuple(range(-dims, 0))
    rest = x - x.mean(axes, keepdims=True)
    return rest / np.sqrt((rest**2).mean(axes, keepdims=True) + eps)


ALONG: dict[str, Callable[[Array, int], Array]] = {
    "softmax": softmax,
    "log_sum_exp": lambda x, axis: np.log(np.exp(x).sum(axis, keepdims=True)),
    "mean": lambda x, axis: x.mean(axis, keepdims=True),
    "variance": lambda x, axis: x.var(axis, keepdims=True),
    "reduction": lambda x, axis: x.sum(axis, keepdims=True),
    "reduction_max": lambda x, axis: x.max(axis, keepdims=True),
    "reduction_min": lambda x, axis: x.min(axis, keepdims=True),
}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ALONG)
def test_operators_along_a_dimension(name: str, shape: tuple[int, ...]) -> None:
    x = normal(*shape)
    for dim in (0, -1):
        result = computed(lambda x, dim=dim: getattr(mi, name)(x, dim), x)
        np.testing.assert_allclose(result, ALONG[name](x, dim), rtol=FACTOR, atol=FACTOR)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dims", [1, 2])
def test_norms(shape: tuple[int, ...], dims: int) -> None:
    x, w, b = normal(*shape), normal(*shape[-dims:]), normal(*shape[-dims:])
    eps = float(np.float32(1e-3))
    rms = np.sqrt((x**2).mean(tuple(range(-dims, 0)), keepdims=True) + eps)
    normal_ = layer_norm(x, dims, eps)
    for program, expected in (
        (lambda x, w, b: mi.rms_norm(x, w, eps=eps) + b, x / rms * w + b),
        (lambda x, w, b: mi.layer_norm(x, w, b, eps=eps), normal_ * w + b),
        (lambda x, w, b: mi.layer_norm(x, w, eps=eps) * b, normal_ * w * b),
        (lambda x, w, b: mi.layer_norm(x, bias=b, eps=eps) - w, normal_ + b - w),
    ):
        np.testing.assert_allclose(computed(program, x, w, b), expected, rtol=FACTOR, atol=FACTOR)


def test_expressions_are_numpys() -> None:
    x, y, w, b = normal(2, 3, 5, 8), normal(3, 1, 8), normal(8, 4), normal(4)
    result = computed(lambda x, y, w, b: (x**2 * 0.5 - y) @ w / 2 + b, x, y, w, b)
    np.testing.assert_allclose(result, (x**2 * 0.5 - y) @ w / 2 + b, rtol=1e-9)


def test_comparisons_choose() -> None:
    x, y, c = normal(4, 9), normal(4, 1), float(np.float32(0.1))
    for program in (
        lambda x, y, lib: lib.where(x > y, x, y),
        lambda x, y, lib: lib.where(x < c, abs(x), y * x) + (x >= y) - (x <= 0.5) * 2,
        lambda x, y, lib: 1 / (abs(x) + 1) + lib.exp(-(x**2)),
        lambda x, y, lib: lib.where(~(x < y) & (y != 0.25) | (x == y), 0.5, x) + lib.exp(2.0**x),
        lambda x, y, lib: lib.where(y > 0, x, -0.5) + abs(y) ** 1.5,
    ):
        result = computed(lambda x, y, program=program: program(x, y, mi), x, y)
        np.testing.assert_allclose(result, program(x, y, np) * 1.0, rtol=1e-9, atol=1e-12)


def test_tiles_take_numbers() -> None:
    x = normal(4, 9)

    def program(x: Any, lib: Any) -> Any:
        return lib.where(~(x < 0.5), 2.0**x, -1.5) + (x == 0)

    result = computed(lambda x: mi.pointwise(lambda tile: program(tile, mi), x), x)
    np.testing.assert_allclose(result, program(x, np), rtol=1e-9)


def test_a_comparison_sees_less_than_f16_does() -> None:
    """A difference of 1e-9 is less than any number of f16."""
    x = np.array([[1e-4]])
    stored = float(np.float16(1e-4))
    for number, expected in ((stored - 1e-9, 1.0), (stored, 0.0), (stored + 1e-9, 0.0)):
        result = computed(lambda x, number=number: x > number, x)
        assert result.item() == expected


def looked_up(table: Array, tokens: Any) -> Array:
    """Twice the rows of the sine of a table that tokens name, as a program."""
    graph = mi.new_kernel_graph()
    inputs = graph.new_input(table.shape), graph.new_input(np.shape(tokens), dtype=mi.int32)
    graph.mark_output(mi.gather(inputs[0] * 2, inputs[1]))
    arrays = [table.astype(np.float16), np.array(tokens, np.int32)]
    (result,) = run_function(graph.module(), None, arrays)
    (bound,) = bound_rounding(graph.module(), None, arrays)
    assert (np.abs(result - table[np.array(tokens)] * 2) <= bound).all()
    return result


def test_rows_are_looked_up() -> None:
    table = normal(9, 2, 4)
    tokens = [[3, 8, 0], [0, 0, 5]]
    np.testing.assert_array_equal(looked_up(table, tokens), table[np.array(tokens)] * 2)
    with pytest.raises(ExecutionError, match="9 names no row of a table of 9; numbers of rows are"):
        looked_up(table, [1, 9])


def test_places_of_the_largest() -> None:
    x = np.round(normal(5, 40) * 2)
    for dim in (0, -1):
        result = computed(lambda x, dim=dim: mi.arg_max(x, dim), x)
        np.testing.assert_array_equal(result, x.argmax(dim, keepdims=True))
    rows = computed(lambda x: mi.gather(mi.transpose(x), mi.arg_max(x, 0)), normal(40, 40))
    assert rows.shape == (1, 40, 40)


def test_the_first_of_equal_elements_and_of_nans_counts() -> None:
    graph = mi.new_kernel_graph()
    graph.mark_output(mi.arg_max(graph.new_input((5, 4), dtype=mi.float32)))
    inf, nan = np.inf, np.nan
    x = [
        [0.0, -0.0, 0.0, -1.0],
        [-0.0, 0.0, 0, 0],
        [1, nan, inf, nan],
        [-inf] * 4,
        [1, inf, inf, 2],
    ]
    (result,) = run_function(graph.module(), None, [np.array(x, np.float32)])
    np.testing.assert_array_equal(result, np.argmax(x, -1, keepdims=True))


def test_a_place_is_as_sure_as_the_elements() -> None:
    """The largest of sums that rounding may swap may stand at either's place."""
    graph = mi.new_kernel_graph()
    x = graph.new_input((1, 9))
    graph.mark_output(mi.arg_max(x * (1 / 3) + 5.0))
    x = np.zeros((1, 9), np.float16)
    x[0, 2], x[0, 6], x[0, 7] = 1.0, 1.0009765625, 0.5
    (bound,) = bound_rounding(graph.module(), None, [x])
    np.testing.assert_allclose(bound, [[4.0]], rtol=1e-5)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_sums_so_far_and_recurrences(dim: int) -> None:
    """Decays are numbers of their own, or the same along any dimension."""
    x = normal(4, 5, 6)
    np.testing.assert_allclose(computed(lambda x: mi.cumsum(x, dim), x), x.cumsum(dim))
    for shape in ((4, 5, 6), (4, 5, 1), (4, 1, 6), (6,), (1, 1, 1)):
        decay = normal(*shape)
        expected, factors = (
            np.moveaxis(each, dim, 0).copy() for each in (x, np.broadcast_to(decay, x.shape))
        )
        for place in range(1, len(expected)):
            expected[place] += factors[place] * expected[place - 1]
        result = computed(lambda x, decay: mi.scan(x, decay, dim), x, decay)
        np.testing.assert_allclose(result, np.moveaxis(expected, 0, dim))


def test_the_operand_of_a_recurrence_is_broadcast() -> None:
    result = computed(lambda x, decay: mi.scan(x, decay, 0), normal(1, 3), np.full((40, 1), 0.5))
    assert result.shape == (40, 3)


def test_rotary_embedding() -> None:
    """The halves of each row turned by angles, which may be given once for both halves."""
    x, cos, sin = normal(3, 5, 14), normal(5, 14), normal(5, 14)
    first, second = x[:, :, :7], x[:, :, 7:]
    expected = x * cos + np.concatenate([-second, first], -1) * sin
    np.testing.assert_allclose(computed(mi.rotary, x, cos, sin), expected, rtol=1e-9, atol=1e-12)
    cos, sin = normal(1, 7), normal(1, 7)
    turned = [first * cos - second * sin, second * cos + first * sin]
    expected = np.concatenate(turned, -1)
    np.testing.assert_allclose(computed(mi.rotary, x, cos, sin), expected, rtol=1e-9, atol=1e-12)


def test_attention_of_grouped_heads() -> None:
    """Two heads of keys, each for three heads of queries."""
    q, k, v = normal(6, 5, 8), normal(2, 7, 8), normal(2, 7, 8)

    def attention(q: mi.DTensor, k: mi.DTensor, v: mi.DTensor) -> mi.DTensor:
        scores = mi.reshape(q, (2, 15, 8)) @ mi.transpose(k) * 0.25
        return mi.reshape(mi.softmax(scores) @ v, (6, 5, 8))

    heads = [softmax(q[h] @ k[h // 3].T * 0.25, -1) @ v[h // 3] for h in range(6)]
    np.testing.assert_allclose(computed(attention, q, k, v), np.stack(heads), rtol=1e-9)


@pytest.mark.parametrize(("queries", "keys"), [(6, 6), (5, 9), (9, 5)])
def test_causal_attention(queries: int, keys: int) -> None:
    """Queries are the last ones of the keys; the first rows of more queries see no key but one."""
    q, k, v = normal(2, queries, 8), normal(2, keys, 8), normal(2, keys, 4)
    offset = max(keys - queries, 0)

    def attention(q: mi.DTensor, k: mi.DTensor, v: mi.DTensor) -> mi.DTensor:
        return mi.softmax(mi.causal_mask(q @ mi.transpose(k), offset)) @ v

    scores = q @ k.transpose(0, 2, 1)
    seen = np.tril(np.ones((queries, keys)), offset) > 0
    expected = softmax(np.where(seen, scores, -np.inf), -1) @ v
    np.testing.assert_allclose(computed(attention, q, k, v), expected, rtol=1e-9)


def test_scores_are_masked_by_a_tensor() -> None:
    scores, seen = normal(3, 5, 8), (normal(5, 8) > 0) * 1.0
    seen[:, 3] = 1.0
    result = computed(lambda x, m: mi.softmax(mi.where(m, x, -math.inf)), scores, seen)
    expected = softmax(np.where(seen, scores, -np.inf), -1)
    np.testing.assert_allclose(result, expected, rtol=1e-9)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_masks(shape: tuple[int, ...]) -> None:
    """A window along the first dimension, around what is in the middle of the others."""
    x = normal(*shape)

    def window(*at: Any) -> list[Any]:
        form = at[0] * 2 - sum(at[1:]) * 3
        return [form + 5, 4 - form]

    lower, upper = window(*np.indices(shape))
    result = computed(lambda x: mi.mask(x, window, 0.25), x)
    np.testing.assert_array_equal(result, np.where((lower >= 0) & (upper >= 0), x, 0.25))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_views(shape: tuple[int, ...]) -> None:
    x = normal(*shape)
    order = [int(dim) for dim in RANDOM.permutation(len(shape))]
    result = computed(lambda x: mi.reshape(mi.transpose(x, order), (-1,)), x)
    np.testing.assert_array_equal(result, x.transpose(order).reshape(-1))
    result = computed(lambda x: mi.exp(mi.reshape(x, (-1, shape[-1]))), x)
    np.testing.assert_allclose(result, np.exp(x.reshape(-1, shape[-1])), rtol=1e-12)
    result = computed(lambda x: x[: shape[0] // 2 + 1][:, -1:], x)
    np.testing.assert_array_equal(result, x[: shape[0] // 2 + 1, -1:])


def test_custom_kernels_read_results_and_views() -> None:
    x = normal(6, 4)

    def program(x: mi.DTensor) -> mi.DTensor:
        powers = mi.exp(x)
        x.graph.mark_output(powers)
        return mi.pointwise(mi.square, mi.broadcast_to(mi.reshape(powers, (3, 1, 8)), (3, 5, 8)))

    graph = mi.new_kernel_graph()
    graph.mark_output(program(graph.new_input(x.shape)))
    module = graph.module()
    verifying(transpile_pipeline("h200")).apply(make_context(), module)
    powers, result = run_function(module, None, [x.astype(np.float16)], "float64")
    np.testing.assert_allclose(powers, np.exp(x), rtol=1e-12)
    expected = np.broadcast_to(np.exp(x).reshape(3, 1, 8) ** 2, (3, 5, 8))
    np.testing.assert_allclose(result, expected, rtol=1e-12)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_broadcasts(shape: tuple[int, ...]) -> None:
    x = normal(1, *shape[1:])
    wide = (2, *shape)
    result = computed(lambda x: mi.softmax(mi.broadcast_to(x, wide), 1), x)
    np.testing.assert_allclose(result, softmax(np.broadcast_to(x, wide), 1), rtol=1e-9)
    for dim in (0, -1):
        result = computed(lambda x, dim=dim: mi.repeat(x, 3, dim), x)
        np.testing.assert_array_equal(result, np.repeat(x, 3, dim))


def test_products_broadcast_as_numpys() -> None:
    """Four heads for each of two of keys, which are not copied, and the same by repeated keys."""
    q, k = normal(2, 4, 5, 8), normal(2, 1, 8, 7)
    for program in (
        lambda q, k: q @ k,
        lambda q, k: mi.reshape(
            mi.reshape(q, (8, 5, 8)) @ mi.repeat(mi.reshape(k, (2, 8, 7)), 4, 0), (2, 4, 5, 7)
        ),
        lambda q, k: mi.transpose(mi.transpose(k) @ mi.transpose(q)),
    ):
        np.testing.assert_allclose(computed(program, q, k), q @ k, rtol=1e-9)
    np.testing.assert_allclose(computed(lambda q, k: q @ k, q[0], k[0, 0]), q[0] @ k[0, 0])


def test_results_are_row_major() -> None:
    graph = mi.new_kernel_graph()
    x = graph.new_input((4, 33))
    for result in (mi.exp(x), mi.transpose(x), mi.softmax(x, 0), mi.reshape(x, (3, 44))):
        graph.mark_output(result)
    module = graph.module()
    TranspilePass().apply(make_context(), module)
    types = str(next(iter(module.ops))).split(" attributes ")[0].split("->")[1]
    assert re.findall(r"layout<([^>]*)>", types) == [
        "(4,33):(33,1)",
        "(33,4):(4,1)",
        "(4,33):(33,1)",
        "(3,44):(44,1)",
    ]


def test_each_operator_takes_a_type() -> None:
    graph = mi.new_kernel_graph()
    x = graph.new_input((4, 8))
    made = [
        mi.exp(x, dtype=mi.float32),
        graph.add(x, x, dtype=mi.float32),
        mi.softmax(x, dtype=mi.float32),
        mi.mean(x, dtype=mi.float32),
        mi.reduction(x, 0, dtype=mi.float32),
        mi.rms_norm(x, dtype=mi.float32),
        mi.layer_norm(x, dtype=mi.float32),
        graph.matmul(x, mi.transpose(x), dtype=mi.float32),
    ]
    assert all(tensor.dtype == mi.float32 for tensor in made)


REFUSED: dict[str, tuple[Callable[..., Any], str]] = {
    "dimension": (
        lambda g, x, w: mi.softmax(x, 2),
        "softmax: dimension 2 does not exist in a tensor of rank 2: expected -2 to 1",
    ),
    "elements": (
        lambda g, x, w: mi.reshape(x, (5, 5)),
        "'kn.reshape' of %x: 5x5 are 25 elements, but the operand's 4x6 are 24",
    ),
    "what fits": (
        lambda g, x, w: mi.reshape(x, (5, -1)),
        r"reshape: no extent for -1 in \[5, -1\] gives the elements of DTensor\(4x6xf16\)",
    ),
    "order": (
        lambda g, x, w: mi.transpose(x, (0, 0)),
        r"'kn.transpose' of %x: the order \[0, 0\] must name each dimension of 4x6 once: 0 to 1",
    ),
    "weight": (
        lambda g, x, w: mi.rms_norm(x, w),
        r"the norm is taken over the last extents \[4\], which must be a suffix of the operand's",
    ),
    "broadcast": (lambda g, x, w: x + w, "differ in dimension 1: extents must be equal or 1"),
    "numbers": (
        lambda g, x, w: g.max(1.0, 2.0),
        r"max: \[1.0, 2.0\] are numbers; one must be a tensor",
    ),
    "infinite": (
        lambda g, x, w: mi.clamp(x, -math.inf, 0.0),
        r"the constants of 'clamp\(-inf, 0.0\)' must be finite numbers",
    ),
    "no number": (lambda g, x, w: mi.max(x, math.nan), r"the constants of 'fill\(nan\)' must be"),
    "integers": (
        lambda g, x, w: mi.exp(mi.cast(x, mi.int32)),
        "computes on floating-point numbers, but .* has elements of i32; insert a 'kn.cast' to f32",
    ),
    "truth": (
        lambda g, x, w: x if x > 0 else w,
        r"DTensor\(4x6xf16\) has no value while a graph is built; choose with where",
    ),
    "other graph": (
        lambda g, x, w: x @ mi.new_kernel_graph().new_input((6, 2)),
        r"DTensor\(6x2xf16\) is not a tensor of this KernelGraph",
    ),
    "condition": (
        lambda g, x, w: mi.mask(x, lambda i, j: True),
        "mask: the condition gives True; expected a form of coordinates such as",
    ),
    "not linear": (
        lambda g, x, w: mi.mask(x, lambda i, j: i % 2 - j),
        "mask: the condition is no linear form: unsupported operand",
    ),
    "angles": (
        lambda g, x, w: mi.rotary(x, mi.reshape(w, (4, 1)), w),
        "'kn.rotary' of %x: operands 4x6 and 4x1 and 1x4 differ in dimension 1",
    ),
    "rows": (
        lambda g, x, w: mi.gather(x, w),
        "'kn.gather' of %x: numbers of rows are of i32 or i64, but %w has elements of f16",
    ),
    "broadcast_to": (
        lambda g, x, w: mi.broadcast_to(x, (4, 12)),
        "'kn.broadcast' of %x: .*4x6.* differ in dimension 1: extents must be equal or 1",
    ),
    "fewer": (
        lambda g, x, w: mi.broadcast_to(x, (6,)),
        "'kn.broadcast' of %x: operands 4x6 and 6 have different ranks; reshape one of them",
    ),
    "repeat": (
        lambda g, x, w: mi.repeat(x, 0, 1),
        "repeat: count 0; expected a number of at least 1",
    ),
    "product": (
        lambda g, x, w: mi.reshape(x, (2, 2, 6)) @ mi.reshape(x, (4, 6, 1)),
        "operands 2x2x6 and 4x6x1 differ in leading extents",
    ),
    "causal": (
        lambda g, x, w: mi.causal_mask(w),
        "causal_mask: dimension -2 does not exist in a tensor of rank 1",
    ),
    "a type": (lambda g, x, w: mi.softmax(x, dim="a"), "softmax: dim: .'a'.; expected integers"),
    "sizes": (lambda g, x, w: mi.split(x, 3, 1), "split: sizes: 3; expected integers"),
    "extents": (lambda g, x, w: g.new_input(4), "new_input: 4; expected integers"),
    "name": (lambda g, x, w: g.new_input((4,), name="a b"), "'a b' cannot name a tensor"),
    "results": (lambda g, x, w: g.mark_output(*mi.top_k(x, 2)), "call it for each result"),
    "no places": (lambda g, x, w: mi.top_k(x, 0), "top_k: k is 0; expected a number of at least 1"),
    "no product": (lambda g, x, w: x @ x, "matmul: operand 0 .* has 6 columns but operand 1"),
    "part": (lambda g, x, w: x[:, 4:2], "the slice of dimension 1, from 4 to 2, has no elements"),
    "epsilon": (lambda g, x, w: mi.rms_norm(x, eps="a"), "kn.rms_norm: 'a' is no number"),
    "masked": (lambda g, x, w: mi.causal_mask(x, value="a"), "mask: 'a' is no number"),
    "a large constant": (
        lambda g, x, w: x * 10**400,
        r"mul_scalar: a constant is larger than fp32's largest number, 3\.4e\+38",
    ),
    "steps": (
        lambda g, x, w: x[::2],
        "expected slices without steps, such as .*, for up to 2 dimensions",
    ),
    "type": (lambda g, x, w: mi.exp(x, dtype="f32"), "exp: 'f32' is no element type"),
    "tile": (
        lambda g, x, w: mi.softmax(
            mi.new_threadblock_graph((1, 1, 1), (32, 1, 1)).new_input(x, (-1, -1, -1))
        ),
        r"softmax: STensor\(4x6xf16\) is a tile; it takes whole tensors",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_mistakes_are_sentences(name: str) -> None:
    program, message = REFUSED[name]
    graph = mi.new_kernel_graph()
    x, w = graph.new_input((4, 6), name="x"), graph.new_input((4,), name="w")
    with pytest.raises(mi.BuildError, match=message):
        program(graph, x, w)
