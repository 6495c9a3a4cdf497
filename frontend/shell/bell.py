"""The bell of the frame: the number of the reader's unread messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

UNREAD_MAX: Final = 100
"""The maximum number of unread messages that are counted."""


@dataclass(frozen=True, slots=True)
class UnreadBell:
    """The number of unread messages, at most `UNREAD_MAX`."""

    unread: int

    @property
    def number(self) -> str:
        return (
            "" if not self.unread else f"{UNREAD_MAX - 1}+" if self.unread >= UNREAD_MAX else str(self.unread)
        )

    @property
    def label(self) -> str:
        """The label of the bell for screen readers and on hover."""
        if not self.unread:
            return _("Messages")
        words = ngettext("Messages, %(count)s unread", "Messages, %(count)s unread", self.unread)
        return words % {"count": self.number}
