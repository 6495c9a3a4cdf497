"""A process that computes, from the side of who asks it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Final

from foundation.compute.child import NUMBER_BYTES

_STOP_S: Final = 5.0


class ProcessEnded(RuntimeError):
    """The process ended before it answered. `read` tells whether it had read the call."""

    def __init__(self, *, read: bool) -> None:
        super().__init__("the process that computes has ended")
        self.read = read


class ComputeProcess:
    """One process, which answers one call at a time."""

    def __init__(self, modules: Sequence[str]) -> None:
        own, its = socket.socketpair()
        reading, self._lifeline = os.pipe()
        try:
            numbers = its.fileno(), reading
            command = [sys.executable, "-m", "foundation.compute", *map(str, numbers), *modules]
            self._process = subprocess.Popen(  # noqa: S603 (our own program)
                command, stdin=subprocess.DEVNULL, pass_fds=numbers
            )
        finally:
            its.close()
            os.close(reading)
        self._connection = Connection(own.detach())

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, call: bytes, timeout_s: float) -> bytes:
        """Send a pickled call and return the pickled outcome.

        Raises: ProcessEnded; TimeoutError.
        """
        read = False
        try:
            self._connection.send_bytes(call)
            if self._connection.poll(timeout_s):
                self._connection.recv_bytes()
                read = True
                if self._connection.poll(timeout_s):
                    return self._connection.recv_bytes()
        except (EOFError, OSError) as error:
            raise ProcessEnded(read=read) from error
        raise TimeoutError

    def drop(self, number: int) -> None:
        """Tell it that nobody waits for a call any more."""
        with suppress(OSError):  # it has ended
            os.write(self._lifeline, number.to_bytes(NUMBER_BYTES, "big"))

    def end(self) -> None:
        """Kill it."""
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOP_S)
        self._connection.close()
        os.close(self._lifeline)
