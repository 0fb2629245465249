"""Errors of the layout algebra: sentences to the person who wrote the layout."""


class LayoutError(ValueError):
    """An operation was asked of layouts for which it has no answer; the message says which."""


class NotationError(LayoutError):
    """A text is not in CuTe's notation.

    ``position`` is the 0-based character of ``text`` at which reading stopped; the message shows
    the text with a caret under it.
    """

    def __init__(self, message: str, text: str, position: int):
        self.reason = message
        self.text = text
        self.position = position
        super().__init__(f"{message} (at character {position + 1})\n  {text}\n  {' ' * position}^")
