"""Tensor expressions whose loops are at levels warp, cluster and grid."""

ROWS = """
fn softmax(x: f16[12, N]): f16[12, N] {
    par 2 |b| #grid {
        par 6 |w| #block {
            new v: f32[N]
            new largest: f32
            new sum: f32
            largest = -inf
            sum = 0.0
            par N j #warp { v[j] = x[b * 6 + w, j] red largest max= v[j] }
            par N j #warp { v[j] = exp(v[j] - largest) red sum += v[j] }
            par N j #warp { result[b * 6 + w, j] = v[j] / sum }
        }
    }
}
"""
"""The softmax of a row a warp."""

EXCHANGE = """
fn f(x: f32[4, 3, 64]): f32[4, 3, 64] {
    par 4 |b| #grid {
        new all: f32[200] #shared
        new total: f32
        total = 0.0
        par 200 i #block { all[i] = 0.5 * f32(i) }
        par 3 |w| #block {
            new t: f32[64] #shared
            new first: f32[1] #shared
            seq 2 |round| {
                par 64 j #warp { t[j] = x[b, w, j] + f32(round) }
                first[0] = t[5] + all[199 - w]
                fully par 32 |lane| #align(32) {
                    result[b, w, lane] = t[63 - lane] + first[0]
                    result[b, w, lane + 32] = t[31 - lane]
                    red total += t[lane]
                }
            }
        }
        par 3 w #block { result[b, w, 0] += total }
    }
}
"""
"""Warps with buffers of their own, what one lane does, and a number of the whole block."""

LANES = """
fn f(x: f32[5, 100]): f32[5, 100] {
    par 5 |b| #grid {
        new t: f32[100] #shared
        par 100 i #warp { t[i] = x[b, i] }
        par 100 i #block { result[b, i] = t[99 - i] }
    }
}
"""
"""A loop of one warp in a block of several."""

CLUSTERS = """
fn f(x: f32[8, 100]): f32[8, 100] {
    par 2 |r| #grid {
        par 4 |c| #cluster {
            par 100 j #block { result[r * 4 + c, j] = 2.0 * x[r * 4 + c, 99 - j] }
        }
    }
}
"""
"""Blocks of a cluster."""

SUMS_OF_CLUSTERS = """
fn f(x: i32[8, 64]): i32[8, 64] {
    par 2 |c| #grid {
        new t: i32[4, 16] #cluster
        par 4 |b| #cluster { par 16 |i| { t[b, i] = 0 } }
        par 4 |b| #cluster { par 64 |i| { red t[i / 16, i % 16] += x[c * 4 + b, i] } }
        par 4 |b| #cluster { par 64 |i| { result[c * 4 + b, i] = t[i / 16, i % 16] } }
    }
}
"""
"""Sums in the shared memory of a cluster."""

WHOLE_GRID = """
fn f(x: i32[4, 64]): i32[4, 64] {
    new t: i32[4, 64]
    new own: i32[4, 64]
    fully par 4 |b| #grid { par 64 |i| { t[b, i] = x[b, i] own[b, 63 - i] = x[b, i] } }
    seq 5 |k| {
        fully par 4 |b| #grid { par 64 |i| { own[b, i] += t[(b + k) % 4, 63 - i] } }
        if k > 0 { fully par 4 |b| #grid { par 64 |i| { t[b, i] = own[b, i] * 3 } } }
    }
    fully par 4 |b| #grid { par 64 |i| { result[b, i] = own[b, i] } }
}
"""
"""Blocks that wait for each other, each with a buffer of its own."""

LEVELS: list[tuple[str, str, dict[str, int]]] = [
    ("rows", ROWS, {"N": 200}),
    ("rows", ROWS, {"N": 45}),
    ("exchange", EXCHANGE, {}),
    ("lanes", LANES, {}),
    ("clusters", CLUSTERS, {}),
    ("sums_of_clusters", SUMS_OF_CLUSTERS, {}),
    ("whole_grid", WHOLE_GRID, {}),
]
