"""Limits on wrong passwords beyond the pair of user and address that axes locks.

One address must not try a few passwords for every user, and one user must not be tried from many addresses.
Both limits only slow attempts down and do not apply at addresses from which the user signed in before, so
that an attacker who knows a user name cannot lock its owner out.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from axes.attempts import get_cool_off_threshold
from axes.handlers.database import AxesDatabaseHandler
from axes.helpers import get_client_username
from axes.models import AccessAttempt, AccessLog
from django.conf import settings
from django.contrib.sessions.models import Session
from django.db.models import Max, Sum
from django.http import HttpRequest

from foundation.core import clock

ONE_ATTEMPT_IN: Final = timedelta(minutes=1)
"""The interval of attempts for a user with too many failures, from all unknown addresses together."""
KNOWN_FOR: Final = timedelta(days=90)
"""The time for which an address from which a user signed in counts as known."""
TRIED_FOR: Final = timedelta(days=1)
"""The time for which wrong passwords are kept, longer than the period of any limit."""


BATCH: Final = 1000


def sign_ins_prune(*, now: datetime) -> int:
    """Delete sign-ins that no limit reads any more, and expired sessions; return their number.

    At most `BATCH` sign-ins are deleted per call.
    """
    # Keys grow with time, so the oldest rows are found without a scan.
    oldest = AccessLog.objects.order_by("pk").values_list("pk", "attempt_time")[:BATCH]
    known = [pk for pk, at in oldest if at < now - KNOWN_FOR]
    done: int = AccessLog.objects.filter(pk__in=known).delete()[0]
    done += AccessAttempt.objects.filter(attempt_time__lt=now - TRIED_FOR).delete()[0]
    done += Session.objects.filter(expire_date__lt=now).delete()[0]
    return done


class SignInHandler(AxesDatabaseHandler):  # type: ignore[misc]
    """The handler of axes with the two limits of this module."""

    def is_locked(self, request: Any, credentials: dict[str, Any] | None = None) -> bool:
        """Return whether no password may be tried: the pair is locked, or the address or the user is slowed
        down.
        """
        if super().is_locked(request, credentials):
            return True
        username = get_client_username(request, credentials) or ""
        slowed = self._is_slowed(request, username) and not _is_known(request, username)
        request.sign_in_slowed = slowed
        return slowed

    def _is_slowed(self, request: Any, username: str) -> bool:
        recent = AccessAttempt.objects.filter(attempt_time__gt=get_cool_off_threshold(request))
        limits = settings.ALLOTMENT_SIGN_IN_FAILURES
        from_address = recent.filter(ip_address=request.axes_ip_address)
        if limits["address"] and _failures(from_address)[0] >= limits["address"]:
            return True
        failures, last = _failures(recent.filter(username=username))
        return bool(limits["user"]) and failures >= limits["user"] and last > clock.now() - ONE_ATTEMPT_IN


def _failures(attempts: Any) -> tuple[int, Any]:
    """Count the wrong passwords of these attempts, with the time of the last one."""
    found = attempts.aggregate(number=Sum("failures_since_start"), last=Max("attempt_time"))
    return found["number"] or 0, found["last"]


def _is_known(request: Any, username: str) -> bool:
    """Return whether this user signed in from this address before."""
    signed_in = AccessLog.objects.filter(username=username, ip_address=request.axes_ip_address)
    return bool(signed_in.filter(attempt_time__gt=clock.now() - KNOWN_FOR).exists())


def is_slowed(request: HttpRequest) -> bool:
    """Return whether a limit of this module refused this request."""
    return bool(getattr(request, "sign_in_slowed", False))
