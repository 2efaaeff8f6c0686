"""Rows of the tables from arrays: names are dictionaries, constants cost nothing, no loop over rows.

A column is an array, an Arrow array, `Coded` (numbers into names) or `[value, count]` for a constant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leadline.model.tables import BY_NAME, Column, Identity, Table, Type
from leadline.simulator.archetypes import Archetype
from leadline.simulator.fabric import Ints
from leadline.simulator.jobs import Laid
from leadline.simulator.targets import Run, ranks_of
from leadline.store.schema import ARROW_TYPES, arrow_schema, arrow_table

STEP, COLLECTIVE, EVENT, RELATION = (BY_NAME[name] for name in ("step", "collective", "event", "relation"))


OTHER_OP = "broadcast"  # what a rank enters that took another branch of the program


@dataclass(frozen=True, slots=True)
class Coded:
    """Texts by number; a number below 0 is null."""

    names: pa.Array
    index: Ints


@dataclass(frozen=True, slots=True)
class Common:
    """What every row has."""

    tenant: str
    cluster: str
    seed: int


def made(table: Table, columns: Mapping[str, Any], count: int, common: Common, batch: int) -> pa.Table:
    """Rows of a table. `batch` numbers the batch, so that equal keys in different batches are different rows."""
    given = dict(columns)
    given["tenant"], given["cluster"] = [common.tenant, count], [common.cluster, count]
    if table.identity is Identity.BATCH:
        drawn = np.random.SeedSequence([common.seed, 77, batch]).generate_state(2, np.uint64)
        given["batch"] = np.broadcast_to(drawn, (count, 2))
        given["batch_row"] = np.arange(count, dtype=np.uint64)
    arrays = {each.name: _array(each, given.get(each.name, [None, count])) for each in table.columns}
    # Nearly always the schema's types already; `arrow_table` checks and names what is not.
    rows = pa.table(list(arrays.values()), names=list(arrays))
    return rows if rows.schema.equals(arrow_schema(table)) else arrow_table(table, arrays)


def _array(column: Column, value: Any) -> Any:
    wanted = ARROW_TYPES[column.type]
    if isinstance(value, list):
        constant, count = value
        if column.type is Type.MAP:
            return pa.MapArray.from_arrays(
                pa.array(np.zeros(count + 1, np.int32)), pa.array([], pa.string()), pa.array([], pa.string())
            )
        if column.type is Type.SYM:
            names = pa.array([constant or ""], pa.string())
            index = pa.array(np.zeros(count, np.int32)) if constant is not None else pa.nulls(count, pa.int32())
            return pa.DictionaryArray.from_arrays(index, names)
        return pa.repeat(pa.scalar(constant, wanted), count)
    if isinstance(value, Coded):
        mask = value.index < 0
        index = pa.array(value.index.astype(np.int32), mask=mask if mask.any() else None)
        if column.type is Type.SYM:
            return pa.DictionaryArray.from_arrays(index, value.names)
        return value.names.take(index)
    if column.type is Type.SYM and isinstance(value, pa.StringArray):
        return value.dictionary_encode()
    if column.type is Type.STR and isinstance(value, pa.DictionaryArray):
        return value.dictionary_decode()
    if isinstance(value, np.ndarray) and value.ndim == 1:
        return pa.array(value, wanted)
    return value if not isinstance(value, np.ndarray) else _ids(value)


def _ids(value_N2: NDArray[np.uint64]) -> pa.Array:
    raw = np.ascontiguousarray(value_N2, "<u8")
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(raw), [None, pa.py_buffer(raw)])


@dataclass(frozen=True, slots=True)
class Told:
    """Steps of one run within a chunk, and where its ranks are."""

    run: Run
    host_R: Ints
    laid: Laid


def step_columns(
    told: list[Told], hosts: pa.Array, clocks: pa.Array, reported_ns: Any, start_ns: int, rng: np.random.Generator
) -> tuple[dict[str, Any], int]:
    """Columns of `step`. `reported_ns(host_N, time_N)`: what a host's clock said at a true time."""
    parts: list[dict[str, Any]] = []
    for place, each in enumerate(told):
        laid, kind = each.laid.whole, each.run.archetype
        times = laid.times
        count, ranks = times.start_TR.shape
        host = np.tile(each.host_R, count)
        step = np.repeat(laid.first + np.arange(count), ranks)
        length = (times.end_TR - times.start_TR).ravel()
        checkpoint = np.repeat(laid.checkpoint_T, ranks)
        start = reported_ns(host, times.start_TR.ravel())
        parts.append(
            {
                "job": np.full(count * ranks, place), "rank": np.tile(np.arange(ranks), count), "step": step,
                "host": host, "start_ns": start, "end_ns": start + length,
                "data_ns": times.data_TR.ravel(), "forward_ns": times.forward_TR.ravel(),
                "backward_ns": times.backward_TR.ravel(), "optimizer_ns": times.optimizer_TR.ravel(),
                "checkpoint_ns": checkpoint, "samples": np.full(count * ranks, float(kind.samples)),
                "tokens": tokens(each.run, each.host_R, times.start_TR, start_ns).ravel(),
                "loss": losses(each.run, kind, step, start, start_ns, rng),
            }
        )  # fmt: skip
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    count = len(whole["step"])
    host = whole.pop("host")
    out: dict[str, Any] = {
        name: value for name, value in whole.items() if name not in ("job", "checkpoint_ns", "tokens", "loss")
    }
    out["job"] = Coded(pa.array([each.run.job for each in told]), whole["job"])
    out["host"], out["clock"] = Coded(hosts, host), Coded(clocks, host)
    out["checkpoint_ns"] = pa.array(whole["checkpoint_ns"], pa.int64(), mask=whole["checkpoint_ns"] == 0)
    for name in ("tokens", "loss"):
        out[name] = pa.array(whole[name], pa.float64(), mask=whole[name] == 0)
    out["metrics"] = [None, count]
    return out, count


def tokens(run: Run, host_R: Ints, start_TR: Ints, start_ns: int) -> NDArray[np.float64]:
    """What each rank tells of a step, (T, R): more where its sequences are longer."""
    out = np.full(start_TR.shape, float(run.archetype.tokens))
    for each in run.faults:
        factor = each.effect.tokens[each.level]
        if factor != 1.0:
            at_s_T = (start_TR[:, 0] - start_ns) / 1e9
            during = np.flatnonzero((at_s_T >= each.at_s) & (at_s_T < each.end_s))
            cells = np.ix_(during, np.array(ranks_of(each, run, len(host_R) // len(run.hosts)), np.int64))
            out[cells] = np.round(out[cells] * factor)
    return out


def losses(
    run: Run, kind: Archetype, step_N: Ints, at_N: Ints, start_ns: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Training loss: it falls from one value to another; where a loop feeds the same batch it stands still."""
    first, last, steps = kind.loss
    stuck = [each for each in run.faults if each.effect.stands_still]
    for each in stuck:
        at_ns, end_ns = start_ns + each.at_s * 1e9, start_ns + each.end_s * 1e9
        during = (at_N >= at_ns) & (at_N < end_ns)
        if during.any():
            if each.stuck_step < 0:
                each.stuck_step = int(step_N[during].min())
            step_N = np.where(during, each.stuck_step, step_N)
    fallen = last + (first - last) * np.exp(-step_N / steps)
    return np.round(fallen * (1 + 0.01 * rng.standard_normal(len(step_N))), 6)


def collective_columns(
    told: list[Told], hosts: pa.Array, clocks: pa.Array, reported_ns: Any
) -> tuple[dict[str, Any], int]:
    """Columns of `collective`: every one twice, as it is entered and as it is finished, as the ring tells them.

    Replicas that are split over the ranks of a host reduce across hosts: one communicator per place in the replica.
    """
    comms: list[str] = []
    parts: list[dict[str, Any]] = []
    for place, each in enumerate(told):
        kind, times = each.run.archetype, each.laid.times
        count, collectives, ranks = times.arrive_TCR.shape
        if not count * collectives:
            continue
        groups = kind.groups(len(each.run.hosts), ranks)
        first_comm = len(comms)
        comms += [f"{each.run.job}/0x{each.run.incarnation + 1:04x}{group:04x}" for group in range(groups)]
        # (group, step, collective, member, state): the order of the key.
        rank_GM = np.arange(ranks).reshape(-1, groups).T
        shape = (groups, count, collectives, rank_GM.shape[1], 2)
        arrive = np.moveaxis(times.arrive_TCR[:, :, rank_GM], 2, 0)
        finish = np.moveaxis(times.finish_TCR[:, :, rank_GM], 2, 0)
        seq = (each.laid.first + np.arange(count))[:, None] * collectives + np.arange(collectives)
        host_GM = each.host_R[rank_GM]
        two = np.ones(2, np.int64)

        def spread(value: Any, shape: tuple[int, ...] = shape) -> Ints:
            return np.broadcast_to(value, shape).ravel()

        host = spread(host_GM[:, None, None, :, None])
        enqueued = reported_ns(host, spread(arrive[..., None]))
        told_N = spread(np.stack([arrive, finish], axis=-1)) <= each.laid.until_ns
        part = {
            "job": np.full(len(host), place), "host": host, "enqueued_ns": enqueued,
            "comm": spread((first_comm + np.arange(groups))[:, None, None, None, None]),
            "ranks": np.full(len(host), rank_GM.shape[1]), "rank": spread(rank_GM[:, None, None, :, None]),
            "seq": spread(seq[None, :, :, None, None]),
            "bytes": np.full(len(host), int(kind.payload_bytes / collectives)),
            "odd": spread(_odd(each.laid, collectives)[:, :, rank_GM].transpose(2, 0, 1, 3)[..., None]),
            "finished_ns": enqueued + spread((finish - arrive)[..., None]),
            "state": spread(np.arange(2) * two),
        }  # fmt: skip
        parts.append(part if told_N.all() else {name: value[told_N] for name, value in part.items()})
    if not parts:
        return {}, 0
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    host, job, odd = whole.pop("host"), whole.pop("job"), whole.pop("odd").astype(bool)
    whole["bytes"] = np.where(odd, whole["bytes"] // 2, whole["bytes"])
    kinds = [each.run.archetype for each in told]
    ops = sorted({kind.op for kind in kinds} | {OTHER_OP})
    op = np.where(odd, ops.index(OTHER_OP), np.array([ops.index(kind.op) for kind in kinds])[job])
    out: dict[str, Any] = {name: whole[name] for name in ("ranks", "rank", "enqueued_ns")}
    out |= {name: whole[name].astype(np.uint64) for name in ("seq", "bytes")}
    out["job"] = Coded(pa.array([each.run.job for each in told]), job)
    out["comm"] = Coded(pa.array(comms), whole["comm"])
    out["op"] = Coded(pa.array(ops), op)
    out["state"] = Coded(pa.array(["enqueued", "finished"]), whole["state"])
    out["finished_ns"] = pa.array(whole["finished_ns"], pa.int64(), mask=whole["state"] == 0)
    out["host"], out["clock"] = Coded(hosts, host), Coded(clocks, host)
    out["dtype"], out["source"] = ["bfloat16", len(host)], ["nccl-plugin", len(host)]
    return out, len(host)


def _odd(laid: Laid, collectives: int) -> NDArray[np.bool_]:
    """Which ranks enter another collective than the others, (T, C, R): the first of a step in which they diverge."""
    count, ranks = laid.times.start_TR.shape
    out = np.zeros((count, collectives, ranks), bool)
    if laid.odd_R is not None and count:
        out[0, 0] = laid.odd_R
    return out
