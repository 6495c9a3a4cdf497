"""Names that a workload may not use, because they decide which cards it sees."""

from __future__ import annotations

import pytest

from clusters.gpu import reserved


@pytest.mark.parametrize(
    ("name", "yes"),
    [
        ("NVIDIA_VISIBLE_DEVICES", True),
        ("NVIDIA_X", True),
        ("CUDA_DEVICE_SM_LIMIT", True),
        ("CUDA_DISABLE_CONTROL", True),
        ("LD_PRELOAD", True),
        ("CUDA_OVERSUBSCRIBE", True),
        ("CUDA_REDIRECT", True),
        ("CUDA_VERSION", True),  # alone it makes an image an old one, which gets every card
        ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", True),
        ("CUDA_OF_A_LATER_VERSION", True),
        ("CUDA_VISIBLE_DEVICES_X", True),
        ("LIBCUDA_LOG_LEVEL", True),
        ("ACTIVE_OOM_KILLER", True),
        ("LD_AUDIT", True),
        ("LD_DEBUG", True),
        ("GLIBC_TUNABLES", True),
        ("CUDA_VISIBLE_DEVICES", False),  # only hides cards from oneself
        ("CUDA_DEVICE_MAX_CONNECTIONS", False),
        ("CUDA_LAUNCH_BLOCKING", False),
        ("LD_LIBRARY_PATH", False),
        ("RANK", False),
    ],
)
def test_variables(name: str, yes: bool) -> None:
    assert reserved.is_reserved_variable(name) is yes


@pytest.mark.parametrize(
    ("path", "yes"),
    [
        ("/var/run/nvidia-container-devices", True),
        ("/var/run/nvidia-container-devices/all", True),
        ("/var/run/./x/../nvidia-container-devices/all/", True),
        ("/etc/ld.so.preload", True),
        ("/usr/local/vgpu/libvgpu.so", True),
        ("//etc/ld.so.preload", True),
        ("/etc/./ld.so.preload", True),
        ("/usr/local//vgpu", True),
        ("/usr/../usr/local/vgpu/.", True),
        ("/run/nvidia-container-devices/0", True),
        ("/overrideEnv", True),
        ("/etc/allotment/hosts", True),
        ("/usr/local/vgpus", False),
        ("/data", False),
        ("/", False),
    ],
)
def test_mounts(path: str, yes: bool) -> None:
    assert reserved.is_reserved_mount(path) is yes


@pytest.mark.parametrize(
    ("label", "yes"),
    [("allotment.io/job", True), ("hami.io/webhook", True), ("nvidia.com/x", True), ("app", False)],
)
def test_labels(label: str, yes: bool) -> None:
    assert reserved.is_reserved_label(label) is yes


def test_a_prefix_that_a_reserved_name_may_begin_with_is_none() -> None:
    for name in (*reserved.VARIABLES, *reserved.ALLOWED):
        for end in range(1, len(name) + 1):
            assert reserved.could_be_reserved(name[:end]), name[:end]
    assert not reserved.could_be_reserved("HUB_")
