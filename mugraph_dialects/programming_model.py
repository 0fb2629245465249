"""What CUDA fixes for every GPU: threads, registers, and how memory is accessed.

Source: the CUDA programming guide, whose tables give the same numbers for compute capabilities 8.0
to 10.0, and the PTX ISA.  What differs between GPUs stands in :mod:`mugraph.passes.targets`.
"""

from __future__ import annotations

WARP = 32
"""Threads of a warp."""
WARPGROUP = 4
"""Warps that multiply together, and change their number of registers together."""
GROUP_THREADS = WARPGROUP * WARP
"""Threads of a warp group."""
GROUP_ROWS, GROUP_COLUMNS = 64, 8
"""Rows of an instruction of a warp group, and what its columns are a multiple of."""
MAX_GROUP_COLUMNS = 256
"""The longest such instruction."""

MAX_THREADS = 1024
"""Threads in a block."""
MAX_BLOCK = (1024, 1024, 64)
"""Threads of a block along x, y, z."""
MAX_GRID = (2**31 - 1, 65535, 65535)
"""Blocks along x, y, z."""

REGISTER_FILE = 65536
"""Registers of a multiprocessor."""
REGISTER_BYTES = 4
"""Of one register."""
MAX_THREAD_REGISTERS = 255
"""What a thread can have."""
REGISTER_STEP = 8
"""Registers are given to threads in multiples of this."""

BANKS, BANK_BYTES = 32, 4
"""Banks of shared memory, and the bytes of a word: each bank brings one word at a time."""
LINE_BYTES = BANKS * BANK_BYTES
"""One access to all banks of shared memory; swizzles repeat with it, so buffers start at one."""
SECTOR_BYTES = 32
"""What device memory and caches are accessed by."""
VECTOR_BYTES = 16
"""The widest access of one thread."""
MATRIX_ROW_BYTES = 16
"""One line of a matrix that ``ldmatrix`` loads."""


def whole_lines(size: int) -> int:
    """``size`` in bytes rounded up to lines of shared memory."""
    return (size + LINE_BYTES - 1) // LINE_BYTES * LINE_BYTES
