"""Where tensors are."""

DEVICE = "cuda"
"""torch's name of the GPU that is measured."""
