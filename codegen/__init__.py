"""The CUDA target: prints ``sched`` as CUDA C++ against the headers of ``mugraph.runtime``."""
