"""Which architecture to compile for, given a device."""

from __future__ import annotations

from collections.abc import Sequence

from mugraph.errors import UserError


def choose_architecture(device: str, known: Sequence[str]) -> str:
    """The architecture to compile for: the device's own, or one whose code it runs.

    That is one of the same major number and a lower minor one, unless its name ends in a letter.
    Raises ``UserError`` where mugraph compiles for none that fits.
    """
    if device in known:
        return device
    number = int("".join(filter(str.isdigit, device)))
    fitting = [
        (int(name[3:]), name)
        for name in known
        if name[3:].isdigit() and int(name[3:]) // 10 == number // 10 and int(name[3:]) <= number
    ]
    if not fitting:
        raise UserError(
            f"this GPU is of architecture {device}; mugraph compiles for {', '.join(known)}."
        )
    return max(fitting)[1]
