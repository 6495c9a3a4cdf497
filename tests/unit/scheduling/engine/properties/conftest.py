"""With more examples than usual an invariant may take longer than other tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.scheduling.engine.properties.laws import PATIENCE_S

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.timeout(PATIENCE_S))
