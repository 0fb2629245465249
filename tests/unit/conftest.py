from collections.abc import Iterator

import pytest
from hypothesis import settings

# Times are those of whatever else the machine does; a slow example is no failure.
settings.register_profile("unit", deadline=None)
settings.load_profile("unit")


@pytest.fixture(scope="module", autouse=True)
def _generated_kernels_are_right() -> Iterator[None]:
    """Checks what a file's tests left to be checked later (``emulated_programs``)."""
    from emulated_programs import checked_together

    with checked_together():
        yield
