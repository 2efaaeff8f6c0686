"""What `leadline top` shows, worked out of the API's answers: three tables, a head, details of a row. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leadline.cli.diagnosis.words import SUPPRESSED
from leadline.cli.output import ago, when
from leadline.cli.ranges import natural
from leadline.cli.words.ledger import share, so_far, span
from leadline.model.incidents import symptom_words
from leadline.model.units import gpu_time

JOBS, INCIDENTS, HOSTS = "jobs", "incidents", "hosts"
TABLES = (JOBS, INCIDENTS, HOSTS)
SPANS = ("5m", "15m", "1h", "6h", "24h")
BARS = "▁▂▃▄▅▆▇█"
LINE_CELLS = 20
HOSTS_MAX = 500  # shown: those with something amiss first
# Marks by shape, so that no colour is needed to read them.
MARKS: Mapping[str, str] = {"good": " ", "watch": "△", "bad": "■", "unknown": "▨", "suppressed": "⊘"}
Answer = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table: its key, its name, its state, its cells, what it is sorted by, and its details.

    `values`: of each cell the number behind it, or the cell.
    """

    key: str
    name: str
    state: str
    cells: tuple[str, ...]
    values: tuple[float | str | None, ...]
    details: tuple[str, ...]


COLUMNS: Mapping[str, tuple[str, ...]] = {
    JOBS: ("job", "ranks", "hosts", "step", "step time", "baseline", "goodput", "lost", "step time over the span"),
    INCIDENTS: ("job", "what", "since", "lost", "cause", "p", "do", "incident"),
    HOSTS: ("host", "jobs", "GPUs", "NICs", "loss", "load", "in", "out", "why"),
}


def head(now: Answer) -> tuple[str, str]:
    """The state (good, watch, bad, unknown) and the first line."""
    seen = now["watched"]
    lost = gpu_time(now["lost_gpu_seconds"]) if now["lost_gpu_seconds"] is not None else "unknown"
    guess = so_far(now["lost_gpu_seconds"], now["estimated_gpu_seconds"])
    still = [each for each in now["incidents"] if each["state"] == "open"]
    words = (
        f"{lost} lost{f', {guess}' if guess else ''}   {_count(len(still), 'open incident')}   "
        f"goodput {_goodput(now['goodput'])}   "
        f"watched: {_count(seen['jobs_total'], 'job')}, {_count(seen['hosts'], 'host')}, "
        f"{_count(seen['gpus'], 'GPU')}, {_count(seen['links'], 'link')}, "
        + ("a recording" if now["recorded"] else f"{seen['fresh']} of {_count(seen['sources'], 'source')} fresh")
        + "   "
        f"{when(now['at_ns'])}"
    )
    state = {"ok": "good", "warning": "watch", "critical": "bad"}.get(now["state"], "unknown")
    return state, words + (f"   {now['why']}" if now["why"] and state == "unknown" else "")


def ordered(rows: list[Row], column: int) -> list[Row]:
    """Rows by a column (1 is the first; 0: as they are): numbers the largest first, words in their order, none last."""
    if not column:
        return rows

    def key(row: Row) -> tuple[bool, bool, float, tuple[tuple[int, int, str], ...]]:
        value = row.values[column - 1]
        number = -value if isinstance(value, (int, float)) else 0.0
        return (
            value in (None, "", "-"),
            isinstance(value, str),
            number,
            natural(value) if isinstance(value, str) else (),
        )

    return sorted(rows, key=key)


def jobs(found: Answer, match: str = "") -> list[Row]:
    """Jobs, that which lost most first."""
    return [_job(each) for each in found["jobs"] if _fits(match, each["job"], each["tenant"])]


def _job(one: Answer) -> Row:
    slow = one["step_s"] is not None and one["baseline_s"] is not None and one["step_s"] > 1.2 * one["baseline_s"]
    judged = one["goodput"] is not None and one["step_s"] is not None
    late = slow and one["running"]
    state = "bad" if one["incidents_open"] else "watch" if late else "good" if judged else "unknown"
    cells = (
        one["job"], _number(one["ranks"]), _number(one["hosts"]), _number(one["step"]), span(one["step_s"]),
        span(one["baseline_s"]), share(one["goodput"]), gpu_time(one["lost_gpu_seconds"]),
        sparkline(one["line"]["step_s"]),
    )  # fmt: skip
    told = [f"{one['job']} of {one['tenant']}: {_state(one)}"]
    if one["incidents"]:
        told.append(f"{_count(one['incidents'], 'incident')}, {one['incidents_open']} open, "
                    f"{one['incidents_explained']} with a known cause; "
                    f"leadline diagnose {shlex.quote(one['job'])}")  # fmt: skip
    if one["why"]:
        told.append(one["why"])
    told.append(f"where the time went: leadline show ledger {shlex.quote(one['job'])}")
    values = (
        one["job"], one["ranks"], one["hosts"], one["step"], one["step_s"], one["baseline_s"], one["goodput"],
        one["lost_gpu_seconds"], one["job"],
    )  # fmt: skip
    return Row(f"{one['tenant']}/{one['job']}", one["job"], state, cells, values, tuple(told))


def _state(one: Answer) -> str:
    if one["state"] == "running":
        return "runs"
    return f"ended {when(one['ended_ns'])}" if one["state"] == "ended" else f"silent since {when(one['until_ns'])}"


def incidents(now: Answer, match: str = "") -> list[Row]:
    """Open incidents first, of these what lost most; those that alert nobody last."""
    every = [*now["incidents"], *now["suppressed"]]
    named = [each for each in every if _fits(match, each["incident"], each["job"] or "", each["entity"])]
    return [_incident(each, now["at_ns"]) for each in named]


def _incident(one: Answer, at_ns: int) -> Row:
    cause = one["causes"][0] if one["causes"] else None
    still = one["state"] == "open"
    state = "suppressed" if one["suppressed"] else "bad" if still else "unknown" if cause is None else "good"
    what = symptom_words(one["symptom"], ongoing=still)
    sure = cause is not None and cause["chosen"]
    cells = (
        one["job"] or "-", what,
        f"{ago(max(0.0, (at_ns - one['start_ns']) / 1e9))} ago" if still else f"{when(one['start_ns'])}, over",
        gpu_time(one["lost_gpu_seconds"]),
        f"{cause['entity']} {cause['rule']}" if cause and sure else "unknown",
        f"{min(cause['probability'], 0.99):.2f}" if cause and sure else "-",
        cause["action"] if cause and sure else "-", one["incident"],
    )  # fmt: skip
    values = (*cells[:2], one["start_ns"], one["lost_gpu_seconds"], cells[4],
              cause["probability"] if cause and sure else None, *cells[6:])  # fmt: skip
    return Row(f"{one['tenant']}/{one['incident']}", one["incident"], state, cells, values, tuple(_told(one)))


def _told(one: Answer) -> Iterable[str]:
    yield one["title"]
    if one["suppressed"]:
        yield f"no alerts: {SUPPRESSED.get(one['suppressed'], one['suppressed'])}"
    for cause in one["causes"][:2]:
        yield f"{min(cause['probability'], 0.99):.2f}  {cause['text'] or cause['entity']}"
        for each in cause["evidence"][:3]:
            yield f"      {each['text']}"
        yield f"  do: {cause['todo']['words']}"
        for command in cause["todo"]["commands"]:
            yield f"      {command}"
    if not one["causes"]:
        yield f"cause unknown{': ' + one['missing'] if one['missing'] else ''}"
    yield f"more: leadline diagnose {shlex.quote(one['incident'])}"


def hosts(found: Answer, match: str = "") -> list[Row]:
    """Hosts with something amiss first, then by name."""
    of_host: dict[int, list[Answer]] = {}
    for reason in found["reasons"]:
        of_host.setdefault(reason["host"], []).append(reason)
    names = found["hosts"]
    kept = [at for at, name in enumerate(names) if _fits(match, name, *_jobs_of(found, at))]
    rank = {word: at for at, word in enumerate(("bad", "watch", "unknown", "suppressed", "good"))}
    kept.sort(key=lambda at: (rank.get(found["states"][found["state"][at]], 2), names[at]))
    return [_host(found, at, of_host.get(at, [])) for at in kept[:HOSTS_MAX]]


def _jobs_of(found: Answer, at: int) -> list[str]:
    return [found["jobs"][job]["job"] for job in found["jobs_of"][at]]


def _host(found: Answer, at: int, reasons: Sequence[Answer]) -> Row:
    def most(measure: str) -> float | None:
        ways = [found[measure][way][at] for way in ("inbound", "outbound")]
        known = [each for each in ways if each is not None]
        return max(known) if known else None

    rate = {way: found["bytes_per_s"][way][at] for way in ("inbound", "outbound")}
    cells = (
        found["hosts"][at], " ".join(_jobs_of(found, at)) or "-", str(found["gpus"][at]),
        nics(found["nics_healthy"][at], found["nics_total"][at], found["nics_unknown"][at]),
        share(most("loss")), share(most("load")),
        bits(rate["inbound"]), bits(rate["outbound"]), reasons[0]["text"] if reasons else "",
    )  # fmt: skip
    tags = ", ".join(f"{tag['name']} {tag['values'][tag['of'][at]]}" for tag in found["tags"] if tag["of"][at] >= 0)
    told = [f"{found['hosts'][at]}{': ' + tags if tags else ''}"]
    told += [f"{MARKS.get(each['state'], ' ')} {each['text']} ({each['entity']}, since {when(each['since_ns'])})"
             for each in reasons[:6]]  # fmt: skip
    told += ["no problem found"] if not reasons else []
    told.append(f"against its peers: leadline compare {shlex.quote('host:' + found['hosts'][at])}")
    values = (*cells[:2], found["gpus"][at], found["nics_total"][at] - found["nics_healthy"][at], most("loss"),
              most("load"), rate["inbound"], rate["outbound"], cells[8])  # fmt: skip
    name = found["hosts"][at]
    return Row(name, name, found["states"][found["state"][at]], cells, values, tuple(told))


def nics(healthy: int, total: int, unknown: int) -> str:
    """`7 of 8`, of those whose carrier is known; of those without data only the number is said."""
    rest = f"{unknown} unknown" if unknown else ""
    return (
        ", ".join(each for each in (f"{healthy} of {total - unknown}" if total > unknown else "", rest) if each) or "-"
    )


def sparkline(values: Sequence[float | None]) -> str:
    """A line of at most `LINE_CELLS` cells from nothing to the largest; a dot where nothing is known."""
    if not values:
        return ""
    cells = min(LINE_CELLS, len(values))
    bins = [values[len(values) * at // cells : len(values) * (at + 1) // cells] for at in range(cells)]
    means = [_mean([each for each in some if each is not None]) for some in bins]
    top = max((each for each in means if each is not None), default=0.0)
    return "".join("·" if each is None else BARS[min(7, int(8 * each / top)) if top else 0] for each in means)


def bits(bytes_per_s: float | None) -> str:
    """`39.8 Gbit/s`; `-` for None."""
    if bytes_per_s is None:
        return "-"
    value = bytes_per_s * 8
    for factor, word in ((1e12, "Tbit/s"), (1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if value >= factor:
            return f"{value / factor:.3g} {word}"
    return f"{value:.3g} bit/s"


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _goodput(told: Answer) -> str:
    before = f" ({share(told['day_before'])} a day before)" if told["day_before"] is not None else ""
    return (share(told["ratio"]) if told["ratio"] is not None else "unknown") + before


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _fits(match: str, *texts: str) -> bool:
    return not match or any(match.lower() in text.lower() for text in texts)
