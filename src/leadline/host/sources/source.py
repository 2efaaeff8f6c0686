"""What a source is: `read` touches the world, `parse` is pure, and the agent calls `poll` and `ready`."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.host.config import AgentConfig
from leadline.host.found import Found
from leadline.host.sources.access import Access
from leadline.host.sources.site import Site


class Source:
    """One source. Its file has a pure `parse...` that tests call with recorded bytes.

    What it says of itself here is all that the log, `leadline doctor --permissions` and the docs say of it.
    """

    name = ""
    reports = ""  # for people, as Markdown: the counters of every interface
    told_as = ""  # the same: which rows and metrics
    accesses: tuple[Access, ...] = ()  # all that it reads and may be refused
    # Metrics (regular expressions of whole names) that it sends of every host under the names of node_exporter: whoever
    # scrapes one there as well stores them twice. What depends on settings, or is of ranks alone, is not among them.
    as_node_exporter: tuple[str, ...] = ()

    @classmethod
    def is_wanted(cls, config: AgentConfig) -> bool:
        """Whether the settings ask for it; one that they leave out is not told as missing."""
        return True

    def __init__(self, site: Site) -> None:
        """Open what is needed. Errors: WorldError or OSError if it is not to be had here; the agent goes without."""
        self.site = site

    @property
    def every_s(self) -> float:
        """Time between two `poll`."""
        return self.site.config.interval_s

    def poll(self, now_ns: int) -> Found:
        """Read all of it."""
        return Found()

    def watched(self) -> Sequence[int]:
        """Files that tell by being readable; `ready` is then called at once."""
        return ()

    def ready(self, handle: int, now_ns: int) -> Found:
        """Read what one of the watched files has."""
        return Found()

    @property
    def pending(self) -> bool:
        """Whether the last `poll` only asked, and the answer is yet to come: nothing has worked or failed."""
        return False

    def not_kept(self) -> None:
        """What the last reading found could not be kept: read it again, if it is still there."""

    @property
    def held_ns(self) -> int | None:
        """Since when there may be something that it will tell later, by this host's clock; None: there is nothing."""
        return None

    def close(self) -> None:
        """Let go of everything."""
