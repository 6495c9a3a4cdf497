"""`make up`: all processes on this machine, in one folder, without configuration.

The server listens on the loopback address only, so plain HTTP is safe here.
"""

from __future__ import annotations

from allotment.processes import paths
from allotment.processes.private_home import create_privately
from allotment.settings import environment as env
from allotment.settings.base import *

DEBUG = False
ALLOTMENT_EMBEDDED = True
ALLOTMENT_DEMO = env.read_flag("ALLOTMENT_DEMO", default=True)
ALLOTMENT_OBSERVE_EVERY_S = 2

create_privately()
env.writable_home(HOME)
SECRET_KEY = env.secret_key(HOME)
ALLOTMENT_AUDIT_KEYS = env.audit_keys(SECRET_KEY)
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]", *env.read_words("ALLOTMENT_ALLOWED_HOSTS", [])]

DATABASES = {"default": env.read_database("ALLOTMENT_DATABASE_URL", default=HOME / "allotment.sqlite3")}
ALLOTMENT_BROKER_URL = env.read_address(
    "ALLOTMENT_BROKER_URL", schemes=env.BROKER_SCHEMES, default=paths.broker_url(HOME)
)

CACHES = {"default": env.cache_settings(ALLOTMENT_BROKER_URL)}

# Static files are served from the packages: no collectstatic before the first start.
STATIC_ROOT = None
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = False
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
SILENCED_SYSTEM_CHECKS = ["whitenoise.W001"]
