"""Kinds of operations of a training step, and what is known of each: what it waits for, and whom it waits with.

Words of the traces of ByteDance-Seed/StragglerAnalysis ("Understanding Stragglers in Large Model Training Using What-if
Analysis", OSDI 2025), which follow Megatron-LM's schedule of one step:

    params-all-gather -> forward-compute, backward-compute of all micro-batches, with sends and receives between stages
    -> gc -> layernorm-grads-all-reduce -> embedding-grads-all-reduce -> grads-reduce-scatter (or, where that overlaps
    with backward, separate-grads-all-reduce) -> optimizer-clip-main-grad -> optimizer
"""

from __future__ import annotations

FORWARD, BACKWARD = "forward-compute", "backward-compute"
FORWARD_SEND, FORWARD_RECV = "forward-send", "forward-recv"
BACKWARD_SEND, BACKWARD_RECV = "backward-send", "backward-recv"
PARAMS, GRADS, SEPARATE = "params-all-gather", "grads-reduce-scatter", "separate-grads-all-reduce"
LAYERNORM, EMBEDDING = "layernorm-grads-all-reduce", "embedding-grads-all-reduce"
CLIP, OPTIMIZER, GC = "optimizer-clip-main-grad", "optimizer", "gc"

KINDS: tuple[str, ...] = (
    FORWARD, BACKWARD, FORWARD_SEND, FORWARD_RECV, BACKWARD_SEND, BACKWARD_RECV,
    PARAMS, GRADS, SEPARATE, LAYERNORM, EMBEDDING, CLIP, OPTIMIZER, GC,
)  # fmt: skip
PLACE: dict[str, int] = {kind: place for place, kind in enumerate(KINDS)}

COMPUTE = frozenset({FORWARD, BACKWARD})
BETWEEN_STAGES = frozenset({FORWARD_SEND, FORWARD_RECV, BACKWARD_SEND, BACKWARD_RECV})
OVER_REPLICAS = frozenset({PARAMS, GRADS, SEPARATE, CLIP})
"""Collectives in which the same stage of all data-parallel ranks meets."""
SYNCHRONISED = BETWEEN_STAGES | OVER_REPLICAS | {EMBEDDING}
"""Operations that end only after all their participants began; what they take themselves is the transfer after that.

The all-reduce of layer-norm gradients is not among them, as published: it is within a tensor-parallel group, of which
one rank is recorded."""
COMMUNICATION = SYNCHRONISED | {LAYERNORM}
"""Operations whose ideal length is the median (the others': the mean)."""

GROUP: dict[str, str] = {
    FORWARD_SEND: "forward-pp-comm", FORWARD_RECV: "forward-pp-comm",
    BACKWARD_SEND: "backward-pp-comm", BACKWARD_RECV: "backward-pp-comm",
}  # fmt: skip
"""Kinds that are told together: a send and its receive are one transfer."""
