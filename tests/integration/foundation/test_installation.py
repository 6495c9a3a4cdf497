"""The id of this installation."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, transaction

from foundation.models import Installation
from foundation.models.installation import installation_id

pytestmark = pytest.mark.django_db


def test_the_tables_come_with_an_id_that_stays() -> None:
    (row,) = Installation.unscoped.all()
    first = installation_id()
    installation_id.cache_clear()  # as in another process
    assert first == row.uuid == installation_id()


def test_there_is_one_row() -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        Installation.unscoped.create(number=2)
