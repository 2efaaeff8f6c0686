"""What is said of senders that are late, lost, or on a clock that is off."""

from __future__ import annotations

from dataclasses import replace

import pytest

from leadline.ingest.sources import Sender as From
from leadline.ingest.sources import Source
from leadline.model.principal import Principal
from leadline.runner.watermarks import Sender, SenderState
from leadline.views.senders import NOT_YOURS_MANY, findings, foreign_findings, senders_of

S = 10**9


def state(of: str, behind_s: float = 1.0, heard_s: float = 0.2, off_s: float = 0.0, *jobs: str) -> SenderState:
    sender = Sender("default", "default", "h3", "agent")
    return SenderState(sender, of, behind_s, heard_s, off_s, 0, 0, dict.fromkeys(jobs, 8))


@pytest.mark.parametrize(
    ("sender", "text"),
    [
        (state("late", 87.2, 0.2, 0.0, "bert"), "agent of h3 is 87 s behind; bert waits for its data"),
        (state("lost", 50.0, 40.0, 0.0, "a", "b"), "nothing from agent of h3 for 40 s; a, b wait for its data"),
        (state("ok", off_s=-61.0), "the clock of h3 is 61 s behind this server's"),
        (state("ok", off_s=3.0), "the clock of h3 is 3 s ahead of this server's"),
    ],
)
def test_what_is_wrong_is_told_in_a_sentence(sender: SenderState, text: str) -> None:
    (found,), over = findings([sender])
    assert over == 0
    assert found["text"] == text
    assert found["do"]


def test_nothing_is_said_of_those_that_are_well() -> None:
    assert findings([state("ok", 1.2, 0.5, 0.4, "bert"), state("ended", 900.0, 900.0)]) == ([], 0)


def test_an_agent_that_ended_with_its_run_is_only_counted() -> None:
    lost = replace(state("lost", 900.0, 900.0), heard_ns=1000 * S)
    assert findings([lost], {"default": 1090 * S}) == ([], 1)
    assert findings([lost], {"default": 1200 * S})[1] == 0  # it went on long after, or fell silent long before
    assert findings([lost], {"other": 1000 * S})[1] == 0


def test_without_a_runner_nobody_is_known() -> None:
    assert senders_of(None, Principal()) == []


def test_a_tenant_that_says_much_of_what_is_not_its_own_is_named() -> None:
    def source(tenant: str, way: str, amount: int) -> Source:
        found = Source(From(tenant, way, "agent"), 0, 0)
        found.refused["not_yours"] = amount
        return found

    few = [source("acme", "rows", NOT_YOURS_MANY - 1), source("default", "rows", 0)]
    assert foreign_findings(few) == []
    (found,) = foreign_findings([*few, source("bob", "rows", NOT_YOURS_MANY), source("bob", "ring", 5)])
    assert found["text"].startswith(f"{NOT_YOURS_MANY + 5} rows of tenant bob describe hosts")
    assert "held-by" in found["do"]
