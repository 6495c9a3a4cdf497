"""The test run: SQLite unless `TEST_DATABASE_URL` names PostgreSQL; nothing leaves the process."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

# Set before the base reads it: tests must not touch a developer's own installation.
os.environ.setdefault("ALLOTMENT_HOME", str(Path(tempfile.gettempdir()) / f"allotment-test-{os.getuid()}"))

from allotment.settings import environment as env
from allotment.settings.base import *

DEBUG = False
env.writable_home(HOME)
SECRET_KEY = "only-for-tests-" + "0123456789abcdef" * 4
ALLOTMENT_AUDIT_KEYS = env.audit_keys(SECRET_KEY)
ALLOWED_HOSTS = ["testserver", "localhost", "127.0.0.1"]

DATABASES = {"default": env.read_database("TEST_DATABASE_URL", default=HOME / "test.sqlite3")}
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    # A file if threads must share it, memory otherwise; both are deleted after the run.
    DATABASES["default"]["TEST"] = {"NAME": os.environ.get("TEST_SQLITE_FILE") or ":memory:"}

# The queue lives in the process; a test that needs a real broker starts one.
ALLOTMENT_BROKER_URL = env.read_address(
    "ALLOTMENT_BROKER_URL", schemes=env.BROKER_SCHEMES, default="memory://"
)

# Tests are not rate-limited; tests of the limits set their own.
ALLOTMENT_RATES = dict.fromkeys(ALLOTMENT_RATES, 0)

# Some tests count SQL statements, so counters are not stored; tests of the counters store them explicitly.
ALLOTMENT_MEASURES_EVERY_S = 3600.0

# Hashing a password costs 0.1 s by design, too much for a thousand test users.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
# `Client.login` passes no request, which axes refuses; the tests of the lockout switch axes on.
AXES_ENABLED = False
# Each test has its own audit chain: the head of one test would raise an alarm in the next.
ALLOTMENT_AUDIT_HEADS = os.devnull
EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.InMemoryStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
STATIC_ROOT = None
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = True
