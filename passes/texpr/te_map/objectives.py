"""What mappings are chosen for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from xdsl.ir import SSAValue

from mugraph.dialects.te import Space
from mugraph.passes.texpr.te_map.bands import Band
from mugraph.passes.texpr.te_map.choice import candidates_of, only
from mugraph.passes.texpr.te_map.farkas import nearest
from mugraph.passes.texpr.te_map.search import Classes


class Objective(StrEnum):
    """What is made least."""

    TRAFFIC = "traffic"
    """Sectors and wavefronts."""
    FARKAS = "farkas"
    """The distance between the elements of neighbouring threads, as the seed has it."""

    def candidates(
        self,
        group: Sequence[Band],
        threads: int,
        spaces: Mapping[SSAValue, Space],
        most_items: int | None,
    ) -> Classes:
        """The mappings of a group of bands that are compared by their traffic."""
        if self is Objective.FARKAS:
            return only(nearest(group, threads, spaces))
        return candidates_of(group, threads, spaces, most_items)
