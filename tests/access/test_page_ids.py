"""Every page of the console names each of its elements once: scripts, labels and tests find them by id."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.access.actors import ACTORS
from tests.access.asking import send, undone
from tests.access.covering import TABLE
from tests.access.table import Ask
from tests.access.world import AccessWorld

pytestmark = pytest.mark.django_db
PAGES = [ask for ask in TABLE if not ask.is_api and not ask.is_command and ask.method == "GET"]
_ID = re.compile(r'<[^>]*\sid="([^"]+)"')


@pytest.mark.parametrize("part", range(4))
def test_no_page_has_an_id_twice(w: AccessWorld, part: int) -> None:
    def repeated(ask: Ask) -> list[str]:
        with undone():
            answer = send(w, ACTORS["platform-admin"], ask)
        return [f"{ask}: {name}" for name, times in Counter(_ID.findall(answer.text)).items() if times > 1]

    found = [fault for ask in PAGES[part::4] for fault in repeated(ask)]
    assert not found, "\n".join(found)
