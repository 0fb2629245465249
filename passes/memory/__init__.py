"""What passes of all levels ask of memory: lifetimes, packing, wavefronts of accesses."""
