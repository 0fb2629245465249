"""What torch's functional collectives exchange, in the group that a program is for."""

from __future__ import annotations

from mugraph.build import DTensor
from mugraph.dialects.reductions import Combiner
from mugraph.torch.aten.conversion import Call, converts, require

NAMESPACE = "_c10d_functional"
"""Of torch's functional collectives."""
WAIT = f"{NAMESPACE}.wait_tensor.default"
"""Of what waits for the result of one."""
_COMBINERS = {"sum": Combiner.SUM, "max": Combiner.MAX}


@converts("wait_tensor.default", namespace=NAMESPACE)
def _wait_tensor(call: Call, x: DTensor) -> DTensor:
    return x


@converts("all_reduce.default", namespace=NAMESPACE)
def _all_reduce(call: Call, x: DTensor, combination: str, group: str) -> DTensor:
    return call.graph.all_reduce(x, _combiner(call, combination, group))


@converts("reduce_scatter_tensor.default", namespace=NAMESPACE)
def _reduce_scatter(call: Call, x: DTensor, combination: str, _: int, group: str) -> DTensor:
    return call.graph.reduce_scatter(x, 0, _combiner(call, combination, group))


@converts("all_gather_into_tensor.default", namespace=NAMESPACE)
def _all_gather(call: Call, x: DTensor, _: int, group: str) -> DTensor:
    _require_group(call, group)
    return call.graph.all_gather(x, 0)


def _combiner(call: Call, combination: str, group: str) -> Combiner:
    _require_group(call, group)
    require(combination in _COMBINERS, f"devices take the {combination}, which no program does")
    return _COMBINERS[combination]


def _require_group(call: Call, group: str) -> None:
    require(call.devices is not None, "devices exchange tensors, and the program is for one")
    require(
        call.devices is not None and call.devices.group == group,
        "a program has exchanges of one group of devices, and more are of another one",
    )
