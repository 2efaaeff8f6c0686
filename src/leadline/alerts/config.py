"""Settings of alerts: who is told of incidents, and how patiently."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

ReceiverKind = Literal["alertmanager", "webhook", "cloudevents"]


@dataclass(frozen=True, slots=True)
class Receiver:
    """One that is told of incidents."""

    name: str = field(metadata={"doc": "name of the receiver; delivery state is kept under it"})
    kind: ReceiverKind = field(
        metadata={"doc": "alertmanager (API v2), webhook (a JSON document) or cloudevents (1.0)"}
    )
    url: str = field(
        metadata={
            "doc": "http(s) address; of an Alertmanager its base, to which /api/v2/alerts is added",
            # Addresses of chat services are secrets themselves: bundles leave them out.
            "secret": True,
        },
    )
    secret_file: str = field(default="", metadata={"doc": "file with the key that signs bodies (HMAC-SHA256)"})
    secret_env: str = field(default="", metadata={"doc": "or the environment variable that holds it"})
    token_file: str = field(default="", metadata={"doc": "file with a bearer token to send"})
    token_env: str = field(default="", metadata={"doc": "or the environment variable that holds it"})
    tenants: tuple[str, ...] = field(default=(), metadata={"doc": "only incidents of these tenants; empty: of all"})
    timeout_s: float = field(default=10.0, metadata={"doc": "give up a request after", "unit": "s", "above": 0.0})


@dataclass(frozen=True, slots=True)
class AlertsConfig:
    """Who is told of incidents. Suppressed ones are not told. Without receivers nothing of this runs."""

    receivers: tuple[Receiver, ...] = field(
        default=(), metadata={"doc": "a list of name, kind, url, secret_file, token_file, tenants, ..."}
    )
    every_s: float = field(
        default=2.0,
        metadata={"doc": "how often incidents are looked for: a window of the analysis `cause`", "unit": "s",
                  "min": 0.1, "max": 60.0},
    )  # fmt: skip
    settle_s: float = field(
        default=4.0,
        metadata={"doc": "how long to wait after an incident is first reported before alerting: its verdict may still change",
                  "unit": "s", "min": 0.0, "max": 600.0},
    )  # fmt: skip
    change_s_min: float = field(
        default=30.0,
        metadata={"doc": "shortest time between two notifications of an ongoing incident", "unit": "s", "min": 0.0},
    )
    resend_s: float = field(
        default=60.0,
        metadata={"doc": "how often an ongoing alert is sent again to an Alertmanager; it ends by itself after four times this",
                  "unit": "s", "min": 1.0, "max": 3600.0},
    )  # fmt: skip
    stale_s: float = field(
        default=900.0,
        metadata={"doc": "an incident not seen in any window for this long is no longer reported as open", "unit": "s",
                  "min": 10.0},
    )  # fmt: skip
    late_s: float = field(
        default=3600.0,
        metadata={"doc": "an incident that was over for longer when it was found (back-fill) is not alerted",
                  "unit": "s", "min": 0.0},
    )  # fmt: skip
    retry_s_max: float = field(
        default=300.0, metadata={"doc": "longest wait before a receiver is tried again", "unit": "s", "min": 1.0}
    )
    waiting_max: int = field(
        default=10_000,
        metadata={"doc": "incidents held for receivers, 10 kB each; with more, the newest is dropped and counted",
                  "min": 1},
    )  # fmt: skip
    state: str = field(
        default="",
        metadata={
            "doc": "SQLite file with what was sent to which receiver; empty: `alerts.sqlite` in the directory of store.path"
        },
    )
