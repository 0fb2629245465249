"""Our kernels and their peers on an H200, by one method, in one process.

    python -m benchmarks.h200 run --output benchmarks/results/h200 --peers all

from the root of a checkout, on a machine with the GPU, nvcc, CUTLASS's headers and PyTorch.  See
``__main__`` for the other commands, :mod:`.workloads` for what is measured, :mod:`.timing` for how.
"""
