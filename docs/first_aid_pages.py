"""What `leadline doctor` knows, as pages for people: docs/permissions.md, and parts of two others."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from docs.markdown_tables import grid

from leadline.host.sources import SOURCES
from leadline.host.sources.access import Access
from leadline.host.sources.source import Source
from leadline.views.sizing import (
    FRESH_BYTES,
    GPUS_OF_LIVE,
    LIVE,
    MACHINE,
    RATES,
    RETENTION_D,
    ROW_BYTES,
    SCRAPE_S,
    STREAMS_OF_HOST,
    TRAFFIC,
    VOLUME_BY,
    VOLUME_DATE,
    Basis,
    Fleet,
    Need,
    size_of,
)

HOSTS = (16, 64, 256, 1024)  # columns of the table of sizes

PERMISSIONS_HEAD = """# What the agent can read

```sh
leadline doctor --permissions                      # as the user who asks: run it as the agent runs, with sudo
leadline agent --permissions                       # the same as JSON
python3 -m leadline.host.main --permissions        # in the agent's pod or container, which has no other verb
```

Each line below is tried for real: the file or socket is opened as the agent opens it. `refused` can be granted;
`absent` is not on this host; `hangs` did not answer within 5 s; `untried` had nothing to be tried on (no job of another
user runs). Exit code 1 if something is refused or hangs. The agent tries the same at its start and writes what is
refused into its log.

The packaged unit runs the agent as root and the chart gives it its capabilities, so that all of it is granted but for
the kernel log in Kubernetes (`agent.privileged=true`). What follows is for agents that run otherwise. Clocks,
temperatures and memory errors of GPUs come from [dcgm-exporter](how-to/connect-dcgm-exporter.md), not from the agent.
"""


def permissions_page() -> str:
    """A section for each source, in their order."""
    return PERMISSIONS_HEAD + "".join(map(_section, SOURCES))


def _section(kind: type[Source]) -> str:
    rows = grid(("reads", "without it", "on the host", "in Kubernetes"), map(_access, kind.accesses))
    return f"\n## {kind.name}\n\nReports {kind.reports}.\n\n{rows}"


def _access(access: Access) -> tuple[str, ...]:
    causes = ", ".join(f"[{name}](analyses/rules.md#{name})" for name in access.causes)
    lost = f"{access.lost}. Less evidence of {causes}" if causes else access.lost
    return access.what, lost, access.grant.for_service(), access.grant.for_pod()


def sources_grid() -> str:
    """What each source reports, for docs/how-to/run-the-agent.md."""
    return grid(
        ("source", "what it reports", "as"), ((f"`{kind.name}`", kind.reports, kind.told_as) for kind in SOURCES)
    )


# --- sizes --------------------------------------------------------------------------------------------------------


def sizes_grid() -> str:
    """What servers of a few sizes need, each figure with what it stands on where that is not its whole row's."""
    sizes = [size_of(Fleet(hosts)) for hosts in HOSTS]

    def row(place: int) -> tuple[str, ...]:
        needs = [each.needs[place] for each in sizes]
        return needs[0].name, *map(_told, needs)

    have = [size.need("CPU").advice for size in sizes]
    memory = [size.need("memory").advice for size in sizes]
    rows = [row(place) for place in range(len(sizes[0].needs))]
    rows.insert(
        0,
        (
            "machine to have",
            *(f"{cores or 0:.0f} cores, {_bytes(each or 0.0)}" for cores, each in zip(have, memory, strict=True)),
        ),
    )
    return grid(("", *(f"{hosts:,} hosts" for hosts in HOSTS)), rows)


def _told(need: Need) -> str:
    value = (
        _bytes(need.value) + need.unit.removeprefix("bytes")
        if need.unit.startswith("bytes")
        else f"{need.value:.3g} {need.unit}"
    )
    marks = {Basis.MEASURED: "**{}**", Basis.BETWEEN: "{}", Basis.COMPUTED: "{}", Basis.BELOW: "at most {}",
             Basis.BEYOND: "*{}*", Basis.ABOVE: "*at least {}*"}  # fmt: skip
    return marks[need.basis].format(value)


def _bytes(count: float) -> str:
    for factor, word in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= factor:
            return f"{count / factor:.3g} {word}"
    return f"{count:.0f} B"


def constants_grid() -> str:
    """Every constant that sizes are computed from, with what measured it and when."""
    return grid(("constant", "value", "measured by", "on"), _constants())


def _constants() -> Iterator[tuple[str, ...]]:
    for each in LIVE:
        told = {
            "cores": each.cores, "s that verdicts are late (p95)": each.late_s,
            "MB of private memory, all processes": each.private_bytes and each.private_bytes / 1e6,
        }  # fmt: skip
        for unit, value in told.items():
            if value is not None:
                yield f"{each.hosts} host{'s' * (each.hosts > 1)}", f"{value:,.4g} {unit}", _how(each.by), each.date
    for measured in (*ROW_BYTES.values(), FRESH_BYTES):
        yield measured.what, f"{measured.value:g} {measured.unit}", _how(measured.by), measured.date
    for rate in RATES:
        yield f"{rate.what}, of a host", f"{rate.per_s:g} rows/s", _how(VOLUME_BY), VOLUME_DATE
    for traffic in TRAFFIC:
        yield f"{traffic.what}, of a host", f"{traffic.bytes_per_s:,} bytes/s", _how(VOLUME_BY), VOLUME_DATE


def _how(by: str) -> str:
    return f"`{by}`" if by.startswith("python ") else by


def sizes_words() -> tuple[str, str]:
    """What the table of sizes is about, and how far one server goes."""
    timed = [each for each in LIVE if each.late_s is not None]
    least, most = timed[0], timed[-1]
    about = (
        f"Hosts of {GPUS_OF_LIVE} GPUs, exporters read every {SCRAPE_S:g} s, rows kept for {RETENTION_D:g} d; "
        f"`leadline doctor --size HOSTS` answers for yours. **Bold** was measured at that size on a {MACHINE}, with a "
        "simulated fleet, all analyses and five viewers; *slanted* is beyond what was measured; the rest is computed "
        "from the constants below, on a line between two sizes where it depends on the size."
    )
    keeps_up = (
        f"**One server keeps up with {least.hosts} hosts, and not with {most.hosts}**: there verdicts came "
        f"{most.late_s:g} s late on two cores; it is behind somewhere in between. Beyond {most.hosts} hosts nothing "
        "was measured: expect it to fall further behind, and give each cluster a server of its own. Real exporters may "
        "have more streams than simulated ones: compare the "
        f"metric streams that `leadline doctor` counts with {STREAMS_OF_HOST} a host."
    )
    return textwrap.fill(about, 120, break_on_hyphens=False), textwrap.fill(keeps_up, 120, break_on_hyphens=False)
