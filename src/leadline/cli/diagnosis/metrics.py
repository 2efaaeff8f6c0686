"""`leadline diagnose --metrics`: ranked causes in a graph of services or parts, from files and without a server."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from rich.console import Console
from rich.table import Table

from leadline.analysis.rootcause.question import Question, Span
from leadline.analysis.rootcause.ranking import Ranking, ranked_causes
from leadline.analysis.rootcause.readings import Readings, readings
from leadline.analysis.rootcause.roles import Role
from leadline.cli.diagnosis.given import Given
from leadline.cli.diagnosis.metrics_files import Relations, read_metrics, read_relations
from leadline.cli.output import when
from leadline.model.errors import UsageError
from leadline.model.units import S
from leadline.views.rows import SCHEMA_VERSION
from leadline.views.times import parse_time

Answer = dict[str, Any]

SHOWN = 5  # causes in the text; the first is right or the data does not tell


def metrics_diagnosis(given: Given) -> Answer:
    """The answer to what is given, as `--output json` prints it.

    Errors: UsageError for options that cannot be, DataError and WorldError for files, UnknownNameError for an entity of
    which they tell nothing.
    """
    question = _question(given, time.time_ns())
    relations = read_relations(given.relations) if given.relations else Relations({})
    found = readings(read_metrics(given.metrics), step_ns=_length_ns("--step", given.step) if given.step else 0)
    return _as_json(given, question, found, relations, ranked_causes(found, relations.pairs, question))


def _question(given: Given, now_ns: int) -> Question:
    if not given.at:
        raise UsageError("--metrics needs --at: when it began, such as --at 2026-11-20T20:22:16Z")
    from_ns = parse_time(given.at, now_ns)
    judged = Span(from_ns, from_ns + _length_ns("--for", given.lasting))
    normal = tuple(_span(each, now_ns) for each in given.normal)
    return Question(judged, normal, given.entity, given.symptom_metric, dict(map(_role, given.roles)))


def _length_ns(option: str, text: str) -> int:
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)([smhd])", text)
    length_ns = int(float(found[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[found[2]] * S) if found else 0
    if length_ns <= 0:
        raise UsageError(f"{option} is a length of time such as 90s, 5m, 2h or 1d; got {text[:100]!r}")
    return length_ns


def _span(text: str, now_ns: int) -> Span:
    since, between, until = text.partition("/")
    span = Span(parse_time(since, now_ns), parse_time(until, now_ns, end=True)) if between else Span(0, 0)
    if span.from_ns >= span.to_ns:
        raise UsageError(f"--normal is FROM/TO, with FROM before TO; got {text[:100]!r}")
    return span


def _role(text: str) -> tuple[str, Role]:
    metric, _, role = text.rpartition("=")
    if not metric or role not in set(Role):
        raise UsageError(f"--role is METRIC=ROLE, with a role of {', '.join(Role)}; got {text[:100]!r}")
    return metric, Role(role)


def _as_json(given: Given, question: Question, of: Readings, relations: Relations, found: Ranking) -> Answer:
    causes = [
        {
            "position": place, "entity": cause.entity, "share": cause.share, "inferred": cause.inferred,
            "path": list(cause.path), "relations": _kinds(cause.path, relations.kind),
            "evidence": [
                {"what": each.what, "share": each.share, "found": each.found, "baseline": each.baseline}
                for each in cause.evidence
            ],
        }
        for place, cause in enumerate(found.causes, 1)
    ]  # fmt: skip
    return {
        "schema": SCHEMA_VERSION, "state": str(found.state), "about": given.entity, "about_kind": "metrics",
        "metric": found.metric, "from_ns": question.judged.from_ns, "to_ns": question.judged.to_ns,
        "step_s": of.step_ns / S, "judged": found.judged, "normal": found.normal, "why": found.why, "causes": causes,
        "missing": list(found.missing), "unused": list(found.unused),
    }  # fmt: skip


def _kinds(path: Sequence[str], kind: Mapping[tuple[str, str], str]) -> list[str]:
    return [kind.get(pair, "") for pair in pairwise(path)]


def line(found: Answer) -> str:
    """One line for a monitoring system."""
    first = found["causes"][:1]
    words = f"{first[0]['entity']}, {_much(found, first[0])}" if first else found["why"]
    return f"{found['state'].upper()}: {found['about'] or 'every entity'}: {words}"


def tell(out: Console, found: Answer, every: bool) -> None:
    """Print the answer."""
    causes = found["causes"]
    told = Table.grid(padding=(0, 2))
    told.add_row(found["state"].upper(), _headline(found), style="bold")
    told.add_row("", _judged(found))
    shown = causes if every else causes[:SHOWN]
    for cause in shown:
        told.add_row(f"cause {cause['position']}", f"{cause['entity']}: {_much(found, cause)}")
        for text in _evidence(cause):
            told.add_row("", text)
    if len(causes) > len(shown):
        told.add_row("", f"and {len(causes) - len(shown)} weaker; --all prints all")
    if found["missing"]:
        told.add_row("missing", f"nothing was read of {', '.join(found['missing'])}")
    if found["unused"]:
        told.add_row("unused", f"no role, so not used: {', '.join(found['unused'])}")
    out.print(told)


def _judged(found: Answer) -> str:
    many = _count(found["judged"], "interval", "intervals")
    span = f"{when(found['from_ns'])} to {when(found['to_ns'])}"
    return f"{span}: {many} of {found['step_s']:g} s, against {found['normal']:,} normal ones"


def _headline(found: Answer) -> str:
    if not found["causes"]:
        return str(found["why"])
    if found["about"]:
        return f"{found['about']}: {found['metric']} is above usual, and this explains it"
    return f"{_count(len(found['causes']), 'entity', 'entities')} out of the usual, the worst first"


def _much(found: Answer, cause: Answer) -> str:
    share = f"{cause['share']:.0%}"
    if not found["about"]:
        return f"strength {cause['share']:.2f}"
    return f"explains {share} of it" + (", inferred from its callers" if cause["inferred"] else "")


def _evidence(cause: Answer) -> list[str]:
    path, kinds = cause["path"], cause["relations"]
    told = []
    if len(path) > 1:
        told.append(path[0] + "".join(f" {kind or '->'} {to}" for kind, to in zip(kinds, path[1:], strict=True)))
    for each in cause["evidence"]:
        if each["found"] is None or each["baseline"] is None:
            told.append(f"{each['share']:.0%} of {each['what']} is unusual")
        else:
            told.append(f"{each['what']} {each['found']:.4g}, usually up to {each['baseline']:.4g}")
    return told


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
