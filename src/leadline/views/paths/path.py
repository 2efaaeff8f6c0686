"""The paths between two ranks, both ways, and which ones the topology allows.

What was concluded from samples comes from the tables of the analysis `path`. The set of equally short paths is read
off the graph's links, because it is asked for also where nothing was sampled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from leadline.model.errors import UsageError
from leadline.model.tables.paths import FLOW_PATH, FLOW_VOLUME, PATH_HOP
from leadline.store import Store
from leadline.views.asked import Asked, time_text
from leadline.views.paths.flows import NOTHING_JUDGED, OF_ALL, Verdicts, of_all, several_tenants, verdicts_with
from leadline.views.paths.possible import possible_paths
from leadline.views.rows import SCHEMA_VERSION

FLOWS_MAX = 64  # told, the largest; two ranks have some queue pairs or sockets between them, not thousands
TRACED = ("known", "moved", "sprayed", "ambiguous")


def rank_name(text: str) -> str:
    """`bert-1/0` of `rank:bert-1/0` or `bert-1/0`. Errors: UsageError."""
    name = text.removeprefix("rank:")
    job, slash, number = name.rpartition("/")
    if not (job and slash and number.isdecimal()):
        raise UsageError(f"a rank is JOB/NUMBER, such as bert-1/0 or rank:bert-1/0; got {text[:100]!r}")
    return name


def path_answer(store: Store, asked: Asked, a: str, b: str) -> dict[str, Any]:
    """What `/api/v1/path` says of the flows between ranks `a` and `b`. Errors: UsageError for what is no rank."""
    a, b = rank_name(a), rank_name(b)
    if a == b:
        raise UsageError(f"two different ranks have a path between them; got {a} twice")
    verdicts, note = verdicts_with(store, asked, f"{a} and {b}", _BETWEEN, **_named(a, b))
    answer: dict[str, Any] = {
        "schema": SCHEMA_VERSION, "a": f"rank:{a}", "b": f"rank:{b}", "end_ns": None, "window_ns": None,
        "flows": [], "asymmetric": None, "possible": {}, "why": "", "note": note,
    }  # fmt: skip
    if verdicts.window is None:
        return answer | {"possible": possible_paths(store, asked, a, b), "why": NOTHING_JUDGED}
    answer |= {"end_ns": verdicts.window.end_ns, "window_ns": verdicts.window.window_ns}
    # Of the window, not of the time asked for: the ranks may be gone by then.
    within = replace(asked, at_ns=verdicts.window.end_ns - 1)
    flows, tenants = _flows(verdicts, a, b)
    answer["flows"] = flows
    answer["possible"] = possible_paths(store, within, a, b, verdicts.window.window_ns, ports_of(flows, a))
    if not flows:
        return answer | {"why": _why_none(verdicts, a, b)}
    several = several_tenants(tenants)
    answer["asymmetric"], answer["why"] = (None, several) if several else symmetry(flows, a)
    return answer


def ports_of(flows: Sequence[Mapping[str, Any]], a: str) -> list[tuple[str, str]]:
    """The pairs of NIC ports that flows use, that of rank `a` first; in order, each once."""
    pairs = set()
    for flow in flows:
        if flow["src"] and flow["dst"]:
            there = str(flow["src_rank"]).removeprefix("rank:") == a
            pairs.add((flow["src"], flow["dst"]) if there else (flow["dst"], flow["src"]))
    return sorted(pairs)


# Ranks are stored as ids; rows of others may have the bare name.
_BETWEEN = (
    "((src_rank IN ({a:String}, {rank_a:String}) AND dst_rank IN ({b:String}, {rank_b:String})) OR "
    "(src_rank IN ({b:String}, {rank_b:String}) AND dst_rank IN ({a:String}, {rank_a:String})))"
)


def _named(a: str, b: str) -> dict[str, object]:
    return {"a": a, "rank_a": f"rank:{a}", "b": b, "rank_b": f"rank:{b}"}


def _flows(verdicts: Verdicts, a: str, b: str) -> tuple[list[dict[str, Any]], list[str]]:
    """The largest flows between two ranks with their paths, and whose they all are."""
    largest = f"{verdicts.source(FLOW_PATH)} WHERE {_BETWEEN} ORDER BY bytes DESC, flow LIMIT {FLOWS_MAX}"
    flows = verdicts.rows(f"SELECT {verdicts.flow_columns()}, {OF_ALL} FROM {largest}", **_named(a, b))
    if not flows:
        return [], []
    _, tenants = of_all(flows)
    theirs = f"flow IN (SELECT flow FROM {largest})"
    hops = verdicts.rows(
        f"SELECT flow, alternative, hop, toString(link) AS link, probability FROM {verdicts.source(PATH_HOP)} "
        f"WHERE {theirs} ORDER BY flow, alternative, hop, link",
        **_named(a, b),
    )
    volumes = verdicts.rows(
        f"SELECT flow, toString(link) AS link, bytes, low, high FROM {verdicts.source(FLOW_VOLUME)} WHERE {theirs}",
        **_named(a, b),
    )
    volume_of = {(row["flow"], row["link"]): row for row in volumes}
    told = [
        {**flow, "paths": paths_of([hop for hop in hops if hop["flow"] == flow["flow"]], flow, volume_of)}
        for flow in flows
    ]
    return told, tenants


def paths_of(
    hops: Sequence[Mapping[str, Any]], flow: Mapping[str, Any], volume_of: Mapping[tuple[str, str], Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The alternatives of one flow, the likeliest first, from its rows of `path_hop` in order.

    Alternative 0 has the probability that the flow's row tells. Another one has at most that of its least likely hop,
    and at most what the first leaves over.
    """
    paths: dict[int, list[dict[str, Any]]] = {}
    for hop in hops:
        volume = volume_of.get((hop["flow"], hop["link"]), {})
        told = {name: volume.get(name) for name in ("bytes", "low", "high")}
        shown = {"hop": hop["hop"], "link": hop["link"], "probability": hop["probability"], **told}
        paths.setdefault(hop["alternative"], []).append(shown)
    first = float(flow["probability"])
    return [
        {
            "alternative": alternative,
            "probability": first if not alternative else min(1 - first, *(hop["probability"] for hop in path)),
            "hops": path,
        }
        for alternative, path in sorted(paths.items())
    ]


def symmetry(flows: Sequence[Mapping[str, Any]], a: str) -> tuple[bool | None, str]:
    """Whether what goes from `a` comes back another way, and what is missing or to be known of it.

    None if one direction has no path that is known. Flows of one direction that differ make the answer true if there is
    a way that no flow takes back.
    """
    there, back = set(), set()
    for flow in flows:
        if flow["state"] not in ("known", "moved") or not flow["paths"]:
            continue
        links = tuple(hop["link"] for hop in flow["paths"][0]["hops"])
        if str(flow["src_rank"]).removeprefix("rank:") == a:
            there.add(links)
        else:
            back.add(tuple(reversed(links)))
    if there and back:
        return there != back, "" if there == back else "forward and return paths differ, as equal-cost routing allows"
    unknown = [flow for flow in flows if flow["state"] not in TRACED]
    if unknown:
        return None, f"{len(unknown)} of {len(flows)} flows have no known path: {unknown[0]['why']}"
    return None, "the path of one direction is unknown, so the directions cannot be compared"


def _why_none(verdicts: Verdicts, a: str, b: str) -> str:
    last_ns = verdicts.last_seen_ns(_BETWEEN, **_named(a, b))
    if last_ns is not None:
        return f"no flow between them was sampled in this window, but in the one to {time_text(last_ns)}: use `at`"
    known = [
        rank
        for rank in (a, b)
        if verdicts.last_seen_ns(
            "(src_rank IN ({a:String}, {rank_a:String}) OR dst_rank IN ({a:String}, {rank_a:String}))",
            a=rank,
            rank_a=f"rank:{rank}",
        )
    ]
    missing = [rank for rank in (a, b) if rank not in known]
    if missing:
        names = " or ".join(missing)
        return f"no sampled flow is owned by rank {names}: does it report its flows or queue pairs (`owns`)?"
    return "both ranks have flows, but none with the other: who is no neighbour in a ring or tree sends nothing"
