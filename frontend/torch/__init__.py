"""µGraphs as operators of PyTorch, for eager mode, ``torch.compile`` and ``torch.export``.

import mugraph.torch

fused = mugraph.torch.op(graph, "rmsnorm_linear")
y = fused(x, w)                                   # also torch.ops.mugraph.rmsnorm_linear(x, w)
"""

from mugraph.torch.operator import op

__all__ = ["op"]
