"""Python's ``if`` and loops of ``cutlass`` in kernels, against numpy."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mugraph import cute
from mugraph.cute import cutlass
from mugraph.dialects.te import KernelOp
from mugraph.passes.texpr.analysis.hazards import find_texpr_hazards

F32 = np.float32


def computed(launch: cute.Launch) -> Any:
    """The result, of threads that do not race."""
    module = launch.trace()
    assert all(find_texpr_hazards(op) == [] for op in module.walk() if isinstance(op, KernelOp))
    launch.run()
    results = launch.call.kernel.results
    (result,) = (one.storage for one in launch.call.parameters if one.name in results)
    return result


@cute.kernel(results=["b"])
def chosen(a: Any, b: Any, n: cutlass.Constexpr[int]) -> None:
    """Conditions in one another, joined, chained, of elements, and what is known."""
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    i = block * cute.arch.block_dim()[0] + thread
    if i < n:
        if thread < 16 and block == 0:
            b[i] = a[i] + 1.0
        elif thread == 20:
            b[i] = 5.0
        else:
            b[i] = a[i] * 2.0
        if 2 <= thread <= 4 and a[i] > 0.5:
            b[i] = -1.0
        if not thread < 30:
            b[i] = b[i] + 10.0
        if a[i] > 0.9:
            b[i] = b[i] + 100.0
        else:
            b[i] = b[i] + 1000.0
        if cutlass.const_expr(n < 0):
            b[i] = 0.0


def test_branches() -> None:
    a = np.random.default_rng(0).random(60).astype(F32)
    b = np.full(60, np.nan, F32)
    found = computed(chosen(a, b, 60).launch(grid=(2,), block=(32,)))
    expected = np.empty_like(a)
    for i, x in enumerate(a):
        block, thread = divmod(i, 32)
        y = x + 1 if thread < 16 and block == 0 else 5 if thread == 20 else x * 2
        y = -1 if 2 <= thread <= 4 and x > 0.5 else y
        y += 10 if thread >= 30 else 0
        expected[i] = y + (100 if x > 0.9 else 1000)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_loops_of_cutlass_and_functions_that_a_kernel_calls() -> None:
    scale = 3.0

    @cute.jit
    def at_end(total: Any, k: Any, last: Any) -> None:
        if k == last:
            total[0] = total[0] * scale

    @cute.kernel(results=["b"])
    def summed(a: Any, b: Any) -> None:
        thread, _, _ = cute.arch.thread_idx()
        total = cute.make_rmem_tensor(1, F32)
        total.fill(cutlass.Float32(0))
        for k in cutlass.range(1, cute.size(a, mode=[1]), 2, unroll=1):
            total[0] = total[0] + a[thread, k]
            at_end(total, k, 7)
        for k in cutlass.range_constexpr(2):
            total[0] = total[0] + k
        b[thread] = total[0]

    a = np.random.default_rng(1).random((32, 9)).astype(F32)
    b = np.empty(32, F32)
    found = computed(summed(a, b).launch(grid=(1,), block=(32,)))
    np.testing.assert_allclose(found, a[:, 1:8:2].sum(1) * scale + 1, rtol=1e-6)


def test_what_a_branch_cannot_do() -> None:
    def binds(a: Any) -> None:
        thread, _, _ = cute.arch.thread_idx()
        x = 1.0
        if thread < 3:
            x = 2.0  # bound
        a[thread] = x

    def leaves(a: Any) -> None:
        thread, _, _ = cute.arch.thread_idx()
        if thread > 3:  # left
            return
        a[thread] = 0.0

    def meets(a: Any) -> None:
        thread, _, _ = cute.arch.thread_idx()
        if thread < 3:
            a[thread] = 0.0
            cute.arch.sync_threads()  # met

    a = cute.make_fake_tensor("f32", (32,))
    lines = Path(__file__).read_text().splitlines()
    for body, line, words in (
        (binds, "if thread < 3:", "'x' is bound in an 'if' that threads, blocks or iterations"),
        (leaves, "# left", "'return' or 'break' leaves, asks for the condition"),
        (meets, "# met", "stands under a condition on the thread"),
    ):
        with pytest.raises(cute.KernelError, match=words) as error:
            cute.kernel(body)(a).launch(grid=(1,), block=(32,)).trace()
        place = str(error.value).split(": ")[0]
        assert line in lines[int(place.split(":")[1]) - 1]


def test_variables_that_one_branch_binds_and_another_reads() -> None:
    """The branches are recorded one after the other, and some of them several times."""

    def reads_in_else(a: Any) -> None:
        thread, _, _ = cute.arch.thread_idx()
        x = 1.0
        if thread < 3:
            x = 2.0
            a[thread] = x
        else:
            a[thread] = x

    def reads_behind_another(a: Any) -> None:
        thread, _, _ = cute.arch.thread_idx()
        x = 1.0
        if thread < 3:
            x = 2.0
        if cutlass.const_expr(cute.size(a) == 7):
            x = 3.0
        a[thread] = x

    def reads_behind_a_loop(a: Any) -> None:
        thread, _, _ = cute.arch.thread_idx()
        x = 1.0
        if thread < 3:
            x = 2.0
        for _ in cutlass.range_constexpr(cute.size(a) - 32):
            x = 3.0
        a[thread] = x

    def changes(a: Any) -> None:
        thread, _, _ = cute.arch.thread_idx()
        x = 1.0
        if thread > 4 or thread == 0:
            x = x + 1.0
            a[thread] = x

    a = cute.make_fake_tensor("f32", (32,))
    bound = "'x' is bound in an 'if' that threads"
    for body, words in (
        (reads_in_else, bound),
        (reads_behind_another, bound),
        (reads_behind_a_loop, bound),
        (changes, "'x' is read and bound anew where not all of several conditions hold"),
    ):
        with pytest.raises(cute.KernelError, match=words):
            cute.kernel(body)(a).launch(grid=(1,), block=(32,)).trace()


def test_variables_of_branches() -> None:
    """One that both branches bind anew, and one that a single 'else' changes."""

    @cute.kernel(results=["b"])
    def kernel(b: Any, flags: cutlass.Constexpr[Any]) -> None:
        thread, _, _ = cute.arch.thread_idx()
        x = 1.0
        if thread < 3:
            y = 2.0
            b[thread] = y
        else:
            x = x + 2.0
            y = x
            b[thread] = y
        for y in (5, 6):
            if thread == y:
                b[thread] = y * 1.0
        y = 8.0
        if (flags and 3) == 3:
            y = 7.0
        if thread == 9:
            b[thread] = y

    found = computed(kernel(np.empty(16, F32), "yes").launch(grid=(1,), block=(16,)))
    assert found.tolist() == [2, 2, 2, 3, 3, 5, 6, 3, 3, 7, *[3] * 6]


def test_functions_that_decorators_have_replaced() -> None:
    """What they do stays, and branches are those of the function that 'cute.jit' has seen."""

    def doubled(function: Callable[..., None]) -> Callable[..., None]:
        @wraps(function)
        def both(b: Any) -> None:
            function(b)
            thread, _, _ = cute.arch.thread_idx()
            b[thread] = b[thread] * 2.0

        return both

    def body(b: Any) -> None:
        thread, _, _ = cute.arch.thread_idx()
        if (place := thread + 1) < 3:
            b[place - 1] = 1.0
        else:
            b[thread] = 5.0

    made: Any = cute.kernel(doubled(cute.jit(body)), results=["b"])
    found = computed(made(np.empty(4, F32)).launch(grid=(1,), block=(4,)))
    assert found.tolist() == [2, 2, 10, 10]
    hidden = cute.kernel(doubled(body))(cute.make_fake_tensor("f32", (4,)))
    with pytest.raises(cute.KernelError, match="or in a function with another decorator"):
        hidden.launch(grid=(1,), block=(4,)).trace()


def test_joined_conditions_bind_nothing() -> None:
    @cute.kernel
    def kernel(a: Any) -> None:
        thread, _, _ = cute.arch.thread_idx()
        if (place := thread + 1) < 3 and place > 1:
            a[thread] = 1.0
        else:
            a[thread] = 2.0

    with pytest.raises(cute.KernelError, match="one that joins a ':='"):
        kernel(cute.make_fake_tensor("f32", (4,))).launch(grid=(1,), block=(4,)).trace()


def test_steps_of_loops_are_numbers_from_1_on() -> None:
    with pytest.raises(cute.KernelError, match="the step 0 is no number from 1 on"):
        cutlass.range(0, 8, 0)


def test_an_else_of_several_conditions() -> None:
    @cute.kernel(results=["b"])
    def outside(b: Any) -> None:
        thread, _, _ = cute.arch.thread_idx()
        if thread > 4 and thread - 9 == 0:
            b[thread] = 1.0
        else:
            b[thread] = 2.0

    found = computed(outside(np.empty(16, F32)).launch(grid=(1,), block=(16,)))
    assert found.tolist() == [2.0] * 9 + [1.0] + [2.0] * 6


def test_conditions_of_which_one_holds_and_vectors() -> None:
    @cute.kernel(results=["b"])
    def kernel(a: Any, b: Any) -> None:
        thread, _, _ = cute.arch.thread_idx()
        parts = [cute.zipped_divide(one, (4,)) for one in (a, b)]
        part = (None, thread)
        parts[1][part] = parts[0][part].load() + 1.0
        if thread == 0 or thread == 7:
            b[thread * 4] = 9.0
        if thread != 3:
            b[thread * 4 + 1] = 8.0
        else:
            b[thread * 4 + 1] = 7.0
        if b[thread * 4 + 2] == 3.0:
            b[thread * 4 + 2] = -3.0
        if b[thread * 4 + 3] != 4.0:
            b[thread * 4 + 3] = -4.0

    a = np.arange(32, dtype=F32)
    found = computed(kernel(a, np.empty(32, F32)).launch(grid=(1,), block=(8,)))
    expected = a + 1
    expected[[0, 28]] = 9
    expected[1::4] = 8
    expected[13] = 7
    expected[2] = -3
    expected[3::4] = [4, *[-4] * 7]
    np.testing.assert_array_equal(found, expected)


def test_indices_and_elements_are_not_decided_at_once() -> None:
    @cute.kernel
    def mixed(a: Any) -> None:
        thread, _, _ = cute.arch.thread_idx()
        if thread < 3 and a[thread] > 0:
            a[thread] = 1.0
        if thread == 0 or a[thread] > 0:
            a[thread] = 2.0

    @cute.kernel
    def prints(a: Any) -> None:
        cute.printf("{}", a[0])

    a = cute.make_fake_tensor("f32", (32,))
    for kernel, words in (
        (mixed, "joins a condition on indices and one on elements"),
        (prints, "a kernel prints nothing when it runs"),
    ):
        with pytest.raises(cute.KernelError, match=words):
            kernel(a).launch(grid=(1,), block=(32,)).trace()


def test_a_function_of_the_host_launches() -> None:
    @cute.kernel
    def doubled(a: Any, b: Any) -> None:
        thread, _, _ = cute.arch.thread_idx()
        b[thread] = a[thread] * 2

    @cute.jit
    def host(a: Any, b: Any) -> cute.Launch:
        return doubled(a, b).launch(grid=(1,), block=(cute.size(a),))

    a, b = np.arange(32, dtype=F32), np.zeros(32, F32)
    host(a, b)
    assert (b == 2 * a).all()
    fake = cute.make_fake_tensor("f32", (32,))
    assert "te.kernel" in str(host(fake, fake).trace())
    doubled(a, a).launch(grid=(1,), block=(32,))
    assert a[1] == 1  # outside of such a function it is not run
