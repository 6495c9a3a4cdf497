"""The contents of the cache server, of messages and of sessions are data and never run as code."""

from __future__ import annotations

import ast
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import time_machine
from django.conf import settings as django_settings
from django.core.cache import cache, caches
from django.test import Client
from kombu.exceptions import ContentDisallowed
from kombu.serialization import loads, prepare_accept_content

from allotment.celery import app
from allotment.settings import environment
from foundation.messaging.shared_cache import JsonSerializer, SharedRedisCache
from foundation.web import rate_limit
from tests.fixtures.valkey import ValkeyServer

ROOT: Final = Path(__file__).parents[3]
PACKAGES: Final = ("platform", "tenants", "quotas", "scheduling", "frontend")


class Planted:
    """An object that creates a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __reduce__(self) -> Any:
        return Path.touch, (self._file,)


@pytest.fixture
def shared(valkey: ValkeyServer, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yield the cache on a real server, and the server's own client."""
    settings.CACHES = {"default": environment.cache_settings(valkey.url)}
    settings.ALLOTMENT_RATES = {"read": 9, "write": 9, "sign-in": 9}
    monkeypatch.setattr(rate_limit, "counter", rate_limit._Counter())
    yield caches["default"]._cache.get_client(None, write=True)  # type: ignore[attr-defined]
    cache.close()


def poison(shared: Any, value: bytes) -> list[str]:
    """Write the value to every key that counts requests of unknown callers in this minute."""
    window = int(rate_limit.clock.now().timestamp()) // rate_limit.WINDOW_S
    keys = [f"rate:{bucket}:{who}:{window}" for bucket in ("sign-in", "read") for who in ("127.0.0.1", "x")]
    for key in keys:
        shared.set(cache.make_key(key), value)
    return keys


@pytest.mark.server
@pytest.mark.django_db
def test_a_pickle_in_the_server_does_not_run(shared: Any, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    with time_machine.travel("2026-11-21T12:00:10Z", tick=False):
        keys = poison(shared, pickle.dumps(Planted(ran)))
        assert Client().get("/api/v1/me").status_code == 401
        assert [cache.get(key, "absent") for key in keys] == ["absent"] * len(keys)
        with pytest.raises(ValueError):
            cache.get_many(keys)
    assert not ran.exists()
    pickle.loads(pickle.dumps(Planted(ran)))
    assert ran.exists(), "the planted value does run where it is unpickled"


@pytest.mark.server
@pytest.mark.django_db
@pytest.mark.parametrize(
    "value", [b"\x00", b"[1]", b'"many"', b"null", b"[" * 100_000, b"1" * 5000, b"-7", b"NaN"]
)
def test_nonsense_in_the_server_fails_no_request(shared: Any, value: bytes) -> None:
    with time_machine.travel("2026-11-21T12:00:10Z", tick=False):
        poison(shared, value)
        assert Client().get("/api/v1/me").status_code == 401


@pytest.mark.server
def test_values_come_back_as_they_were_kept(shared: Any) -> None:
    values = {"number": 7, "truth": True, "nothing": None, "text": "七", "rows": [{"a": [1, 2.5]}]}
    for name, value in values.items():
        cache.set(name, value)
    assert {name: cache.get(name, "absent") for name in values} == values
    assert cache.incr("number", 3) == 10
    with pytest.raises(TypeError):
        cache.set("object", object())


def test_no_option_brings_another_serializer_back() -> None:
    entry = environment.cache_settings("redis://127.0.0.1:1/0")
    assert entry["BACKEND"].endswith("SharedRedisCache")
    made = SharedRedisCache(entry["LOCATION"], {"OPTIONS": {"serializer": "no.such.Serializer"}})
    assert isinstance(made._cache._serializer, JsonSerializer)


@pytest.mark.parametrize("module", ["embedded", "production", "test"])
def test_no_setting_names_a_serializer_that_runs_code(module: str, tmp_path: Path) -> None:
    """Check each of the settings: caches, sessions, messages and Celery."""
    code = (
        "import django; django.setup()\n"
        "from django.conf import settings as s\n"
        "from allotment.celery import app\n"
        "print(sorted({c['BACKEND'].rpartition('.')[2] for c in s.CACHES.values()}), s.SESSION_SERIALIZER,"
        " s.SESSION_ENGINE, s.MESSAGE_STORAGE, sorted(app.conf.accept_content), app.conf.task_serializer,"
        " app.conf.event_serializer, app.conf.result_serializer, app.conf.result_backend)"
    )
    variables = {
        "PATH": "/usr/bin:/bin",
        "DJANGO_SETTINGS_MODULE": f"allotment.settings.{module}",
        "ALLOTMENT_HOME": str(tmp_path / "home"),
        "ALLOTMENT_SECRET_KEY": "0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijkl",
        "ALLOTMENT_ALLOWED_HOSTS": "example.org",
        "ALLOTMENT_DATABASE_URL": "postgres://a:b@127.0.0.1:1/c" if module == "production" else "",
        "ALLOTMENT_BROKER_URL": "redis://127.0.0.1:1/0",
    }
    told = subprocess.run(
        [sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True
    )
    cache_of = "LocMemCache" if module == "test" else "SharedRedisCache"
    assert told.stdout.strip() == (
        f"['{cache_of}'] django.contrib.sessions.serializers.JSONSerializer "
        "django.contrib.sessions.backends.db django.contrib.messages.storage.fallback.FallbackStorage "
        "['json'] json json json None"
    )


def test_a_pickled_message_is_refused(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    accepted = prepare_accept_content(app.conf.accept_content)
    for kind in ("application/x-python-serialize", "pickle", "application/x-yaml"):
        with pytest.raises(ContentDisallowed):
            loads(pickle.dumps(Planted(ran)), kind, "binary", accept=accepted)
    assert not ran.exists()


def test_no_module_unpickles_what_another_process_may_write() -> None:
    # A process and its child read each other's pickles through a socket that nothing else can use.
    private = ROOT / "platform" / "foundation" / "compute"
    found = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                if {name.partition(".")[0] for name in names} & {
                    "pickle",
                    "shelve",
                    "marshal",
                    "dill",
                    "joblib",
                }:
                    found.add(path)
    assert {path for path in found if path.parent != private} == set()
    sockets = {
        word
        for path in private.glob("*.py")
        for word in re.findall(r"socket\.\w+\(", path.read_text("utf-8"))
    }
    assert sockets == {"socket.socketpair("}
    assert django_settings.SESSION_SERIALIZER.endswith("JSONSerializer")
