"""Which library computes what stays in torch, where torch chooses among several."""

from __future__ import annotations

from typing import Any

from mugraph.torch.operator import import_torch

_LIBRARIES = {
    "Cudnn": "cuDNN",
    "CudnnTranspose": "cuDNN",
    "Mkldnn": "oneDNN",
    "CudaDepthwise2d": "torch's own depthwise kernel",
    "CudaDepthwise3d": "torch's own depthwise kernel",
}
"""What torch calls its ways to compute a convolution (``torch._C._ConvBackend``)."""


def library_of(node: Any) -> str | None:
    """The library that computes a convolution here; ``None`` for other calls.

    Torch's own choice for the shapes, types and devices of the call.
    """
    torch = import_torch()
    if node.target is not torch.ops.aten.convolution.default:
        return None
    given = torch.fx.node.map_arg(tuple(node.args), _value)
    try:
        chosen = torch._C._select_conv_backend(*given, None)
    except RuntimeError:  # an extent that is a symbol
        return None
    return _LIBRARIES.get(str(chosen).rpartition(".")[2], "torch's own kernels")


def _value(node: Any) -> Any:
    return node.meta["val"]
