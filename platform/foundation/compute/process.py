"""The parent's side of a process that computes calls."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Final

ANSWER_S: Final = 60.0
"""The seconds without an answer after which a process is killed."""
_STOP_S: Final = 5.0


class ProcessEnded(RuntimeError):
    """The process ended before it answered. `read` is whether it had read the call."""

    def __init__(self, *, read: bool) -> None:
        super().__init__("the process that computes has ended")
        self.read = read


class ComputeProcess:
    """One process, which answers one call at a time."""

    def __init__(self, modules: Sequence[str], answer_s: float = ANSWER_S) -> None:
        """Start the process. Raises: OSError."""
        self._answer_s = answer_s
        own, its = socket.socketpair()
        # A call may be larger than the socket's buffer: sending it then takes until the process reads it.
        own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", int(answer_s), 0))
        reading, self._lifeline = os.pipe()
        try:
            numbers = its.fileno(), reading
            command = [sys.executable, "-m", "foundation.compute", *map(str, numbers), *modules]
            self._process = subprocess.Popen(  # noqa: S603 (our own program)
                command, stdin=subprocess.DEVNULL, pass_fds=numbers
            )
        except BaseException:
            own.close()
            os.close(self._lifeline)
            raise
        finally:
            its.close()
            os.close(reading)
        self._connection = Connection(own.detach())

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def send_call(self, call: bytes) -> bytes:
        """Send a pickled call and return the pickled outcome.

        Raises: ProcessEnded; TimeoutError if it was not read, or not answered, in time.
        """
        read = False
        try:
            self._connection.send_bytes(call)
            if self._connection.poll(self._answer_s):
                self._connection.recv_bytes()
                read = True
                if self._connection.poll(self._answer_s):
                    return self._connection.recv_bytes()
        except BlockingIOError as error:
            raise TimeoutError from error
        except (EOFError, OSError) as error:
            raise ProcessEnded(read=read) from error
        raise TimeoutError

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOP_S)
        self._connection.close()
        os.close(self._lifeline)
