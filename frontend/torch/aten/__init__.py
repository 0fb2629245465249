"""Conversions of ATen's core operators to programs, by the operator's name."""

from mugraph.torch.aten import collectives, elementwise, products, reductions, views
from mugraph.torch.aten.conversion import CONVERSIONS, Call, NotConverted, TensorLike

__all__ = [
    "CONVERSIONS",
    "Call",
    "NotConverted",
    "TensorLike",
    "collectives",
    "elementwise",
    "products",
    "reductions",
    "views",
]
