"""Programs that no test of the search was written for, with 1, 16 and 64 rows."""

from __future__ import annotations

from typing import Any

from benchmarks.programs.families import ONE_SWEEP, family, near, places, tensor, weight

EPSILON = 1e-5
FITS = "a row fits a block"
SHARED = "both products share X and their columns"
QKV = (tensor("heads", "rows", "depth"), *(tensor("heads", "keys", "depth"),) * 2)


@family(
    tensor("rows", "width"),
    tensor("rows", "width"),
    near(1, "width"),
    because=FITS,
)
def residual_rms_norm(m: Any, x: Any, residual: Any, w: Any) -> Any:
    """The sum and its norm, both results."""
    total = x + residual
    return total, m.rms_norm(total, w, EPSILON)


@family(
    tensor("rows", "width"),
    near(1, "width"),
    near(0, "width"),
    weight("width", "hidden"),
    tensor("hidden"),
    because="a block centres its rows and multiplies them; 64 rows of 4 KB do not fit a block, and "
    "sums of powers, which need no whole rows, round much worse",
    more={"layer_norm_linear_gelu_64": 2},
)
def layer_norm_linear_gelu(m: Any, x: Any, a: Any, b: Any, w: Any, bias: Any) -> Any:
    """gelu(layer_norm(X) · W + bias)."""
    return m.gelu(m.layer_norm(x, a, b, EPSILON) @ w + bias)


@family(
    tensor("rows", "width"),
    tensor("rows", "width"),
    because=FITS,
)
def cosine_similarity(m: Any, x: Any, y: Any) -> Any:
    """The cosine of the angle of each pair of rows."""
    lengths = m.sqrt(m.reduction(x * x, -1)) * m.sqrt(m.reduction(y * y, -1))
    return m.reduction(x * y, -1) / lengths


@family(
    *QKV,
    because=ONE_SWEEP,
)
def soft_capped_attention(m: Any, q: Any, k: Any, v: Any) -> Any:
    """Attention whose scores stay below 50 by a hyperbolic tangent."""
    scores = q @ m.transpose(k) * q.shape[-1] ** -0.5
    return m.softmax(m.tanh(scores / 50.0) * 50.0) @ v


@family(
    *QKV,
    tensor(1, "rows", "keys"),
    because=ONE_SWEEP,
)
def attention_with_bias(m: Any, q: Any, k: Any, v: Any, bias: Any) -> Any:
    """Attention with a bias on the scores that all heads share."""
    return m.softmax(q @ m.transpose(k) * q.shape[-1] ** -0.5 + bias) @ v


@family(
    tensor("heads", "rows", "depth", scale=0.125),
    tensor("heads", "keys", "depth", scale=0.25),
    tensor("heads", "keys", "depth", scale=0.25),
    because="a block has some rows of Q and goes once over keys and values",
)
def linear_attention(m: Any, q: Any, k: Any, v: Any) -> Any:
    """(Q · Kᵀ) · V without a softmax."""
    return (q @ m.transpose(k)) @ v


@family(
    tensor("rows", "width"),
    weight("width", "inner"),
    weight("inner", "width"),
    because="rows of the hidden layer fit a block",
)
def two_layer_mlp(m: Any, x: Any, w1: Any, w2: Any) -> Any:
    """relu(X · W1) · W2 with a hidden size of 128."""
    return m.relu(x @ w1) @ w2


@family(
    tensor("rows", "width"),
    weight("width", 16),
    weight(16, 32),
    weight(32, "width"),
    because="each block computes X · A itself, of which the rank is small",
)
def low_rank_product(m: Any, x: Any, a: Any, b: Any, c: Any) -> Any:
    """X · A · B · C."""
    del m
    return x @ a @ b @ c


@family(
    tensor("rows", "vocabulary"),
    because="a block goes over a row, with a running maximum",
)
def log_sum_exp(m: Any, x: Any) -> Any:
    """Over a vocabulary."""
    return m.log_sum_exp(x)


@family(
    tensor("rows", "vocabulary"),
    places("rows", "vocabulary"),
    because="what is gathered is a kernel before, and the other one as log-sum-exp",
    fewest=2,
)
def cross_entropy(m: Any, x: Any, labels: Any) -> Any:
    """log_sum_exp(x) less the element that each row's label says."""
    return m.log_sum_exp(x) - m.gather(m.reshape(x, (-1, 1)), labels)


@family(
    tensor("rows", "width"),
    near(1, "width"),
    tensor("rows", 1, "head"),
    tensor("rows", 1, "head"),
    *(weight("width", "width"), tensor("width")) * 3,
    because="the products share X, the factor of the norm leaves them, blocks have whole heads",
)
def rms_norm_qkv_rotary(m: Any, x: Any, w: Any, cos: Any, sin: Any, *layers: Any) -> Any:
    """Queries, keys and values of a normed row, with biases, as [rows, heads, d]; the first two
    rotated."""
    normal = m.rms_norm(x, w, EPSILON)
    depth = cos.shape[-1]
    half = depth // 2

    def heads(weights: Any, bias: Any) -> Any:
        return m.reshape(normal @ weights + bias, (x.shape[0], -1, depth))

    def rotated(y: Any) -> Any:
        return y * cos + m.concat(-y[:, :, half:], y[:, :, :half], -1) * sin

    wq, bq, wk, bk, wv, bv = layers
    return rotated(heads(wq, bq)), rotated(heads(wk, bk)), heads(wv, bv)


@family(
    tensor("layer_heads", "rows", "head"),
    tensor("rows", "width"),
    weight("width", "width"),
    because="the gate is computed on the tiles that the product loads",
)
def gated_attention_output(m: Any, attended: Any, gate: Any, w: Any) -> Any:
    """(attended * sigmoid(gate)) · W with what was attended as [heads, rows, d]."""
    merged = m.reshape(m.transpose(attended, (1, 0, 2)), gate.shape)
    return (merged * m.sigmoid(gate)) @ w


@family(
    tensor("rows", "width", scale=4.0),
    weight("width", "hidden"),
    weight("width", "hidden"),
    because=SHARED,
)
def clipped_swiglu(m: Any, x: Any, w1: Any, w2: Any) -> Any:
    """g * sigmoid(1.702 g) * (u + 1) of two clipped products."""
    g, u = m.clamp(x @ w1, -7.0, 7.0), m.clamp(x @ w2, -7.0, 7.0)
    return g * m.sigmoid(g * 1.702) * (u + 1.0)


@family(
    *QKV,
    near(8, "heads", 1, 1),
    because=ONE_SWEEP,
)
def attention_with_temperature(m: Any, q: Any, k: Any, v: Any, temperature: Any) -> Any:
    """Attention whose scores are divided by a learned number of each head."""
    return m.softmax(q @ m.transpose(k) / temperature) @ v


@family(
    tensor("rows", "width"),
    weight("width", "width"),
    weight("width", "width"),
    near(0.7, "rows", 1),
    near(0.3, "rows", 1),
    because=SHARED,
)
def two_experts(m: Any, x: Any, w1: Any, w2: Any, p1: Any, p2: Any) -> Any:
    """(X · W1) p1 + (X · W2) p2 with factors of each row."""
    del m
    return (x @ w1) * p1 + (x @ w2) * p2


@family(
    tensor("rows", "channels", "pixels"),
    near(1, "channels", 1),
    near(0, "channels", 1),
    because="a group of channels fits a block",
)
def group_norm(m: Any, x: Any, w: Any, bias: Any) -> Any:
    """Of images [rows, channels, pixels], in 32 groups of channels."""
    rows, channels, pixels = x.shape
    groups = m.reshape(x, (rows, 32, channels // 32 * pixels))
    return m.reshape(m.layer_norm(groups, eps=EPSILON), x.shape) * w + bias


@family(
    tensor("rows", "tokens", "width"),
    weight("width", "width"),
    because="blocks of the product would read all tokens again: the means are a kernel before",
    fewest=2,
)
def mean_pooling(m: Any, x: Any, w: Any) -> Any:
    """The mean over 128 tokens, and a linear layer."""
    return m.reshape(m.mean(x, 1), (x.shape[0], x.shape[2])) @ w


@family(
    *(tensor("rows", "tokens", "depth"),) * 2,
    because="the division follows the product",
)
def outer_product_mean(m: Any, a: Any, b: Any) -> Any:
    """The mean over 128 sequences of the outer products of two rows."""
    return m.transpose(a) @ b / a.shape[1]


@family(
    tensor("rows", "depth"),
    tensor("centroids", "depth"),
    because="the sums of squares are over what the product sums over",
)
def distance_to_centroids(m: Any, x: Any, c: Any) -> Any:
    """|x|² + |c|² - 2 x·c of each row and each centroid."""
    lengths = m.reduction(x * x, 1) + m.transpose(m.reduction(c * c, 1))
    return lengths - x @ m.transpose(c) * 2.0


@family(
    tensor("rows", "channels", "pixels"),
    near(0, "channels", 1),
    near(1, "channels", 1),
    near(1, "channels", 1),
    near(0, "channels", 1),
    because="each element alone",
)
def batch_norm(m: Any, x: Any, mean: Any, variance: Any, w: Any, bias: Any) -> Any:
    """At inference: of images [rows, channels, pixels], with statistics of each channel."""
    return (x - mean) * m.rsqrt(variance + EPSILON) * w + bias
