"""The address of the server and the key: from arguments, the environment, or a file.

The file is `$ALLOTMENT_CLIENT_CONFIG`, else `~/.config/allotment/client.yaml`, with the keys `url`, `key` (or
`key_file`), `workspace` and `language`. The key is never shown: not by `repr`, not in an error, not in a log.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

from allotment_client.errors import ConfigurationError

URL: Final = "ALLOTMENT_URL"
KEY: Final = "ALLOTMENT_KEY"
WORKSPACE: Final = "ALLOTMENT_WORKSPACE"
FILE: Final = "ALLOTMENT_CLIENT_CONFIG"
_KNOWN: Final = ("url", "key", "key_file", "workspace", "language")


@dataclass(frozen=True, slots=True)
class Configuration:
    """The configuration. `url` has no path of the API; `workspace` is the default one, `language` an
    Accept-Language.
    """

    url: str
    key: str = field(repr=False)
    workspace: str = ""
    language: str = ""
    timeout_s: float = 30.0
    tries: int = 5


def read_configuration(
    *,
    url: str = "",
    workspace: str = "",
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Configuration:
    """Return the configuration: arguments take precedence over the environment, and that over the file.

    Raises: ConfigurationError naming the missing or invalid setting.
    """
    variables = os.environ if environment is None else environment
    written = _read(file or _default_file(variables), required=file is not None or FILE in variables)
    address = url or variables.get(URL, "") or str(written.get("url", ""))
    key = variables.get(KEY, "") or str(written.get("key", "")) or _key_of(written)
    if urlsplit(address).scheme not in ("http", "https") or not urlsplit(address).netloc:
        raise ConfigurationError(f"No server URL. Set {URL}, for example https://allotment.example.com.")
    if not key.strip():
        raise ConfigurationError(f"No access key. Set {KEY}, or key_file in the configuration file.")
    return Configuration(
        url=address.rstrip("/"),
        key=key.strip(),
        workspace=workspace or variables.get(WORKSPACE, "") or str(written.get("workspace", "")),
        language=str(written.get("language", "")),
    )


def _default_file(variables: Mapping[str, str]) -> Path:
    if variables.get(FILE):
        return Path(variables[FILE])
    base = variables.get("XDG_CONFIG_HOME") or str(Path(variables.get("HOME", "~")).expanduser() / ".config")
    return Path(base) / "allotment" / "client.yaml"


def _read(path: Path, *, required: bool) -> dict[str, Any]:
    if not path.exists() and not required:
        return {}
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: {error.__class__.__name__}: can't read the file.") from error
    except yaml.YAMLError:
        # The message of the parser is dropped: it quotes the line, which may contain the key.
        raise ConfigurationError(f"{path} isn't valid YAML.") from None
    if not isinstance(found, dict):
        raise ConfigurationError(f"{path}: must be a map of names to values.")
    unknown = sorted(set(map(str, found)) - set(_KNOWN))
    if unknown:
        raise ConfigurationError(f"{path}: unknown setting {unknown[0]}. Valid: {', '.join(_KNOWN)}.")
    return found


def _key_of(written: Mapping[str, Any]) -> str:
    name = written.get("key_file")
    if not name:
        return ""
    try:
        return Path(str(name)).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{name}: can't read the key.") from error
