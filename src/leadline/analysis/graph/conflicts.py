"""Where sources contradict each other or themselves: one row of `conflict` for each, judged every window."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Ints
from leadline.analysis.conflict import CLAIMS_MAX, Conflict, bounded, columns
from leadline.analysis.graph.claims import RANK_IN_JOB, claims
from leadline.analysis.graph.contradictions import contradictions, overlaps
from leadline.analysis.graph.depends import KINDS
from leadline.analysis.graph.graph import Graph, graph
from leadline.analysis.graph.rows import OPEN, Rows
from leadline.analysis.spec import Read, Verdicts, Window, analysis
from leadline.model.tables import BY_NAME

RELATION, CONFLICT = BY_NAME["relation"], BY_NAME["conflict"]
CONFLICTS_MAX = 10_000  # of a window; a fleet has hundreds of thousands of things that an inventory may misname
_NAMES = ("tenant", "child", "parent", "kind", "from_ns", "to_ns", "source", "confidence")


@analysis(
    name="graph",
    version=1,
    reads=(Read(RELATION, _NAMES, valid=True),),
    writes=(CONFLICT,),
    window_s=10,
)
def conflicts(relation: pa.Table, *, window: Window) -> Verdicts:
    """Sources that contradict each other about what stands on what: both claims, and which one is used.

    Contradictions: see `contradictions`. Beside them what no source can mean: an edge that ends before it begins, a
    thing that stands on itself, a short name that fits two hosts, relations that we do not know.
    """
    whole = graph(relation)
    rows = whole.rows()
    rule_N = whole.rules(rows)
    found = claims(rows, rule_N)
    texts = _Texts(whole)
    told = contradictions(rows, found, whole.words.texts, texts, window.from_ns, window.to_ns)
    told += _two_tenants(whole, rows, rule_N, window)
    told += _reversed(whole, rows) + _on_itself(whole, rows, window) + _ambiguous(whole) + _unknown(whole, rows, rule_N)
    return {CONFLICT.name: columns(bounded(told, f"cluster:{window.cluster}", CONFLICTS_MAX), window)}


class _Texts(dict[int, str]):
    """Names by number, looked up when they are asked for: few of a million are."""

    def __init__(self, whole: Graph) -> None:
        super().__init__()
        self._names = whole.names

    def __missing__(self, number: int) -> str:
        text = self[number] = self._names.text(number)
        return text


def _two_tenants(whole: Graph, rows: Rows, rule_N: Ints, window: Window) -> list[Conflict]:
    """Jobs of one name that two tenants run at a time: by their name alone they cannot be told apart."""
    own = rows.take((rule_N == RANK_IN_JOB) & (rows.to_ns > rows.from_ns))
    order = np.lexsort((own.tenant, own.parent))
    job, tenant = own.parent[order], own.tenant[order]
    twice = job[1:][(job[1:] == job[:-1]) & (tenant[1:] != tenant[:-1])]
    out = []
    for number in np.unique(twice).tolist():
        one = own.take(own.parent == number)
        for span in overlaps(one.from_ns.tolist(), one.to_ns.tolist(), one.tenant.tolist()):
            if span.end_ns <= window.from_ns or span.start_ns >= window.to_ns:
                continue
            part = one.take(np.array(span.rows, np.int64))
            sources, tenants = (
                tuple(sorted({whole.words.texts[word] for word in words.tolist()}))
                for words in (part.source, part.tenant)
            )
            name = whole.names.text(number)
            text = (
                f"{name} is a job of {' and of '.join(tenants[:CLAIMS_MAX])}: what they depend on is kept apart only "
                "where a question names a tenant; give one of the jobs another name"
            )
            end_ns = None if span.end_ns >= window.to_ns else span.end_ns
            claimed = tuple(f"tenant:{each}" for each in tenants[:CLAIMS_MAX])
            out.append(Conflict(name, "two-tenants", span.start_ns, end_ns, claimed, sources, None, len(part), text))
    return out


def _reversed(whole: Graph, rows: Rows) -> list[Conflict]:
    own = rows.take(rows.to_ns < rows.from_ns)
    words = "{child} {kind} {parent} is reported to end before it begins, by {source}; look at the clock of its source"
    told = _alone(whole, own, "ends-before-it-begins", words)
    return [replace(each, start_ns=each.end_ns, end_ns=each.start_ns) for each in told if each.end_ns is not None]


def _on_itself(whole: Graph, rows: Rows, window: Window) -> list[Conflict]:
    own = rows.take((rows.child == rows.parent) & (rows.to_ns >= rows.from_ns))
    words = "{child} is reported to depend on itself ({kind}), by {source}; the edge is left out of every conclusion"
    return [
        replace(each, end_ns=None if each.end_ns is None or each.end_ns >= window.to_ns else each.end_ns)
        for each in _alone(whole, own, "on-itself", words)
    ]


def _alone(whole: Graph, own: Rows, kind: str, words: str) -> list[Conflict]:
    """One for each of some rows, whose beginning and end it has."""
    out = []
    children, parents = (whole.names.take(ends.astype(np.int64)) for ends in (own.child, own.parent))
    columns = (own.kind, own.source, own.tenant, own.from_ns, own.to_ns)
    for child, parent, relation, source, tenant, begin, end in zip(
        children, parents, *(column.tolist() for column in columns), strict=True
    ):
        told = whole.words.texts
        by = told[source] or "an unnamed source"
        text = words.format(child=child, kind=told[relation], parent=parent, source=by)
        until = None if end == OPEN else end
        out.append(Conflict(child, kind, begin, until, (parent,), (told[source],), None, 1, text, told[tenant]))
    return out


def _ambiguous(whole: Graph) -> list[Conflict]:
    out = []
    for each in whole.ambiguous:
        own = whole.take(whole.touching(np.array(sorted(each.numbers), np.int64)))
        if not len(own):
            continue
        sources = tuple(sorted({whole.words.texts[source] for source in own.source.tolist()}))
        text = (
            f"{each.entity} may be {' or '.join(each.fits[:CLAIMS_MAX])}: all of these are reported; it is kept apart; "
            "have its sources send the full name"
        )
        start_ns, fits = int(own.from_ns.min()), each.fits[:CLAIMS_MAX]
        out.append(Conflict(each.entity, "ambiguous-name", start_ns, None, fits, sources, None, len(own), text))
    return out


def _unknown(whole: Graph, rows: Rows, rule_N: Ints) -> list[Conflict]:
    """Relations between kinds of things that mean nothing to us: one for each combination, with an example."""
    own = rows.take(rule_N < 0)
    kind_N = whole.names.kind_N.astype(np.int64)
    group_N = (kind_N[own.child] * len(whole.words.texts) + own.kind) * len(KINDS) + kind_N[own.parent]
    out = []
    for group in np.unique(group_N).tolist():
        one = own.take(group_N == group)
        first = one.take(one.from_ns == one.from_ns.min())
        pairs = zip(*(whole.names.take(ends.astype(np.int64)) for ends in (first.child, first.parent)), strict=True)
        child, parent = min(pairs)
        relation = whole.words.texts[int(one.kind[0])]
        sources = tuple(sorted({whole.words.texts[source] for source in np.unique(one.source).tolist()}))
        text = (
            f"{child} {relation or '(no relation)'} {parent}: Leadline knows no such relation between these kinds; it "
            "is kept and shown, and nothing is concluded from it"
        )
        out.append(
            Conflict(child, "unknown-relation", int(one.from_ns.min()), None, (parent,), sources, None, len(one), text)
        )
    return out
