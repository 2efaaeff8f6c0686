"""Link events from netlink as they happen, with the time of their receipt.

The kernel sends a message at each change of an interface; what counts is whether it carries traffic (up, with
carrier). Two changes between two messages leave it as it was, but `carrier_changes` has grown: then both are told,
with `missed`, because a flap that was not seen in full is still a flap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from leadline.host.found import Event, Found
from leadline.host.netlink import IFF_UP, Link
from leadline.host.sources.links import LinkSocket, Overrun, all_links
from leadline.host.sources.site import Site
from leadline.host.sources.source import Source

DOWN, UP = "link-down", "link-up"


class Seen(NamedTuple):
    """What was last known of an interface."""

    running: bool
    carrier_changes: int


class LinkEvents(Source):
    """Interfaces that lose or get their carrier."""

    name = "link"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._socket = LinkSocket()  # before the links are read: a change in between is then seen
        self._seen: dict[str, Seen] = {}
        for link in all_links():
            self._seen[link.name] = Seen(link.running, link.carrier_changes or 0)

    def watched(self) -> Sequence[int]:
        return (self._socket.fileno(),)

    def ready(self, handle: int, now_ns: int) -> Found:
        try:
            links = self._socket.changed()
        except Overrun:
            self.site.counts.add("agent_lost", "netlink_overrun")
            links = all_links()
        events: list[Event] = []
        self._seen = link_changes(
            self._seen, (link for link in links if self.site.counts_interface(link.name)), self.site, now_ns, events
        )
        return Found(events=events)

    def close(self) -> None:
        self._socket.close()


def link_changes(
    before: dict[str, Seen], links: Iterable[Link], site: Site, now_ns: int, events: list[Event]
) -> dict[str, Seen]:
    """What is known after these messages; appends what happened to `events`."""
    after = dict(before)
    for link in links:
        old = after.get(link.name)
        if link.removed:
            after.pop(link.name, None)
            if old is not None and old.running:
                events.append(_event(link, False, site, now_ns, {"removed": "true"}))
            continue
        count = old.carrier_changes if link.carrier_changes is None and old else link.carrier_changes or 0
        new = Seen(link.running, count)
        after[link.name] = new
        if old is None:
            continue  # one that appears has no past to compare with
        if new.running != old.running:
            events.append(_event(link, new.running, site, now_ns, {}))
        elif new.carrier_changes - old.carrier_changes >= 2:
            missed = {"missed": str(new.carrier_changes - old.carrier_changes)}
            events += [_event(link, up, site, now_ns, missed) for up in (not new.running, new.running)]
    return after


def _event(link: Link, up: bool, site: Site, now_ns: int, more: dict[str, str]) -> Event:
    attributes = {
        "interface": link.name,
        "carrier_changes": str(link.carrier_changes if link.carrier_changes is not None else ""),
        "operstate": link.operstate,
        "admin": "up" if link.flags & IFF_UP else "down",
        **more,
    }
    text = f"{link.name} is {'up' if up else 'down'} (carrier changes: {attributes['carrier_changes']})"
    return Event(
        now_ns, site.port(link.name), UP if up else DOWN, "info" if up else "error", text, attributes, "agent/link"
    )
