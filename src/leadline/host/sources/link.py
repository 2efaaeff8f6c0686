"""Link events from netlink as they happen, with the time of their receipt.

What counts is whether an interface carries traffic (up, with carrier). The kernel tells changes that follow each other
closely in one message, but counts them all: where the count has grown by two and the link is as it was, both are told,
and `missed` says how many changes before an event have no event of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from leadline.host.found import Event, Found
from leadline.host.sources.access import Access, Grant
from leadline.host.sources.links import LinkSocket, Overrun, all_links
from leadline.host.sources.site import Site
from leadline.host.sources.source import Source
from leadline.wire.netlink.links import IFF_UP, Link

DOWN, UP = "link-down", "link-up"


class Seen(NamedTuple):
    """What was last known of an interface."""

    running: bool
    carrier_changes: int
    number: int = 0  # 0: not known


def _told(site: Site) -> str:
    """Ask to be told of links, as the source does. Errors: OSError."""
    LinkSocket().close()
    return f"told of {len(all_links())} interfaces as they change"


class LinkEvents(Source):
    """Interfaces that lose or get their carrier."""

    name = "link"
    reports = "interfaces that lose or get their carrier, as the kernel says it"
    told_as = "events `link-down`, `link-up` of the port"
    accesses = (
        Access(
            "link messages (netlink)",
            _told,
            "links that go down show in counters only, one reading late; a flap between two readings goes unseen",
            Grant(service="AF_NETLINK in RestrictAddressFamilies of its unit"),
            ("link-down", "switch-down"),
        ),
    )

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._socket = LinkSocket()  # before the links are read: a change in between is then seen
        self._seen: dict[str, Seen] = {}
        for link in all_links():
            self._seen[link.name] = Seen(link.running, link.carrier_changes or 0, link.number)

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
        if _is_older(link, old):
            continue
        if link.removed:
            after.pop(link.name, None)
            if old is not None and old.running:
                events.append(_event(link, False, site, now_ns, {"removed": "true"}))
            continue
        count = old.carrier_changes if link.carrier_changes is None and old else link.carrier_changes or 0
        new = Seen(link.running, count, link.number)
        after[link.name] = new
        if old is None:
            continue  # one that appears has no past to compare with
        more = new.carrier_changes - old.carrier_changes
        if new.running != old.running:
            events.append(_event(link, new.running, site, now_ns, _missed(more - 1)))
        elif more >= 2:
            before_that = link._replace(carrier_changes=new.carrier_changes - 1)
            events.append(_event(before_that, not new.running, site, now_ns, _missed(more - 2)))
            events.append(_event(link, new.running, site, now_ns, {}))
    return after


def _is_older(link: Link, known: Seen | None) -> bool:
    """A message that waited while all links were read: what it tells has happened before what we know."""
    if known is None or link.carrier_changes is None or link.number != known.number:
        return False
    return link.carrier_changes < known.carrier_changes


def _missed(changes: int) -> dict[str, str]:
    return {"missed": str(changes)} if changes > 0 else {}


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
