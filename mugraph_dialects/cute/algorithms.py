"""CuTe's algorithms on tensors: copy, gemm, and what is done element by element.

Copy is of rank 1 whatever the ranks of its tensors, gemm of rank 3, and gather, broadcast,
transpose, tensor contractions and convolution are these two on other layouts.

Each takes an instruction first if one is given: ``copy(tiled_copy, S, D)``,
``gemm(tiled_mma, A, B, C)``.  Who executes it is the machine (:mod:`machines`): numpy, or what
records a kernel.  Here stand the algorithms' arguments and what they must fulfil.

Source: C. Cecka, "CuTe: CUDA Tensors" (NVIDIA), slides "Copy Basics", "Gemm Basics",
"Compositional Power".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

from mugraph.dialects.cute.atoms.copy import CopyAtom, copy_atom
from mugraph.dialects.cute.atoms.mma import MmaAtom, mma_atom
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.int_tuple import is_tuple, size
from mugraph.dialects.cute.layout import Layout, make_layout
from mugraph.dialects.cute.machines import current_machine
from mugraph.dialects.cute.numpy_machine import NumpyMachine
from mugraph.dialects.cute.swizzle import ComposedLayout
from mugraph.dialects.cute.tensor import Tensor
from mugraph.dialects.cute.tma import TmaCopy


class Product(NamedTuple):
    """A product of fragments ``(V,M,K)``, ``(V,N,K)`` and ``(V,M,N)``, and its instruction."""

    atom: MmaAtom | None
    a: Tensor
    b: Tensor
    c: Tensor


def _machine() -> NumpyMachine:
    return cast("NumpyMachine", current_machine() or NumpyMachine())


def _of_instruction(
    arguments: tuple[Any, ...], name: str, tensors: int
) -> tuple[Any, list[Tensor]]:
    """The instruction, if one is given first, and the tensors behind it."""
    instruction: Any = None
    found = list(arguments)
    if found and not isinstance(found[0], Tensor):
        instruction = found.pop(0)
    if len(found) != tensors or not all(isinstance(one, Tensor) for one in found):
        raise LayoutError(
            f"{name} takes {tensors} tensors, perhaps behind an instruction; got "
            f"{', '.join(type(one).__name__ for one in arguments)}."
        )
    return instruction, found


def _copy_atom(instruction: Any) -> CopyAtom | None:
    if isinstance(instruction, str):
        return copy_atom(instruction)
    return getattr(instruction, "atom", instruction)


def copy(*arguments: Any, pred: Any = None, tma_bar_ptr: Any = None) -> None:
    """``copy(S, D)`` or ``copy(atom, S, D)``: ``D(i) = S(i)`` for every 1-D coordinate.

    ``atom`` is a copy instruction, its name, or a :class:`TiledCopy`; then S and D are partitioned
    by it.  Gather, scatter, broadcast and transpose are copies between suitable layouts.  A load by
    TMA counts its bytes at the mbarrier ``tma_bar_ptr``.  With ``pred``, only elements where a
    predicate holds, of which there is one for each element or for each run of so many: a vector.
    Raises LayoutError if the sizes differ, predicates do not divide the elements, or a copy by TMA
    has any.
    """
    instruction, (source, target) = _of_instruction(arguments, "copy", 2)
    atom = _copy_atom(instruction)
    per_atom = _values(atom, source) if atom is not None and atom.threads > 1 else (1, 1)
    if source.size() * per_atom[1] != target.size() * per_atom[0]:
        raise LayoutError(
            f"copy: the source {source.layout} has {source.size()} elements, the destination "
            f"{target.layout} {target.size()}."
        )
    if isinstance(instruction, TmaCopy):
        if pred is not None:
            raise LayoutError("copy: TMA takes no predicates; it leaves out what is no element.")
        _machine().copy_box(instruction._replace(barrier=tma_bar_ptr), source, target)
        return
    if pred is not None and not isinstance(pred, Tensor):
        raise LayoutError(f"copy: predicates are a tensor of truths, not {pred!r}.")
    if pred is not None and target.size() % pred.size():
        raise LayoutError(
            f"copy: {pred.size()} predicates {pred.layout} do not divide the {target.size()} "
            f"elements {target.layout}."
        )
    _machine().copy(atom, source, target, pred)


def _values(atom: CopyAtom, source: Tensor) -> tuple[int, int]:
    """How many values of an instruction a thread reads, and how many it writes."""
    src, dst, _ref = atom.value_layouts(element_bits(source))
    return src[1].size(), dst[1].size()


def element_bits(tensor: Tensor) -> int:
    """The width of a tensor's elements in bits."""
    return 8 * int(tensor.dtype.itemsize)


def copy_if(predicate: Tensor, *arguments: Any) -> None:
    """``copy_if(P, S, D)`` or ``copy_if(P, atom, S, D)``: ``copy(..., pred=P)``."""
    copy(*arguments, pred=predicate)


def fill(tensor: Tensor, value: Any) -> None:
    """Write ``value`` to every element."""
    _machine().fill(tensor, value)


def clear(tensor: Tensor) -> None:
    """Write 0 to every element."""
    fill(tensor, 0)


def axpby(alpha: Any, x: Tensor, beta: Any, y: Tensor) -> None:
    """``y(i) = alpha * x(i) + beta * y(i)``; y is not read where beta is the number 0.

    Raises LayoutError if the sizes differ.
    """
    if x.size() != y.size():
        raise LayoutError(f"axpby: x {x.layout} has {x.size()} elements, y {y.layout} {y.size()}.")
    _machine().combine(alpha, x, beta, y)


def reduce(tensor: Tensor, operation: Callable[[Any, Any], Any], initial: Any) -> Any:
    """The elements combined in order: ``operation(... operation(initial, t(0)) ..., t(n - 1))``."""
    value = initial
    for element in tensor:
        value = operation(value, element)
    return value


def gemm(*arguments: Any) -> None:
    """``gemm(A, B, C)`` or ``gemm(mma, A, B, C)``: ``C(m,n) += A(m,k) * B(n,k)``.

    A is (M,K), B is (N,K), C is (M,N).  With a mode V in front, (V,M,K), (V,N,K) and (V,M,N): the
    values of one instruction of a thread where ``mma`` is given (a tiled MMA, an atom or its
    name); else a batch.  A and B may lack K, for an outer product.  The modes may be nested:
    contractions (GETT) and convolutions are layouts of A, B and C.
    With four tensors, ``gemm(mma, D, A, B, C)``, D becomes C plus the product.
    Raises LayoutError if ranks or sizes do not fit, naming the mode.
    """
    count = 4 if sum(isinstance(one, Tensor) for one in arguments) == 4 else 3
    instruction, tensors = _of_instruction(arguments, "gemm", count)
    if count == 4:
        result = tensors.pop(0)
        if result is not tensors[2]:
            copy(tensors[2], result)
        tensors[2] = result
    atom = _mma_atom(instruction)
    if all(one.rank == tensors[2].rank - 1 for one in tensors[:2]):
        tensors = [*(one.apply(_with_mode_of_one) for one in tensors[:2]), tensors[2]]
    _check(atom, *tensors)
    _machine().multiply(Product(atom, *(_with_values(one) for one in tensors)))


def _mma_atom(instruction: Any) -> MmaAtom | None:
    if isinstance(instruction, str):
        return mma_atom(instruction)
    atom = getattr(instruction, "atom", instruction)
    if atom is not None and not isinstance(atom, MmaAtom):
        raise LayoutError(f"gemm: {instruction!r} is no instruction that multiplies matrices.")
    return atom


def call_mma(mma: Any, *tensors: Tensor) -> None:
    """One instruction on a thread's values (V) of A, B and C, or of D, A, B and C.

    ``mma`` is a tiled MMA, an atom or its name.
    """
    gemm(mma, *(one.apply(_alone) for one in tensors))


def _alone(layout: Any) -> Any:
    return _with_mode_of_one(_with_mode_of_one(_as_mode(layout)))


def _as_mode(layout: Any) -> Any:
    """The layout as a mode, the only one."""
    if isinstance(layout, ComposedLayout):
        return ComposedLayout(layout.swizzle, layout.offset, _as_mode(layout.layout))
    return make_layout(layout)


def _with_values(tensor: Tensor) -> Tensor:
    """The tensor with a mode V in front, of one value if it had none."""
    return tensor.apply(_with_mode_of_one, first=True) if tensor.rank == 2 else tensor


def _with_mode_of_one(layout: Any, *, first: bool = False) -> Any:
    """The layout with one more mode, of extent 1."""
    if isinstance(layout, ComposedLayout):
        inner = _with_mode_of_one(layout.layout, first=first)
        return ComposedLayout(layout.swizzle, layout.offset, inner)
    modes = list(layout) if is_tuple(layout.shape) else [layout]
    one = Layout(1, 0)
    return make_layout(one, *modes) if first else make_layout(*modes, one)


def _check(atom: MmaAtom | None, a: Tensor, b: Tensor, c: Tensor) -> None:
    ranks = (2, 3) if atom is None or atom.is_scalar else (3,)
    for name, tensor in (("A", a), ("B", b), ("C", c)):
        if tensor.rank not in ranks or tensor.rank != c.rank or not is_tuple(tensor.layout.shape):
            wanted = c.rank if c.rank in ranks else " or ".join(map(str, ranks))
            raise LayoutError(
                f"gemm: {name} has the layout {tensor.layout}; its rank must be {wanted}."
            )
    extents = {
        name: [size(part) for part in cast("tuple[Any, ...]", tensor.layout.shape)]
        for name, tensor in (("A", a), ("B", b), ("C", c))
    }
    first = c.rank - 2
    pairs = [
        ("M", "A", first, "C", first),
        ("N", "B", first, "C", first + 1),
        ("K", "A", first + 1, "B", first + 1),
    ]
    if c.rank == 3 and (atom is None or atom.is_scalar):
        pairs += [("V", "A", 0, "C", 0), ("V", "B", 0, "C", 0)]
    for mode, one, at, other, place in pairs:
        left, right = extents[one][at], extents[other][place]
        if left != right:
            raise LayoutError(
                f"gemm: the mode {mode} has {left} elements in {one} and {right} in {other}."
            )
    if atom is None or atom.is_scalar:
        return
    for name in "ABC":
        values = atom.layout(name)[1].size()
        if extents[name][0] != values:
            raise LayoutError(
                f"gemm: {atom.name} takes {values} values of {name} from each thread; the "
                f"first mode has {extents[name][0]}."
            )
