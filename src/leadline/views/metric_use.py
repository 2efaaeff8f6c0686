"""Which metrics Leadline reads by name, and for what: gathered from the tables that name them, never listed again.

    bounds of expectations ──┐
    signs of causes ─────────┤
    plots of entities ───────┼──> Use(metric, by) ──> `used_by(name)`; one expression for a keep-list (`keep_regex`)
    the fleet's table ───────┤
    settings compared ───────┤
    analyses of switches ────┘

Anomaly detection judges whatever comes of a known entity, so nothing that is stored is wholly without use. But a metric
that no sign, bound or plot names leads to no verdict: a deviation of it is listed and explains nothing.

Spelling: regular expressions for whole names, dots as underscores (as in `model/names.py`), in the syntax that RE2,
which Prometheus has, shares with Python.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from leadline.analysis.cause.rules import RULES as CAUSES
from leadline.analysis.failures.failures import SPEAKS_AGAIN
from leadline.analysis.localise.conservation import COUNTED, SIGN
from leadline.analysis.sle.expectations import DEFAULTS, Expectation, Source
from leadline.model.names import RULES as NAMES
from leadline.views.compare.settings import GAUGES
from leadline.views.entity.catalogue import PLOTS
from leadline.views.fleet.measures import metric_names

_MEMBERS = ("gpu", "host", "port")  # whose settings are compared: `*_info` of the families that speak of one
_LITERAL = re.compile(r"\w+")


class Use(NamedTuple):
    """A metric (an expression) and who reads it."""

    metric: str
    by: str


def uses(expectations: Sequence[Expectation] = DEFAULTS) -> tuple[Use, ...]:
    """Every use, in the order of the tables. `expectations`: those that hold."""
    return tuple(
        Use(part, use.by)
        for use in (*_of_expectations(expectations), *_of_causes(), *_of_plots(), *_of_views(), *_of_analyses())
        for part in _alternatives(use.metric)
        if r"\." not in part  # of OpenTelemetry, or derived from steps: never sent by Prometheus
    )


def used_by(name: str, known: Sequence[Use]) -> list[str]:
    """Who reads a metric of this name, each once."""
    spelled = name.replace(".", "_")
    return list(dict.fromkeys(use.by for use in known if _fits(use.metric, spelled)))


def keep_expressions(known: Iterable[Use]) -> list[str]:
    """The shortest list that keeps all of them: names in order; none that another expression keeps as well."""
    found = sorted({use.metric for use in known})
    patterns = [each for each in found if not _LITERAL.fullmatch(each)]
    return [each for each in found if each in patterns or not any(re.fullmatch(pattern, each) for pattern in patterns)]


# --- the tables ---------------------------------------------------------------------------------------------------


def _of_expectations(expectations: Iterable[Expectation]) -> Iterator[Use]:
    """Bounds of metrics; `DCGM_FI_*` asks whether anything comes at all and means none of them."""
    for one in expectations:
        for bound in one.bounds:
            for test in (bound.test, *bound.when):
                if test.indicator.source is Source.METRIC:
                    for name in (*test.indicator.names, *test.indicator.per):
                        if not name.endswith("*"):
                            yield Use(re.escape(name), f"expectation {one.name}")


def _of_causes() -> Iterator[Use]:
    for rule in CAUSES:
        yield from (Use(sign.what, f"cause {rule.name}") for sign in rule.signs if sign.table == "anomaly")


def _of_plots() -> Iterator[Use]:
    for kind, plots in PLOTS.items():
        for plot in plots:
            yield from (
                Use(metric, f"plot {plot.title!r} of a {kind}") for line in plot.lines for metric in line.metrics
            )


def _of_views() -> Iterator[Use]:
    yield from (Use(metric, "table of the fleet") for metric in metric_names())
    yield Use(GAUGES.pattern, "comparing settings")
    for rule in NAMES:
        if rule.entity_kind in _MEMBERS and rule.name.endswith("_.*"):
            yield Use(f"{rule.name}_info", "comparing settings")


def _of_analyses() -> Iterator[Use]:
    yield from (Use(metric, "packets that a switch loses") for metric in sorted({*SIGN, *COUNTED}))
    yield from (Use(re.escape(metric), "failures of GPUs") for metric in SPEAKS_AGAIN)


def _alternatives(pattern: str) -> Iterator[str]:
    """The parts of `a|b(c|d)` at its top level: a, b(c|d). An outer pair of brackets is taken off."""
    while _is_bracketed(pattern):
        pattern = pattern[1:-1]
    depth, begin = 0, 0
    for place, letter in enumerate(pattern):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "|" and depth == 0:
            yield pattern[begin:place]
            begin = place + 1
    yield pattern[begin:]


def _is_bracketed(pattern: str) -> bool:
    if not pattern.startswith("(") or pattern.startswith("(?") or not pattern.endswith(")"):
        return False
    depth = 0
    for place, letter in enumerate(pattern):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth == 0:
            return place == len(pattern) - 1
    return False


@lru_cache(maxsize=65_536)  # names of a site times expressions
def _fits(pattern: str, name: str) -> bool:
    return re.fullmatch(pattern, name) is not None
