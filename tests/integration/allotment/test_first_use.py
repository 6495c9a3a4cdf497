"""A fresh database is set up by one command, once; afterwards people, tenants and queues come by commands."""

from __future__ import annotations

import io
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client

from clusters.models import Cell
from foundation.models import AuditRecord
from quotas.models import Queue
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Group, Member, Role, Tenant, User
from tenants.services.sign_in import groups_follow
from tests.builders import clusters, tenancy

pytestmark = pytest.mark.django_db


def run(*words: str) -> str:
    out = io.StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


def run_json(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    call_command(*words, "--json", "-")
    return json.loads(capsys.readouterr().out)


def refusal(*words: str) -> tuple[int, str]:
    with pytest.raises(CommandError) as caught:
        call_command(*words, stdout=io.StringIO())
    return caught.value.returncode, str(caught.value)


def counts() -> tuple[int, ...]:
    return tuple(m._base_manager.count() for m in (User, Member, Group, Cell, Tenant, AuditRecord))


def test_init_makes_everything_that_a_fresh_database_lacks(client: Client) -> None:
    text = run("init")
    password = text.split("one-time password: ")[1].split(" ")[0]
    assert client.login(username="admin", password=password)
    admin = User.objects.get()
    assert admin.must_change_password
    assert not admin.is_superuser
    assert permissions.permissions_on(admin) == frozenset(Permission)
    assert (Cell.unscoped.get().name, Tenant.unscoped.get().slug) == ("default", "organization")
    actions = AuditRecord.unscoped.order_by("created_at", "id").values_list("action", flat=True)
    assert list(actions) == ["user.create", "member.set", "cell.add", "tenant.create"]
    assert password not in str(list(AuditRecord.unscoped.values()))
    assert "allotment cluster add" in text


def test_a_second_init_says_what_is_there_and_changes_nothing() -> None:
    run("init", "--user", "root", "--cell", "east", "--tenant", "acme", "--tenant-name", "Acme")
    before = counts()
    for words in ((), ("--user", "root"), ("--cell", "east", "--tenant", "acme")):
        again = run("init", *words)
        assert "root (there already)" in again
        assert "no changes were made" in again
        assert "one-time password" not in again
        assert "allotment user password" in again
    assert counts() == before


@pytest.mark.parametrize(
    ("words", "field", "there"),
    [
        (("--user", "second"), "user", "root"),
        (("--cell", "west"), "cell", "east"),
        (("--tenant", "other"), "tenant", "acme"),
    ],
)
def test_init_under_other_names_is_refused_with_what_is_there(
    words: tuple[str, ...], field: str, there: str
) -> None:
    run("init", "--user", "root", "--cell", "east", "--tenant", "acme")
    before = counts()
    code, message = refusal("init", *words)
    assert code == 1
    assert message.startswith(f"{field}: ")
    assert there in message
    assert counts() == before


def test_init_adds_what_is_missing_beside_what_is_there() -> None:
    tenancy.platform_admin("root")
    clusters.cell("old")
    assert "organization (created)" in run("init")
    assert Tenant.unscoped.get().slug == "organization"
    assert (User.objects.count(), Cell.unscoped.count()) == (1, 1)


def test_nothing_is_left_of_an_init_that_is_refused_half_way() -> None:
    clusters.cell("old")
    before = counts()
    refusal("init", "--tenant", "kube-system")
    assert counts() == before


@pytest.mark.parametrize("before", [None, "old"])
def test_the_result_file_with_the_password_is_its_owners_alone(tmp_path: Path, before: str | None) -> None:
    file = tmp_path / "init.json"
    if before is not None:
        file.write_text(before)
        file.chmod(0o644)
    run("init", "--json", str(file))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text())["admin"]["password"]


def test_what_cannot_be_written_leaves_no_admin_without_a_known_password(tmp_path: Path) -> None:
    before = counts()
    assert refusal("init", "--json", str(tmp_path / "no" / "file"))[0] == 2
    assert counts() == before


def test_a_password_of_ones_own_is_not_shown(tmp_path: Path, client: Client) -> None:
    file = tmp_path / "password"
    file.write_text("correct horse battery staple\n")
    assert "correct" not in run("init", "--password-file", str(file))
    assert client.login(username="admin", password="correct horse battery staple")
    assert not User.objects.get().must_change_password
    file.write_text("another password of mine\n")
    assert "the password was not changed" in run("init", "--password-file", str(file))
    assert client.login(username="admin", password="correct horse battery staple")


@pytest.mark.parametrize(
    ("content", "code", "message"),
    [("short\n", 2, "password: "), ("\n", 2, "is empty"), (None, 2, "No such file")],
)
def test_a_password_against_the_rules_is_one_line(
    tmp_path: Path, content: str | None, code: int, message: str
) -> None:
    file = tmp_path / "password"
    if content is not None:
        file.write_text(content)
    before = counts()
    answer = refusal("init", "--password-file", str(file))
    assert answer[0] == code
    assert message in answer[1]
    assert counts() == before


def test_an_account_of_the_default_name_is_not_made_admin_by_the_way() -> None:
    """A user of the identity provider may be called `admin`."""
    tenancy.user("Admin")
    code, message = refusal("init")
    assert (code, "--user" in message) == (1, True)
    assert not Member.unscoped.exists()
    assert "Admin (created)" in run("init", "--user", "Admin")
    assert Member.unscoped.get().user == User.objects.get()


def test_a_closed_account_does_not_count_as_admin_nor_becomes_one() -> None:
    closed = tenancy.platform_admin("gone")
    User.objects.filter(pk=closed.pk).update(is_active=False)
    assert refusal("init", "--user", "gone")[0] == 1
    assert "admin (created)" in run("init")


def test_people_of_a_group_of_the_provider_are_admins(settings: Any) -> None:
    assert refusal("init", "--oidc-group", "ops")[0] == 2
    settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {}}
    assert "ops (created)" in run("init", "--oidc-group", "ops")
    assert not User.objects.exists()
    code, message = refusal("cell", "list")
    assert (code, "allotment init" in message) == (2, True)
    Group.unscoped.update(name="Operators")
    assert "Operators (there already)" in run("init", "--oidc-group", "ops")
    person = tenancy.user("ada")
    groups_follow(user=person, claimed=frozenset({"ops"}))
    assert permissions.has_permission(person, Permission.CLUSTER_EDIT)
    assert "default" in run("cell", "list")  # acts as ada, who is admin by the group


def test_createsuperuser_needs_no_mail_and_its_account_may_do_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", "correct horse battery staple")
    run("createsuperuser", "--no-input", "--username", "root")
    assert permissions.permissions_on(User.objects.get()) == frozenset(Permission)
    run("createsuperuser", "--no-input", "--username", "second")
    assert Member.unscoped.filter(role=Role.PLATFORM_ADMIN).count() == 2


def test_from_an_empty_database_to_a_queue_by_commands_alone(capsys: pytest.CaptureFixture[str]) -> None:
    run("init")
    run("cell", "add", "west")
    assert refusal("cell", "add", "west") == (1, "name: Scheduling domain west already exists.")
    assert refusal("cell", "add", "West!")[0] == 2
    assert [item["name"] for item in run_json(capsys, "cell", "list")["items"]] == ["default", "west"]
    run("tenant", "add", "research", "--folder", "--name", "Research")
    assert "allotment queue add speech" in run("tenant", "add", "speech", "--parent", "research")
    tree = {item["slug"]: item["parent"] for item in run_json(capsys, "tenant", "list")["items"]}
    assert tree == {"organization": None, "research": "organization", "speech": "research"}
    code, message = refusal("queue", "add", "speech", "default", "--cell", "west")
    assert (code, "allotment flavor discover" in message) == (2, True)
    flavor = clusters.flavor(clusters.cluster(Cell.unscoped.get(name="west")))
    run("queue", "add", "speech", "default", "--cell", "west")
    assert Queue.unscoped.get().queue_flavors.get().flavor == flavor
    assert run_json(capsys, "queue", "list", "speech")["items"][0]["flavors"] == ["a100"]


def test_a_user_is_added_with_a_role_in_one_command(
    capsys: pytest.CaptureFixture[str], client: Client
) -> None:
    run("init")
    run("tenant", "add", "speech")
    made = run_json(capsys, "user", "add", "lin", "--tenant", "speech", "--role", "editor")
    assert client.login(username="lin", password=made["password"])
    lin = User.objects.get(username="lin")
    assert lin.must_change_password
    assert permissions.has_permission(lin, Permission.JOB_SUBMIT, Tenant.unscoped.get(slug="speech"))
    assert "lin" in run("user", "list")
    for words in (("--role", "editor"), ("--tenant", "speech"), ("--role", "auditor", "--tenant", "speech")):
        assert refusal("user", "add", "mei", *words)[0] == 2
    assert refusal("user", "add", "mei", "--tenant", "none", "--role", "editor")[0] == 2
    assert not User.objects.filter(username="mei").exists()


def test_a_user_whose_password_could_not_be_written_is_not_added(tmp_path: Path) -> None:
    run("init")
    before = counts()
    assert refusal("user", "add", "lin", "--json", str(tmp_path / "no" / "file"))[0] == 2
    assert counts() == before


@pytest.mark.parametrize("words", [("cell", "add", "x"), ("tenant", "add", "x"), ("user", "add", "x")])
def test_only_who_may_does(words: tuple[str, ...]) -> None:
    tenancy.root()
    tenancy.user("reader", None, Role.PLATFORM_VIEWER)
    assert "PERMISSION_DENIED" in refusal(*words, "--user", "reader")[1]


def test_flavors_of_one_name_carry_their_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    run("init")
    run("tenant", "add", "speech")
    cell = Cell.unscoped.get()
    for name in ("east", "west"):
        clusters.flavor(clusters.cluster(cell, name), "l40s")
    clusters.flavor(clusters.cluster(cell, "north"), "h100")
    names = ["west/l40s", "h100", "east/l40s"]
    assert refusal("queue", "add", "speech", "q", "--flavor", "l40s")[0] == 2
    run("queue", "add", "speech", "q", *(word for name in names for word in ("--flavor", name)))
    assert run_json(capsys, "queue", "list", "speech")["items"][0]["flavors"] == names
