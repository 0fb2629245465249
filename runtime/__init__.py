"""What runs a µGraph: the CUDA headers, the compiler driver and the numpy interpreter."""
