"""What things take on a target: the one place that choices ask.

- :mod:`.products`: matrix products, by warps and by warp groups, and sums over warps;
- :mod:`.memory`: device memory, copies to shared memory, and shared memory;
- :mod:`.work`: what a block loads and computes, by itself;
- :mod:`.kernel_shape`: what an estimate needs of a kernel;
- :mod:`.kept_sums`: what of a block's sums stays in registers;
- :mod:`.residency`: what blocks have registers for, and how many share a multiprocessor;
- :mod:`.kernels`: a kernel of a given shape, from its launch to its last store;
- :mod:`.overlap`: several things side by side;
- :mod:`.devices`: collectives of several devices, and loads from one another;
- :mod:`.epilogues`: what follows the loop of a persistent kernel.

Facts of the hardware are those of :class:`mugraph.passes.targets.Target`.  Numbers here are fitted
to measurements on an H200, or on two, each with the script or the results that it was fitted
to; they serve other targets for want of better ones.
"""
