"""CuTe layout algebra in plain Python."""
