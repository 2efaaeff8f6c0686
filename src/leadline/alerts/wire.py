"""Notices as requests: Alertmanager's API v2, a signed JSON document, CloudEvents 1.0. Pure.

Sources: Prometheus Alertmanager, api/v2/openapi.yaml (POST /api/v2/alerts); CloudEvents 1.0.2, JSON format and HTTP
protocol binding (structured mode). Signatures as Stripe's and others': HMAC-SHA256 (RFC 2104) over the time and the
body, so that a request that was overheard cannot be sent again later.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from leadline.alerts.notice import OPEN, OVER, STALE, SUPPRESSED, Notice

SIGNATURE = "Leadline-Signature"
EVENT_TYPE = "dev.leadline.incident."
EVENT_WORDS = {OPEN: "open", OVER: "over", STALE: "stale", SUPPRESSED: "suppressed"}
RESOLVED_AFTER_NS = 1_000_000  # an alert ends at least so long after its start: Alertmanager refuses an earlier end
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Letter:
    """One request body with its headers."""

    body: bytes
    headers: Mapping[str, str]


def rfc3339(time_ns: int) -> str:
    """A time as RFC 3339 with nanoseconds, in UTC. Times outside the years 1 to 9999 become the nearest there is."""
    whole_s = min(max(time_ns // 10**9, -62_135_596_800), 253_402_300_799)
    return f"{(_EPOCH + timedelta(seconds=whole_s)):%Y-%m-%dT%H:%M:%S}.{time_ns % 10**9:09d}Z".rjust(30, "0")


def alertmanager(
    notices: Sequence[tuple[Notice, Mapping[str, str] | None]], now_ns: int, ends_ns: int, url: str
) -> Letter:
    """A POST to /api/v2/alerts.

    `notices`: each with the labels of the alert that was sent before for it and has others now, which ends with it
    (None: the labels are the same). What lasts ends by itself at `ends_ns`, unless it is sent again before.
    """
    alerts = []
    for each, before in notices:
        if before is not None and dict(before) != dict(each.labels):
            alerts.append(_alert(each, before, now_ns, url))
        ends = ends_ns if each.lasts else min(each.end_ns if each.end_ns is not None else now_ns, now_ns)
        alerts.append(_alert(each, each.labels, ends, url))
    return Letter(json.dumps(alerts).encode(), {"content-type": "application/json"})


def _alert(each: Notice, labels: Mapping[str, str], ends_ns: int, url: str) -> dict[str, Any]:
    return {
        "labels": dict(labels),
        "annotations": dict(each.annotations),
        "startsAt": rfc3339(each.start_ns),
        "endsAt": rfc3339(max(ends_ns, each.start_ns + RESOLVED_AFTER_NS)),
        "generatorURL": f"{url}/api/v1/incidents/{quote(each.key[2], safe='')}",
    }


def webhook(each: Notice, now_ns: int, secret: bytes = b"") -> Letter:
    """A POST of the document, signed where there is a secret."""
    body = json.dumps(each.document(), ensure_ascii=False).encode()
    headers = {"content-type": "application/json", "leadline-event": each.state, "leadline-delivery": _header(each.id)}
    return Letter(body, {**headers, **_signed(body, now_ns, secret)})


def cloudevents(each: Notice, now_ns: int, secret: bytes = b"") -> Letter:
    """A POST of one event in structured mode. `id` is unique within `source`, as the standard asks."""
    tenant, cluster, incident = each.key
    event = {
        "specversion": "1.0",
        "id": _text(each.id),
        "source": f"/leadline/{quote(cluster, safe='')}/{quote(tenant, safe='')}",
        "type": EVENT_TYPE + EVENT_WORDS[each.state],
        "subject": _text(incident),
        "time": rfc3339(each.seen_ns),
        "datacontenttype": "application/json",
        "data": each.document(),
    }
    body = json.dumps(event, ensure_ascii=False).encode()
    return Letter(
        body, {"content-type": "application/cloudevents+json; charset=utf-8", **_signed(body, now_ns, secret)}
    )


def _text(text: str) -> str:
    """A string attribute: the standard allows no control characters, which a job's name may have. One to one."""
    return "".join(each if each.isprintable() and each != "%" else quote(each, safe="") for each in text)


def _header(text: str) -> str:
    return quote(text, safe="/:@-._~")


def _signed(body: bytes, now_ns: int, secret: bytes) -> dict[str, str]:
    if not secret:
        return {}
    at = str(now_ns // 10**9)
    return {SIGNATURE.lower(): f"t={at},v1={signature(body, at, secret)}"}


def signature(body: bytes, at: str, secret: bytes) -> str:
    """HMAC-SHA256 of `at` (seconds, as in the header), a dot and the body; hexadecimal."""
    return hmac.new(secret, at.encode() + b"." + body, hashlib.sha256).hexdigest()
