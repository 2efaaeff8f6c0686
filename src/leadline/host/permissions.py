"""What each source can read here, and why not: every access of every source, tried as this process.

Each source is tried in a thread of its own, since a driver or a mount may not answer. Nothing is kept, sent or changed.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable, Sequence
from typing import Any

from leadline.host.asking import OPEN_S, Running
from leadline.host.sources.access import Outcome, Tried, tried
from leadline.host.sources.site import Site, read_if_there
from leadline.host.sources.source import Source

CAPABILITIES = {
    "CAP_DAC_OVERRIDE": 1,
    "CAP_DAC_READ_SEARCH": 2,
    "CAP_FOWNER": 3,
    "CAP_NET_ADMIN": 12,
    "CAP_SYS_PTRACE": 19,
    "CAP_SYSLOG": 34,
}
"""Bits of those that a source may need. Source: Linux, include/uapi/linux/capability.h."""


def tries(site: Site, sources: Iterable[type[Source]]) -> list[Tried]:
    """Try everything that these sources read, in their order; of sources that `agent.sources` leaves out nothing."""
    found: list[Tried] = []
    wanted = site.config.sources
    for kind in [each for each in sources if not wanted or each.name in wanted]:
        running = Running(kind, lambda: None)
        for place, access in enumerate(kind.accesses):
            asked = running.ask(lambda name=kind.name, access=access: tried(name, access, site))  # type: ignore[misc]
            if not asked.wait(OPEN_S):
                why = f"it has not answered for {OPEN_S:g} s"
                found += [Tried(kind.name, each, Outcome.HANGS, why) for each in kind.accesses[place:]]
                break
            running.asked = None
            if asked.error is not None:
                raise asked.error
            found.append(asked.found)
        running.end()
    return found


def is_wrong(one: Tried) -> bool:
    """Whether something can be done about it: what a host does not have is no fault of its settings."""
    return one.outcome in (Outcome.REFUSED, Outcome.HANGS)


def sentence(one: Tried) -> str:
    """What is wrong with an access, what is lost by it and what to do, for the agent's log."""
    ways = (("on the host", for_service(one)), ("in Kubernetes", one.access.grant.for_pod()))
    do = "; ".join(f"{where}: {how}" for where, how in ways if how)
    return f"{one.access.what}: {one.found}. Without it: {one.access.lost}." + (f" Do: {do}" if do else "")


def for_service(one: Tried) -> str:
    """What to do on the host; who has the capability already is not told to get it."""
    grant = one.access.grant
    if one.outcome is Outcome.REFUSED and grant.capability in capabilities():
        held = f"{grant.capability} is held already: a security module or a user namespace refuses"
        return f"{held}; or {grant.service}" if grant.service else held
    return grant.for_service()


def answer(site: Site, sources: Sequence[type[Source]]) -> dict[str, Any]:
    """All of it, for programs. `state`: warning where something is refused or hangs, else ok."""
    found = tries(site, sources)
    return {
        "schema": 1,
        "state": "warning" if any(map(is_wrong, found)) else "ok",
        "host": site.host,
        "user": _user(),
        "uid": os.geteuid(),
        "capabilities": capabilities(),
        "accesses": [
            {
                "source": each.source,
                "reads": each.access.what,
                "outcome": each.outcome.value,
                "found": each.found,
                "lost": "" if each.outcome is Outcome.OK else each.access.lost,
                "causes": [] if each.outcome is Outcome.OK else list(each.access.causes),
                "service": "" if each.outcome is Outcome.OK else for_service(each),
                "pod": "" if each.outcome is Outcome.OK else each.access.grant.for_pod(),
            }
            for each in found
        ],
    }


def capabilities() -> list[str]:
    """Which of the capabilities that a source may need this process has."""
    told = read_if_there("/proc/self/status").partition(b"\nCapEff:")[2].split(b"\n", 1)[0].strip()
    held = int(told, 16) if told else 0
    return [name for name, bit in CAPABILITIES.items() if held >> bit & 1]


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return ""  # a container's user that has no name
