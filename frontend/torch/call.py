"""A compiled kernel as a module of torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mugraph.jit import Kernel
from mugraph.jit.arguments import ELEMENT_TYPES
from mugraph.jit.kernel import as_sequence
from mugraph.jit.mesh import MeshKernel
from mugraph.torch.aten import TensorLike
from mugraph.torch.operator import import_torch
from mugraph.torch.symbols import dim_put_first, is_row_major
from mugraph.torch.translation import input_strides


def as_module(
    kernel: Kernel | MeshKernel,
    inputs: Sequence[TensorLike],
    results: Sequence[TensorLike],
    plain: Any,
) -> Any:
    """A module that calls the kernel with tensors laid out as it was compiled for.

    Results of one element have no dimension where torch's have none.  ``in_place`` of it has the
    results, by number, that may be written to an input, and the number of that; ``writes`` has
    those that are.  Symbols among the arguments are left out.  ``plain`` does the same in torch,
    for calls with larger extents than the kernel was compiled for.  A named extent comes first in
    what the kernel takes and gives, of which there are copies where it is another dimension.
    """
    torch = import_torch()
    tensors, made = kernel.interface.inputs, kernel.interface.outputs
    strides = [input_strides(like) or (1,) for like in inputs]
    taken_types, types = (
        [getattr(torch, ELEMENT_TYPES[tensor.element_type]) for tensor in own]
        for own in (tensors, made)
    )

    def laid_out(at: int, tensor: Any) -> Any:
        """The tensor, or a copy: where elements share addresses, or it starts in between.

        Where memory has the numbers with the other sign, as that of imaginary parts of conjugated
        numbers, a copy has them as they are.  torch may give another type than it foresaw, as of
        statistics of norms on a CPU: a copy has that.
        """
        tensor = tensor.resolve_neg()
        if tensor.dtype != taken_types[at]:
            tensor = tensor.to(taken_types[at])
        if not tensor.dim():
            tensor = tensor.reshape(1)
        if tensor.stride() == strides[at] and not tensor.data_ptr() % tensors[at].alignment:
            return tensor
        shape, dtype = tensor.shape, tensor.dtype
        copy = torch.empty_strided(shape, strides[at], dtype=dtype, device=tensor.device)
        return copy.copy_(tensor)

    writes: dict[int, int] = {}
    extents = kernel.interface.extents
    put_first, given_first = (
        [dim_put_first(like.shape) for like in own] for own in (inputs, results)
    )
    largest = {extent.name: extent.largest for extent in extents}
    bounds = [
        (at, dim, largest[name])
        for at, tensor in enumerate(tensors)
        for dim, name in enumerate(tensor.names)
        if name
    ]

    def with_extents(given: Sequence[Any]) -> Any:
        """The results of a call that says extents."""
        taken = [each for each in given if isinstance(each, torch.Tensor)]
        taken = [
            each.movedim(dim, 0) if dim else each
            for each, dim in zip(taken, put_first, strict=True)
        ]
        if any(taken[at].shape[dim] > bound for at, dim, bound in bounds):
            return plain(*given)
        fitting = [
            row_major(at, each) if any(tensors[at].names) else laid_out(at, each)
            for at, each in enumerate(taken)
        ]
        made = as_sequence(kernel(*fitting), len(results))
        return in_shape(
            [
                put_back(each, dim, like) if dim else each
                for each, dim, like in zip(made, given_first, results, strict=True)
            ]
        )

    def put_back(tensor: Any, dim: int, like: TensorLike) -> Any:
        """A result whose first dimension is another one in torch, where that has it in memory."""
        moved = tensor.movedim(0, dim)
        return moved.contiguous() if is_row_major(like.shape, like.strides) else moved

    def row_major(at: int, tensor: Any) -> Any:
        """The tensor, or a copy where it is not row-major, or starts in between."""
        tensor = tensor.resolve_neg().contiguous()
        return tensor.clone() if tensor.data_ptr() % tensors[at].alignment else tensor

    def in_shape(out: Sequence[Any]) -> Any:
        """One result, or all of them, without a dimension where torch's have none."""
        shaped = [
            each if like.shape else each.reshape(())
            for each, like in zip(out, results, strict=True)
        ]
        return shaped[0] if len(shaped) == 1 else tuple(shaped)

    class CompiledProgram(torch.nn.Module):
        def forward(self, *given: Any) -> Any:
            """What the kernel gives; a result that is written to an input is that input."""
            if extents:
                return with_extents(given)
            taken = [laid_out(at, each) for at, each in enumerate(given)]
            device = given[0].device if given else None
            out = [
                taken[writes[at]]
                if at in writes
                else torch.empty_strided(tensor.shape, tensor.strides, dtype=dtype, device=device)
                for at, (tensor, dtype) in enumerate(zip(made, types, strict=True))
            ]
            kernel(*taken, out=out)
            for at, source in writes.items():
                if out[at].data_ptr() != given[source].data_ptr():
                    given[source].copy_(out[at])
                out[at] = given[source]
            return in_shape(out)

    program: Any = CompiledProgram()
    # Symbols among the arguments would move the numbers of inputs.
    program.in_place, program.writes = {} if extents else kernel.interface.in_place, writes
    return program
