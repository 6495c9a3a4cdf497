"""Requests to addresses that users entered reach only what they may."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from benchmarks.support.ports import free_port
from foundation.web.outgoing import AddressNotAllowed, OutgoingError, check_url, resolve_url, send_request
from telemetry.sources.fetch import Access, SourceFailed, SourceProblem, fetch_exposition
from tests.fixtures.http_receiver import Receiver, run_receiver


@pytest.fixture
def receiver(settings: Any) -> Iterator[Receiver]:
    settings.ALLOTMENT_OUTGOING_NETWORKS = ["127.0.0.0/8"]
    with run_receiver() as made:
        yield made


def _resolve_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    real = socket.getaddrinfo

    def find(host: str, port: int, *arguments: Any, **named: Any) -> list[Any]:
        if host[0].isdigit():
            return real(host, port, *arguments, **named)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", find)


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1"),
        *("169.254.169.254", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "ff02::1"),
        *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "fe80::1%eth0"),
        *("64:ff9b::a9fe:a9fe", "64:ff9b::10.0.0.1", "64:ff9b:1::a00:1", "2002:a00:1::", "2002:7f00:1::1"),
        *("::10.0.0.1", "::169.254.169.254", "::ffff:0:10.0.0.1", "fec0::1", "2001:db8::1", "4000::1"),
        *("2001:0:a00:1::1", "fe00::1", "100::1"),
    ],
)
def test_an_address_that_is_not_public_is_refused(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    _resolve_to(monkeypatch, address)
    with pytest.raises(AddressNotAllowed, match="not public"):
        send_request("POST", "https://hooks.example.org/")


@pytest.mark.parametrize(
    ("address", "network"),
    [
        *(("64:ff9b::10.0.0.1", "10.0.0.0/8"), ("2002:a00:1::", "10.0.0.0/8"), ("::10.0.0.1", "10.0.0.0/8")),
        *(("::ffff:10.0.0.1", "10.0.0.0/8"), ("fec0::1", "fec0::/10"), ("::1", "::1/128")),
        *(
            ("64:ff9b::5db8:d822", ""),
            ("2002:5db8:d822::", ""),
            ("2606:4700::1111", ""),
            ("::93.184.216.34", ""),
        ),
    ],
)
def test_an_address_is_allowed_by_the_one_it_leads_to(
    monkeypatch: pytest.MonkeyPatch, settings: Any, address: str, network: str
) -> None:
    settings.ALLOTMENT_OUTGOING_NETWORKS = [network] if network else []
    _resolve_to(monkeypatch, address)
    assert resolve_url("https://hooks.example.org/") == [address]


@pytest.mark.parametrize(
    "banner",
    [
        b"SSH-2.0-x\r\n",
        b"-NOAUTH x\r\n",
        b"HTTP/1.1 x secret\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nSSH-2.0-x\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nSSH-2.0-x",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000,
    ],
)
def test_an_error_repeats_nothing_that_the_server_sent(settings: Any, banner: bytes) -> None:
    settings.ALLOTMENT_OUTGOING_NETWORKS = ["127.0.0.0/8"]
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            peer, _ = server.accept()
            with peer, suppress(OSError):
                peer.recv(4096)
                peer.sendall(banner)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        with pytest.raises(SourceFailed) as failed:
            fetch_exposition(url, Access())
        thread.join()
    assert failed.value.problem == SourceProblem.UNREACHABLE
    assert failed.value.detail == "127.0.0.1 gave no valid HTTP answer"


def test_a_header_that_cannot_be_sent_is_not_repeated(receiver: Receiver) -> None:
    for value in ("secret\r\nX: y", "密"):
        with pytest.raises(OutgoingError) as failed:
            send_request("GET", receiver.url, headers={"Authorization": value})
        assert str(failed.value) == "the URL or a header contains characters that HTTP forbids"


def test_one_bad_address_among_good_ones_refuses_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    _resolve_to(monkeypatch, "93.184.216.34", "10.0.0.1")
    with pytest.raises(AddressNotAllowed):
        send_request("GET", "http://hooks.example.org/")


def test_an_allowed_network_is_reached_at_the_address_that_was_checked(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = receiver.url.rpartition(":")[2]
    _resolve_to(monkeypatch, "127.0.0.1")
    answer = send_request("POST", f"http://hooks.example.org:{port}/a?b=1", body=b"x")
    assert (answer.status, answer.body) == (200, b"{}")
    (request,) = receiver.requests
    assert (request.method, request.path, request.body) == ("POST", "/a?b=1", b"x")
    assert request.headers["host"] == f"hooks.example.org:{port}"


def test_a_redirect_is_not_followed(receiver: Receiver) -> None:
    receiver.status, receiver.headers = 302, {"Location": "http://169.254.169.254/latest"}
    assert send_request("GET", receiver.url).status == 302
    assert len(receiver.requests) == 1


def test_an_answer_that_is_too_large_is_refused(receiver: Receiver) -> None:
    receiver.body = b"x" * 5_000
    with pytest.raises(OutgoingError, match="larger than 4096"):
        send_request("GET", receiver.url, answer_max=4096)


def test_the_time_limit_holds_for_the_whole_answer(receiver: Receiver) -> None:
    receiver.body, receiver.drip_s = b"x" * 100, 0.05
    with pytest.raises(OutgoingError, match="timed out"):
        send_request("GET", receiver.url, timeout_s=0.3)


def test_the_time_limit_holds_for_headers_that_never_end(settings: Any) -> None:
    settings.ALLOTMENT_OUTGOING_NETWORKS = ["127.0.0.0/8"]
    with socket.create_server(("127.0.0.1", 0)) as server:
        stop = threading.Event()

        def serve() -> None:
            peer, _ = server.accept()
            with peer, suppress(OSError):
                peer.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                while not stop.wait(0.02):
                    peer.sendall(b"a")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        with pytest.raises(OutgoingError, match="timed out"):
            send_request("GET", f"http://127.0.0.1:{server.getsockname()[1]}/", timeout_s=0.3)
        stop.set()
        thread.join()


def test_an_answer_that_ends_with_its_connection_is_read_whole(settings: Any) -> None:
    settings.ALLOTMENT_OUTGOING_NETWORKS = ["127.0.0.0/8"]
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(4096)
                peer.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * 50_000)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        answer = send_request("GET", f"http://127.0.0.1:{server.getsockname()[1]}/")
        assert answer.body == b"x" * 50_000
        thread.join()


def test_only_the_address_that_is_named_answers(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    port = receiver.url.rpartition(":")[2]
    _resolve_to(monkeypatch, "127.0.0.1", "127.0.0.2")
    url = f"http://exporters.example.org:{port}/"
    assert resolve_url(url) == ["127.0.0.1", "127.0.0.2"]
    assert send_request("GET", url, via="127.0.0.1").status == 200
    with pytest.raises(OutgoingError):
        send_request("GET", url, via="127.0.0.2")
    with pytest.raises(OutgoingError, match="no longer"):
        send_request("GET", url, via="127.0.0.3")


def test_a_closed_port_is_a_plain_error(receiver: Receiver) -> None:
    port = free_port()
    with pytest.raises(OutgoingError, match=r"127\.0\.0\.1"):
        send_request("GET", f"http://127.0.0.1:{port}/")


@pytest.mark.parametrize(
    "url",
    [
        *(
            "ftp://example.org/",
            "file:///etc/passwd",
            "https:///x",
            "example.org",
            "",
            "http://",
            "http://[::1",
        ),
        *("https://user:word@example.org/", "http://example.org:99999/", "http://example.org:0/"),
        *("http://example.org/\r\nHost: x", "http://exa mple.org/", "http://example.org/\x7f"),
    ],
)
def test_a_malformed_address_is_refused(url: str) -> None:
    with pytest.raises(AddressNotAllowed):
        check_url(url)
