"""Rules of storage, of the program itself, of clocks and telemetry. Signals by the names they are stored under.

Sources: Falcon and Greyhound (ATC'25) for stragglers by uneven work; the fault classes of "The Llama 3 Herd of Models".
"""

from __future__ import annotations

from leadline.analysis.cause.rules.rule import (
    ANY,
    CERTAIN,
    FITTING,
    LOCATED,
    LOST,
    OWN_WORK,
    PROOF,
    RARE,
    SHARED,
    SLOW,
    STORED,
    TELLING,
    WEAK,
    Rule,
    Sign,
)
from leadline.model.accounts import Category, Layer
from leadline.model.incidents import ActionKind as A
from leadline.model.incidents import Symptom

# Seconds around the first lost one in which a change of software must lie to be its reason, since software of any age
# is always there. Source: judgement.
CHANGED_S = 20

JOB_RULES: tuple[Rule, ...] = (
    # -- storage ---------------------------------------------------------------------------------------------------
    Rule(
        "checkpoint-storm",
        "writes checkpoints much more often or larger than it did",
        ("job",),
        Layer.STORAGE,
        SLOW,
        (Sign("anomaly", r"step\.checkpoint_seconds", TELLING, "high", needed=True),),
        frozenset({Category.CHECKPOINT.value}),
        action=A.CONTACT_SUPPORT,
        wide=True,
        alone=True,
        strength=1.5,  # nats; below LOCATED, since jobs write as much by design. Source: judgement.
    ),
    Rule(
        "slow-storage",
        "answers late",
        ("storage",),
        Layer.STORAGE,
        ANY,
        (
            Sign("event", r"storage-error|storage-slow|log", TELLING, severity="error|fatal|warning"),
            Sign(
                "anomaly",
                r"(ifOutDiscards|node_qdisc_\w+|ifOutOctets|ifInOctets|node_network_\w+_(bytes|drop)_total)",
                FITTING,
            ),
        ),
        STORED,
        action=A.CONTACT_SUPPORT,
        where="storage",
        alone=True,
        strength=LOCATED,
    ),
    # -- application -----------------------------------------------------------------------------------------------
    Rule(
        "slow-input",
        "waits for its data",
        ("rank",),
        Layer.APPLICATION,
        SLOW,
        (
            Sign("anomaly", r"step\.(data|input)_seconds", TELLING, "high", needed=False),
            Sign("sle_loss", r"step\.data.*", FITTING),
        ),
        frozenset({Category.INPUT.value}),
        action=A.REBALANCE,
        alone=True,
        strength=4.0,  # nats; nearly TELLING: a rank says itself that it waited for input. Source: judgement.
    ),
    Rule(
        "imbalanced-work",
        "gets longer sequences or more work than the others",
        ("rank",),
        Layer.APPLICATION,
        SLOW,
        (
            Sign("anomaly", r"step\.(tokens|samples)", PROOF, "high", needed=True),
            Sign("anomaly", r"step\.(forward|backward|compute)_seconds", WEAK, "high"),
        ),
        OWN_WORK,
        action=A.REBALANCE,
    ),
    Rule(
        "straggler",
        "takes longer for its own work than the others, and nothing below it shows why",
        ("rank",),
        Layer.APPLICATION,
        SLOW | {Symptom.STALL},  # it may take so long that the job stands still meanwhile
        (
            Sign("anomaly", r"step\.(forward|backward|compute|optimizer)_seconds", WEAK, "high"),
            Sign("anomaly", r"collective\.lateness", WEAK, "high"),
        ),
        frozenset({Category.STRAGGLER.value, Category.CHECKPOINT.value, "slow"}),
        action=A.REBALANCE,
        alone=True,
        strength=3.0,  # nats; above FITTING, since peers show that it is late. Source: judgement.
        fallback=True,
    ),
    Rule(
        "new-software",
        "computes longer on all ranks since its software changed",
        ("job",),
        Layer.APPLICATION,
        SLOW,
        (
            Sign("event", r"software-version|recompilation|deploy|rollout", TELLING, within_s=CHANGED_S, needed=True),
            Sign("anomaly", r"step\.(forward|backward|compute)_seconds", WEAK, "high"),
        ),
        frozenset({Category.COMPUTE.value, Category.UNKNOWN.value}),
        action=A.CONTACT_SUPPORT,
    ),
    Rule(
        "loop-bug",
        "trains on the same data again and again",
        ("job",),
        Layer.APPLICATION,
        frozenset({Symptom.SLE}),
        (Sign("anomaly", r"step\.(loss|batch)", FITTING, "low", needed=True),),
        prior=RARE,
        action=A.CONTACT_SUPPORT,
        wide=True,
    ),
    # -- time and telemetry: never a cause of lost time ---------------------------------------------------------------
    Rule(
        "clock-off",
        "has a clock that is wrong",
        ("host",),
        Layer.TIME,
        frozenset({Symptom.SLE}),
        (
            Sign("anomaly", r"node_timex_\w+", TELLING, needed=True),
            Sign("sle_loss", r"node_timex_\w+|clock\w*", TELLING, needed=True),
            Sign("event", r"clock-step|clock-\w+", TELLING, needed=True),
        ),
        action=A.CONTACT_SUPPORT,
    ),
    Rule(
        "telemetry-lost",
        "does not send any more, or cannot reach Leadline",
        ("host", "cluster"),
        Layer.TELEMETRY,
        LOST,
        (),
        frozenset({"silent"}),
        action=A.CONTACT_SUPPORT,
        works=False,
        alone=True,
        strength=CERTAIN,
    ),
    Rule(
        "name-shared",
        "is the name of two jobs that run at once",
        ("job",),
        Layer.TELEMETRY,
        SHARED,
        (),
        frozenset({"shared"}),
        action=A.CONTACT_SUPPORT,
        alone=True,
        strength=CERTAIN,
    ),
    Rule(
        "source-silent",
        "sends no telemetry any more",
        ("service", "host", "switch", "gpu"),
        Layer.TELEMETRY,
        frozenset({Symptom.SLE}),
        (
            Sign("anomaly", r"(up|leadline_agent_(source_up|delivery_failures))", TELLING, needed=True),
            Sign("sle_loss", r"(up|leadline_agent_.*|DCGM_FI_\*|if\*|node_\*)", TELLING, needed=True),
        ),
        action=A.CONTACT_SUPPORT,
    ),
)
