"""Reads the environment, typed and checked, and names the variable in every error.

A wrong variable must cost one line, not a traceback: each reader raises `SettingError`, which the
entry points turn into that line (`allotment.processes.startup`).
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

from allotment.processes.private_home import make_home_private

ENV: Final = environ.Env()
SECRET_KEY_LENGTH: Final = 50
DATABASE_SCHEMES: Final = ("postgres", "postgresql", "sqlite")
_WIDEST: Final = {4: 8, 6: 16}
"""The shortest prefix of a network of proxies, by version: no private network is wider."""
_OWN_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_MAIL_PORTS: Final = {"smtp": 25, "smtp+tls": 587, "smtps": 465}
BROKER_SCHEMES: Final = ("redis", "rediss", "redis+socket", "memory")

# After a failover of the primary, connections that only read would stay with the old one forever.
_POOL: Final = {"max_lifetime": 300}


class SettingError(ImproperlyConfigured):
    """A variable that is missing or wrong; the message starts with its name."""

    def __init__(self, variable: str, problem: str) -> None:
        super().__init__(f"{variable}: {problem}")
        self.variable = variable


def read_text(variable: str, default: str | None = None) -> str:
    """The variable as text; required when there is no default. An empty value counts as unset."""
    value = os.environ.get(variable, "").strip()
    if value:
        return value
    if default is None:
        raise SettingError(variable, "is required and not set")
    return default


def read_flag(variable: str, *, default: bool) -> bool:
    """The variable as a switch: on/off, true/false, yes/no, 1/0."""
    value = read_text(variable, "on" if default else "off").lower()
    if value in {"on", "true", "yes", "1"}:
        return True
    if value in {"off", "false", "no", "0"}:
        return False
    raise SettingError(variable, f"is {value!r}; write on or off")


def read_number(variable: str, *, default: int, low: int = 0, high: int = 2**31) -> int:
    """The variable as a whole number between `low` and `high`."""
    value = read_text(variable, str(default))
    if not value.isdecimal() or not low <= int(value) <= high:
        raise SettingError(variable, f"is {value!r}; write a whole number from {low} to {high}")
    return int(value)


def read_choice(variable: str, *, default: str, among: tuple[str, ...]) -> str:
    """The variable as one of a few words."""
    value = read_text(variable, default)
    if value not in among:
        raise SettingError(variable, f"is {value!r}; write one of {', '.join(among)}")
    return value


def read_words(variable: str, default: list[str] | None = None) -> list[str]:
    """The variable as a comma-separated list; required when there is no default."""
    value = read_text(variable, None if default is None else ",".join(default))
    return [word.strip() for word in value.split(",") if word.strip()]


def own_namespace() -> str:
    """Return the namespace of this process's pod, from the file that Kubernetes mounts; else ""."""
    try:
        return _OWN_NAMESPACE.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def read_networks(variable: str) -> list[str]:
    """The variable as a comma-separated list of networks or single addresses, each written as a network."""
    found = []
    for word in read_words(variable, []):
        try:
            network = ipaddress.ip_network(word)
        except ValueError as error:
            problem = f"{word!r} is no network or address, as in 10.96.0.1/32 or fd00:1::/64"
            raise SettingError(variable, problem) from error
        if not network.prefixlen:
            raise SettingError(variable, f"{word!r} is every address; name the networks that are meant")
        found.append(str(network))
    return found


def read_address(variable: str, *, schemes: tuple[str, ...], default: str | None = None) -> str:
    """The variable as a URL with one of `schemes`; a default of "" makes it optional.

    The error never repeats the value, which may hold a password.
    """
    value = read_text(variable) if default is None else os.environ.get(variable, "").strip() or default
    if not value:
        return value
    try:
        scheme = urlsplit(value).scheme
    except ValueError as error:
        raise SettingError(variable, f"can't be read as an address: {error}") from error
    if scheme not in schemes:
        raise SettingError(variable, f"must start with one of {', '.join(s + '://' for s in schemes)}")
    return value


@dataclass(frozen=True, slots=True)
class MailServer:
    """The server to which mail is submitted; without a host no mail can be sent."""

    host: str
    port: int
    user: str
    password: str
    starts_tls: bool
    is_tls: bool


def read_mail_server(variable: str) -> MailServer:
    """The variable as `smtp://`, `smtp+tls://` (STARTTLS) or `smtps://user:password@host:port`; optional.

    User and password are percent-encoded.
    """
    value = read_address(variable, schemes=tuple(_MAIL_PORTS), default="")
    parts = urlsplit(value)
    try:
        port = parts.port or _MAIL_PORTS.get(parts.scheme, 25)
    except ValueError as error:
        raise SettingError(variable, "has a port that is no number up to 65535") from error
    if value and not parts.hostname:
        raise SettingError(variable, "must name a host")
    return MailServer(
        host=parts.hostname or "",
        port=port,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        starts_tls=parts.scheme == "smtp+tls",
        is_tls=parts.scheme == "smtps",
    )


def read_database(variable: str, *, default: Path | None, max_age_s: int = 0) -> dict[str, Any]:
    """The database that `variable` names, else the SQLite file `default`, as a Django database entry."""
    if default is not None and not os.environ.get(variable):
        return _sqlite({"ENGINE": "django.db.backends.sqlite3", "NAME": str(default)})
    return database_entry(read_address(variable, schemes=DATABASE_SCHEMES), variable, max_age_s=max_age_s)


def database_entry(url: str, variable: str = "database address", *, max_age_s: int = 0) -> dict[str, Any]:
    """The Django database entry of `url`; `variable` is the name in errors."""
    try:
        entry = dict(ENV.db_url_config(url))
    except (ImproperlyConfigured, ValueError) as error:
        raise SettingError(variable, "can't be read as postgres://user:password@host:port/name") from error
    if not entry.get("NAME"):
        raise SettingError(variable, "names no database")
    if entry["ENGINE"].endswith("sqlite3"):
        return _sqlite(entry)
    # libpq wants a socket folder percent-encoded in place of the host; environ does not decode it.
    entry["HOST"] = unquote(entry.get("HOST") or "")
    role = read_text("ALLOTMENT_DATABASE_ROLE", "")
    if role and not role.isidentifier():
        raise SettingError("ALLOTMENT_DATABASE_ROLE", "must be a role: letters, digits, underscores")
    if role:
        # Every connection sets the role at its start, because row policies do not bind superusers. Django's
        # `assume_role` would ask the pool for a second connection to prepare the first, and hang.
        entry["OPTIONS"] = {**entry.get("OPTIONS", {}), "options": f"-c role={role}"}
    pool = read_number("ALLOTMENT_DATABASE_POOL", default=0, high=100)
    if pool:
        # For web processes: opening a connection for each request costs more than most responses.
        entry["OPTIONS"] = {**entry.get("OPTIONS", {}), "pool": {"min_size": 1, "max_size": pool, **_POOL}}
    # Persistent connections suit workers (one connection per process), not the ASGI web process, each of
    # whose threads would keep one; hence the caller decides.
    return {**entry, "CONN_MAX_AGE": max_age_s, "CONN_HEALTH_CHECKS": True}


def _sqlite(entry: dict[str, Any]) -> dict[str, Any]:
    # IMMEDIATE takes the write lock at BEGIN: with the default, two writers that both read first end in
    # "database is locked" without waiting. FULL keeps a committed job through a power loss. One cycle of the
    # scheduler sends more than 128 statements, Python's default cache size, and would parse all of them
    # again.
    options = {
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        "cached_statements": 1024,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON;",
    }
    return {**entry, "OPTIONS": {**options, **entry.get("OPTIONS", {})}}


def cache_settings(broker_url: str) -> dict[str, Any]:
    """The Django cache next to the broker's queues, which all processes share; its timeouts are short,
    because a cached value may be missed."""
    if broker_url.startswith("memory:"):
        return {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
    return {
        "BACKEND": "foundation.messaging.shared_cache.SharedRedisCache",
        "LOCATION": broker_url.replace("redis+socket://", "unix://", 1),
        # A different prefix from that of earlier versions, which stored pickle; their entries are not read.
        "KEY_PREFIX": "allotment-json",
        "OPTIONS": {"socket_timeout": 0.5, "socket_connect_timeout": 0.5},
    }


def check_proxies(variable: str) -> None:
    """Check the addresses of proxies whose client addresses are trusted; uvicorn reads the variable itself.

    A client that could choose its own address would evade every limit by address.
    """
    for word in read_words(variable, []):
        try:
            network = ipaddress.ip_network(word, strict=False)
        except ValueError:
            if "*" in word:
                raise SettingError(variable, "must name the proxies; * would believe every client") from None
            continue  # the name of a unix socket
        if network.prefixlen < _WIDEST[network.version]:
            raise SettingError(variable, f"must name the proxies; {word} holds half of the world")


def writable_home(base: Path) -> Path:
    """Create the folder of the installation, readable by its owner only, and return it.

    Files in it that an earlier version left open to others are closed.
    """
    try:
        make_home_private(base)
    except OSError as error:
        raise SettingError("ALLOTMENT_HOME", f"{base} can't be used: {error.strerror}") from error
    return base


def secret_key(base: Path) -> str:
    """`ALLOTMENT_SECRET_KEY`, else the key of this home: generated on first use, for its owner only."""
    if os.environ.get("ALLOTMENT_SECRET_KEY"):
        return strong_secret_key()
    file = writable_home(base) / "secret-key"
    draft = base / f"secret-key.{os.getpid()}"
    try:
        if not file.exists():
            _write_once(file, draft, secrets.token_urlsafe(64))
        return file.read_text(encoding="ascii").strip()
    except OSError as error:
        raise SettingError("ALLOTMENT_HOME", f"{file} can't be used: {error.strerror}") from error


def _write_once(file: Path, draft: Path, content: str) -> None:
    """Write a file that does not exist yet, for its owner only. Raises: OSError, and then leaves no file.

    The file is written aside and linked into place: of two processes that start together, the second finds a
    complete file, never an empty one.
    """
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as out:  # noqa: PTH123
            out.write(content)
        with suppress(FileExistsError):
            os.link(draft, file)
    finally:
        draft.unlink(missing_ok=True)


def strong_secret_key() -> str:
    """Return `ALLOTMENT_SECRET_KEY`, which is required and must be long enough to resist guessing."""
    value = read_text("ALLOTMENT_SECRET_KEY")
    if len(value) < SECRET_KEY_LENGTH or len(set(value)) < 5:
        raise SettingError("ALLOTMENT_SECRET_KEY", f"needs at least {SECRET_KEY_LENGTH} random characters")
    return value


def audit_keys(secret: str) -> list[str]:
    """Return `ALLOTMENT_AUDIT_KEYS`, the first of which seals; else one key derived from the secret key."""
    chosen = read_words("ALLOTMENT_AUDIT_KEYS", [])
    if any(len(key) < SECRET_KEY_LENGTH for key in chosen):
        raise SettingError(
            "ALLOTMENT_AUDIT_KEYS", f"each needs at least {SECRET_KEY_LENGTH} random characters"
        )
    return chosen or [hmac.new(secret.encode(), b"allotment audit", hashlib.sha256).hexdigest()]
