"""What tests leave to be checked together is checked, and each failure says of which test."""

import numpy as np
import pytest
from emulated_programs import KERNELS, check_emulated_later, made_of

from mugraph.runtime.execute import CudaModule


def test_each_kernel_is_checked_with_its_own_results() -> None:
    x = np.arange(24, dtype=np.float32).reshape(3, 8)

    def is_changed_by(step: float) -> None:
        def check(kernels: CudaModule) -> None:
            (result,) = kernels.run([x])
            np.testing.assert_array_equal(result, x + np.float32(step))

        check_emulated_later(made_of(lambda x: x + 1.0, x), check)
        check_emulated_later(made_of(lambda x: x + 2.0, x), check)

    with pytest.raises(ExceptionGroup) as raised, KERNELS.apart():
        is_changed_by(1.0)
        is_changed_by(2.0)
    wrong = raised.value.exceptions
    assert [type(each) for each in wrong] == [AssertionError, AssertionError]
    assert all("test_each_kernel_is_checked" in "".join(each.__notes__) for each in wrong)
