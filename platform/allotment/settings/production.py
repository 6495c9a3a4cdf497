"""A served installation: nothing is generated, all important settings are required.

TLS is expected to end at a proxy in front of the web process. uvicorn takes the scheme and the address
of the client from that proxy's headers when `FORWARDED_ALLOW_IPS` names it.
"""

from __future__ import annotations

from allotment.settings import environment as env
from allotment.settings.base import *

DEBUG = False

SECRET_KEY = env.strong_secret_key()
ALLOTMENT_AUDIT_KEYS = env.audit_keys(SECRET_KEY)
env.check_proxies("FORWARDED_ALLOW_IPS")
ALLOWED_HOSTS = env.read_words("ALLOTMENT_ALLOWED_HOSTS")
if "*" in ALLOWED_HOSTS:
    raise env.SettingError(
        "ALLOTMENT_ALLOWED_HOSTS", "must name the hosts; * would let any site pose as this one"
    )

DATABASES = {
    "default": env.read_database(
        "ALLOTMENT_DATABASE_URL",
        default=None,
        max_age_s=env.read_number("ALLOTMENT_DATABASE_MAX_AGE_S", default=0, high=3600),
    )
}
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    raise env.SettingError("ALLOTMENT_DATABASE_URL", "must be PostgreSQL; SQLite has no row locks")
ALLOTMENT_BROKER_URL = env.read_address("ALLOTMENT_BROKER_URL", schemes=env.BROKER_SCHEMES[:3])

CACHES = {"default": env.cache_settings(ALLOTMENT_BROKER_URL)}

STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}

# Off only for a first look at the containers over plain HTTP on one's own machine.
TLS = env.read_flag("ALLOTMENT_TLS", default=True)
SECURE_SSL_REDIRECT = TLS
# Probes and scrapers use plain HTTP to the pod itself.
SECURE_REDIRECT_EXEMPT = [r"^livez$", r"^readyz(/platform)?$", r"^metrics$"]
SESSION_COOKIE_SECURE = TLS
CSRF_COOKIE_SECURE = TLS
LANGUAGE_COOKIE_SECURE = TLS
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if TLS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = TLS
SECURE_HSTS_PRELOAD = TLS
CSRF_TRUSTED_ORIGINS = [
    f"https://{host.replace('.', '*.', 1) if host[0] == '.' else host}" for host in ALLOWED_HOSTS
]
