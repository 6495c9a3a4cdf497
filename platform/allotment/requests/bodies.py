"""Reads the body of a request before it is known who sends it, within bounds.

Whatever a stranger sends until then costs memory, so one body, those of one address and of all together, and
the time that one takes are limited. What the parsers of single resources accept is far smaller.
"""

from __future__ import annotations

import asyncio
import io
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from django.conf import settings
from django.core.exceptions import RequestAborted
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.core.errors import AllotmentError, TooLarge

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
ALL_BYTES: Final = 64 * 2**20
"""Bytes of all bodies that one process holds unfinished or unanswered."""
BYTES_OF_ONE: Final = ALL_BYTES // 4
"""The same of one address: who sends slowly and never ends must not keep everybody else's out."""
LONGEST_S: Final = 60.0
"""Seconds from the first to the last byte of one body."""


class TooSlow(AllotmentError):
    """The body did not arrive in time."""

    code = "REQUEST_TIMEOUT"
    title = gettext_lazy("Request body timeout")
    status = 408


class TooManyBodies(AllotmentError):
    """This process holds as many bodies as it may; the request can be sent again."""

    code = "OVERLOADED"
    title = gettext_lazy("Too many concurrent requests")
    status = 503


class RequestBody(io.BytesIO):
    """A body in memory; its bytes are counted until it is closed. `sender` is the address that sends it."""

    def __init__(self, budget: BodyBudget, sender: str = "") -> None:
        super().__init__()
        self._budget, self._sender, self._counted = budget, sender, 0

    def append_part(self, part: bytes) -> None:
        """Append bytes that arrived. Raises: TooLarge, TooManyBodies."""
        largest = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        if self._counted + len(part) > largest:
            raise too_large(largest)
        self._budget.reserve_bytes(self._sender, len(part))
        self._counted += len(part)
        self.write(part)

    def close(self) -> None:
        """Give the bytes back; may be called twice."""
        self._budget.release_bytes(self._sender, self._counted)
        self._counted = 0
        super().close()


class BodyBudget:
    """The bytes that all bodies of this process may have together; used by the event loop alone."""

    def __init__(self) -> None:
        self.taken = 0
        self._by_sender: Counter[str] = Counter()

    def reserve_bytes(self, sender: str, size: int) -> None:
        """Count bytes; those of "" are of nobody in particular.

        Raises: TooManyBodies when there would be more than `ALL_BYTES`, or than `BYTES_OF_ONE` of the sender.
        """
        of_sender = self._by_sender[sender] + size if sender else 0
        if size and (self.taken + size > ALL_BYTES or of_sender > BYTES_OF_ONE):
            raise TooManyBodies(_("Try again later."))
        self.taken += size
        self._by_sender[sender] += size

    def release_bytes(self, sender: str, size: int) -> None:
        """Count them no longer."""
        self.taken -= size
        self._by_sender[sender] -= size
        if not self._by_sender[sender]:
            del self._by_sender[sender]


def too_large(largest: int) -> TooLarge:
    """The refusal of a body of more than `largest` bytes."""
    message = _("The request body exceeds %(limit)s KiB.") % {"limit": largest // 1024}
    return TooLarge(message, numbers={"limit_bytes": largest})


async def read_body(
    receive: Receive, headers: Mapping[bytes, bytes], budget: BodyBudget, sender: str = ""
) -> RequestBody:
    """The whole body of a request that `sender`, an address or "", sends.

    Raises: TooLarge (before anything is read where the length is announced), TooSlow, TooManyBodies,
    RequestAborted when the client leaves.
    """
    announced = headers.get(b"content-length", b"0")
    largest = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    if not announced.isdigit() or len(announced) > len(str(largest)) or int(announced) > largest:
        raise too_large(largest)
    body, until = RequestBody(budget, sender), time.monotonic() + LONGEST_S
    try:
        while True:
            message = await asyncio.wait_for(receive(), until - time.monotonic())
            if message["type"] == "http.disconnect":
                raise RequestAborted
            body.append_part(message.get("body", b""))
            if not message.get("more_body", False):
                body.seek(0)
                return body
    except TimeoutError:
        body.close()
        text = _("The request body took longer than %(limit)s seconds.") % {"limit": round(LONGEST_S)}
        raise TooSlow(text, numbers={"limit_s": LONGEST_S}) from None
    except BaseException:
        body.close()
        raise
