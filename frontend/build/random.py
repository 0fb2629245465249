"""Random numbers as tensors: uniform, normal, and the words that both are made of."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import f32, i32
from xdsl.ir import Attribute

from mugraph.build.elementwise import of_tensors
from mugraph.build.errors import build_errors, require_element_type, require_integers
from mugraph.build.moves import MovingOperators
from mugraph.build.tensors import DTensor
from mugraph.dialects import kn


class RandomOperators(MovingOperators):
    """Operators whose elements are drawn, beside those that move elements."""

    def uniform(
        self,
        seed: DTensor,
        offset: DTensor,
        shape: Sequence[int],
        *,
        dtype: Attribute = f32,
        name: str | None = None,
    ) -> DTensor:
        """Random numbers from 0 to less than 1, by Philox, of a seed and an offset of int64."""
        return self._random(kn.Distribution.UNIFORM, seed, offset, shape, dtype, name)

    def normal(
        self,
        seed: DTensor,
        offset: DTensor,
        shape: Sequence[int],
        *,
        dtype: Attribute = f32,
        name: str | None = None,
    ) -> DTensor:
        """Random numbers about 0, of variance 1, by Philox, of a seed and an offset of int64."""
        return self._random(kn.Distribution.NORMAL, seed, offset, shape, dtype, name)

    def random_bits(
        self, seed: DTensor, offset: DTensor, shape: Sequence[int], *, name: str | None = None
    ) -> DTensor:
        """Words of Philox4x32-10 in int32: what the others are made of."""
        return self._random(kn.Distribution.BITS, seed, offset, shape, i32, name)

    def _random(
        self,
        distribution: kn.Distribution,
        seed: DTensor,
        offset: DTensor,
        shape: Sequence[int],
        dtype: Attribute,
        name: str | None,
    ) -> DTensor:
        values = self._value(seed), self._value(offset)
        shape = require_integers(str(distribution), shape)
        own = i32 if distribution is kn.Distribution.BITS else f32
        with build_errors():
            require_element_type(str(distribution), dtype)
            op = kn.RandomOp(distribution, *values, self._type_of(shape, own))
        if dtype == own:
            return self._add(op, name)
        return self.cast(self._add(op, None), dtype, name=name)


normal = of_tensors(RandomOperators.normal)
random_bits = of_tensors(RandomOperators.random_bits)
uniform = of_tensors(RandomOperators.uniform)

__all__ = ["normal", "random_bits", "uniform"]
