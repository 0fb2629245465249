"""Random numbers: bit for bit those of the published algorithm, and spread as they should be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases.functions import philox4x32, random_numbers
from emulated_programs import emulated, graph_of, interpreted

import mugraph.build as mi
from mugraph.runtime.cuda import only_function
from mugraph.runtime.equivalence.prove import prove
from mugraph.runtime.interpreter.random_numbers import philox
from mugraph.runtime.interpreter.run import bound_rounding

KNOWN = (
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (
        *((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2),
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
)
"""Counters, keys and words that Random123 publishes for philox4x32-10 (kat_vectors)."""

SEED, OFFSET = np.array([0x299F31D0A4093822], np.int64), np.array([[-3]], np.int64)


def generator(*shapes: tuple[int, ...]) -> Any:
    """Numbers of all kinds for each of some extents."""
    kinds = (mi.random_bits, mi.uniform, mi.normal)
    return lambda seed, offset: [kind(seed, offset, shape) for shape in shapes for kind in kinds]


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_published_words(counter: Any, key: Any, words: Any) -> None:
    made = philox([np.array([word], np.uint64) for word in counter], key)
    assert tuple(int(word[0]) for word in made) == words
    whole = sum(word << 32 * place for place, word in enumerate(counter))
    assert tuple(philox4x32(whole, key[0] | key[1] << 32)) == words


@pytest.mark.parametrize(("seed", "offset"), [(0, 0), (-1, -1), (1234567890123, 2**33 + 5)])
def test_the_same_words_as_the_published_algorithm(seed: int, offset: int) -> None:
    """Counters, keys and offsets of all sizes; the last counter is followed by 0."""
    arrays = [np.array([each], np.int64) for each in (seed, offset)]
    shape = (3, 7, 5)
    bits, uniform, *_ = interpreted(generator(shape), *arrays)
    words = [
        word
        for number in range(27)
        for word in philox4x32((offset % 2**64 + number) % 2**64, seed % 2**64)
    ][: 3 * 7 * 5]
    expected = np.array(words, np.uint32).reshape(shape)
    np.testing.assert_array_equal(bits.view(np.uint32), expected)
    np.testing.assert_array_equal(uniform, (expected >> 8).astype(np.float32) * 2.0**-24)


def test_generated_kernels_make_the_same_numbers() -> None:
    """Of one element, of parts of counters, and laid out in another order."""

    def program(seed: Any, offset: Any) -> list[Any]:
        made = generator((1,), (9, 13))(seed, offset)
        exact = [each for number, each in enumerate(made) if number % 3 != 2]
        return [*exact, mi.transpose(exact[-1])]

    emulated(program, SEED, OFFSET)


def test_moments() -> None:
    _, uniform, normal = interpreted(generator((400, 501)), SEED, np.array([7]))
    assert 0 <= uniform.min() < 1e-4 and 1 - 1e-4 < uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 2e-3 and abs(uniform.var() - 1 / 12) < 1e-3
    assert abs(normal.mean()) < 1e-2 and abs(normal.std() - 1) < 1e-2
    assert abs((normal.astype(np.float64) ** 4).mean() - 3) < 0.1


def test_normal_numbers_are_within_their_bounds() -> None:
    arrays = [np.array([5], np.int64), np.array([9], np.int64)]
    graph = graph_of(lambda s, o: mi.normal(s, o, (40, 40)), *arrays)
    (bound,) = bound_rounding(graph.module(), None, arrays)
    (made,) = interpreted(lambda s, o: mi.normal(s, o, (40, 40)), *arrays)
    assert (np.abs(made - random_numbers("normal", (40, 40), 5, 9)) <= bound).all()
    assert (bound <= 1e-5).all()


def test_a_part_is_the_beginning_of_the_whole() -> None:
    def function(program: Any) -> Any:
        return only_function(graph_of(program, SEED, OFFSET[0]).module())

    rows = function(lambda s, o: mi.uniform(s, o, (4, 6)))
    assert prove(rows, function(lambda s, o: mi.reshape(mi.uniform(s, o, (24,)), (4, 6)))).holds
    assert prove(rows, function(lambda s, o: mi.uniform(s, o, (7, 6))[:4])).holds
    assert not prove(rows, function(lambda s, o: mi.uniform(s, o, (7, 6))[1:5])).holds
    assert not prove(rows, function(lambda s, o: mi.normal(s, o, (4, 6)))).holds
    assert not prove(rows, function(lambda s, o: mi.uniform(o, s, (4, 6)))).holds


def test_a_sampler_and_a_dropout() -> None:
    """The place of the largest logit with Gumbel noise; elements kept at random."""
    logits = np.zeros((3, 50), np.float32)
    logits[:, 17] = 100.0

    def program(seed: Any, offset: Any, logits: Any) -> list[Any]:
        noise = -mi.log(-mi.log(mi.uniform(seed, offset, (3, 50))))
        kept = mi.uniform(seed, offset + 38, (3, 50)) >= 0.25
        return [mi.arg_max(logits + noise), mi.where(kept, logits / 0.75, 0.0)]

    token, dropped = interpreted(program, SEED, OFFSET, logits)
    np.testing.assert_array_equal(token, [[17]] * 3)
    assert set(np.round(dropped[:, 17]).tolist()) <= {0.0, 133.0}


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (lambda s, o: mi.uniform(s, mi.cast(o, mi.int32), (4,)), "the offset is one i64, but"),
        (lambda s, o: mi.uniform(mi.broadcast_to(s, (2,)), o, (4,)), "the seed is one i64, but"),
        (lambda s, o: mi.normal(s, o, (1.5,)), r"normal: \(1.5,\); expected integers"),
        (lambda s, o: mi.normal(s, o, (4,), dtype="f16"), "normal: 'f16' is no element type of"),
    ],
)
def test_mistakes_are_sentences(program: Any, message: str) -> None:
    with pytest.raises(mi.BuildError, match=message):
        graph_of(program, SEED, OFFSET)
