"""Kernels on CuTe tensors whose extents a call says: one kernel for all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz.emulated_texpr import TexprProgram, build_texpr, emulate_texpr
from test_cute_kernels import example
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

import mugraph
from mugraph import cute
from mugraph.cute import _
from mugraph.dialects.te import BarrierOp, KernelOp
from mugraph.passes.texpr.analysis.hazards import find_texpr_hazards
from mugraph.runtime.interpreter.texpr import run_texpr

Array = np.ndarray[Any, np.dtype[Any]]
Shapes = Callable[..., list[tuple[int, ...]]]


def addition() -> cute.Launch:
    m, n = cute.sym_int("m", 300), cute.sym_int("n", 400)
    return example("elementwise_add").launch(*[cute.make_fake_tensor("f32", (m, n))] * 3)


def transposition() -> cute.Launch:
    m, n = cute.sym_int("m", 300), cute.sym_int("n", 400)
    a, b = (cute.make_fake_tensor("f32", shape) for shape in ((m, n), (n, m)))
    return example("transpose").launch(a, b)


def product(name: str, dtype: str, steps: tuple[int, int, int], **options: Any) -> cute.Launch:
    """A kernel of a product whose extents are multiples of ``steps``."""
    m, n, k = (
        cute.sym_int(symbol, 6 * step, divisibility=step)
        for symbol, step in zip("mnk", steps, strict=True)
    )
    tensors = [cute.make_fake_tensor(dtype, shape) for shape in ((m, k), (n, k), (m, n))]
    return example(name).launch(*tensors, **options)


def of_rows() -> cute.Launch:
    """A product by TMA of as many rows as a call says."""
    m = cute.sym_int("m", 512)
    shapes = ((m, 192), (128, 192), (m, 128))
    tensors = [cute.make_fake_tensor("f16", shape) for shape in shapes]
    return example("gemm_sm90").launch(*tensors, tiler=(128, 64, 64), stages=2, blocks=6)


def matrices(m: int, n: int) -> list[tuple[int, ...]]:
    return [(m, n), (m, n)]


def factors(m: int, n: int, k: int) -> list[tuple[int, ...]]:
    return [(m, k), (n, k)]


def multiplied(a: Array, b: Array) -> Array:
    return a @ b.T


PROGRAMS: dict[str, tuple[Callable[[], cute.Launch], Shapes, Callable[..., Array], list[Any]]] = {
    "add": (addition, matrices, np.add, [(300, 400), (1, 1), (17, 133)]),
    "transpose": (transposition, lambda m, n: [(m, n)], np.transpose, [(300, 400), (1, 5)]),
    "sm80": (
        lambda: product(
            "gemm_sm80", "f16", (32, 64, 32), tiler=(32, 64, 32), stages=3, warps=(2, 2)
        ),
        factors,
        multiplied,
        [(64, 128, 192), (32, 64, 32), (96, 64, 64)],
    ),
    "predicated": (
        lambda: product("gemm_predicated", "f16", (1, 2, 4), tiler=(64, 64, 32)),
        factors,
        multiplied,
        [(6, 12, 24), (1, 2, 4)],
    ),
    "sm90": (
        of_rows,
        lambda m: [(m, 192), (128, 192)],
        multiplied,
        [(129,)],
    ),
}


def function_of(module: ModuleOp) -> FuncOp:
    function = module.body.block.first_op
    assert isinstance(function, FuncOp)
    return function


def drawn(shapes: list[tuple[int, ...]], function: FuncOp) -> list[Array]:
    generator = np.random.default_rng(sum(map(sum, shapes)))
    dtype = np.float16 if "xf16" in str(function.args[0].type) else np.float32
    return [generator.standard_normal(shape).astype(dtype) for shape in shapes]


def required(found: Array, inputs: list[Array], exact: Callable[..., Array]) -> None:
    wanted = exact(*(one.astype(np.float64) for one in inputs))
    np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=2e-3, atol=3e-2)


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_kernel_is_right_at_all_sizes(name: str) -> None:
    make, shapes, exact, calls = PROGRAMS[name]
    function = function_of(make().trace())
    for sizes in calls:
        inputs = drawn(shapes(*sizes), function)
        (found,) = run_texpr(function, inputs).outputs.values()
        required(found, inputs, exact)


def test_its_cuda_is_right_at_all_sizes(tmp_path: Path) -> None:
    names = ["transpose", "predicated"]
    modules = [PROGRAMS[name][0]().trace() for name in names]
    executable = build_texpr([TexprProgram(module, []) for module in modules])
    for number, (name, module) in enumerate(zip(names, modules, strict=True)):
        _make, shapes, exact, calls = PROGRAMS[name]
        for sizes in calls:
            inputs = drawn(shapes(*sizes), function_of(module))
            program = TexprProgram(module, inputs)
            folder = tmp_path / f"{name}{sizes}"
            for (found,) in emulate_texpr(executable, number, program, folder):
                required(found, inputs, exact)


def test_of_no_rows_nothing_is_written() -> None:
    (found,) = run_texpr(
        function_of(addition().trace()), [np.zeros((0, 8), np.float32)] * 2
    ).outputs.values()
    assert found.shape == (0, 8)


def test_a_compiled_kernel_says_what_shapes_do_not_fit() -> None:
    kernel = mugraph.compile(addition().trace(), "cpu")
    a = np.ones((20, 30), np.float32)
    np.testing.assert_array_equal(kernel(a, a), a + a)
    with pytest.raises(ValueError, match="has 29 elements and dimension 1 of input 0 has 30"):
        kernel(a, a[:, :29])
    with pytest.raises(ValueError, match="m is 301; it may be 0 to 300"):
        kernel(np.ones((301, 30), np.float32), np.ones((301, 30), np.float32))


def test_tiles_that_do_not_divide_are_found_for_all_sizes() -> None:
    m = cute.sym_int("m", 4096, divisibility=8)
    a = cute.make_fake_tensor("f32", (m, 32))

    @cute.kernel
    def doubled(a: Any) -> None:
        thread, *_rest = cute.arch.thread_idx()
        block, *_rest = cute.arch.block_idx()
        mine = cute.local_tile(a, (16, 32), (block, 0))
        for row in range(16):
            mine[row, thread] = mine[row, thread] * 2

    launch = doubled(a).launch(grid=(cute.ceil_div(m, 16),), block=(32,))
    with pytest.raises(cute.KernelError, match=r"accessed at index 8 .*m = 8.*from 0 to 7"):
        launch.trace()


def test_a_missing_barrier_is_found_at_some_size() -> None:
    launch = product("sgemm_1", "f32", (32, 32, 8), tiler=(32, 32, 8))
    kernel = next(op for op in launch.trace().walk() if isinstance(op, KernelOp))
    assert not find_texpr_hazards(kernel)
    # That at the end of an iteration: of one iteration nothing is wrong.
    [*_first, last] = [op for op in kernel.walk() if isinstance(op, BarrierOp)]
    last.detach()
    assert any("where m = 64, k = 16, n = 64" in str(one) for one in find_texpr_hazards(kernel))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda m: cute.make_fake_tensor("f32", (m, 8), (8, 1)), "give a 'stride_order'"),
        (lambda m: cute.make_fake_tensor("f32", (m + 1, 8)), "is no number and no 'sym_int'"),
        (lambda _m: cute.sym_int("n", 12, divisibility=8), "give a multiple of it"),
        (lambda m: bool(m % 4 == 0), "say more of the extent"),
        (lambda m: range(m), "is no number when the kernel is recorded"),
    ],
)
def test_what_a_size_cannot_be_is_a_sentence(make: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(cute.KernelError, match=message):
        make(cute.sym_int("m", 64))


def test_shapes_and_grids_read_as_they_are() -> None:
    m = cute.sym_int("m", 4096, divisibility=128)
    a = cute.make_fake_tensor("f16", (m, 64))
    seen: list[str] = []

    @cute.kernel
    def shown(a: Any) -> None:
        block, *_rest = cute.arch.block_idx()
        seen.append(str((a.shape, cute.local_tile(a, (128, 64), (_, 0)).shape, block)))

    module = shown(a).launch(grid=(m // 128,), block=(32,)).trace()
    assert seen == ["((m, 64), (128, 64, m // 128), block)"]
    kernel = next(op for op in module.walk() if isinstance(op, KernelOp))
    assert (kernel.grid_dim, [tuple(cut) for cut in kernel.cuts]) == ((32, 1, 1), [(0, 1, 128)])
