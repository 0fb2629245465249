"""What ``--retile`` cannot do."""

from __future__ import annotations

from xdsl.utils.exceptions import PassFailedException


class RetileError(PassFailedException):
    """A partition that would change what a kernel computes, as a sentence to the user."""
