"""What a rule is: one way for one kind of component to be broken, and what of our tables shows it.

A rule says what a fault looks like, not where it is: the component comes from the graph, by what the symptom blames.

    Rule("slow-gpu", kinds=("gpu",), signs=(Sign("anomaly", r"DCGM_FI_DEV_SM_CLOCK", 3.0, direction="low"), ...), ...)

Signs stand on the component or on a part of it (`Components.parts`): a link's are on its two ports and transceivers,
a switch's on its ports, a GPU's on the GPU, a host's on the host. To add a rule is to add one entry to `SLOW_RULES` or
`STALL_RULES`; the page docs/analyses/rules.md is written from them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from leadline.analysis.cause.weights import WEIGHTS
from leadline.model.accounts import Category, Layer
from leadline.model.incidents import ActionKind, Symptom

# Prior of what goes wrong weekly in a large cluster, and of what does monthly, nats of log-odds against the baseline of
# `unknown` (see `score`): by hand -1, and ln(1/4) = -1.4 below that, rounded. Some rules were moved from one to the
# other for recordings, the values were not. Source: judgement, in the table of `weights`.
COMMON, RARE = WEIGHTS.common, WEIGHTS.rare

# Weights of signs, nats; few and the same everywhere, so that no rule is tuned by itself. `PROOF`: what the component
# itself calls broken; `TELLING`: what little else does; `FITTING`: what comes with it; `WEAK`: what comes with much.
# Later counts over 71 recordings gave 8.2, 3.3 and 4.0 for the first three (docs/analyses/cause.md). Which sign has
# which weight was changed while looking at recordings; the values were not. Source: judgement, in the table of
# `weights`.
PROOF, TELLING, FITTING, WEAK = WEIGHTS.proof, WEIGHTS.telling, WEIGHTS.fitting, WEIGHTS.weak
# Strengths of blame alone, nats, before `weights.alone`: where it says where a fault is and not why, less than a
# FITTING sign, so that any rule that tells why goes before it; where it nearly proves the rule; where it proves it.
# Source: judgement.
LOCATED, LIKELY, CERTAIN = 2.0, 4.5, 6.0


@dataclass(frozen=True, slots=True)
class Sign:
    """One kind of evidence: rows of one table that speak for a rule.

    `table`: anomaly, event, conflict, failure, sle_loss, traffic (of `flow_path`: what other jobs send over the link).
    `what`: regular expression for the whole metric, kind of event, of conflict or failure, or metric of an expectation.
    `weight`: how much one such row tells, in nats: ln(P(it | the fault) / P(it | none)). 4.6 is 100 times as likely.
    """

    table: str
    what: str
    weight: float
    direction: str = ""  # of an anomaly: high, low, shape; empty: any
    witness: str = ""  # of an anomaly: past, peers; empty: any
    code: str = ""  # of an event: regular expression for the whole code; empty: any
    severity: str = ""  # of an event: regular expression; empty: any
    within_s: float = 0.0  # counts only if it began so near the first lost second, before or after; 0: anytime before
    needed: bool = False  # without one of the signs that are needed the rule says nothing
    _what: re.Pattern[str] = field(init=False, repr=False, compare=False)
    _code: re.Pattern[str] = field(init=False, repr=False, compare=False)
    _severity: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_what", re.compile(self.what))
        object.__setattr__(self, "_code", re.compile(self.code or ".*", re.DOTALL))
        object.__setattr__(self, "_severity", re.compile(self.severity or ".*"))

    def speaks_of(self, table: str, what: str) -> bool:
        """Whether rows of a table with this metric or kind may be such a sign, by what else stands in them."""
        return table == self.table and self._what.fullmatch(what) is not None

    def fits(self, table: str, what: str, direction: str, witness: str, code: str, severity: str) -> bool:
        """Whether a row is such a sign."""
        return bool(
            table == self.table
            and self._what.fullmatch(what)
            and self.direction in ("", direction)
            and self.witness in ("", witness)
            and self._code.fullmatch(code)
            and self._severity.fullmatch(severity)
        )


@dataclass(frozen=True, slots=True)
class Rule:
    """One way to be broken. `name` is what `cause.rules.rule` says, `words` the same for people."""

    name: str
    words: str  # "is throttled by heat": follows the name of the component
    kinds: tuple[str, ...]  # kinds of entities that can be it
    layer: Layer
    symptoms: frozenset[Symptom]  # what it can explain
    signs: tuple[Sign, ...]
    categories: frozenset[str] = frozenset()
    """What the symptom blames if it is this (ledger: `Category`; stalls: died, never-entered, diverged, stuck, frozen,
    slow); empty: anything."""
    how: str = ""  # regular expression for `blamed.how`, as `decision:1`; empty: any
    prior: float = COMMON
    action: ActionKind = ActionKind.NONE
    works: bool = True
    """Whether the component still does its work while it is so, slower or with errors: a hint for the class."""
    wide: bool = False
    """Signs must stand on most parts of the component: a switch whose ports are down, a job whose ranks are slow."""
    alone: bool = False
    """Blame by itself is evidence enough: what was blamed can be told without any other row (a process that died)."""
    strength: float = 0.0  # of `alone`: what the blame tells, nats
    fallback: bool = False
    """Says where, not why: gives way to a rule that says why of something that the same blame stands on."""
    where: str = ""
    """The cause is not on what is blamed, but beside it: `machine` (another host of the machine), `storage`; empty:
    on the way down from it."""

    def fits_how(self, how: str) -> bool:
        """Whether a blame was told in the way that this rule asks for."""
        return re.fullmatch(self.how or ".*", how) is not None


SLOW = frozenset({Symptom.SLOW, Symptom.SLE})
STOP = frozenset({Symptom.STALL, Symptom.CRASH})
ANY = SLOW | STOP
LOST = frozenset({Symptom.TELEMETRY_LOST})
SHARED = frozenset({Symptom.NAME_SHARED})

OWN_WORK = frozenset({Category.STRAGGLER.value, Category.COMPUTE.value, "slow", "never-entered"})
"""What ranks do by themselves: a rule of a GPU or a host explains these."""
NETWORK = frozenset({Category.COMMUNICATION.value, "stuck"})
"""What ranks wait for on the wire."""
STORED = frozenset({Category.INPUT.value, Category.CHECKPOINT.value, "never-entered"})
"""What ranks wait for at the storage."""
