"""From graphs of ATen operators to programs."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

import mugraph.build as mi
from mugraph.build import DTensor, KernelGraph
from mugraph.build.errors import BuildError
from mugraph.dialects.element_types import DESCRIPTIONS, ELEMENT_TYPES
from mugraph.dialects.tensor_types import row_major_strides
from mugraph.errors import first_line
from mugraph.torch.aten import CONVERSIONS, Call, NotConverted, TensorLike, views
from mugraph.torch.aten.collectives import WAIT
from mugraph.torch.aten.conversion import Devices, require
from mugraph.torch.growing_caches import grown_cache
from mugraph.torch.operator import import_torch
from mugraph.torch.symbols import (
    LateError,
    dim_put_first,
    extent_of,
    factors_of,
    is_symbol,
    names_of,
    strides_of,
)

PROGRAM = "torch_program"
"""The name of every program of a model, with which the names of its kernels start."""

_ELEMENT_TYPES: dict[str, Attribute] = {
    f"torch.{DESCRIPTIONS[type_].array}": type_ for type_ in ELEMENT_TYPES
}


def tensor_like(value: Any) -> TensorLike:
    """What a fake tensor of torch is; raises :class:`NotConverted` for what no program has.

    Extents that are symbols are named ones.
    """
    torch = import_torch()
    if not isinstance(value, torch.Tensor):
        raise NotConverted("a number that is known only at run time")
    dtype = _ELEMENT_TYPES.get(str(value.dtype))
    try:
        shape = tuple(map(extent_of, value.shape))
        strides = strides_of(value.shape, value.stride(), shape)
    except LateError as error:
        raise NotConverted(str(error)) from None
    if dtype is None:
        raise NotConverted(f"a tensor of {value.dtype}")
    if 0 in shape:
        raise NotConverted("an empty tensor")
    return TensorLike(shape, strides, dtype)


def as_list(values: Any) -> list[Any]:
    """What torch gives as one value, or as a tuple or list of several."""
    several = cast(Sequence[Any], values)
    return list(several) if isinstance(values, (tuple, list)) else [values]


class Refusals:
    """Why calls stay in torch; calls of the same operator on alike arguments are asked for once."""

    def __init__(self, *, tf32: bool, devices: Devices | None = None) -> None:
        self._tf32, self._devices = tf32, devices
        self._known: dict[object, str | None] = {}

    def __call__(self, node: Any) -> str | None:
        """The reason why a node stays in torch, or ``None`` where mugraph takes it."""
        if node.op != "call_function":
            return f"{node.op} is no call of an operator"
        if node.target is operator.getitem:
            source = self(node.args[0])
            if source is None and "val" in node.meta:
                return self._of_part(node)
            return source
        if node.target is grown_cache:
            return "a cache grows: what it had and what is new are copied"
        if str(node.target) not in CONVERSIONS:
            schema = getattr(node.target, "_schema", None)
            if schema is not None and schema.is_mutable:
                return "it writes to its operand in place"
            return "mugraph has no conversion of it"
        if str(node.target) == WAIT:
            # Whoever exchanges something waits for it.
            return self(node.args[0])
        places = devices_among(node)
        if len(places) > 1:
            return f"it has tensors on {' and '.join(sorted(places))}"
        try:
            for each in as_list(node.meta["val"]):
                tensor_like(each)
            signature = str(node.target), repr(_replaced((node.args, node.kwargs), _described))
            if signature not in self._known:
                self._known[signature] = self._reason(node)
            return self._known[signature]
        except NotConverted as error:
            return f"it has {error}"

    def _of_part(self, node: Any) -> str | None:
        """Whether a result of an operator of several is one that the conversion gives."""
        made = self._converted(node.args[0])
        given = made[node.args[1]] is not None
        return None if given else f"result {node.args[1]} of it is for training"

    def _reason(self, node: Any) -> str | None:
        """Converts the call alone; what that raises is the reason."""
        try:
            self._converted(node)
        except NotConverted as error:
            return str(error)
        except (BuildError, VerifyException, TypeError) as error:
            if len(names := self._names_among(node)) > 1:
                return f"several of its extents change from call to call: {', '.join(names)}"
            return first_line(error)
        return None

    @staticmethod
    def _names_among(node: Any) -> list[str]:
        """The named extents of what a call takes and gives."""
        return sorted(names_of([*map(extent_of, _extents_among(node))]))

    def _converted(self, node: Any) -> Any:
        """What a program of the call alone gives; raises where no program has it."""
        graph = _graph(PROGRAM, self._devices)
        call = partial(Call, tf32=self._tf32, devices=self._devices)
        made = _convert(graph, node, _inputs_of(graph, node), call)
        try:
            graph.require_parallel_extents(merged_extents(node))
        except BuildError:
            raise NotConverted(
                "it picks or combines elements along an extent that changes from call to call"
            ) from None
        return made


def _tensors_among(node: Any) -> list[Any]:
    """The tensors that a call takes and gives."""
    torch = import_torch()
    values = [each.meta.get("val") for each in (*node.all_input_nodes, node)]
    return [each for one in values for each in as_list(one) if isinstance(each, torch.Tensor)]


def devices_among(node: Any) -> set[str]:
    """Those of the tensors that a call takes and gives."""
    return {str(each.device) for each in _tensors_among(node)}


def _extents_among(node: Any) -> list[Any]:
    """The extents of the tensors that a call takes and gives."""
    return [extent for each in _tensors_among(node) for extent in each.shape]


def merged_extents(node: Any) -> set[str]:
    """The named extents among them that count rows of several dimensions."""
    merged = [each for each in _extents_among(node) if len(factors_of(each)) > 1]
    return names_of([*map(extent_of, merged)])


def _graph(name: str, devices: Devices | None) -> KernelGraph:
    """An empty program, of each of several devices or of one."""
    return KernelGraph(name, () if devices is None else [devices.count])


def translate(
    graph_module: Any,
    name: str,
    constant: Sequence[bool],
    *,
    tf32: bool,
    devices: Devices | None = None,
    names: Sequence[str | None] = (),
) -> KernelGraph:
    """The program of a graph whose calls are all converted.

    Its inputs are the placeholders in order, with torch's strides, or row-major where elements
    share addresses; its results have torch's strides where those are dense.  ``constant`` says of
    each input whether it is a weight, ``names`` what it is called.  With ``devices`` it is the
    program of each of these.
    """
    graph = _graph(name, devices)
    call = partial(Call, tf32=tf32, devices=devices)
    values: dict[Any, Any] = {}
    weights, hints = iter(constant), iter(names)
    inputs = graph_module.graph.find_nodes(op="placeholder")
    for node in graph_module.graph.nodes:
        if node.op == "placeholder" and is_symbol(node.meta["val"]):
            values[node] = extent_of(node.meta["val"])
        elif node.op == "placeholder":
            like = tensor_like(node.meta["val"])
            given = _input(graph, put_first(like), next(hints, None), constant=next(weights))
            values[node] = _put_back(given, like)
        elif node.op == "output":
            for each in results_of(graph_module):
                like = tensor_like(each.meta["val"])
                strides = like.strides if is_dense(like) else row_major_strides(like.shape)
                given = next((x for x in inputs if values[x] is values[each]), each)
                if input_strides(tensor_like(given.meta["val"])) != strides:
                    require(given is each, "it only puts an input into another order in memory")
                if names_of(like.shape):
                    graph.mark_output(_put_first(values[each], like))
                else:
                    graph.mark_output(values[each], strides or (1,))
        elif node.target is operator.getitem:
            values[node] = values[node.args[0]][node.args[1]]
        else:
            values[node] = _convert(graph, node, values, call)
    return graph


def put_first(like: TensorLike) -> TensorLike:
    """A tensor as a program takes or gives it."""
    if not (dim := dim_put_first(like.shape)):
        return like
    order = _order(dim, len(like.shape))
    shape = tuple(like.shape[each] for each in order)
    return TensorLike(shape, row_major_strides(shape), like.dtype)


def _put_first(tensor: DTensor, like: TensorLike) -> DTensor:
    """What a program gives of a result."""
    dim = dim_put_first(like.shape)
    return mi.transpose(tensor, _order(dim, len(like.shape))) if dim else tensor


def _put_back(tensor: DTensor, like: TensorLike) -> DTensor:
    """An input as torch has it, of what a program takes."""
    if not (dim := dim_put_first(like.shape)):
        return tensor
    return mi.transpose(tensor, [*range(1, dim + 1), 0, *range(dim + 1, len(like.shape))])


def _order(dim: int, rank: int) -> list[int]:
    """Dimensions in the order in which one comes first."""
    return [dim, *range(dim), *range(dim + 1, rank)]


def results_of(graph_module: Any) -> list[Any]:
    """The nodes that a graph returns."""
    return as_list(graph_module.graph.output_node().args[0])


def is_dense(like: TensorLike) -> bool:
    """Whether the elements of a tensor fill their memory, each at an address of its own."""
    expected = 1
    pairs = zip(like.strides, like.shape, strict=True)
    for stride, extent in sorted(pair for pair in pairs if pair[1] > 1):
        if stride != expected:
            return False
        expected *= extent
    return True


def input_strides(like: TensorLike) -> tuple[int, ...]:
    """The strides of an input: torch's, but row-major where elements share addresses."""
    shared = any(
        stride == 0 and extent > 1 for stride, extent in zip(like.strides, like.shape, strict=True)
    )
    return row_major_strides(like.shape) if shared else like.strides


def _input(
    graph: KernelGraph, like: TensorLike, name: str | None = None, *, constant: bool = False
) -> DTensor:
    strides = input_strides(like)
    # What enters a program is row-major where it has a named extent (islands.py).
    is_plain = strides == row_major_strides(like.shape) or names_of(like.shape)
    given = None if is_plain else strides
    # What has no dimension is given as a tensor of one element, which is broadcast.
    return graph.new_input(like.shape or (1,), given, like.dtype, name=name, constant=constant)


def _inputs_of(graph: KernelGraph, node: Any) -> dict[Any, DTensor | int]:
    """An input for each tensor that a node takes, and each symbol."""
    return {
        each: _symbol(each)
        if is_symbol(each.meta["val"])
        else _input(graph, tensor_like(each.meta["val"]))
        for each in node.all_input_nodes
    }


def _symbol(node: Any) -> int:
    """The named extent that a number is; raises :class:`NotConverted` where it is none."""
    try:
        return extent_of(node.meta["val"])
    except LateError as error:
        raise NotConverted(str(error)) from None


def _require_known(node: Any, results: Sequence[TensorLike]) -> None:
    """Raises :class:`NotConverted` unless symbols are extents of operands.

    Views alone take them as numbers: those of what they give.
    """
    taken = [each.meta["val"] for each in node.all_input_nodes]
    tensors = [tensor_like(each) for each in taken if not is_symbol(each)]
    known = {name for like in tensors for name in names_of(like.shape)}
    made = {name for like in results for name in names_of(like.shape)}
    is_view = CONVERSIONS[str(node.target)] in views.VIEWS
    if made - known or (any(map(is_symbol, taken)) and not is_view):
        raise NotConverted("it takes a number that is known only at run time")


def _convert(
    graph: KernelGraph, node: Any, values: Mapping[Any, Any], call: Callable[..., Call]
) -> Any:
    """A call in terms of the program; raises where it is not what torch says it is."""
    expected: Any = node.meta["val"]
    several = isinstance(expected, (tuple, list))
    results = [_with_dimension(tensor_like(each)) for each in as_list(expected)]
    _require_known(node, results)
    args, kwargs = _replaced((node.args, node.kwargs), values.__getitem__)
    made = CONVERSIONS[str(node.target)](call(graph, results), *args, **kwargs)
    for result, like in zip(made if several else [made], results, strict=True):
        if result is not None and (result.shape, result.dtype) != (like.shape, like.dtype):
            raise NotConverted(f"the conversion gives {result!r} where torch gives {like}")
    return made


def _with_dimension(like: TensorLike) -> TensorLike:
    """What has no dimension is a tensor of one element."""
    return like if like.shape else TensorLike((1,), (1,), like.dtype)


def _described(node: Any) -> object:
    value = node.meta["val"]
    return str(value) if is_symbol(value) else tensor_like(value)


def _replaced(arguments: Any, replace: Callable[[Any], Any]) -> Any:
    """Arguments of a node with each node in them replaced."""
    fx = import_torch().fx
    return fx.node.map_arg(arguments, replace)
