"""Whole models by ``torch.compile(model, backend="mugraph")``: right, and how fast."""
