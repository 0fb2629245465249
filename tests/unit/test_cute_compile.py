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

    for function, text in (
        (none, "none launches 0 kernels"),
        (twice, "twice launches 2 kernels"),
        (part, "'[xy]' of kernel 'scaled' is none of the arguments"),
    ):
        given = (x,) if function is none else (y, x)
        with pytest.raises(cute.KernelError, match=rf"test_cute_compile.py:\d+: compile: {text}"):
            cute.compile(function, *given, arch="cpu")
