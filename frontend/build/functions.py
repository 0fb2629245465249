"""The element-wise operators of a graph as functions of its tensors: ``mi.silu(x)``."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from mugraph.build.elementwise import GraphOperators
from mugraph.build.errors import BuildError
from mugraph.build.tensors import Handle, STensor

P = ParamSpec("P")
_Graph = GraphOperators[STensor]


def _of_tensors(
    method: Callable[Concatenate[GraphOperators[Any], Any, P], Any],
) -> Callable[Concatenate[Any, P], Any]:
    """A method of graphs as a function that calls it on the graph of its first operand."""

    @wraps(method)
    def call(x: Any, *args: P.args, **kwargs: P.kwargs) -> Any:
        if not isinstance(x, Handle):
            raise BuildError(f"{method.__name__}: {x!r} is no tensor of a graph")
        return getattr(x.graph, method.__name__)(x, *args, **kwargs)

    return call


cast = _of_tensors(_Graph.cast)
clamp = _of_tensors(_Graph.clamp)
exp = _of_tensors(_Graph.exp)
gelu = _of_tensors(_Graph.gelu)
log = _of_tensors(_Graph.log)
max = _of_tensors(_Graph.max)
pow = _of_tensors(_Graph.pow)
relu = _of_tensors(_Graph.relu)
sigmoid = _of_tensors(_Graph.sigmoid)
silu = _of_tensors(_Graph.silu)
sqrt = _of_tensors(_Graph.sqrt)
square = _of_tensors(_Graph.square)
