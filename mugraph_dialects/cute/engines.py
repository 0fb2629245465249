"""Engines: what a tensor's layout indexes, one element at a time or many at once.

An index is an integer, or an array with an index for each thread of a block.  *Places* are indices
of several elements: an array ``[threads, elements]``, with one row where all threads mean the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from mugraph.dialects.cute.errors import LayoutError

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Engine(Protocol):
    """What a tensor's layout indexes."""

    def load(self, index: Any) -> Any:
        """The element at an index."""
        ...

    def store(self, index: Any, value: Any) -> None:
        """Write the element at an index; LayoutError where the engine only computes values."""
        ...


class ArrayEngine:
    """The elements of a one-dimensional numpy array, as they lie in memory."""

    def __init__(self, storage: NDArray[Any]):
        if storage.ndim != 1:
            raise LayoutError(
                f"ArrayEngine: storage has {storage.ndim} dimensions; give the one-dimensional "
                "array of its elements (array.reshape(-1), a view if the array is contiguous)."
            )
        self.storage = storage

    @property
    def dtype(self) -> Any:
        """The type of the elements."""
        return self.storage.dtype

    def _checked(self, index: Any) -> Any:
        least, most = (index, index) if isinstance(index, int) else (index.min(), index.max())
        if least < 0 or most >= self.storage.size:
            raise IndexError(
                f"The layout reaches element {least if least < 0 else most} of storage of "
                f"{self.storage.size} elements."
            )
        return index

    def load(self, index: Any) -> Any:
        """The element at an index, or at those of all threads."""
        if isinstance(index, int) or index.ndim == 0:
            return self.storage[self._checked(index)]
        return self.gather(index[:, None])[:, 0]

    def store(self, index: Any, value: Any) -> None:
        """Write the element at an index, or at those of all threads."""
        if isinstance(index, int) or index.ndim == 0:
            self.storage[self._checked(index)] = value
            return
        self.scatter(_one_place(index), _one_value(value))

    def gather(self, places: Any) -> Any:
        """The elements at places."""
        return self.storage[self._checked(places)] if places.size else self.storage[places]

    def scatter(self, places: Any, values: Any) -> None:
        """Write the elements at places, in the order of threads."""
        import numpy

        if places.size:
            self._checked(places)
        places, values = numpy.broadcast_arrays(places, values)
        self.storage[places] = values


def _one_place(index: Any) -> Any:
    import numpy

    return numpy.reshape(index, (-1, 1))


def _one_value(value: Any) -> Any:
    import numpy

    return numpy.reshape(numpy.asarray(value), (-1, 1))


def computed(values: Any) -> Any:
    """What threads compute with: numbers of less than 32 bits become f32 or i32."""
    if values.dtype.itemsize >= 4 or values.dtype.kind == "b":
        return values
    return values.astype("int32" if values.dtype.kind in "iu" else "float32")


class RegisterEngine:
    """Elements that each thread of a block has for itself: an array ``[threads, elements]``."""

    def __init__(self, storage: NDArray[Any]):
        self.storage = storage

    @property
    def threads(self) -> int:
        """How many threads there are."""
        return len(self.storage)

    @property
    def dtype(self) -> Any:
        """The type of the elements."""
        return self.storage.dtype

    def load(self, index: Any) -> Any:
        """The elements of all threads at an index."""
        return computed(self.gather(_one_place(index))[:, 0])

    def store(self, index: Any, value: Any) -> None:
        """Write the elements of all threads at an index."""
        self.scatter(_one_place(index), _one_value(value))

    def gather(self, places: Any) -> Any:
        """The elements of all threads at places."""
        import numpy

        if len(places) == 1:
            return self.storage[:, places[0]]
        return numpy.take_along_axis(self.storage, places, 1)

    def scatter(self, places: Any, values: Any) -> None:
        """Write the elements of all threads at places."""
        import numpy

        self.storage[numpy.arange(self.threads)[:, None], places] = values


def new_registers(elements: int, dtype: Any, threads: int | None) -> Engine:
    """Registers of zeros: of one thread where there is no number of them, or of each."""
    import numpy

    if threads is None:
        return ArrayEngine(numpy.zeros(elements, dtype))
    return RegisterEngine(numpy.zeros((threads, elements), dtype))


class CountingEngine:
    """The integers: the element at an index is the index itself (CuTe's counting_iterator)."""

    def load(self, index: Any) -> Any:
        """The index: an integer, or a coordinate for a layout of basis strides."""
        return index

    def store(self, index: Any, value: Any) -> None:
        """Not possible."""
        raise LayoutError("A counting tensor holds no storage to write to.")


class TransformEngine:
    """Another engine's elements through a function (CuTe's transform_iterator)."""

    def __init__(self, engine: Engine, function: Callable[[Any], Any]):
        self.engine = engine
        self.function = function

    def load(self, index: Any) -> Any:
        """The function of the element at an index."""
        return self.function(self.engine.load(index))

    def store(self, index: Any, value: Any) -> None:
        """Not possible."""
        raise LayoutError("A transformed tensor holds no storage to write to.")
