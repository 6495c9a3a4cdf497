"""The name and logo of an installation: rights to set them, refusals, and the pages that show them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core import mail
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from pytest_django import DjangoCaptureOnCommitCallbacks

from alerts.delivery.messages import write_message
from foundation.models import AuditRecord, Installation
from foundation.models.branding import forget_branding
from tests.builders.world import World, world

pytestmark = pytest.mark.django_db
PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 40
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    forget_branding()
    yield
    forget_branding()


@pytest.fixture
def w() -> World:
    return world()


@pytest.fixture
def operator(w: World, client: Client) -> Client:
    client.force_login(w.platform_admin)
    return client


def upload(data: bytes, name: str = "logo.png", kind: str = "image/png") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, data, content_type=kind)


def test_the_name_and_the_logo_are_shown_on_every_page_and_before_signing_in(
    operator: Client, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks, settings: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        answer = operator.post("/ops/system", {"name": " Acme  <GPU> ", "logo": upload(PNG)})
    assert answer.status_code == 302, answer.content
    mark = Installation.unscoped.get().logo_mark
    for client, path in ((operator, "/ops/system"), (Client(), "/login")):
        page = client.get(path).content.decode()
        assert f'<img src="/logo/{mark}" alt="" height="24"><span>Acme &lt;GPU&gt;</span>' in page
        assert "· Acme &lt;GPU&gt;</title>" in page
    assert write_message([], message_id="1", language="en", test=True).title == "Test message from Acme <GPU>"
    settings.EMAIL_HOST = "mail.example.com"
    with django_capture_on_commit_callbacks(execute=True):
        operator.post("/ops/users", {"do": "invite", "username": "nora", "email": "nora@example.com"})
    assert mail.outbox[0].subject == "Invitation to Acme <GPU>"
    logo = Client().get(f"/logo/{mark}")
    assert (logo.content, logo["Content-Type"], logo["X-Content-Type-Options"]) == (
        PNG,
        "image/png",
        "nosniff",
    )
    assert "immutable" in logo["Cache-Control"] and "sandbox" in logo["Content-Security-Policy"]
    assert Client().get("/logo/other").status_code == 404
    record = AuditRecord.unscoped.get(action="branding.update")
    assert record.before == {"name": "", "logo_type": "", "logo_mark": ""}
    assert record.after == {"name": "Acme <GPU>", "logo_type": "image/png", "logo_mark": mark}

    with django_capture_on_commit_callbacks(execute=True):
        operator.post("/ops/system", {"name": "", "remove_logo": "on"})
    assert "<span>Allotment</span>" in Client().get("/login").content.decode()
    assert Client().get(f"/logo/{mark}").status_code == 404
    assert Installation.unscoped.get().logo is None


@pytest.mark.parametrize(
    ("file", "why"),
    [
        (upload(SVG, "logo.svg", "image/svg+xml"), "SVG is not accepted"),
        (upload(SVG), "SVG is not accepted"),
        (upload(b"GIF89a" + bytes(40)), "Choose a PNG, JPEG or WebP image"),
        (upload(PNG + bytes(128 * 1024)), "larger than 128 KiB"),
    ],
)
def test_other_files_are_refused(operator: Client, file: SimpleUploadedFile, why: str) -> None:
    answer = operator.post("/ops/system", {"name": "Acme", "logo": file})
    assert answer.status_code == 400 and why in answer.content.decode()
    assert Installation.unscoped.filter(name="", logo_mark="", logo__isnull=True).count() == 1


def test_jpeg_and_webp_are_accepted(operator: Client) -> None:
    for data, kind in (
        (b"\xff\xd8\xff\xe0" + bytes(20), "image/jpeg"),
        (b"RIFF\x20\0\0\0WEBPVP8 ", "image/webp"),
    ):
        assert operator.post("/ops/system", {"name": "", "logo": upload(data)}).status_code == 302
        assert Installation.unscoped.get().logo_type == kind


def test_a_process_with_an_older_branding_serves_the_new_logo_and_shows_it_in_the_form(
    operator: Client,
) -> None:
    operator.get("/login")
    Installation.unscoped.update(name="Newer", logo=PNG, logo_type="image/png", logo_mark="newer")
    assert operator.get("/logo/newer").content == PNG
    assert 'value="Newer"' in operator.get("/ops/system").content.decode()


def test_a_name_that_cannot_be_seen_is_refused_for_what_it_is(operator: Client) -> None:
    answer = operator.post("/ops/system", {"name": "Ac\u200bme"})
    assert answer.status_code == 400 and "control characters" in answer.content.decode()


def test_others_may_not_set_them(w: World, client: Client) -> None:
    client.force_login(w.admin)
    assert client.post("/ops/system", {"name": "Mine"}).status_code == 403
    assert Installation.unscoped.filter(name="").exists()
