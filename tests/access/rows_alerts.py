"""Alerts, their rules, channels and silences, by the REST API and in the console."""

from __future__ import annotations

from typing import Any, Final

from tests.access.actors import VIEW
from tests.access.rows_pages import form, listing, page
from tests.access.rows_tenancy import api
from tests.access.table import EVERYBODY, NOBODY, SIGHT, Ask, Need, inside, must, need, see

_JOB: Final = "job.view"
_EDIT: Final = "tenant.edit"
_READ: Final = inside(_JOB)
_CHANGE: Final = SIGHT + need(_JOB) + need(_EDIT)
_LOOK: Final = need("cluster.view", "platform")
_OPERATE: Final = must(("cluster.view", "platform")) + must(("cluster.edit", "platform"))
_RULE: Final = {"name": "load", "metric": "job.pending_s", "threshold": 60}
_CHANNEL: Final = {"name": "second", "kind": "webhook", "address": "https://hooks.example.org/x"}
_SILENCE: Final = {"ends_at": "{soon}"}


def _lists(name: str, read: Need) -> dict[str, Any]:
    """Only things of workspaces exist twice, so that one that leaks is noticed."""
    return {} if name.startswith("platform") else {"lists": name, "listed": read}


def _rows(
    base: str, read: Need, change: Need, scope: tuple[str, str], rule: str, channel: str, silence: str
) -> tuple[Ask, ...]:
    looks, edits = scope

    def write(route: str, method: str, table: str, **more: Any) -> Ask:
        return api(f"{base}/{route}", method, change, edits, writes=f"alerts_{table}", **more)

    def look(route: str, **more: Any) -> Ask:
        return api(f"{base}/{route}", "GET", read, looks, **more)

    one, hook = f"alert-rules/{{{rule}}}", f"notification-channels/{{{channel}}}"
    return (
        look("alert-rules", **_lists(rule, read)),
        write("alert-rules", "POST", "alertrule", ok=201, body=_RULE),
        look(one),
        write(one, "PATCH", "alertrule", body={"threshold": 5}),
        write(one, "DELETE", "alertrule", ok=204),
        look("notification-channels", **_lists(channel, read)),
        write("notification-channels", "POST", "notificationchannel", ok=201, body=_CHANNEL),
        look(hook),
        write(hook, "PATCH", "notificationchannel", body={"enabled": False}),
        write(hook, "DELETE", "notificationchannel", ok=204),
        api(f"{base}/{hook}/test", "POST", change, edits, has_dry_run=False),
        look("silences", **_lists(silence, read)),
        write("silences", "POST", "silence", ok=201, body=_SILENCE),
        write(f"silences/{{{silence}}}", "DELETE", "silence", ok=204),
    )


_MESSAGE: Final = see((VIEW, "here"), (_JOB, "here"))
_MESSAGES: Final = (
    api("me/messages", "GET", EVERYBODY, lists="message", listed=NOBODY),
    api("me/messages/read", "POST", EVERYBODY, body={}),
    *(
        api("workspaces/{ws}/jobs/{job}/watch", method, _READ, _JOB, ok=ok, writes=writes)
        for method, ok, writes in (("GET", 200, ""), ("POST", 200, "alerts_jobwatch"), ("DELETE", 204, ""))
    ),
)
API: Final = (
    *_MESSAGES,
    api("workspaces/{ws}/alerts", "GET", _READ, _JOB),
    api("admin/alerts", "GET", _LOOK, "cluster.view"),
    *_rows(
        "workspaces/{ws}", SIGHT, _CHANGE, (VIEW, _EDIT), "alert_rule", "alert_channel", "silence"
    ),
    *_rows(
        "admin", _LOOK, _OPERATE, ("cluster.view", "cluster.edit"),
        "platform_rule", "platform_channel", "platform_silence",
    ),
)  # fmt: skip


def _pages(base: str, read: Need, change: Need, rule: str, channel: str, silence: str) -> tuple[Ask, ...]:
    typed = {
        "name": "load", "metric": "job.pending_s", "comparison": "above", "threshold": "60", "hold_s": "300",
        "resolve_s": "120", "severity": "warning", "repeat_s": "",
    }  # fmt: skip
    one = {"row": f"{{{rule}}}", "version": f"{{{rule}.version}}"}
    rules, channels = f"{base}/alerts/rules", f"{base}/alerts/channels"
    silences = f"{base}/alerts/silences"
    creates = (("edit=new", change),)

    def act(route: str, table: str, do: str, item: str) -> Ask:
        return form(
            route, change, f"alerts_{table}", body={"do": do, "item": f"{{{item}}}", "confirmed": "1"}
        )

    return (
        *listing(rules, read, **_lists(f"{rule}_name", read), shows=creates),
        form(rules, change, "alerts_alertrule", body={"do": "create", **typed}),
        form(rules, change, "alerts_alertrule", body={"do": "change", **one, **typed}),
        act(rules, "alertrule", "disable", rule),
        act(rules, "alertrule", "delete", rule),
        *listing(channels, read, **_lists(f"{channel}_name", read), shows=creates),
        form(
            channels,
            change,
            "alerts_notificationchannel",
            body={"do": "create", **_CHANNEL, "secret": "", "language": "en"},
        ),
        act(channels, "notificationchannel", "disable", channel),
        act(channels, "notificationchannel", "delete", channel),
        *listing(silences, read, shows=creates),
        form(silences, change, "alerts_silence", "create", body={"hours": "1"}),
        act(silences, "silence", "end", silence),
    )


CONSOLE: Final = (
    *listing("messages", EVERYBODY, lists="message", listed=NOBODY),
    page("messages/bell", EVERYBODY),
    page("messages/{message}", _MESSAGE, ok=302, arrange="own-message", writes="alerts_usermessage"),
    page("messages/{message}", NOBODY, ok=302, case="of another"),
    form("messages", EVERYBODY, "", "mark all as read", body={}),
    form("messages", EVERYBODY, "", "of another", ok=0, body={"one": "read {message}"}),
    *(
        form(f"w/{{workspace}}/jobs/{{job}}/{verb}", _READ, writes, verb, quiet=False, body={"next": ""})
        for verb, writes in (("watch", "alerts_jobwatch"), ("unwatch", ""))
    ),
    *listing("w/{workspace}/alerts", _READ),
    *listing("ops/alerts", _LOOK),
    form("ops/alerts/rules", _OPERATE, "alerts_alertrule", body={"do": "recommend"}),
    *_pages("w/{workspace}", SIGHT, _CHANGE, "alert_rule", "alert_channel", "silence"),
    *_pages("ops", _LOOK, _OPERATE, "platform_rule", "platform_channel", "platform_silence"),
)
