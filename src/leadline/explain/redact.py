"""What leaves for a language model: no secrets, no tenant's name, no address. Names come back in what it answers.

    "acme-bert: token=ghp_x1... from 10.1.2.3" ──> "tenantA-bert: token=[removed] from [address]"

Names of tenants become the same stand-in wherever they occur, also inside names of jobs, and are put back afterwards.
Secrets and addresses are cut out for good: no sentence needs them. What looks like one is cut; a log line that loses a
word loses less than one that tells a key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

REMOVED, ADDRESS = "[removed]", "[address]"
KEPT = frozenset({"", "default", "provider"})
"""Leadline's own words for tenants: they name nobody."""

_SECRETS: tuple[re.Pattern[str], ...] = (
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)", re.DOTALL),
    re.compile(r"\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*"),  # JWT
    re.compile(
        r"\b(sk|pk|rk|ghp|gho|ghs|ghu|glpat|xox[abprs]|hf|nvapi|dckr_pat|github_pat|AIza)[-_]?[A-Za-z0-9_-]{12,}"
    ),
    re.compile(r"\b(AKIA|ASIA)[A-Z0-9]{12,}"),
)
_AFTER = re.compile(  # a word that announces a secret, and what follows it
    r"(?i)\b((?:[\w-]*(?:password|passwd|pwd|secret|token|api[-_ ]?key|access[-_]?key|private[-_]?key|credential)s?)"
    r"[\"']?\s*(?:[:=]|\bis\b)\s*)(?:bearer\s+)?(\"[^\"]*\"|'[^']*'|[^\s,;&\"']+)"
)
_BEARER = re.compile(r"(?i)\b((?:authorization\s*:\s*)?(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}")
_IN_URL = re.compile(r"(\w://)[^/@\s]+@")
_MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_IPV4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]*\d)")
_IPV6 = re.compile(  # with :: or five groups and more: 10:14:08 is a time
    r"(?i)(?<![\w:])(?=[0-9a-f:]*(?:::|(?::[0-9a-f]+){4}))[0-9a-f]{0,4}(?::{1,2}[0-9a-f]{1,4}){1,7}(?:::)?(?![\w:])"
)
_LONG = re.compile(r"(?<![\w+/=-])(?=[\w+/=-]*\d)(?=[\w+/=-]*[A-Za-z])[\w+/=]{32,}(?![\w+/=-])")  # keys, hashes


class Redactor:
    """Stand-ins for names, for the time of one question."""

    def __init__(self, tenants: Iterable[str]) -> None:
        """`tenants`: all names of tenants that there are, not only of those that are asked about."""
        # Longer names first: acme-labs is not acme with something behind it.
        names = sorted({each for each in tenants if each.lower() not in KEPT}, key=lambda each: (-len(each), each))
        self._of = {name.lower(): f"tenant{_letters(place)}" for place, name in enumerate(names)}
        self._names = {stand_in: name for name, stand_in in zip(names, self._of.values(), strict=False)}
        pattern = "|".join(re.escape(name) for name in names)
        # A name counts where no letter or digit touches it: `acme` in acme-bert and acme_bert, not in acmeite.
        self._pattern = re.compile(rf"(?<![^\W_])(?:{pattern})(?![^\W_])", re.IGNORECASE) if names else None
        self._back = re.compile("|".join(sorted(self._names, key=len, reverse=True))) if names else None

    def hide(self, text: str) -> str:
        """The text without secrets and addresses, names of tenants replaced."""
        for pattern in _SECRETS:
            text = pattern.sub(REMOVED, text)
        text = _IN_URL.sub(rf"\1{REMOVED}@", text)
        text = _BEARER.sub(rf"\g<1>{REMOVED}", text)
        text = _AFTER.sub(rf"\g<1>{REMOVED}", text)
        text = _MAIL.sub(ADDRESS, text)
        text = _IPV6.sub(ADDRESS, _IPV4.sub(ADDRESS, text))
        text = _LONG.sub(REMOVED, text)
        return self._pattern.sub(lambda found: self._of[found[0].lower()], text) if self._pattern else text

    def restore(self, text: str) -> str:
        """The text with the names of tenants."""
        return self._back.sub(lambda found: self._names[found[0]], text) if self._back else text


def _letters(place: int) -> str:
    """A, B, ... Z, AA, AB: no digits, which a sentence might be held against."""
    out = ""
    place += 1
    while place:
        place, rest = divmod(place - 1, 26)
        out = chr(ord("A") + rest) + out
    return out
