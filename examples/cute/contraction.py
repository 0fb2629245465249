"""Contractions of tensors as products: ``contraction.py mkl,nlk->mn 64 96 128 32`` for instance.

Letters name the modes of A, B and C.  Those that A and C share are M, B and C N, A and B K; all
GETTs are GEMMs.  The kernel of ``gemm_sm90.py`` computes those whose tiles TMA can move, that of
``gemm_predicated.py`` all others.
"""

import sys

import gemm_predicated
import gemm_sm90
from tiles import tile_of

from mugraph import cute
from mugraph.cute import E


class Contraction:
    """The letters of A, B and C, and those of M, N and K, the fastest one of each first."""

    def __init__(self, text):
        operands, self.c = text.split("->")
        self.a, self.b = operands.split(",")
        letters = reversed(self.c)
        self.m, self.n = [], []
        for letter in letters:
            (self.m if letter in self.a else self.n).append(letter)
        self.k = [letter for letter in reversed(self.a) if letter not in self.c]
        names = [sorted([*rows, *columns]) for rows, columns in self.matrices]
        if names != [sorted(one) for one in (self.a, self.b, self.c)]:
            sys.exit(f"{text}: each letter stands once in two of the three tensors")

    @property
    def matrices(self):
        """The letters of rows and of columns, of A, B and C."""
        return (self.m, self.k), (self.n, self.k), (self.m, self.n)

    def extents(self, shapes):
        """The extent of each letter."""
        return dict(
            pair
            for letters, shape in zip((self.a, self.b, self.c), shapes, strict=True)
            for pair in zip(letters, cute.Layout(shape).flat_shape, strict=True)
        )

    def views(self, *tensors):
        """Matrices of A, B and C."""
        extents = self.extents([one.shape for one in tensors])
        return tuple(
            tensor.compose(
                cute.Layout(
                    tuple(tuple(extents[one] for one in group) or 1 for group in groups),
                    tuple(
                        tuple(E(letters.index(one)) for one in group)
                        # No letter, one element: the next one is outside of the tensor.
                        or E(0) * extents[letters[0]]
                        for group in groups
                    ),
                )
            )
            for tensor, letters, groups in zip(
                tensors, (self.a, self.b, self.c), self.matrices, strict=True
            )
        )


def boxes_of(spec, shapes, tile):
    """A tiler of M, N and K whose tiles are boxes that TMA moves; ``None`` where there is none."""
    extents = spec.extents(shapes)
    last = [letters[-1] for letters in (spec.a, spec.b, spec.c)]
    if any(len(names) > 5 or extents[names[-1]] % 8 for names in (spec.a, spec.b, spec.c)):
        return None
    if last[:2] != [spec.k[0]] * 2 or last[2] not in spec.n[:1]:
        return None

    def in_order(group, *tensors):
        """Tiles whose elements lie in one order in all of the tensors."""

        def holds(tile):
            wide = [one for one, extent in zip(group, tile, strict=True) if extent > 1]
            return all(sorted(wide, key=lambda one: -of.index(one)) == wide for of in tensors)

        return holds

    def row_of(tile):
        return tile[0] >= 64

    return tuple(
        tile_of([extents[one] for one in group], elements, allowed)
        for group, elements, allowed in (
            (spec.m, tile[0], in_order(spec.m, spec.a, spec.c)),
            (spec.n, tile[1], lambda one: row_of(one) and in_order(spec.n, spec.b, spec.c)(one)),
            (spec.k, 64, row_of),
        )
    )


def launch(text, a, b, c, tile=(128, 128), stages=4, blocks=132, *, boxes=True):
    """The kernel on row-major tensors of f16."""
    spec, shapes = Contraction(text), [one.shape for one in (a, b, c)]
    tiler = boxes_of(spec, shapes, tile) if boxes else None
    if tiler is None or None in tiler:
        extents = spec.extents(shapes)
        groups = zip((spec.m, spec.n, spec.k), (64, 64, 32), strict=True)
        tiler = tuple(
            tile_of([extents[one] for one in group], elements) if group else elements
            for group, elements in groups
        )
        return gemm_predicated.launch(a, b, c, tiler, spec.views)
    return gemm_sm90.launch(a, b, c, tiler, stages, blocks=blocks, views=spec.views)


if __name__ == "__main__":
    text, *sizes = sys.argv[1:] or ("makl,nlk->amn", 64, 16, 8, 64, 128)
    spec = Contraction(text)
    letters = dict.fromkeys(spec.a + spec.b)
    extents = dict(zip(letters, map(int, sizes), strict=True))
    shapes = [tuple(extents[one] for one in names) for names in (spec.a, spec.b, spec.c)]
    print(launch(text, *(cute.make_fake_tensor("f16", shape) for shape in shapes)).text())
