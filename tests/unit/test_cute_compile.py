"""``cute.compile``: functions that launch a kernel, on numpy's arrays and PyTorch's tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from unit.test_cute_kernels import example

from mugraph import cute

F32 = np.float32


@cute.kernel
def scaled(x: Any, factor: float, y: Any, rows: Any) -> None:
    thread, _y, _z = cute.arch.thread_idx()
    block, _y, _z = cute.arch.block_idx()
    y[rows[0] + block, thread] = factor * x[block, thread] + y[rows[0] + block, thread]


@cute.jit
def host(y: Any, x: Any, factor: Any) -> None:
    scaled(x, factor, y, (1,)).launch(grid=(x.shape[0],), block=(32,))


def test_functions_that_launch() -> None:
    """Arguments have the function's order, not the kernel's; what is written is also read."""
    x, y = np.arange(64, dtype=F32).reshape(2, 32), np.ones((3, 32), F32)
    run = cute.compile(host, y, x, 3.0, arch="cpu")
    assert (y == 1).all()  # nothing has run
    for _call in range(2):
        run(y, x)
    np.testing.assert_array_equal(y[0], 1)
    np.testing.assert_array_equal(y[1:], 6 * x + 1)
    other = np.zeros((3, 32), F32)
    run(other, -x)
    np.testing.assert_array_equal(other[1:], -3 * x)
    with pytest.raises(cute.KernelError, match=r"py:\d+: scaled takes 2 tensors, got 3"):
        run(y, x, 3.0)


@cute.kernel
def doubled_and_halved(x: Any, double: Any, half: Any) -> None:
    thread, _y, _z = cute.arch.thread_idx()
    double[thread] = x[thread] * 2.0
    half[thread] = x[thread] * 0.5


def test_arrays_that_are_written_are_apart_and_may_be_written() -> None:
    x, y = np.ones(32, F32), np.ones(64, F32)
    doubled_and_halved(x, y[:32], y[32:]).launch(grid=(1,), block=(32,)).run()
    assert (y[:32] == 2).all() and (y[32:] == 0.5).all()
    with pytest.raises(cute.KernelError, match="writes double and half, which share memory"):
        doubled_and_halved(x, y[:32], y[31:63]).launch(grid=(1,), block=(32,)).run()
    y.flags.writeable = False
    with pytest.raises(cute.KernelError, match="writes half, whose array is read-only"):
        doubled_and_halved(x, np.ones(32, F32), y[:32]).launch(grid=(1,), block=(32,)).run()


def test_tensors_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    a, b = torch.rand(40, 33), torch.rand(40, 33)
    c = torch.zeros(40, 33)
    run = cute.compile(example("elementwise_add").launch, a, b, c, arch="cpu")
    run(a, b, c)
    assert torch.equal(c, a + b)
    with pytest.raises(cute.KernelError, match="has no contents; run the kernel on arrays"):
        example("elementwise_add").launch(a, b, c).run()
    with pytest.raises(cute.KernelError, match="'scaled' is launched on tensors of PyTorch"):
        host(torch.zeros(3, 32), torch.zeros(2, 32), 1.0)


@cute.kernel(results=["c"])
def apart(a: Any, b: Any, c: Any) -> None:
    thread, _y, _z = cute.arch.thread_idx()
    block, _y, _z = cute.arch.block_idx()
    c[block, thread] = a[block, thread] - 2.0 * b[block, thread]


@cute.jit
def differ(a: Any, b: Any, c: Any) -> None:
    apart(a, b, c).launch(grid=(a.shape[0],), block=(a.shape[1],))


def test_tensors_of_any_order_and_types() -> None:
    torch = pytest.importorskip("torch")
    columns = torch.rand(32, 16).t()
    rows, out = torch.rand(16, 32), torch.zeros(32, 16).t()
    run = cute.compile(differ, columns, rows, out, arch="cpu")
    run(columns, rows, out)
    assert torch.equal(out, columns - 2 * rows)
    a, b = (np.asfortranarray(np.random.default_rng(0).random((4, 32)), F32) for _one in "ab")
    c = np.zeros_like(a)
    cute.compile(differ, a, b, c, arch="cpu")(a, b, c)
    np.testing.assert_array_equal(c, a - 2 * b)
    one = cute.make_fake_tensor("f32", (16, 32))
    run = cute.compile(differ, one, one, one, arch="cpu")  # each is a tensor of its own
    other = torch.rand(16, 32)
    whole = torch.zeros(16, 32)
    run(other, rows, whole)
    assert torch.equal(whole, other - 2 * rows)
    for wrong, text in (
        (columns, r"has strides \(1, 16\), expected \(32, 1\)"),
        (rows.double(), "elements of type f64, expected f32"),
        (rows[:8], "has shape 8x32, expected 16x32"),
        (rows.tolist(), "is a list"),
    ):
        with pytest.raises(cute.KernelError, match=rf"test_cute_compile.py:\d+: input 0 .*{text}"):
            run(wrong, rows, whole)
    with pytest.raises(cute.KernelError, match=r"compile.py:\d+: a: an array of shape \(\) has no"):
        cute.compile(apart, torch.tensor(1.0), rows, out, arch="cpu")


def test_functions_that_are_not_compiled() -> None:
    x, y = np.zeros((2, 32), F32), np.zeros((3, 32), F32)

    def none(x: Any) -> None: ...

    @cute.jit
    def twice(y: Any, x: Any) -> None:
        host(y, x, 1.0)
        host(y, x, 2.0)

    @cute.jit
    def part(y: Any, x: Any) -> None:
        host(y[:2], x[:1], 1.0)

    @cute.kernel
    def reads(x: Any) -> None:
        cute.make_fragment_like(x).store(x.load())

    @cute.jit
    def unwritten(y: Any, x: Any) -> None:
        reads(x).launch(grid=(1,), block=(1,))

    with pytest.raises(cute.KernelError, match=r"compile.py:\d+: unknown architecture 'sm_12'"):
        cute.compile(differ, x, x, x, arch="sm_12")
    for function, text in (
        (none, "none launches 0 kernels"),
        (unwritten, "kernel 'reads' writes none of its tensors"),
        (twice, "twice launches 2 kernels"),
        (part, "'[xy]' of kernel 'scaled' is none of the arguments"),
    ):
        given = (x,) if function is none else (y, x)
        with pytest.raises(cute.KernelError, match=rf"test_cute_compile.py:\d+: compile: {text}"):
            cute.compile(function, *given, arch="cpu")
