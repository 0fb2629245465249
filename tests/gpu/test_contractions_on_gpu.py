"""Random contractions and convolutions on the GPU of this machine, in both ways, against float64.

``MUGRAPH_CONTRACTIONS`` says how many; a fourth each have 4 and 5 modes, and 2 and 3 dimensions.
"""

from __future__ import annotations

import os

import pytest
from fuzz.contraction_kernels import build, error_of


@pytest.mark.gpu
def test_contractions(gpu_architecture: str) -> None:
    if gpu_architecture != "sm_90a":
        pytest.skip("the examples multiply by WGMMA, which sm_90a has")
    count = int(os.environ.get("MUGRAPH_CONTRACTIONS", "100"))
    built = build(range(count), gpu_architecture, os.cpu_count() or 1)
    errors = {(one.written.number, one.written.way): error_of(one) for one in built}
    assert len(errors) == 2 * count
    assert {name: error for name, error in errors.items() if not error < 1e-3} == {}
