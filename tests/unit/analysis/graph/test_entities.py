"""Which names are of one thing."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.builders.fabrics import T0, Claim, relation_table

from leadline.analysis.graph.answers import neighbourhood
from leadline.analysis.graph.depends import KINDS
from leadline.analysis.graph.entities import identity, names
from leadline.analysis.graph.graph import graph
from leadline.analysis.graph.rows import vocabulary


def same(*texts: str) -> dict[str, str]:
    """The name that each name is shown by."""
    known = names(pa.array(texts, pa.string()))
    return {text: known.text(int(number)) for text, number in zip(texts, identity(known).same_N, strict=True)}


def test_a_gpu_is_its_uuid_whatever_the_case() -> None:
    assert same("gpu:gpu-5c1e", "gpu:GPU-5C1E", "gpu:GPU-5c1f") == {
        "gpu:gpu-5c1e": "gpu:GPU-5C1E", "gpu:GPU-5C1E": "gpu:GPU-5C1E", "gpu:GPU-5c1f": "gpu:GPU-5c1f",
    }  # fmt: skip


def test_names_that_are_no_uuids_keep_their_case() -> None:
    assert same("gpu:h1/a", "gpu:h1/A") == {"gpu:h1/a": "gpu:h1/a", "gpu:h1/A": "gpu:h1/A"}


def test_a_port_is_one_with_and_without_the_domain_of_its_host() -> None:
    found = same("port:n12.cluster.local/mlx5_0", "port:n12/mlx5_0", "host:n13.cluster.local")
    assert found["port:n12.cluster.local/mlx5_0"] == "port:n12/mlx5_0"
    assert found["host:n13.cluster.local"] == "host:n13.cluster.local"  # nobody calls it n13


def test_the_domain_of_a_host_counts_for_its_ports_and_processes() -> None:
    found = same("host:n12", "host:n12.x.org", "process:n12.x.org/7", "process:n12/7", "port:n12.x.org/eth0")
    assert found["process:n12.x.org/7"] == "process:n12/7"
    assert found["host:n12.x.org"] == "host:n12"


def test_switches_and_hosts_of_one_name_do_not_meet() -> None:
    assert same("host:n1", "switch:n1.x.org")["switch:n1.x.org"] == "switch:n1.x.org"


def test_a_short_name_that_fits_two_is_kept_apart_and_told() -> None:
    texts = ("host:n1", "host:n1.a.org", "port:n1.b.org/eth0", "host:n2.a.org", "host:n2.b.org")
    assert all(text == shown for text, shown in same(*texts).items())
    told = identity(names(pa.array(texts, pa.string()))).ambiguous
    assert [(each.entity, each.fits) for each in told] == [("host:n1", ("host:n1.a.org", "host:n1.b.org"))]


def test_an_address_is_no_name_with_a_domain() -> None:
    assert same("host:10.0.0.1", "host:10")["host:10.0.0.1"] == "host:10.0.0.1"


def test_dots_in_the_name_of_a_port_are_no_domain() -> None:
    assert same("port:n1/eth0.100", "port:n1/eth0")["port:n1/eth0.100"] == "port:n1/eth0.100"


def test_names_are_found_and_new_ones_added_without_moving_the_others() -> None:
    known = names(pa.array(["host:a", "", "käse", "rank:j/0"], pa.string()))
    more = known.extended(pa.array(["host:b", "host:a", "nonsense:x"], pa.string()))
    assert [more.number(text) for text in ("host:a", "", "käse", "rank:j/0", "host:b", "nonsense:x", "no")] == [
        0, 1, 2, 3, 4, 5, -1,
    ]  # fmt: skip
    assert [KINDS[kind] for kind in more.kind_N.tolist()] == ["host", "", "", "rank", "host", ""]
    assert more.take(more.numbers(pa.array(["host:b", "käse"]))) == ["host:b", "käse"]
    assert len(known) == 4


@pytest.mark.parametrize("shape", ["text", "large", "dictionary", "dictionaries", "sliced", "empty"])
def test_names_are_read_from_every_layout_of_a_column(shape: str) -> None:
    rows = relation_table([Claim(f"gpu:g{number}", "in", f"host:h{number % 3}", "x") for number in range(9)])
    texts = [rows.column(name).cast(pa.string()) for name in ("child", "parent")]
    wanted = [column.to_pylist() for column in texts]
    if shape == "large":
        texts = [column.cast(pa.large_string()) for column in texts]
    elif shape == "dictionary":
        texts = [column.dictionary_encode() for column in texts]
    elif shape == "dictionaries":  # each part with the dictionary of the whole
        whole = [column.dictionary_encode() for column in texts]
        texts = [pa.chunked_array([column.chunk(0).slice(at, 1) for at in range(9)]) for column in whole]
    elif shape == "sliced":
        texts, wanted = [column.slice(2, 4) for column in texts], [each[2:6] for each in wanted]
    elif shape == "empty":
        texts, wanted = [column.slice(0, 0) for column in texts], [[], []]
    known, child_N, parent_N = vocabulary(pa.table(texts, ["child", "parent"]))
    assert [[known[number].as_py() for number in each.tolist()] for each in (child_N, parent_N)] == wanted
    assert len(set(known.to_pylist())) == len(known)


def test_what_is_told_under_two_names_is_one_thing_in_the_graph() -> None:
    whole = graph(relation_table([
        Claim("gpu:GPU-5C1E", "in", "host:n12.x.org", "agent/graph"),
        Claim("rank:j/0", "runs-on", "gpu:gpu-5c1e", "torch-hook"),
        Claim("rank:j/0", "runs-on", "host:n12", "torch-hook"),
        Claim("rank:j/0", "in", "job:j", "torch-hook"),
    ]))  # fmt: skip
    found = neighbourhood(whole, "gpu:Gpu-5c1E", T0)  # a spelling that nobody used
    assert found.nodes == neighbourhood(whole, "gpu:GPU-5C1E", T0).nodes
    assert (whole.shown("gpu:Gpu-5c1E"), whole.shown("host:other")) == ("gpu:GPU-5C1E", "host:other")
    nodes = {node.entity: node.jobs for node in neighbourhood(whole, "job:j", T0).nodes}
    assert nodes.keys() == {"job:j", "rank:j/0", "gpu:GPU-5C1E", "host:n12"}
    assert neighbourhood(whole, "host:n12.x.org", T0).nodes == neighbourhood(whole, "host:n12", T0).nodes
