"""Processes of our own that call functions and answer, and that may be ended at any time.

They are started anew, not forked, as a fork of a process that uses a GPU may not use it; and not by
``multiprocessing``, which would run the user's script in each.  A child ends with its parent, whose
end of the pipe is closed then.
"""

from __future__ import annotations

import os
import pickle
import select
import subprocess
import sys
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import IO, Any, TypeVar

Answer = TypeVar("Answer")

COMMAND = "from mugraph.tune.children import serve; serve()"
_LENGTH = 8
"""Bytes before each message that say how long it is."""


class ChildError(Exception):
    """What a call raised in a child, as a sentence; or the child died, or took too long."""


class Child:
    """A process that calls functions of mugraph; it is started by the first call."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_alive(self) -> bool:
        """Whether what earlier calls left in the process is still there."""
        return self._process is not None

    def call(
        self, function: Callable[..., Answer], *arguments: Any, seconds: float | None = None
    ) -> Answer:
        """What a function of a module gives, called in the child.

        Raises :class:`ChildError` where it raises; where the child dies, or is not done after so
        many seconds, it is ended, and the next call starts another.
        """
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-c", COMMAND],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            _write(self._process.stdin, (function, arguments))
            error, answer = _read(self._process.stdout, seconds)
        except TimeoutError:
            self.end()
            raise ChildError(f"it was not done after {seconds:.0f} s") from None
        except (EOFError, OSError):
            self.end()
            raise ChildError("the process died") from None
        if error:
            raise ChildError(error)
        return answer

    def end(self) -> None:
        """Ends the process, if there is one."""
        if self._process is None:
            return
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:
                    continue  # what it had not read yet
        self._process.wait()
        self._process = None


class Children:
    """Several children, each of which has one call at a time; a context manager that ends them.

    ``users`` is how many share them.
    """

    def __init__(self, count: int, users: int = 1) -> None:
        self.count = count
        self.share = max(count // users, 1)
        self._all = [Child() for _ in range(count)]
        self._idle: SimpleQueue[Child] = SimpleQueue()
        for child in self._all:
            self._idle.put(child)

    def call(self, function: Callable[..., Answer], *arguments: Any) -> Answer:
        """As :meth:`Child.call`, in the next child that has nothing to do."""
        child = self._idle.get()
        try:
            return child.call(function, *arguments)
        finally:
            self._idle.put(child)

    def __enter__(self) -> Children:
        return self

    def __exit__(self, *error: object) -> None:
        for child in self._all:
            child.end()


def serve() -> None:
    """The child: answers calls until its parent ends."""
    requests = sys.stdin.buffer
    # What anything prints must not get among the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            function, arguments = _read(requests, None)
        except EOFError:
            os._exit(0)  # without an end that would wait for a broken GPU
        try:
            answer = "", function(*arguments)
        except Exception as error:
            lines = [*str(error).strip().splitlines(), ""]
            answer = lines[0] or type(error).__name__, None
        try:
            _write(answers, answer)
        except OSError:
            os._exit(1)


def _write(stream: IO[bytes], message: object) -> None:
    data = pickle.dumps(message)
    stream.write(len(data).to_bytes(_LENGTH, "little") + data)
    stream.flush()


def _read(stream: IO[bytes], seconds: float | None) -> Any:
    """A message; raises ``TimeoutError`` where it is not there after so many seconds."""
    end = None if seconds is None else time.monotonic() + seconds
    length = int.from_bytes(_bytes(stream, _LENGTH, end), "little")
    return pickle.loads(_bytes(stream, length, end))


def _bytes(stream: IO[bytes], count: int, end: float | None) -> bytes:
    data = b""
    while len(data) < count:
        left = None if end is None else max(end - time.monotonic(), 0.0)
        if not select.select([stream], [], [], left)[0]:
            raise TimeoutError
        # Past the stream's buffer, of which select does not know.
        part = os.read(stream.fileno(), count - len(data))
        if not part:
            raise EOFError
        data += part
    return data
