"""Expectations: what is promised of whom, as docs/expectations.md describes it, from YAML and back.

- name: gpu-temperature            an expectation is held against every entity of a kind,
  layer: gpu
  of: gpu
  objective: 0.99                  second by second;
  bounds:                          a second is bad if a bound is broken, and its classifier is the first that is
    - metric: DCGM_FI_DEV_GPU_TEMP                 indicator
      above: 85                                    threshold: absolute,
    - metric: DCGM_FI_DEV_GPU_TEMP
      above: {of: peers, mads: 6, least: 8}        or against peers, or the own past
      for_s: 30
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from typing import Any

import yaml

from leadline.analysis.sle.document import Fields, Part, root
from leadline.model.accounts import Layer
from leadline.model.errors import ConfigError
from leadline.model.ids import ENTITY_KINDS

NAMES_MAX = 64  # of a name; it stands in every row
BOUNDS_MAX = 32  # classifiers of one expectation
EXPECTATIONS_MAX = 1000
SPAN_S_MAX = 600.0  # `for_s` and `missing_after_s` look no further back than samples are read
EVENT_SPAN_S_MAX = 3600.0  # the same for events


class Source(StrEnum):
    """Where an indicator's values come from; the word that stands before its names."""

    METRIC = "metric"
    EVENT = "event"
    STEP = "step"
    COLLECTIVE = "collective"
    LEDGER = "ledger"
    CLOCK = "clock"
    ECMP = "ecmp"


FIELDS: Mapping[Source, tuple[str, ...]] = {
    Source.STEP: (
        "step_s", "data_s", "forward_s", "backward_s", "optimizer_s", "checkpoint_s", "loss", "loss_spread", "age_s",
    ),
    Source.COLLECTIVE: ("took_s", "open_s"),
    Source.LEDGER: (
        "lost", "compute", "input", "communication", "straggler", "checkpoint", "restart", "idle", "unknown",
    ),
    Source.CLOCK: ("bound_s", "offset_s"),
    Source.ECMP: ("efficiency",),
}  # fmt: skip
"""Names that sources other than metrics and events have; docs/expectations.md says what they mean."""

_HOW: Mapping[Source, tuple[str, ...]] = {
    Source.METRIC: ("value", "rate", "change", "age"),
    Source.EVENT: ("count", "open", "age"),
}
COMBINE = ("worst", "sum", "min", "max")
GROUPS = ("job", "host", "switch", "role", "kind")

_INDICATOR_KEYS = (*Source, "as", "labels", "per", "combine", "mask", "until", "over_s")
_TEST_KEYS = (*_INDICATOR_KEYS, "above", "below")
_BOUND_KEYS = (*_TEST_KEYS, "for_s", "when", "classifier")
_EXPECTATION_KEYS = (
    "name", "layer", "of", "match", "objective", "missing_after_s", "severity", "advice", "bounds",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Indicator:
    """A number per second of an entity."""

    source: Source
    names: tuple[str, ...]  # metrics (`*` at the end: all that begin so), kinds of events, or a field
    how: str = "value"  # metrics: value, rate (increase per second), change (1 while it changed), age (s)
    labels: tuple[tuple[str, str], ...] = ()  # that series must have
    per: tuple[str, ...] = ()  # divided by the sum of these metrics, read in the same way
    combine: str = "worst"  # of several series of an entity: each by itself, or their sum, smallest, largest
    mask: int = 0  # bits that count, of a metric that is a set of bits
    until: tuple[str, ...] = ()  # kinds of events that end what one began
    over_s: float = 60.0  # events of so many seconds are counted

    @property
    def metric(self) -> str:
        """How it is called in `sle_loss.metric`, if no single series is meant."""
        text = self.names[0] if self.source is Source.METRIC else f"{self.source}.{self.names[0]}"
        return f"{text} per {self.per[0]}" if self.per else text


@dataclass(frozen=True, slots=True)
class Threshold:
    """Where good ends."""

    side: str  # above, below: which side is bad
    kind: str  # absolute, past, peers
    value: float  # the threshold; or how many times the median; or how many MADs from it
    mads: bool = False
    least: float = 0.0  # and at least so far from the median
    group: str = "kind"  # who the peers are

    def __str__(self) -> str:
        if self.kind == "absolute":
            return f"{self.side} {self.value:g}"
        whose = "its past" if self.kind == "past" else "its peers"
        return f"{self.side} {self.value:g} {'MADs of' if self.mads else 'times'} {whose}"


@dataclass(frozen=True, slots=True)
class Test:
    """An indicator against a threshold."""

    indicator: Indicator
    threshold: Threshold

    def __str__(self) -> str:
        return f"{self.indicator.metric} {self.threshold}"


@dataclass(frozen=True, slots=True)
class Bound:
    """What makes a second bad: a test that has been broken for so long, while all of `when` were."""

    test: Test
    for_s: float = 0.0
    when: tuple[Test, ...] = ()
    said: str = ""  # the classifier in its author's words

    @property
    def classifier(self) -> str:
        """What a bad second by it is called."""
        if self.said:
            return self.said
        return " while ".join([str(self.test), *([" and ".join(map(str, self.when))] if self.when else [])])


@dataclass(frozen=True, slots=True)
class Expectation:
    """A promise about every entity of a kind."""

    name: str
    layer: Layer
    of: str  # kind of entity
    bounds: tuple[Bound, ...]
    objective: float = 0.99
    missing_after_s: float = 45.0
    match: tuple[str, ...] = ()  # only entities with such ids; `*` stands for anything
    severity: str = "warning"
    advice: str = ""


# --- from YAML --------------------------------------------------------------------------------------------------


def parse(text: str, where: str) -> tuple[Expectation, ...]:
    """The expectations of a YAML document: a list of them, or `expectations:` with the list below it.

    `where`: the file, for complaints. An empty document has none.
    Errors: ConfigError with file and line, what was expected and what came, and the nearest name of an unknown one.
    """
    top = root(text, where)
    if top is None:
        return ()
    if top.is_mapping:
        top = top.mapping("the document", ("expectations",)).needed("expectations")
    parts = top.items("expectations")
    if len(parts) > EXPECTATIONS_MAX:
        raise top.wrong(f"at most {EXPECTATIONS_MAX} expectations", str(len(parts)))
    found: dict[str, Expectation] = {}
    for part in parts:
        one = _expectation(part)
        if one.name in found:
            raise ConfigError(f"{part.place}: there are two expectations called {one.name}; rename one")
        found[one.name] = one
    return tuple(found.values())


def _expectation(part: Part) -> Expectation:
    fields = part.mapping("an expectation", _EXPECTATION_KEYS)
    name = fields.needed("name").text("a name")
    if len(name) > NAMES_MAX:
        raise fields.needed("name").wrong(f"a name of at most {NAMES_MAX} characters")
    of = fields.choice("of", ENTITY_KINDS)
    bounds = fields.needed("bounds").items("bounds")
    if not 1 <= len(bounds) <= BOUNDS_MAX:
        raise fields.needed("bounds").wrong(f"1 to {BOUNDS_MAX} bounds", str(len(bounds)))
    found = tuple(_bound(each) for each in bounds)
    for place, bound in enumerate(found):
        if bound.classifier in [other.classifier for other in found[:place]]:
            raise ConfigError(
                f"{bounds[place].place}: two bounds of {name} are called {bound.classifier!r}; "
                "give one of them a `classifier` of its own"
            )
    return Expectation(
        name, Layer(fields.choice("layer", tuple(Layer))), of, found,
        fields.number("objective", 0.99, 0.0, 1.0),
        fields.number("missing_after_s", 45.0, 1.0, SPAN_S_MAX),
        fields.texts("match"), fields.choice("severity", ("info", "warning", "error"), "warning"),
        fields.text("advice"),
    )  # fmt: skip


def _bound(part: Part) -> Bound:
    fields = part.mapping("a bound", _BOUND_KEYS)
    when = fields.by_name["when"].items("tests") if "when" in fields else []
    return Bound(
        _test(fields),
        fields.number("for_s", 0.0, 0.0, SPAN_S_MAX),
        tuple(_test(each.mapping("a test", _TEST_KEYS)) for each in when),
        fields.text("classifier"),
    )


def _test(fields: Fields) -> Test:
    return Test(_indicator(fields), _threshold(fields))


def _indicator(fields: Fields) -> Indicator:
    word = fields.one_of(tuple(Source))
    source = Source(word)
    names = fields.needed(word).texts(word)
    if source in FIELDS:
        names = (fields.choice(word, FIELDS[source]),)
    ways = _HOW.get(source, ("value",))
    how = fields.choice("as", ways, ways[0])
    for key, wanted in (
        ("labels", Source.METRIC),
        ("per", Source.METRIC),
        ("mask", Source.METRIC),
        ("until", Source.EVENT),
        ("over_s", Source.EVENT),
    ):
        if key in fields and source is not wanted:
            raise ConfigError(f"{fields.by_name[key].place}: {key!r} belongs to {wanted}, not to {source}; remove it")
    if (how == "open") != ("until" in fields):
        raise ConfigError(f"{fields.part.place}: `until` names what ends an event, so it needs `as: open`, and back")
    labels = fields.by_name["labels"].mapping("labels").by_name if "labels" in fields else {}
    return Indicator(
        source, names, how,
        tuple(sorted((name, value.text("a label's value")) for name, value in labels.items())),
        fields.texts("per"), fields.choice("combine", COMBINE, "worst"),
        int(fields.number("mask", 0, 0, 2**52)), fields.texts("until"),
        fields.number("over_s", 60.0, 1.0, EVENT_SPAN_S_MAX),
    )  # fmt: skip


def _threshold(fields: Fields) -> Threshold:
    side = fields.one_of(("above", "below"))
    part = fields.needed(side)
    if not part.is_mapping:
        return Threshold(side, "absolute", part.number(side))
    inner = part.mapping(f"{side!r}", ("of", "times", "mads", "least", "group"))
    kind = inner.choice("of", ("past", "peers"))
    how = inner.one_of(("times", "mads"))
    if "group" in inner and kind != "peers":
        raise ConfigError(f"{inner.by_name['group'].place}: only peers have a group; remove it")
    return Threshold(
        side, kind, inner.number(how, 0.0, 0.0), how == "mads", inner.number("least", 0.0, 0.0),
        inner.choice("group", GROUPS, "kind"),
    )  # fmt: skip


# --- and back ---------------------------------------------------------------------------------------------------


def to_text(expectation: Expectation) -> str:
    """The canonical YAML of one expectation, a document that `parse` reads as the same; defaults are left out."""
    one = expectation
    plain: dict[str, Any] = {"name": one.name, "layer": str(one.layer), "of": one.of}
    if one.match:
        plain["match"] = list(one.match)
    plain["objective"] = _short(one.objective)
    plain["missing_after_s"] = _short(one.missing_after_s)
    plain["severity"] = one.severity
    if one.advice:
        plain["advice"] = one.advice
    plain["bounds"] = [_plain_bound(bound) for bound in one.bounds]
    return yaml.safe_dump([plain], sort_keys=False, allow_unicode=True, width=120)


def _plain_bound(bound: Bound) -> dict[str, Any]:
    plain = _plain_test(bound.test)
    if bound.for_s:
        plain["for_s"] = _short(bound.for_s)
    if bound.when:
        plain["when"] = [_plain_test(test) for test in bound.when]
    if bound.said:
        plain["classifier"] = bound.said
    return plain


def _plain_test(test: Test) -> dict[str, Any]:
    one, limit = test.indicator, test.threshold
    plain: dict[str, Any] = {str(one.source): list(one.names) if len(one.names) > 1 else one.names[0]}
    if one.how != _HOW.get(one.source, ("value",))[0]:
        plain["as"] = one.how
    if one.labels:
        plain["labels"] = dict(one.labels)
    if one.per:
        plain["per"] = list(one.per)
    if one.combine != "worst":
        plain["combine"] = one.combine
    if one.mask:
        plain["mask"] = one.mask
    if one.until:
        plain["until"] = list(one.until)
    if one.over_s != 60.0:
        plain["over_s"] = _short(one.over_s)
    if limit.kind == "absolute":
        return {**plain, limit.side: _short(limit.value)}
    against: dict[str, Any] = {"of": limit.kind, "mads" if limit.mads else "times": _short(limit.value)}
    if limit.least:
        against["least"] = _short(limit.least)
    if limit.group != "kind":
        against["group"] = limit.group
    return {**plain, limit.side: against}


def _short(value: float) -> float | int:
    return int(value) if value == int(value) and abs(value) < 2**53 else value


DEFAULTS: tuple[Expectation, ...] = parse(
    resources.files("leadline.analysis.sle").joinpath("defaults.yaml").read_text(), "defaults.yaml"
)
"""What is expected where nobody said anything else."""
