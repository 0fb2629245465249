"""The algorithms on numpy arrays: all elements of a tensor, and all threads of a block, at once.

A thread's view whose offset is an array of an offset a thread is that of all threads, and
instructions of a warp have what they need: the fragments of all their threads.
"""

from __future__ import annotations

from typing import Any

from mugraph.dialects.cute.engines import computed
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.layout import Layout


class NumpyMachine:
    """Executes on numpy arrays, of one thread or of all threads of a block together."""

    def copy(self, atom: Any, source: Any, target: Any, where: Any) -> None:
        """Copies elements; those of an instruction of several threads across them."""
        if atom is not None and atom.threads > 1:
            _copy_across(atom, source, target)
            return
        if where is not None or not _has_places(source):
            if where is not None and atom is not None and atom.fills_zeros:
                self.fill(target, 0)
            _copy_one_by_one(source, target, where)
            return
        target.engine.scatter(target.places(), source.engine.gather(source.places()))

    def copy_box(self, tma: Any, source: Any, target: Any) -> None:
        """Copies elements."""
        self.copy(None, source, target, None)

    def fill(self, tensor: Any, value: Any) -> None:
        """Writes a number to every element."""
        import numpy

        tensor.engine.scatter(tensor.places(), numpy.reshape(value, (-1, 1)))

    def combine(self, alpha: Any, x: Any, beta: Any, y: Any) -> None:
        """``y = alpha * x + beta * y``."""
        value = alpha * computed(x.engine.gather(x.places()))
        places = y.places()
        if not (isinstance(beta, int | float) and beta == 0):
            value = value + beta * computed(y.engine.gather(places))
        y.engine.scatter(places, value)

    def multiply(self, product: Any) -> None:
        """Products by single threads, or by the threads of an instruction together."""
        if product.atom is None or product.atom.is_scalar:
            _multiply_alone(product.a, product.b, product.c)
        else:
            _multiply_together(product.atom, product.a, product.b, product.c)


def _has_places(tensor: Any) -> bool:
    return hasattr(tensor.engine, "gather")


def _copy_one_by_one(source: Any, target: Any, where: Any) -> None:
    """In order; a predicate is that of an element, or of a vector of the first mode."""
    if where is not None and where.threads is not None:
        raise LayoutError(
            f"copy: the predicates are those of {where.threads} threads together; on numpy copy "
            "thread by thread, or copy in a kernel."
        )
    per_predicate = 1 if where is None else target.size() // where.size()
    for point in range(target.size()):
        if where is None or where[point // per_predicate]:
            target[point] = source[point]


def _multiply_alone(a: Any, b: Any, c: Any) -> None:
    """The outer products of each k in order, all others at once."""
    import numpy

    places = c.places()
    left = _by_mode(a.engine.gather(a.places()), a)
    right = _by_mode(b.engine.gather(b.places()), b)
    dtype = numpy.result_type(left, right, c.dtype)
    left, right = left.astype(dtype), right.astype(dtype)
    aliased = len(numpy.unique(places[0])) < places.shape[1]
    sums = c.engine.gather(places)
    for k in range(left.shape[1]):
        # [threads, n, m, v], as the elements of C are numbered.
        terms = right[:, k, :, None, :] * left[:, k, None, :, :]
        flat = terms.reshape(len(terms), -1)
        if not aliased:
            sums = (sums + flat).astype(c.dtype, copy=False)
            continue
        for column in range(flat.shape[1]):  # elements of C that several (m, n) share
            one = places[:, column : column + 1]
            c.engine.scatter(one, c.engine.gather(one) + flat[:, column : column + 1])
    if not aliased:
        c.engine.scatter(places, sums)


def _by_mode(values: Any, tensor: Any) -> Any:
    """Elements ``[threads, elements]`` as ``[threads, last mode, ..., first mode]``."""
    extents = [mode.size() for mode in tensor.layout]
    return values.reshape(len(values), *reversed(extents))


def _threads_of(instruction: Layout[int], threads: int, name: str) -> Any:
    """The threads of every execution of an instruction, ``[executions, its threads]``."""
    import numpy

    executions = threads // instruction.size()
    if threads % instruction.size():
        raise LayoutError(
            f"{name} is an instruction of {instruction.size()} threads together; there are "
            f"{threads}: give the views of all threads of a block."
        )
    lanes = numpy.array(instruction.indices())
    if len(lanes) == instruction.cosize():
        return lanes + numpy.arange(executions)[:, None] * len(lanes)
    # The quad pairs of Volta: lanes with gaps, which other executions fill.
    starts = [one for one in range(threads) if not one & int(numpy.bitwise_or.reduce(lanes))]
    return lanes + numpy.array(starts)[:, None]


def _threads(*values: Any) -> int:
    return max(len(one) for one in values)


def _spread(values: Any, threads: int) -> Any:
    import numpy

    return numpy.broadcast_to(values, (threads, *values.shape[1:]))


def _copy_across(atom: Any, source: Any, target: Any) -> None:
    """What each thread gets of what the threads of an instruction read."""
    import numpy

    src, dst, _ref = atom.value_layouts(8 * source.dtype.itemsize)
    read = source.engine.gather(source.places())
    places = target.places()
    threads = _threads(read, places)
    who = _threads_of(atom.thr_id, threads, atom.name)
    read = _spread(read, threads).reshape(threads, -1, src[1].size())
    data = numpy.zeros((len(who), read.shape[1], max(src.cosize(), dst.cosize())), read.dtype)
    for value in range(src[1].size()):
        at = numpy.array([src(lane, value) for lane in range(src[0].size())])
        data[:, :, at] = read[who, :, value].transpose(0, 2, 1)
    written = numpy.zeros((threads, read.shape[1], dst[1].size()), read.dtype)
    for value in range(dst[1].size()):
        at = numpy.array([dst(lane, value) for lane in range(dst[0].size())])
        written[who, :, value] = data[:, :, at].transpose(0, 2, 1)
    target.engine.scatter(places, written.reshape(threads, -1))


def _multiply_together(atom: Any, a: Any, b: Any, c: Any) -> None:
    """Products of tiles that the threads of an instruction hold together, summed up in its type."""
    import numpy

    places = c.places()
    parts = [a.engine.gather(a.places()), b.engine.gather(b.places()), c.engine.gather(places)]
    threads = _threads(*parts, places)
    who = _threads_of(atom.thr_id, threads, atom.name)
    m, n, k = atom.shape_mnk
    # Sums of integers are exact in their type, those of narrow floats in f32.
    dtype = numpy.result_type(parts[2].dtype, numpy.float32 if parts[2].dtype.kind == "f" else 0)

    def tiles(values: Any, tensor: Any, operand: str, extents: tuple[int, int]) -> Any:
        held = _by_mode(_spread(values, threads), tensor)  # [thread, rest, rest, value]
        layout = atom.layout(operand)
        tile = numpy.zeros((len(who), *held.shape[1:3], extents[0] * extents[1]), dtype)
        for value in range(layout[1].size()):
            at = numpy.array([layout(lane, value) for lane in range(layout[0].size())])
            tile[..., at] = held[who, :, :, value].transpose(0, 2, 3, 1)
        # The tile's coordinates run along its rows first.
        return tile.reshape(*tile.shape[:3], extents[1], extents[0])

    left = tiles(parts[0], a, "A", (m, k))  # [execution, rest of k, rest of m, k, m]
    right = tiles(parts[1], b, "B", (n, k))
    total = tiles(parts[2], c, "C", (m, n))  # [execution, rest of n, rest of m, n, m]
    for step in range(left.shape[1]):
        total = total + numpy.einsum("gikm,gjkn->gjinm", left[:, step], right[:, step])
    flat = total.reshape(*total.shape[:3], m * n)
    layout = atom.layout("C")
    held = numpy.array(_by_mode(_spread(parts[2], threads), c))
    for value in range(layout[1].size()):
        at = numpy.array([layout(lane, value) for lane in range(layout[0].size())])
        held[who, :, :, value] = flat[..., at].transpose(0, 3, 1, 2)
    c.engine.scatter(places, held.reshape(threads, -1))
