"""The orders that the bound variables of a term can be named in."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from mugraph.runtime.equivalence.errors import NoProofError
from mugraph.runtime.equivalence.indices import (
    Variable,
)
from mugraph.runtime.equivalence.terms import (
    Key,
)

MOST_ORDERS = 720
"""How many orders of the bound variables of one term are tried for the least one."""


def orders_of(
    variables: Sequence[Variable], occurrences: Callable[[Variable], Key]
) -> Iterator[tuple[Variable, ...]]:
    """The orders of bound variables that may be the least: those that sort their occurrences.

    Raises ``NoProofError`` where too many of them occur alike.
    """
    if len(variables) <= 1:
        yield tuple(variables)
        return
    extents = Counter(variable.extent for variable in variables)
    signatures: dict[Key, list[Variable]] = {}
    for variable in variables:
        alone = extents[variable.extent] == 1
        signature = (variable.extent, () if alone else occurrences(variable))
        signatures.setdefault(signature, []).append(variable)
    groups = [group for _, group in sorted(signatures.items())]
    if math.prod(math.factorial(len(group)) for group in groups) > MOST_ORDERS:
        raise NoProofError("a sum has too many variables that look alike")
    for order in itertools.product(*(itertools.permutations(group) for group in groups)):
        yield tuple(itertools.chain.from_iterable(order))
