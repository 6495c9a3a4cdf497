"""The checks before a start; each refusal is one line that says what to do."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from allotment.supervisor import console, logfile, preflight
from allotment.supervisor.broker import broker_program, is_broker_ready
from allotment.supervisor.child import spawn_process
from allotment.supervisor.errors import StartError
from allotment.supervisor.lock import HomeLock
from tests.fixtures.programs import run_to_end
from tests.fixtures.valkey import ValkeyServer
from tests.fixtures.wait import alive, kill_hard, wait_until

HOLD = """
import sys
from pathlib import Path
from allotment.supervisor.lock import HomeLock
lock = HomeLock.acquire_lock(Path(sys.argv[1]), 8123)
print("held", flush=True)
sys.stdin.read()
"""


def up(home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs `allotment up` where it must refuse to start."""
    return run_to_end(
        [sys.executable, "-m", "allotment.cli", "up"],
        env={"PATH": os.environ["PATH"], "ALLOTMENT_HOME": str(home), **environment},
        capture_output=True, text=True, within_s=30, cwd="/",
    )  # fmt: skip


def test_a_second_start_says_who_holds_the_home(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        result = up(tmp_path)
        assert result.returncode == 1
        assert result.stderr.count("\n") == 1
        assert f"process {holder.pid} on http://127.0.0.1:8123" in result.stderr
    finally:
        kill_hard([holder.pid])
        holder.communicate()
    # Killed with -9, it left its text in the file; the lock itself went with the process.
    assert str(holder.pid) in (tmp_path / "supervisor.lock").read_text(encoding="utf-8")
    lock = HomeLock.acquire_lock(tmp_path, 8080)
    assert json.loads((tmp_path / "supervisor.lock").read_text(encoding="utf-8"))["pid"] == os.getpid()
    lock.release_lock()


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        result = up(tmp_path / "home", PORT=str(port))
    assert result.returncode == 1
    assert result.stderr == (
        f"allotment up: port {port} is taken by another program; choose another one with PORT=\n"
    )


@pytest.mark.parametrize("value", ["0", "65536", "http", "-1", "80.0"])
def test_a_wrong_port_is_refused(value: str) -> None:
    with pytest.raises(StartError, match="write a number from 1 to 65535"):
        preflight.read_port({"PORT": value})


def test_an_empty_port_means_the_default() -> None:
    assert preflight.read_port({"PORT": ""}) == preflight.DEFAULT_PORT


def test_an_unwritable_home_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = up(tmp_path / "file" / "home")
    assert result.returncode == 1
    assert result.stderr == (
        f"allotment up: ALLOTMENT_HOME: {tmp_path}/file/home can't be written: Not a directory\n"
    )


def test_the_home_is_private(tmp_path: Path) -> None:
    preflight.check_home(tmp_path / "a" / "home")
    assert stat.S_IMODE((tmp_path / "a" / "home").stat().st_mode) == 0o700


def test_a_foreign_socket_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir(mode=0o755)
    with pytest.raises(StartError, match="not a private folder"):
        preflight.check_socket_folder(folder)


@pytest.mark.parametrize(
    ("system", "machine", "libc", "words"),
    [
        ("Darwin", "arm64", ("", ""), "this is Darwin on arm64"),
        ("Linux", "aarch64", ("glibc", "2.36"), "this is Linux on aarch64"),
        ("Linux", "x86_64", ("glibc", "2.17"), "this is glibc 2.17"),
        ("Linux", "x86_64", ("musl", "1.2"), "this is musl 1.2"),
    ],
)
def test_other_machines_get_a_list_of_what_works(
    system: str, machine: str, libc: tuple[str, str], words: str
) -> None:
    with pytest.raises(StartError, match=words) as caught:
        preflight.check_machine(system, machine, libc)
    assert "allotment pack" in str(caught.value)


def test_the_supported_machine_passes() -> None:
    preflight.check_machine("Linux", "x86_64", ("glibc", "2.28"))
    preflight.check_python((3, 14, 0))
    with pytest.raises(StartError, match=r"this is 3\.10\.2"):
        preflight.check_python((3, 10, 2))


def test_a_log_over_its_cap_is_moved_aside_while_a_process_writes(tmp_path: Path) -> None:
    log = tmp_path / "web.log"
    writer = logfile.open_for_append(log)
    os.write(writer, b"x" * 100)
    assert not logfile.rotate_log(log, cap_bytes=100)
    os.write(writer, b"y")
    assert logfile.rotate_log(log, cap_bytes=100)
    os.write(writer, b"after\n")
    os.close(writer)
    assert (log.stat().st_size, (tmp_path / "web.log.1").stat().st_size) == (6, 101)
    assert logfile.read_last_lines(log) == ["after"]
    assert not logfile.rotate_log(tmp_path / "missing.log")


def test_the_password_is_shown_as_long_as_it_is_valid(tmp_path: Path) -> None:
    account = tmp_path / "first-sign-in.json"
    account.write_text('{"user": "operator", "password": "correct-horse"}', encoding="utf-8")
    text = console.print_banner(tmp_path, 8081)
    assert "http://127.0.0.1:8081" in text
    assert "operator" in text
    assert "correct-horse" in text
    account.unlink()
    assert "sign in" not in console.print_banner(tmp_path, 8081)


def test_the_bundled_broker_keeps_what_it_acknowledged(valkey: ValkeyServer) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(valkey.socket))
        client.sendall(b"LPUSH cycle hint\r\n")
        assert client.recv(16) == b":1\r\n"
    valkey.process.send_signal(signal.SIGKILL)
    valkey.process.wait()
    assert not is_broker_ready(valkey.socket)
    again = spawn_process(broker_program(valkey.home), valkey.home / "broker.log")
    try:
        wait_until(lambda: is_broker_ready(valkey.socket), "the broker answers again")
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(valkey.socket))
            client.sendall(b"LLEN cycle\r\n")
            assert client.recv(16) == b":1\r\n"
    finally:
        again.kill()
        again.wait()
    assert not alive(again.pid)
