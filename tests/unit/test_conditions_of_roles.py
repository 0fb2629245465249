"""Which threads of a block do the same."""

from __future__ import annotations

from typing import Any

from mugraph import cute
from mugraph.dialects import te
from mugraph.passes.texpr.analysis.roles import roles_of


def test_threads_do_not_differ_by_a_condition_that_they_do_not_come_to() -> None:
    @cute.kernel
    def kernel(a: Any) -> None:
        full = cute.SmemAllocator().allocate_array("i64")
        if cute.arch.warp_idx() == 1:
            with cute.arch.elect_one():
                cute.arch.mbarrier_wait(full, 0)
        else:
            cute.arch.mbarrier_wait(full, 0)

    module = kernel(cute.make_fake_tensor("f32", (4,))).launch(grid=(1,), block=(64,)).trace()
    (threads,) = (op for op in module.walk() if isinstance(op, te.ThreadsOp))
    assert [len(one) for one in roles_of(threads)] == [32, 1, 31]
