"""Writes µGraphs as Mirage's JSON, for the importer's tests."""

import copy
from collections.abc import Sequence
from typing import Any

FLOAT16 = {1: 921, 2: 941, 3: 940}
BFLOAT16 = {1: 920, 2: 940, 3: 941}

Record = dict[str, Any]


def xyz(values: Sequence[int]) -> Record:
    return dict(zip("xyz", values, strict=True))


def row_major(shape: Sequence[int]) -> list[int]:
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.insert(0, strides[0] * extent)
    return strides


class MirageGraph:
    """A kernel graph that grows by one operator a call; ``operators`` is its JSON."""

    def __init__(self, generation: int = 1, data_type: int | None = None):
        self.generation = generation
        self.data_type = FLOAT16[generation] if data_type is None else data_type
        self.operators: list[Record] = []
        self._guid = 10000000

    def dtensor(self, *shape: int) -> Record:
        self._guid += 3
        return {
            "data_type": self.data_type,
            "dim": [*shape, 0, 0, 0, 0][:4],
            "guid": self._guid,
            "layout": "DmemRowMajor",
            "num_dims": len(shape),
        }

    def add(
        self, kind: str, inputs: Sequence[Record], outputs: Sequence[Record], **more: Any
    ) -> Record | None:
        record = {
            "op_type": kind,
            "input_tensors": copy.deepcopy(list(inputs)),
            "output_tensors": copy.deepcopy(list(outputs)),
        }
        self.operators.append(record | more)
        return outputs[0] if outputs else None

    def input(self, *shape: int, strides: Sequence[int] | None = None) -> Record:
        tensor = self.dtensor(*shape)
        strides = row_major(shape) if strides is None else list(strides)
        no_map = xyz((-1, -1, -1))
        self.add("kn_input_op", [], [tensor], input_strides=strides, input_map=no_map)
        return tensor

    def output(self, tensor: Record, strides: Sequence[int] = ()) -> None:
        no_map = xyz((-1, -1, -1))
        self.add("kn_output_op", [tensor], [], output_strides=list(strides), output_map=no_map)

    def customized(
        self, graph: "MirageThreadblockGraph", inputs: Sequence[Record], outputs: Sequence[Record]
    ) -> None:
        self.add("kn_customized_op", inputs, outputs, bgraph=graph.record)


class MirageThreadblockGraph:
    """A threadblock graph that grows by one operator a call; ``record`` is its JSON."""

    def __init__(
        self,
        generation: int = 1,
        grid: Sequence[int] = (4, 1, 1),
        forloop_range: int = 2,
        reduction_dimx: int = 8,
    ):
        self.generation = generation
        self.accumulator = "tb_forloop_accum_" if generation == 3 else "tb_accum_"
        self._guid = 20000000
        self.record: Record = {
            "graph_level": "thread_block_graph",
            "grid_dim": xyz(grid),
            "block_dim": xyz((128, 1, 1)),
            "forloop_range": forloop_range,
            "reduction_dimx": reduction_dimx,
            "operators": [],
            "smem_offset": 0,
        }

    @property
    def operators(self) -> list[Record]:
        return self.record["operators"]

    def stensor(self, *shape: int, after_accum: bool = False) -> Record:
        self._guid += 7
        return {
            "after_accum": after_accum,
            "data_type": FLOAT16[self.generation],
            "dim": [*shape, 0, 0, 0, 0][:4],
            "guid": self._guid,
            "layout": "SmemRowMajor",
            "num_dims": len(shape),
            "smem_offset": 0,
        }

    def input(self, dtensor: Record, imap: Sequence[int], forloop_dim: int, *shape: int) -> Record:
        tile = self.stensor(*shape)
        self.operators.append(
            {
                "op_type": "tb_input_op",
                "dtensor": copy.deepcopy(dtensor),
                "input_map": xyz(imap),
                "forloop_dim": forloop_dim,
                "input_tensors": [],
                "output_tensors": [copy.deepcopy(tile)],
            }
        )
        return tile

    def output(self, tile: Record, dtensor: Record, omap: Sequence[int]) -> None:
        self.operators.append(
            {
                "op_type": "tb_output_op",
                "dtensor": copy.deepcopy(dtensor),
                "output_map": xyz(omap),
                "input_tensors": [copy.deepcopy(tile)],
                "output_tensors": [],
            }
        )

    def add(
        self,
        kind: str,
        inputs: Sequence[Record],
        *shape: int,
        after_accum: bool | None = None,
        **more: Any,
    ) -> Record:
        if kind.startswith("accum_"):
            kind = self.accumulator + kind.removeprefix("accum_")
            after_accum = True
        elif after_accum is None:
            after_accum = any(tensor["after_accum"] for tensor in inputs)
        result = self.stensor(*shape, after_accum=after_accum)
        record = {
            "op_type": kind,
            "input_tensors": copy.deepcopy(list(inputs)),
            "output_tensors": [copy.deepcopy(result)],
        }
        self.operators.append(record | more)
        return result


def rmsnorm_linear(generation: int = 1) -> list[Record]:
    """rms_norm(X[16,64]) W[64,32] on a grid of 4, the loop cutting 64 in 2.

    The operators: input X, input W, customized (input, input, matmul, accumulate, accumulate rms,
    div, output), output.
    """
    graph = MirageGraph(generation)
    x, w, y = graph.input(16, 64), graph.input(64, 32), graph.dtensor(16, 32)
    body = MirageThreadblockGraph(generation)
    sx = body.input(x, (-1, -1, -1), 1, 16, 32)
    sw = body.input(w, (1, -1, -1), 0, 32, 8)
    m = body.add("tb_matmul_op", [sx, sw], 16, 8)
    am = body.add("accum_nored_op", [m], 16, 8)
    ar = body.add("accum_red_ld_rms_op", [sx], 16, 1)
    d = body.add("tb_div_op", [am, ar], 16, 8)
    body.output(d, y, (1, -1, -1))
    graph.customized(body, [x, w], [y])
    graph.output(y, strides=(32, 1))
    return graph.operators
