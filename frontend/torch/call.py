"""A compiled kernel as a module of torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mugraph.jit import Kernel
from mugraph.torch.aten import TensorLike
from mugraph.torch.operator import import_torch
from mugraph.torch.translation import input_strides


def as_module(kernel: Kernel, inputs: Sequence[TensorLike], results: Sequence[TensorLike]) -> Any:
    """A module that calls the kernel with tensors laid out as it was compiled for.

    Results of one element have no dimension where torch's have none.
    """
    torch = import_torch()
    tensors = kernel.interface.inputs
    strides = [input_strides(like) or (1,) for like in inputs]

    def laid_out(at: int, tensor: Any) -> Any:
        """The tensor, or a copy: where elements share addresses, or it starts in between."""
        if not tensor.dim():
            tensor = tensor.reshape(1)
        if tensor.stride() == strides[at] and not tensor.data_ptr() % tensors[at].alignment:
            return tensor
        shape, dtype = tensor.shape, tensor.dtype
        copy = torch.empty_strided(shape, strides[at], dtype=dtype, device=tensor.device)
        return copy.copy_(tensor)

    class CompiledProgram(torch.nn.Module):
        def forward(self, *given: Any) -> Any:
            """What the kernel gives."""
            made = kernel(*(laid_out(at, each) for at, each in enumerate(given)))
            if len(results) == 1:
                return made if results[0].shape else made.reshape(())
            return tuple(
                each if like.shape else each.reshape(())
                for each, like in zip(made, results, strict=True)
            )

    return CompiledProgram()
