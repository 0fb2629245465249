"""What is drawn: a kind has a function of tensors, their sizes, and how both are drawn.

The function takes a library first, as in :mod:`benchmarks.programs.families`: ``mugraph.build``,
:mod:`~benchmarks.programs.on_torch` or :mod:`~benchmarks.programs.on_numpy`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar

from benchmarks.shapes.models import MODELS, Model

Sizes = Mapping[str, int]
Options = Sequence[str]

EPSILON = 1e-5
MOST_ROWS = 8192
FEWEST_COLUMNS, MOST_COLUMNS = 128, 256_000
"""Of row-wise kernels."""
FEWEST_KEYS, MOST_KEYS = 100, 65536


@dataclass(frozen=True)
class Operand:
    """An input: normal random numbers times ``scale``, plus ``shift``."""

    shape: tuple[int, ...]
    scale: float = 1.0
    shift: float = 0.0


@dataclass(frozen=True)
class Drawn:
    """What a kind drew: of which model, at which sizes, with which further operators."""

    model: str
    sizes: Sizes
    options: Options


class Kind(ABC):
    """One kind of layer."""

    name: ClassVar[str]
    weight: ClassVar[int] = 1
    """How many of the drawn shapes are of it, beside others."""

    @abstractmethod
    def draw(self, random: Random) -> Drawn:
        """Sizes and options; the same for the same state of ``random``."""

    @abstractmethod
    def operands(self, sizes: Sizes, options: Options) -> tuple[Operand, ...]:
        """The inputs."""

    @abstractmethod
    def compute(self, library: Any, options: Options, *inputs: Any) -> Any:
        """The function."""

    @abstractmethod
    def flop(self, sizes: Sizes) -> int:
        """Floating-point operations of the matrix products."""

    def least_flop(self, sizes: Sizes, options: Options) -> int:
        """Those of them that the result depends on."""
        return self.flop(sizes)

    def small(self, sizes: Sizes) -> Sizes:
        """Sizes of the same function that an interpreter goes through in a moment."""
        numbered = enumerate(sizes.items())
        return {name: min(size, 32 + 16 * place) for place, (name, size) in numbered}

    @abstractmethod
    def group(self, sizes: Sizes) -> str:
        """The line of the summary that a shape counts for."""


def drawn_between(random: Random, least: int, most: int) -> int:
    """A power of two or, as often, any number; all orders of magnitude alike."""
    if random.random() < 0.5:
        return 2 ** random.randint(math.ceil(math.log2(least)), math.floor(math.log2(most)))
    number = round(math.exp(random.uniform(math.log(least), math.log(most))))
    return min(max(number, least), most)


def rows_of(random: Random, model: Model) -> int:
    """Rows of a layer: tokens of some images, where a model has so many, or any number."""
    if model.tokens and random.random() < 0.5:
        return model.tokens * random.randint(1, max(1, MOST_ROWS // model.tokens))
    return drawn_between(random, 1, MOST_ROWS)


def by_rows(rows: int) -> str:
    """In which of three classes of rows a product is."""
    return "M <= 64" if rows <= 64 else "65 <= M <= 1023" if rows < 1024 else "M >= 1024"


AS_TORCH = "weights [N, K]"
"""The option that weights are stored as PyTorch's linear layers have them."""


class Products(Kind):
    """Layers whose sizes are rows m, columns n of a result, and depth k."""

    def group(self, sizes: Sizes) -> str:
        """The kind, and the class of its rows."""
        return f"{self.name}, {by_rows(sizes['m'])}"

    def flop(self, sizes: Sizes) -> int:
        """Of one product."""
        return 2 * sizes["m"] * sizes["n"] * sizes["k"]


def weights(options: Options, depth: int, columns: int) -> Operand:
    """A matrix whose product with numbers of variance 1 has variance 1."""
    shape = (columns, depth) if AS_TORCH in options else (depth, columns)
    return Operand(shape, depth**-0.5)


def oriented(library: Any, options: Options, w: Any) -> Any:
    """Weights as [K, N]."""
    return library.transpose(w) if AS_TORCH in options else w


def order_of(random: Random) -> tuple[str, ...]:
    """Whether weights are stored as PyTorch has them."""
    return random.choice([(), (AS_TORCH,)])


class Linear(Products):
    """act(X · W + bias) + residual, each of the three or not."""

    name = "linear"
    weight = 4
    ACTIVATIONS = ("silu", "gelu", "relu")

    def draw(self, random: Random) -> Drawn:
        """A layer of a model."""
        model = random.choice(MODELS)
        layer, (k, n) = random.choice([*model.linear_layers().items()])
        options = [layer, *order_of(random)]
        options += ["bias"] * (random.random() < 0.5)
        options += [random.choice(self.ACTIVATIONS)] * (random.random() < 0.3)
        options += ["residual"] * (random.random() < 0.3)
        return Drawn(model.name, {"m": rows_of(random, model), "n": n, "k": k}, tuple(options))

    def operands(self, sizes: Sizes, options: Options) -> tuple[Operand, ...]:
        """X, W, and what the options say."""
        m, n, k = sizes["m"], sizes["n"], sizes["k"]
        bias = [Operand((n,))] if "bias" in options else []
        residual = [Operand((m, n))] if "residual" in options else []
        return (Operand((m, k)), weights(options, k, n), *bias, *residual)

    def compute(self, library: Any, options: Options, *inputs: Any) -> Any:
        """The layer."""
        x, w, *rest = inputs
        y = x @ oriented(library, options, w)
        if "bias" in options:
            y = y + rest[0]
        for name in self.ACTIVATIONS:
            if name in options:
                y = getattr(library, name)(y)
        return y + rest[-1] if "residual" in options else y


class NormLinear(Products):
    """norm(X) · W."""

    name = "norm + linear"
    weight = 2

    def draw(self, random: Random) -> Drawn:
        """The norm before attention or before an MLP."""
        model = random.choice(MODELS)
        layer = random.choice(["qkv", "up"])
        _, n = model.linear_layers()[layer]
        options = (layer, "rms norm" if model.gated else "layer norm", *order_of(random))
        m = rows_of(random, model)
        return Drawn(model.name, {"m": m, "n": n, "k": model.hidden}, options)

    def operands(self, sizes: Sizes, options: Options) -> tuple[Operand, ...]:
        """X, the norm's weight, and bias where it has one, W."""
        m, n, k = sizes["m"], sizes["n"], sizes["k"]
        bias = [Operand((k,), 0.1)] if "layer norm" in options else []
        return (Operand((m, k)), Operand((k,), 0.1, 1.0), *bias, weights(options, k, n))

    def compute(self, library: Any, options: Options, *inputs: Any) -> Any:
        """The layer."""
        x, *of_norm, w = inputs
        return normed(library, options, x, *of_norm) @ oriented(library, options, w)


def normed(library: Any, options: Options, x: Any, *of_norm: Any) -> Any:
    """The norm that the options say."""
    norm = library.layer_norm if "layer norm" in options else library.rms_norm
    return norm(x, *of_norm, eps=EPSILON)


class GatedMlp(Products):
    """act(X · W1) * (X · W2)."""

    name = "gated MLP"
    weight = 2

    def draw(self, random: Random) -> Drawn:
        """The first half of a gated MLP."""
        model = random.choice([model for model in MODELS if model.gated])
        options = (random.choice(["silu", "gelu"]), *order_of(random))
        sizes = {"m": rows_of(random, model), "n": model.inner, "k": model.hidden}
        return Drawn(model.name, sizes, options)

    def operands(self, sizes: Sizes, options: Options) -> tuple[Operand, ...]:
        """X, W1, W2."""
        matrix = weights(options, sizes["k"], sizes["n"])
        return Operand((sizes["m"], sizes["k"])), matrix, matrix

    def compute(self, library: Any, options: Options, *inputs: Any) -> Any:
        """The gated products."""
        x, gate, up = inputs
        act = library.silu if "silu" in options else library.gelu
        return act(x @ oriented(library, options, gate)) * (x @ oriented(library, options, up))

    def flop(self, sizes: Sizes) -> int:
        """Of two products."""
        return 2 * super().flop(sizes)


class LowRank(Products):
    """X · A · B, or X · W + X · A · B."""

    name = "low rank"
    RANKS = (8, 16, 32, 64)

    def draw(self, random: Random) -> Drawn:
        """A layer with LoRA, or a projection through few columns."""
        model = random.choice(MODELS)
        k, n = random.choice([*model.linear_layers().values()])
        rank = model.low_rank or random.choice(self.RANKS)
        options = ("adapter",) if rank in self.RANKS and random.random() < 0.5 else ()
        m = rows_of(random, model)
        return Drawn(model.name, {"m": m, "n": n, "k": k, "rank": rank}, options)

    def operands(self, sizes: Sizes, options: Options) -> tuple[Operand, ...]:
        """X, W where there is one, A, B."""
        m, n, k, rank = sizes["m"], sizes["n"], sizes["k"], sizes["rank"]
        whole = [weights((), k, n)] if "adapter" in options else []
        return (Operand((m, k)), *whole, weights((), k, rank), weights((), rank, n))

    def compute(self, library: Any, options: Options, *inputs: Any) -> Any:
        """The products."""
        x, *whole, a, b = inputs
        y = x @ a @ b
        return x @ whole[0] + y if whole else y

    def flop(self, sizes: Sizes) -> int:
        """Of the products through the rank, and of the whole one, which not all have."""
        return 2 * sizes["m"] * sizes["rank"] * (sizes["n"] + sizes["k"])


class Attention(Kind):
    """softmax(Q · Kᵀ / √d) · V; sizes are those of [matrices, group, queries, depth]."""

    def operands(self, sizes: Sizes, options: Options) -> tuple[Operand, ...]:
        """Q as [matrices, group, queries, d], K and V as [matrices, 1, keys, d]."""
        matrices, keys = sizes["matrices"], sizes["keys"]
        query = Operand((matrices, sizes["group"], sizes["queries"], sizes["depth"]))
        key = Operand((matrices, 1, keys, sizes["depth"]))
        return query, key, Operand((matrices, 1, keys, sizes["values"]))

    def compute(self, library: Any, options: Options, *inputs: Any) -> Any:
        """Attention."""
        q, k, v = inputs
        scores = q @ library.transpose(k) * q.shape[-1] ** -0.5
        if "causal" in options:
            scores = library.causal_mask(scores)
        return library.softmax(scores) @ v

    def flop(self, sizes: Sizes) -> int:
        """Of both products, without a mask."""
        scores = sizes["matrices"] * sizes["group"] * sizes["queries"] * sizes["keys"]
        return 2 * scores * (sizes["depth"] + sizes["values"])

    def least_flop(self, sizes: Sizes, options: Options) -> int:
        """Without what a causal mask leaves out: of query i all keys behind the i-th."""
        if "causal" not in options:
            return self.flop(sizes)
        kept = sum(min(query + 1, sizes["keys"]) for query in range(sizes["queries"]))
        return self.flop(sizes) * kept // (sizes["queries"] * sizes["keys"])

    def small(self, sizes: Sizes) -> Sizes:
        """Some matrices of few tokens."""
        most = {"matrices": 2, "group": 2, "queries": 48, "keys": 48, "depth": 64, "values": 64}
        return {name: min(size, most[name]) for name, size in sizes.items()}


def of_heads(model: Model, batch: int, queries: int, keys: int) -> Sizes:
    """The sizes of a model's attention."""
    return {
        "matrices": batch * model.key_heads,
        "group": model.heads // model.key_heads,
        "queries": queries,
        "keys": keys,
        "depth": model.depth,
        "values": model.value_depth or model.depth,
    }


class Prefill(Attention):
    """Attention of as many queries as keys."""

    name = "prefill"
    weight = 3

    def draw(self, random: Random) -> Drawn:
        """Some sequences of a model."""
        model = random.choice(MODELS)
        tokens = drawn_between(random, 128, 2 * MOST_ROWS)
        if model.tokens and random.random() < 0.5:
            tokens = model.tokens
        batch = 2 ** random.randint(0, max(0, int(math.log2(2 * MOST_ROWS / tokens))))
        options = ("causal",) if model.causal else ()
        return Drawn(model.name, of_heads(model, min(batch, 32), tokens, tokens), options)

    def group(self, sizes: Sizes) -> str:
        """By the depth of a head."""
        return f"{self.name}, d {sizes['depth']}"


class Decode(Attention):
    """Attention of one query a head; the heads that share keys are its rows."""

    name = "decode"
    weight = 3

    def draw(self, random: Random) -> Drawn:
        """A step of some sequences of a model."""
        model = random.choice([model for model in MODELS if model.causal])
        keys = drawn_between(random, FEWEST_KEYS, MOST_KEYS)
        batch = 2 ** random.randint(0, 6)
        sizes = of_heads(model, batch, model.heads // model.key_heads, keys)
        return Drawn(model.name, {**sizes, "group": 1}, ())

    def group(self, sizes: Sizes) -> str:
        """By the number of keys."""
        keys = sizes["keys"]
        most = "up to 4k" if keys <= 4096 else "4k to 32k" if keys <= 32768 else "above 32k"
        return f"{self.name}, keys {most}"


class Rows(Kind):
    """Kernels whose rows are apart; sizes are rows and columns."""

    def draw(self, random: Random) -> Drawn:
        """Rows of a model's width, of a head, or of its vocabulary."""
        model = random.choice(MODELS)
        widths = (model.hidden, model.inner, model.depth, *self.further_widths(model))
        columns = random.choice([w for w in widths if FEWEST_COLUMNS <= w <= MOST_COLUMNS])
        if random.random() < 0.25:
            columns = drawn_between(random, FEWEST_COLUMNS, MOST_COLUMNS)
        sizes = {"rows": rows_of(random, model), "columns": columns}
        return Drawn(model.name, sizes, self.options(random))

    def further_widths(self, model: Model) -> tuple[int, ...]:
        """Other columns that a model has of this kind."""
        del model
        return ()

    @abstractmethod
    def options(self, random: Random) -> tuple[str, ...]:
        """Further operators."""

    def flop(self, sizes: Sizes) -> int:
        """No products."""
        del sizes
        return 0

    def small(self, sizes: Sizes) -> Sizes:
        """Few rows."""
        return {"rows": min(sizes["rows"], 8), "columns": min(sizes["columns"], 384)}

    def group(self, sizes: Sizes) -> str:
        """By columns."""
        long = "up to 16k" if sizes["columns"] <= 16384 else "above 16k"
        return f"{self.name}, columns {long}"


class RowNorm(Rows):
    """RMS or layer norm of rows, with weights, or of the sum with a residual, both results."""

    name = "row norm"
    weight = 2

    def options(self, random: Random) -> tuple[str, ...]:
        """Which norm."""
        return random.choice([("rms norm",), ("layer norm",), ("rms norm", "residual")])

    def operands(self, sizes: Sizes, options: Options) -> tuple[Operand, ...]:
        """X, the residual where there is one, weight, and bias where there is one."""
        rows, columns = sizes["rows"], sizes["columns"]
        wide = [Operand((rows, columns))] * (1 + ("residual" in options))
        bias = [Operand((columns,), 0.1)] if "layer norm" in options else []
        return (*wide, Operand((columns,), 0.1, 1.0), *bias)

    def compute(self, library: Any, options: Options, *inputs: Any) -> Any:
        """The norm."""
        if "residual" not in options:
            return normed(library, options, *inputs)
        x, residual, *of_norm = inputs
        total = x + residual
        return total, normed(library, options, total, *of_norm)


class RowSoftmax(Rows):
    """Softmax of rows."""

    name = "row softmax"
    weight = 2

    def further_widths(self, model: Model) -> tuple[int, ...]:
        """Vocabularies."""
        return (model.vocabulary,) * 3

    def options(self, random: Random) -> tuple[str, ...]:
        """None."""
        del random
        return ()

    def operands(self, sizes: Sizes, options: Options) -> tuple[Operand, ...]:
        """X."""
        return (Operand((sizes["rows"], sizes["columns"]), 2.0),)

    def compute(self, library: Any, options: Options, *inputs: Any) -> Any:
        """The softmax."""
        return library.softmax(*inputs)


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Linear(), NormLinear(), GatedMlp(), LowRank(), Prefill(), Decode(), RowNorm(), RowSoftmax(),
    )
}  # fmt: skip
"""All of them, by name."""
