"""A temporary Kubernetes control plane: etcd and an API server on loopback.

The programs are found as envtest finds them: `KUBEBUILDER_ASSETS` names their folder. A packed set of them is
part of the project's own data.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from benchmarks.support.ports import free_port
from benchmarks.support.postgres import MissingProgram

ROOT: Final = Path(__file__).resolve().parents[2]
_PROGRAMS: Final = ("etcd", "kube-apiserver")
# Without the controller of quotas, the API server admits no pod to a namespace with a ResourceQuota.
_FOR_NODES: Final = (
    *("serviceaccount-controller", "resourcequota-controller"),
    *("node-lifecycle-controller", "taint-eviction-controller"),
)
_START_S: Final = 60
_STOP_S: Final = 20


class ServerProcess:
    """A program that is started at once, ends with this process, and may be killed and started again."""

    def __init__(self, name: str, command: list[str], folder: Path) -> None:
        guard = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        self._command, self._log = [*guard, *command], folder / f"{name}.log"
        self.start_server()

    def start_server(self) -> None:
        """Start it again with its existing data."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def is_running(self) -> bool:
        """Return whether the process is running."""
        return self._process.poll() is None

    def kill_server(self) -> None:
        """Kill it with SIGKILL."""
        self._process.kill()
        self._process.wait()

    def freeze_server(self) -> None:
        """Stop its execution, with its connections open, until it is thawed."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw_server(self) -> None:
        """Continue its execution."""
        self._process.send_signal(signal.SIGCONT)

    def stop_server(self) -> None:
        """Terminate it, and kill it if it does not end."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.kill_server()


@dataclass(frozen=True, kw_only=True)
class ControlPlane:
    """A running API server.

    `admin_token` has all permissions, `platform_token` is that of a user `allotment` without any permission.
    """

    url: str
    folder: Path
    certificate: Path
    admin_token: str
    platform_token: str
    etcd: ServerProcess = field(repr=False)
    api_server: ServerProcess = field(repr=False)

    def write_kubeconfig(self, token: str = "") -> Path:
        """Write a kubeconfig for a token, by default the administrator's, and return its path."""
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "c", "cluster": {"server": self.url, "certificate-authority": str(self.certificate)}}
            ],
            "users": [{"name": "u", "user": {"token": token or self.admin_token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }
        path = self.folder / f"{secrets.token_hex(4)}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        return path


def find_programs() -> Path | None:
    """Return the folder with `etcd` and `kube-apiserver`: `KUBEBUILDER_ASSETS`, else the packed set."""
    named = os.environ.get("KUBEBUILDER_ASSETS")
    if named:
        return Path(named) if all((Path(named) / name).exists() for name in _PROGRAMS) else None
    shared = Path(os.environ.get("ALLOTMENT_SHARED") or ROOT.parent / "shared")
    unpack = shared / "kube" / "unpack"
    if not unpack.exists():
        return None
    made = subprocess.run([str(unpack)], check=True, capture_output=True, text=True)
    return Path(made.stdout.strip())


@contextmanager
def running_control_plane() -> Iterator[ControlPlane]:
    """Start etcd and an API server; they end with the block, and with this process.

    There is no controller manager: default service accounts are not created, objects without an owner are not
    collected, and a deleted namespace is not emptied. Raises: MissingProgram; RuntimeError with the log when
    the API server does not start.
    """
    programs = find_programs()
    if programs is None:
        hint = "point KUBEBUILDER_ASSETS at a folder made by setup-envtest"
        raise MissingProgram("a Kubernetes control plane (etcd, kube-apiserver)", hint)
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="allotment-kube-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        etcd, address = _etcd(programs, folder, stack)
        yield _api_server(programs, folder, etcd, address, stack)


@contextmanager
def running_controllers(plane: ControlPlane, *names: str, as_themselves: bool = False) -> Iterator[None]:
    """Run the named controllers of Kubernetes, such as `garbage-collector-controller`, within the block.

    `as_themselves`: each with the account and the permissions that it has in a cluster, not the
    administrator's. Raises: MissingProgram if the programs lack the controller manager, as envtest's do.
    """
    programs = find_programs()
    if programs is None or not (programs / "kube-controller-manager").exists():
        raise MissingProgram("kube-controller-manager", "point KUBEBUILDER_ASSETS at a whole control plane")
    config = f"--kubeconfig={plane.write_kubeconfig()}"
    command = [
        *(str(programs / "kube-controller-manager"), config, f"--controllers={','.join(names)}"),
        *("--leader-elect=false", "--secure-port=0", f"--flex-volume-plugin-dir={plane.folder / 'plugins'}"),
        *("--kube-api-qps=500", "--kube-api-burst=1000"),
        f"--use-service-account-credentials={str(as_themselves).lower()}",
    ]
    with ExitStack() as stack:
        _start("kube-controller-manager", command, plane.folder, stack)
        yield


@contextmanager
def running_nodes(plane: ControlPlane) -> Iterator[None]:
    """Simulate every node and its pods with kwok, and run the controllers that nodes and tenants need.

    Raises: MissingProgram if the programs lack either.
    """
    programs = find_programs()
    stages = programs.parent / "kwok" / "stages-fast.yaml" if programs else None
    if programs is None or stages is None or not stages.exists():
        raise MissingProgram("kwok", "point KUBEBUILDER_ASSETS at a whole control plane with kwok")
    command = [
        *(str(programs / "kwok"), f"--kubeconfig={plane.write_kubeconfig()}", f"--config={stages}"),
        *("--manage-all-nodes=true", "--node-ip=127.0.0.1", "--node-lease-duration-seconds=40"),
        f"--server-address=127.0.0.1:{free_port()}",
    ]
    with running_controllers(plane, *_FOR_NODES), ExitStack() as stack:
        _start("kwok", command, plane.folder, stack)
        yield


def _start(name: str, command: list[str], folder: Path, stack: ExitStack) -> ServerProcess:
    server = ServerProcess(name, command, folder)
    stack.callback(server.stop_server)
    return server


def _etcd(programs: Path, folder: Path, stack: ExitStack) -> tuple[ServerProcess, str]:
    url, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    command = [
        str(programs / "etcd"),
        *("--name=default", f"--data-dir={folder / 'etcd'}", "--unsafe-no-fsync", "--log-level=warn"),
        *(f"--listen-client-urls={url}", f"--advertise-client-urls={url}"),
        *(f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}"),
        f"--initial-cluster=default={peer}",
    ]
    return _start("etcd", command, folder, stack), url


def _api_server(
    programs: Path, folder: Path, etcd: ServerProcess, address: str, stack: ExitStack
) -> ControlPlane:
    certificates, port = folder / "certificates", free_port()
    certificates.mkdir()
    private, public = _key_pair(certificates)
    token, platform_token = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
    tokens = folder / "tokens.csv"
    tokens.touch(mode=0o600)
    users = f'{token},admin,admin,"system:masters"\n{platform_token},allotment,allotment\n'
    tokens.write_text(users, encoding="utf-8")
    command = [
        str(programs / "kube-apiserver"),
        *(f"--etcd-servers={address}", "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"),
        *(f"--secure-port={port}", f"--cert-dir={certificates}", "--endpoint-reconciler-type=none"),
        *("--authorization-mode=Node,RBAC", f"--token-auth-file={tokens}"),
        *("--service-account-issuer=https://kubernetes.default.svc",),
        *(f"--service-account-key-file={public}", f"--service-account-signing-key-file={private}"),
        *("--service-cluster-ip-range=10.0.0.0/24", "--allow-privileged=true"),
    ]
    process = _start("kube-apiserver", command, folder, stack)
    plane = ControlPlane(
        url=f"https://127.0.0.1:{port}",
        folder=folder,
        certificate=certificates / "apiserver.crt",  # self-signed: it is its own authority
        admin_token=token,
        platform_token=platform_token,
        etcd=etcd,
        api_server=process,
    )
    wait_ready(plane)
    return plane


def _key_pair(folder: Path) -> tuple[Path, Path]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private, public = folder / "sa.key", folder / "sa.pub"
    private.touch(mode=0o600)
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    return private, public


def wait_ready(plane: ControlPlane) -> None:
    """Wait until the API server reports that it is ready. Raises: RuntimeError with its log."""
    deadline = time.monotonic() + _START_S
    while not _ready(plane):
        if not plane.api_server.is_running() or time.monotonic() > deadline:
            log = (plane.folder / "kube-apiserver.log").read_text(encoding="utf-8", errors="replace")
            raise RuntimeError(f"the API server does not answer:\n{log[-4000:]}")
        time.sleep(0.1)


def _ready(plane: ControlPlane) -> bool:
    if not plane.certificate.exists():
        return False
    request = urllib.request.Request(
        f"{plane.url}/readyz", headers={"Authorization": f"Bearer {plane.admin_token}"}
    )
    try:
        context = ssl.create_default_context(cafile=str(plane.certificate))
        with urllib.request.urlopen(request, timeout=5, context=context) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False  # not listening, or not ready yet
