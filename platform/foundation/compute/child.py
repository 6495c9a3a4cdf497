"""The main function of a process that computes calls.

It imports modules, answers one call after the other, and ends with its parent process, or after `IDLE_S`
without a call.
"""

from __future__ import annotations

import importlib
import os
import pickle
import signal
import threading
from multiprocessing.connection import Connection
from typing import Final

from foundation.core.garbage_collection import gc_freeze_loaded, gc_paused

IDLE_S: Final = 600.0
NICENESS: Final = 5
"""The niceness of the process: while processors are busy, the pages of the web process come first."""


def serve_parent(socket: int, lifeline: int, modules: list[str]) -> None:
    """Answer calls until there are none. Both numbers are file descriptors."""
    os.nice(NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles Ctrl-C
    threading.Thread(target=_watch_lifeline, args=(lifeline,), daemon=True).start()
    # The import takes a second, during which the parent may already end.
    import django  # noqa: PLC0415

    from foundation.sql.row_scope import close_by_default  # noqa: PLC0415

    close_by_default()
    django.setup(set_prefix=False)
    for module in modules:
        importlib.import_module(module)
    gc_freeze_loaded()
    _answer_calls(Connection(socket))


def _watch_lifeline(lifeline: int) -> None:
    os.read(lifeline, 1)  # never written to: the read returns when the other end is closed
    os._exit(0)


def _answer_calls(connection: Connection) -> None:
    """Answer each call twice: with an empty message once it is read, and with its pickled outcome.

    As for a request, a database connection that is too old or failed is closed before and after a call.
    """
    from django.db import close_old_connections  # noqa: PLC0415 (slow, as above)

    while connection.poll(IDLE_S):
        try:
            call = pickle.loads(connection.recv_bytes())  # noqa: S301 (from the parent process)
        except EOFError:
            return
        connection.send_bytes(b"")
        close_old_connections()
        with gc_paused():  # a cell that is read stays in memory, and reading it is a third of a preview
            outcome = call.pickle_outcome()
        close_old_connections()
        connection.send_bytes(outcome)
