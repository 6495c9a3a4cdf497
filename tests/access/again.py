"""A loss of rights between two answers, the answer of an open stream after the loss, and shell commands."""

from __future__ import annotations

import io
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context
from typing import Final
from unittest import mock

from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command

from foundation.core import clock
from foundation.core.errors import AllotmentError
from scheduling.api.jobs import stream
from tenants.api.responses.live_stream import LiveStream
from tenants.models import AccessKey, GroupMember, Member, User
from tests.access.actors import LOSSES
from tests.access.world import AccessWorld
from tests.builders import tenancy

Outcome = tuple[int, str, str]
"""A status, the code of a problem, and the text."""
USAGE: Final = 2


def lose(w: AccessWorld, user: User, lost: str) -> None:
    """Take away from a user what `LOSSES` lists, without a request."""
    left = LOSSES[lost]
    if left is not None:
        Member.unscoped.filter(user=user).delete()
        GroupMember.unscoped.filter(user=user).delete()
        for place, points in left:
            tenant = w.places[place]
            role = tenancy.custom_role(tenant, f"left {user.username}", *points)
            Member.unscoped.create(user=user, tenant=tenant, custom_role=role)
    elif lost == "the key":
        AccessKey.unscoped.filter(user=user).update(revoked_at=clock.now())
    elif lost == "the account":
        User.objects.filter(pk=user.pk).update(is_active=False)
    elif lost == "the password":
        User.objects.filter(pk=user.pk).update(must_change_password=True)
    elif lost == "the session":
        Session.objects.all().delete()


@contextmanager
def streams() -> Iterator[list[LiveStream]]:
    """Collect the streams that are begun within the block."""
    begun: list[LiveStream] = []
    respond = LiveStream.build_response

    def response(self: LiveStream) -> object:
        begun.append(self)
        return respond(self)

    with mock.patch.object(LiveStream, "build_response", response):
        yield begun


def look(reader: LiveStream) -> Outcome:
    """Return the answer of an open stream whose next check of its reader's rights is due."""
    with mock.patch.object(stream, "CHECK_EVERY_S", 0.0):
        try:
            text, _over = copy_context().run(reader.poll_text)
        except AllotmentError as error:
            return error.status, error.code, error.detail
        except Exception as error:
            # An error that breaks a stream is compared like any other answer.
            return 500, "", repr(error)
    return 200, "", text


def run_command(words: str, user: str) -> Outcome:
    """Return the answer of `allotment WORDS`; a refusal has the status and code of its problem."""
    shown = io.StringIO()
    name, *rest = shlex.split(words)
    try:
        call_command(name, *rest, "--user", user, stdout=shown, stderr=shown)
    except CommandError as error:
        problem = error.__cause__
        if isinstance(problem, AllotmentError):
            return problem.status, problem.code, str(error)
        return (401 if error.returncode == USAGE else 500), "", str(error)
    return 200, "", shown.getvalue()
