"""What is printed for five workloads, line by line."""

import pytest
from golden_cuda import WORKLOADS, generated, golden_file


@pytest.mark.parametrize("workload", WORKLOADS)
def test_cuda_is_as_in_the_file(workload: str) -> None:
    expected = golden_file(workload).read_text(encoding="utf-8").splitlines()
    assert generated(workload).splitlines() == expected, "if it should differ, run `make golden`"
