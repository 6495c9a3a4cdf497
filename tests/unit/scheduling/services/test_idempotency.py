"""A repeated request gets the first answer."""

from __future__ import annotations

from datetime import timedelta

import pytest

from foundation import clock
from foundation.errors import Invalid
from scheduling.models import IdempotencyKey
from scheduling.services.idempotency import (
    KeyReused,
    Repeatable,
    answer_once,
    fingerprint,
    idempotency_prune,
)
from tests.builders import tenancy

pytestmark = pytest.mark.django_db


def test_the_second_time_the_first_answer_is_given() -> None:
    workspace = tenancy.workspace()
    request = Repeatable("jobs", "abc", fingerprint({"a": 1, "b": 2}))
    calls: list[int] = []

    def make() -> dict[str, int]:
        calls.append(1)
        return {"number": len(calls)}

    first = answer_once(workspace=workspace, request=request, make=make)
    second = answer_once(workspace=workspace, request=request, make=make)

    assert first == ({"number": 1}, False)
    assert second == ({"number": 1}, True)


def test_the_same_key_with_another_body_is_refused() -> None:
    workspace = tenancy.workspace()
    answer_once(workspace=workspace, request=Repeatable("jobs", "abc", "one"), make=dict)

    with pytest.raises(KeyReused):
        answer_once(workspace=workspace, request=Repeatable("jobs", "abc", "two"), make=dict)
    assert answer_once(workspace=workspace, request=Repeatable("other", "abc", "two"), make=dict) == (
        {},
        False,
    )


def test_a_refused_request_leaves_its_key_free() -> None:
    workspace = tenancy.workspace()
    request = Repeatable("jobs", "abc", "one")

    def refuse() -> dict[str, int]:
        raise Invalid("no")

    with pytest.raises(Invalid):
        answer_once(workspace=workspace, request=request, make=refuse)

    assert answer_once(workspace=workspace, request=request, make=dict) == ({}, False)


def test_order_of_keys_does_not_change_a_fingerprint() -> None:
    assert fingerprint({"a": 1, "b": [1, 2]}) == fingerprint({"b": [1, 2], "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": 2})


def test_old_answers_are_forgotten() -> None:
    answer_once(workspace=tenancy.workspace(), request=Repeatable("jobs", "abc", "one"), make=dict)

    assert idempotency_prune(before=clock.now() - timedelta(hours=24)) == 0
    assert idempotency_prune(before=clock.now() + timedelta(seconds=1)) == 1
    assert not IdempotencyKey.unscoped.exists()
