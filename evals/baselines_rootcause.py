"""Rankings to compare with: BARO's RobustScorer and plain n-sigma, on the same readings.

Ours is a reading of the published code (package fse-baro 0.2.2; Pham et al., BARO, FSE 2024, section 3.3). Given an
interpreter with that package, the real one runs as well; the package brings pytest and matplotlib along, so it lives in
an environment of its own.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
NOTHING = 10 * np.finfo(np.float64).eps  # a scale below it counts as 1, as in scikit-learn

REAL = """
import json, sys
import numpy as np, pandas as pd
from baro.root_cause_analysis import nsigma, robust_scorer
out = []
for path in sys.argv[1:]:
    held = np.load(path)
    both = pd.DataFrame(np.vstack([held["normal"], held["odd"]]))
    both.columns = [str(each) for each in both.columns]
    given = {"anomalies": [len(held["normal"])]}
    out.append([[int(name) for name in method(both, **given)["ranks"]] for method in (robust_scorer, nsigma)])
print(json.dumps(out))
"""


@dataclass(frozen=True, slots=True)
class Readings:
    """What a ranking sees of one case: F series, normal and odd, of one component each. Up is bad."""

    normal_TF: Matrix
    odd_WF: Matrix
    component_F: tuple[str, ...]

    @property
    def filled(self) -> tuple[Matrix, Matrix]:
        """Without gaps: a missing reading is the one before it, or 0 if there is none, as its authors' suite does."""
        return _filled(self.normal_TF), _filled(self.odd_WF)


def baro(of: Readings) -> list[int]:
    """Series by the largest robust score: (odd - median) / IQR, the largest first. Constant series are left out."""
    normal_TF, odd_WF = of.filled
    low_F, middle_F, high_F = np.quantile(normal_TF, (0.25, 0.5, 0.75), axis=0)
    return _by_score(normal_TF, odd_WF, middle_F, high_F - low_F)


def nsigma(of: Readings) -> list[int]:
    """Series by the largest z-score: (odd - mean) / standard deviation. Constant series are left out."""
    normal_TF, odd_WF = of.filled
    return _by_score(normal_TF, odd_WF, normal_TF.mean(axis=0), normal_TF.std(axis=0))


def components(ranked: Sequence[int], of: Readings) -> list[str]:
    """Components in the order in which the first of their series comes."""
    return list(dict.fromkeys(of.component_F[each] for each in ranked))


def real(python: Path, cases: Sequence[Readings]) -> list[tuple[list[int], list[int]]]:
    """The same two rankings by the real package, which `python` can import.

    Errors: RuntimeError if it cannot, or if the package fails on a case.
    """
    with tempfile.TemporaryDirectory() as held:
        paths = []
        for each, case in enumerate(cases):
            normal_TF, odd_WF = case.filled
            paths.append(Path(held) / f"{each}.npz")
            np.savez(paths[-1], normal=normal_TF, odd=odd_WF)
        run = subprocess.run(
            [str(python), "-W", "ignore", "-c", REAL, *map(str, paths)], capture_output=True, text=True, check=False
        )
    if run.returncode:
        raise RuntimeError(f"{python} cannot run fse-baro: {run.stderr.strip()[-400:]}")
    return [(found[0], found[1]) for found in json.loads(run.stdout.splitlines()[-1])]


def _by_score(normal_TF: Matrix, odd_WF: Matrix, middle_F: Matrix, scale_F: Matrix) -> list[int]:
    scale_F = np.where(scale_F < NOTHING, 1.0, scale_F)
    score_F = ((odd_WF - middle_F) / scale_F).max(axis=0)
    moves_F = (normal_TF != normal_TF[0]).any(axis=0) & (odd_WF != odd_WF[0]).any(axis=0)
    return [int(each) for each in np.argsort(-score_F, kind="stable") if moves_F[each]]


def _filled(values_TF: Matrix) -> Matrix:
    known_TF = np.isfinite(values_TF)
    last_TF = np.maximum.accumulate(np.where(known_TF, np.arange(len(values_TF))[:, None], -1), axis=0)
    before_TF = np.take_along_axis(values_TF, np.maximum(last_TF, 0), axis=0)
    return np.where(last_TF >= 0, before_TF, 0.0)
