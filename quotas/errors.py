"""What a change of quota can run into, each with a stable code."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from foundation.errors import Refused


class ExceedsParent(Refused):
    """The children of a node would have more than the node has."""

    code = "QUOTA_EXCEEDS_PARENT"
    title = _("A tenant cannot give more than it has")


class BelowUse(Refused):
    """Less than is in use now, and nobody said what becomes of what runs."""

    code = "QUOTA_BELOW_USE"
    title = _("More is in use than this quota would allow")
