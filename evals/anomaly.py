"""The analysis `anomaly` on labelled recordings of real servers, beside what others published of the same.

    python -m evals.anomaly --suite smd|asd|nab [--data DIR] [--quick] [--json]

DIR holds the recordings of one suite. They are judged by what is shipped: the registered analysis, window after window,
with the profiles that it stores (`evals.anomaly_live`). Figures: VUS-PR (computed as TSB-AD does, without point
adjustment), by series and as a mean, of what its windows tell and, in the same call, of plain PCA and of n-sigma; the
best published method's mean over the same series; the share of the metrics at fault among those named. Without DIR, or
with --quick, 500 samples of one machine that the tests keep are judged.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from bench.figures import Figure, conditions, tell

from evals.anomaly_data import HOW_TO_GET, PAST_SHARE, Published, Recording, recordings
from evals.anomaly_live import live
from evals.anomaly_scores import hit_rates, n_sigma, pca
from evals.vus import period_of, vus_pr

SMALL = Path(__file__).resolve().parent.parent / "tests" / "golden" / "smd_cut"
QUICK = (2200, 2700)  # of its samples: around its first labelled span, in seconds instead of a minute


@dataclass(frozen=True, slots=True)
class Judged:
    """VUS-PR of one recording by who judged it, and how well the metrics at fault were named."""

    recording: Recording
    vus: Mapping[str, float]  # told, seen, pca, nsigma; NaN where nothing is labelled
    hits: list[float]


def judged(recording: Recording) -> Judged:
    """Judge one recording."""
    value_NM, past = recording.value_NM, recording.past
    plain_NM = np.nan_to_num(value_NM)
    ours = live(value_NM)
    by_whom = {"told": ours.told_N, "seen": ours.seen_N, "pca": pca(plain_NM), "nsigma": n_sigma(plain_NM, past)}
    width = period_of(plain_NM[:, 0])
    vus = {name: vus_pr(recording.label_N, score_N, width) for name, score_N in by_whom.items()}
    return Judged(recording, vus, hit_rates(recording, ours.share_NM, ours.told_N**2))


def best_published(series: Sequence[Published]) -> tuple[str, float]:
    """The method with the largest mean over some series, and that mean."""
    methods = [method for method in series[0].value_of if all(method in each.value_of for each in series)]
    mean_of = {method: float(np.mean([each.value_of[method] for each in series])) for method in methods}
    best = max(mean_of, key=lambda method: mean_of[method])
    return best, mean_of[best]


def figures(suite: str, every: Sequence[Judged]) -> list[Figure]:
    """Means, then each series."""
    scored = [each for each in every if np.isfinite(each.vus["told"])]
    known = [each for each in scored if each.recording.published is not None]
    target, anchor = None, None
    compared = scored
    if suite == "smd" and known:
        compared = known
        method, value = best_published([each.recording.published for each in known if each.recording.published])
        target, anchor = round(value, 4), {"of": f"{method}, the best published over the same series", "value": value}
    why = f"over {len(compared)} of {len(every)} series"
    told = [Figure("vus_pr_mean", _mean(compared, "told"), "1", target, anchor=anchor, reason=why)]
    told += [
        Figure(f"vus_pr_mean_{name}", _mean(compared, name), "1", reason=f"{what}, {why}")
        for name, what in (
            ("seen", "as odd as its windows score it, told or not"),
            ("pca", "floor"),
            ("nsigma", "floor"),
        )
        if compared
    ]
    if len(compared) < len(scored):
        told.append(Figure("vus_pr_mean_all", _mean(scored, "told"), "1", reason=f"over {len(scored)} series"))
    if suite == "nab" and known:
        told += _beside_published(known)
    if suite != "nab":
        hits = [hit for each in every for hit in each.hits]
        reason = f"of {len(hits)} spans, k = 1.5 times the metrics at fault"
        told.append(Figure("interpretation_hit_rate", float(np.mean(hits)) if hits else None, "ratio", reason=reason))
    return told + [figure for each in every for figure in _of_one(each)]


def _beside_published(known: Sequence[Judged]) -> list[Figure]:
    series = [each.recording.published for each in known if each.recording.published]
    method, value = best_published(series)
    beside = {"of": f"{method}, the best published over the same series", "value": value}
    why = f"over {len(known)} series; labels of some are wider there"
    return [Figure("vus_pr_mean_published", _mean(known, "told"), "1", anchor=beside, reason=why)]


def _mean(every: Sequence[Judged], name: str) -> float | None:
    return float(np.mean([each.vus[name] for each in every])) if every else None


def _of_one(each: Judged) -> list[Figure]:
    name, table = each.recording.name.replace("-", "_"), each.recording.published
    if not np.isfinite(each.vus["told"]):
        return [Figure(f"vus_pr_{name}", None, "1", reason="nothing is labelled")]
    anchor, why = None, f"not in the published table; training part {PAST_SHARE:.0%}"
    if table is not None:
        method, value = best_published([table])
        anchor, why = {"of": f"{method}, the best of {table.file}", "value": value}, f"training part {table.past}"
    return [
        Figure(f"vus_pr_{name}", each.vus["told"], "1", anchor=anchor, reason=why),
        *(Figure(f"vus_pr_{name}_{floor}", each.vus[floor], "1") for floor in ("seen", "pca", "nsigma")),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Judge, and tell."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--suite", choices=sorted(HOW_TO_GET), default="smd")
    where = "; ".join(f"{suite}: {how}" for suite, how in HOW_TO_GET.items())
    parser.add_argument("--data", type=Path, help=f"directory of the suite. {where}")
    parser.add_argument("--quick", action="store_true", help="500 samples of one machine, in seconds")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    if given.data is None and not given.quick and given.suite != "smd":
        parser.error(f"--suite {given.suite} needs --data DIR: {HOW_TO_GET[given.suite]}")
    small = given.quick or given.data is None
    suite, directory = ("smd", SMALL) if small else (given.suite, given.data)
    found = recordings(suite, directory)
    every = [judged(each.part(*QUICK) if small else each) for each in found]
    under = conditions(suite=suite, series=len(every), cut=small)
    tell("anomaly", under, figures(suite, every), given.json)


if __name__ == "__main__":
    main()
