"""The sources of the client's address and key, and that the key is never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from allotment_client import ConfigurationError, read_configuration
from tests.client.server import KEY


def test_arguments_before_environment_before_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n")
    file = tmp_path / "client.yaml"
    file.write_text(f"url: http://file.test/\nworkspace: from-file\nkey_file: {tmp_path / 'key'}\n")
    found = read_configuration(file=file, environment={"ALLOTMENT_URL": "http://env.test"})
    assert (found.url, found.key, found.workspace) == ("http://env.test", KEY, "from-file")
    found = read_configuration(url="https://arg.test", file=file, environment={})
    assert found.url == "https://arg.test"
    assert KEY not in repr(found)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("key: alt_secret", "ALLOTMENT_URL"),
        ("url: ftp://a.test\nkey: alt_secret", "ALLOTMENT_URL"),
        ("url: http://a.test", "ALLOTMENT_KEY"),
        ("url: http://a.test\ntoken: alt_secret", "token"),
        ("- alt_secret", "map"),
        ("key: [alt_secret", "YAML"),
        ("url: http://a.test\nkey_file: /nowhere/alt", "can't read"),
    ],
)
def test_what_is_wrong_is_said_without_the_key(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "client.yaml"
    file.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        read_configuration(file=file, environment={})
    assert says in str(caught.value)
    assert "alt_secret" not in str(caught.value)


def test_a_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError):
        read_configuration(file=tmp_path / "none.yaml", environment={})
