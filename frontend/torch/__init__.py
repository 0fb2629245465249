"""PyTorch models and operators.

import mugraph.torch

fast = torch.compile(model, backend="mugraph")    # also backend=mugraph.torch.backend
fast = mugraph.compile(model, (x,))               # the same as a callable, for inputs like x
print(mugraph.torch.explain(model, (x,)))         # what became which kernel, what stayed and why

fused = mugraph.torch.op(graph, "rmsnorm_linear") # a µGraph as an operator
y = fused(x, w)                                   # also torch.ops.mugraph.rmsnorm_linear(x, w)
"""

from mugraph.torch.backend import backend
from mugraph.torch.model import compile_model, explain
from mugraph.torch.operator import op
from mugraph.torch.report import Report

__all__ = ["Report", "backend", "compile_model", "explain", "op"]
