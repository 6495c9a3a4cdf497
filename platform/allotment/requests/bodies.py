"""Reads the body of a request before the sender is authenticated, within bounds.

Until then, a body from an unknown client costs memory. So the size of one body, of all bodies from one
address and of all bodies together is limited, and so is the time that one body takes. The parsers of single
resources accept far less.
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
"""The most bytes of all unfinished or unanswered bodies in one process."""
BYTES_OF_ONE: Final = ALL_BYTES // 4
"""The most bytes of bodies from one address: a slow sender must not keep the bodies of others out."""
LONGEST_S: Final = 60.0
"""The most seconds from the first to the last byte of one body."""


class TooSlow(AllotmentError):
    """The body did not arrive in time."""

    code = "REQUEST_TIMEOUT"
    title = gettext_lazy("Request body timeout")
    status = 408


class TooManyBodies(AllotmentError):
    """This process holds as many bodies as it may; the client can send the request again."""

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
        """Release the counted bytes; may be called twice."""
        self._budget.release_bytes(self._sender, self._counted)
        self._counted = 0
        super().close()


class BodyBudget:
    """The bytes of all bodies of this process together; used by the event loop alone."""

    def __init__(self) -> None:
        self.taken = 0
        self._by_sender: Counter[str] = Counter()

    def reserve_bytes(self, sender: str, size: int) -> None:
        """Count bytes; those of the sender "" count only towards the total.

        Raises: TooManyBodies when there would be more than `ALL_BYTES`, or than `BYTES_OF_ONE` of the sender.
        """
        of_sender = self._by_sender[sender] + size if sender else 0
        if size and (self.taken + size > ALL_BYTES or of_sender > BYTES_OF_ONE):
            raise TooManyBodies(_("Try again later."))
        self.taken += size
        self._by_sender[sender] += size

    def release_bytes(self, sender: str, size: int) -> None:
        """Stop counting the bytes."""
        self.taken -= size
        self._by_sender[sender] -= size
        if not self._by_sender[sender]:
            del self._by_sender[sender]


def too_large(largest: int) -> TooLarge:
    """Return the error for a body of more than `largest` bytes."""
    message = _("The request body exceeds %(limit)s KiB.") % {"limit": largest // 1024}
    return TooLarge(message, numbers={"limit_bytes": largest})


async def read_body(
    receive: Receive, headers: Mapping[bytes, bytes], budget: BodyBudget, sender: str = ""
) -> RequestBody:
    """Return the whole body of a request from `sender`, an address or "".

    Raises: TooLarge (before reading, if the length is announced), TooSlow, TooManyBodies,
    RequestAborted if the client disconnects.
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
