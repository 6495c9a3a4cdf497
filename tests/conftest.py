"""Settings of every test: no internet, skips that say how to get what is missing, real servers."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from django.utils import translation
from hypothesis import HealthCheck, Phase, settings

from benchmarks.support.deadlines import DEADLINE_FACTOR
from foundation.compute import serving
from foundation.core.frame_room import call_with_room
from foundation.core.garbage_collection import gc_freeze_loaded
from foundation.models import branding
from foundation.models.installation import installation_id
from tests.fixtures.compute import PicklingPool
from tests.fixtures.run_order import order_tests

pytest_plugins = [
    "tests.fixtures.compose",
    "tests.fixtures.deferred_fields",
    "tests.fixtures.kube",
    "tests.fixtures.kueue",
    "tests.fixtures.migrated",
    "tests.fixtures.nvml_driver",
    "tests.fixtures.postgres",
    "tests.fixtures.sample_server",
    "tests.fixtures.statement_cover",
    "tests.fixtures.valkey",
]

ROOT = Path(__file__).resolve().parents[1]

# On a busy machine making up an example may take as long as it likes: that is no fault of the code.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")
# Mutation testing only asks whether a property breaks: every mutant meets the same examples, none is shrunk.
settings.register_profile(
    "mutation",
    parent=settings.get_profile("busy"),
    phases=(Phase.explicit, Phase.generate),
    derandomize=True,
    database=None,
)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Blocks the internet. Set here and not in the options, so that it holds however pytest is called."""
    if not config.option.allow_hosts:
        config.option.allow_hosts = "127.0.0.0/8,::1,localhost"
    config.option.allow_unix_socket = True


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Let modules and tests be collected without a search for reference cycles among them: all of them stay.

    It took a third of the collection, which every test process does for itself. Later searches are as rare as
    in the processes of the platform: with Python's threshold they took a sixth of the tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc_freeze_loaded()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Order the tests that are left, and multiply their time limits by `DEADLINE_FACTOR`, as the deadlines
    inside the tests are.
    """
    yield
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    items[:] = order_tests(items, lambda item: item.path.relative_to(ROOT / "tests").as_posix(), processes)
    usual_s = float(config.getini("timeout"))
    for item in items:
        limit = item.get_closest_marker("timeout")
        item.add_marker(
            pytest.mark.timeout(DEADLINE_FACTOR * (limit.args[0] if limit else usual_s)), append=False
        )


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """Call each test as the platform calls what answers a request."""
    known = pyfuncitem.obj
    pyfuncitem.obj = partial(call_with_room, known)
    try:
        return (yield)
    finally:
        pyfuncitem.obj = known


@pytest.fixture(autouse=True)
def _language() -> Iterator[None]:
    """A request answered in this thread leaves its language behind, in which the next test would speak."""
    yield
    translation.deactivate()


@pytest.fixture(autouse=True)
def _installation() -> Iterator[None]:
    """Each test has a database of its own, and so an installation."""
    yield
    installation_id.cache_clear()


@pytest.fixture(autouse=True)
def _cycle_spacing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cycles run when a test asks for them: on a busy machine one that follows another would be put off."""
    cycle = sys.modules.get("scheduling.services.cycle")
    if cycle is not None:
        monkeypatch.setattr(cycle, "find_pause", lambda *_, **__: 0.0)


@pytest.fixture(autouse=True, scope="session")
def _branding() -> None:
    """A name and a logo are read once, so that tests that count statements don't meet the one that reads them
    anew; the test that sets them forgets them itself.
    """
    branding.CACHED_S = float("inf")  # type: ignore[misc]


@pytest.fixture(autouse=True, scope="session")
def _previews() -> None:
    """Every preview is pickled on its way there and back, as it is behind a web process."""
    serving.set_pool(PicklingPool())


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder with the published traces: `ALLOTMENT_SHARED`, else `../shared`."""
    folder = Path(os.environ.get("ALLOTMENT_SHARED") or ROOT.parent / "shared").resolve()
    if not (folder / "traces").is_dir():
        # Skipped even where everything is required: the traces are data, which no package installs.
        pytest.skip(f"no traces in {folder}; to get them: point ALLOTMENT_SHARED at the folder with traces/")
    return folder
