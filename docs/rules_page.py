"""The rules of causes as a page for people, docs/analyses/rules.md (written by `generate.py`)."""

from __future__ import annotations

from collections.abc import Iterable

from leadline.analysis.cause.rules.rule import COMMON, Rule, Sign

HEAD = """# Rules of causes

From `RULES` (`src/leadline/analysis/cause/rules/__init__.py`). What the columns mean stands in `rule.py`
there, how they are weighed in [cause.md](cause.md). A sign in **bold** is needed: without one of those that are, the
rule says nothing. Weights are nats: 2.3 is ten times as likely with the fault as without. "blame alone" means that what
the symptom blames is enough.

"""


def rules_page(rules: Iterable[Rule]) -> str:
    """The page: a section for each rule, in their order."""
    return HEAD + "\n".join(map(_section, rules))


def _section(rule: Rule) -> str:
    about = {
        "component": f"{' or '.join(rule.kinds)}, layer {rule.layer.value}"
        + (f", beside: {rule.where}" if rule.where else ""),
        "explains": ", ".join(sorted(rule.symptoms)),
        "blamed as": ", ".join(sorted(rule.categories)) or "anything",
        "told by": rule.how or "",
        "prior": "common" if rule.prior == COMMON else "rare" if rule.prior < COMMON else f"{rule.prior:g}",
        "action": rule.action.value,
        "remarks": ", ".join(_remarks(rule)),
    }
    rows = [f"| {name} | {value} |" for name, value in about.items() if value]
    signs = [_sign(sign) for sign in rule.signs]
    return "\n".join([f"## {rule.name}", "", f"It {rule.words}.", "", "| | |", "|---|---|", *rows, *signs, ""])


def _remarks(rule: Rule) -> list[str]:
    told = [f"blame alone: {rule.strength:g}"] if rule.alone else []
    told += ["on most of its parts"] if rule.wide else []
    told += ["gives way to what says why"] if rule.fallback else []
    return told + ([] if rule.works else ["does not work meanwhile"])


def _sign(sign: Sign) -> str:
    what = sign.what.replace("|", "\\|")
    name = f"**`{what}`**" if sign.needed else f"`{what}`"
    more = [each for each in (sign.direction, f"by {sign.witness}" if sign.witness else "") if each]
    more += [f"code `{sign.code}`".replace("|", "\\|")] if sign.code else []
    more += [f"severity `{sign.severity}`".replace("|", "\\|")] if sign.severity else []
    return f"| {sign.table} {sign.weight:g} | {name}{', ' + ', '.join(more) if more else ''} |"
