"""The evals of the mesh at tiny size: they run, score right, and make the same of the same seed."""

from __future__ import annotations

import json

import numpy as np
import pytest
from evals.mesh import colocation, localise, machines
from evals.mesh.fat_tree import mesh
from evals.mesh.oscillators import Scene, readings


def figures(text: str) -> dict[str, float]:
    return {each["figure"]: each["value"] for each in json.loads(text.splitlines()[-1])["figures"]}


def test_colocation_is_scored(capsys: pytest.CaptureFixture[str]) -> None:
    colocation.main(["--quick", "--only", "60 s, 10 ns", "--json"])
    (value,) = figures(capsys.readouterr().out).values()
    assert value >= 0.99


def test_machines_are_scored_from_lines_of_edges(capsys: pytest.CaptureFixture[str]) -> None:
    machines.main(["--quick"])
    *free, one_clock = capsys.readouterr().out.splitlines()
    assert len(free) == 3
    assert all("wrong 0 missed 0" in line for line in free)
    assert "right 0 wrong 0" in one_clock
    assert "'STEERED': 20" in one_clock


def test_localisation_is_scored(capsys: pytest.CaptureFixture[str]) -> None:
    localise.main(["--quick", "--only", "1 % loss, card", "--json"])
    told = figures(capsys.readouterr().out)
    assert told["localise_exact"] == 1.0
    assert told["seconds to find 1 % loss, p98"] <= 10


def test_hosts_of_one_machine_differ_by_noise_and_a_constant() -> None:
    told = readings(Scene(hosts=20, machines=10), 1)
    assert len(set(told.machine_H.tolist())) == 10
    for a in range(20):
        for b in range(a):
            apart = np.diff(told.offset_HT[a] - told.offset_HT[b])
            assert (np.abs(apart.mean()) < 1.0) == (told.machine_H[a] == told.machine_H[b])


def test_the_same_seed_makes_the_same() -> None:
    one, other = readings(Scene(hosts=5, machines=4), 3), readings(Scene(hosts=5, machines=4), 3)
    assert (one.offset_HT == other.offset_HT).all()
    assert (mesh(2, k=4, degree=6).path_PX == mesh(2, k=4, degree=6).path_PX).all()


def test_a_mesh_has_its_degree_and_whole_paths() -> None:
    made = mesh(1)
    assert len(made.links) == 384
    assert len(made.src_P) == 128 * 10 * 4
    degree = np.bincount(made.src_P, minlength=128) / 4
    assert (degree == 10).all()
    count = len(made.links)
    assert (made.path_PX[:, 0] == made.src_P).all()
    assert (made.path_PX[:, 5] == count + made.dst_P).all()
