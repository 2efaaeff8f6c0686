"""Which paths a topology allows, without a store."""

from __future__ import annotations

from leadline.model.ids import link_id
from leadline.views.paths.possible import between, net_of, node_of, same_names, shortest


def clos(leaves: int = 2, spines: int = 2, parallel: int = 1) -> list[tuple[str, str]]:
    ends = [(f"port:h{leaf}/eth0", f"swport:leaf{leaf}/Ethernet1") for leaf in range(1, leaves + 1)]
    for leaf in range(1, leaves + 1):
        for spine in range(1, spines + 1):
            for each in range(parallel):
                ends.append((f"swport:leaf{leaf}/Up{spine}.{each}", f"swport:spine{spine}/Down{leaf}.{each}"))
    return ends


def test_every_spine_is_a_path_between_two_leaves() -> None:
    links, paths = shortest(net_of(clos(2, 4)), "host:h1", "host:h2")
    assert paths == 4
    assert [link["hop"] for link in links] == [0, *[1] * 4, *[2] * 4, 3]
    assert links[0] == {"link": "link:h1/eth0~leaf1/Ethernet1", "from": "host:h1", "to": "switch:leaf1", "hop": 0}


def test_parallel_links_are_different_paths() -> None:
    links, paths = shortest(net_of(clos(2, 2, 3)), "host:h1", "host:h2")
    assert paths == 2 * 3 * 3
    assert len(links) == 2 + 2 * 2 * 3


def test_hosts_do_not_forward() -> None:
    ends = [("port:h1/a", "swport:x/1"), ("port:h2/a", "swport:x/2"), ("port:h2/b", "swport:y/1"),
            ("port:h3/a", "swport:y/2")]  # fmt: skip
    assert shortest(net_of(ends), "host:h1", "host:h3") == ([], 0)


def test_a_link_told_from_both_ends_is_one() -> None:
    ends = clos(2, 1)
    both = [*ends, *((parent, child) for child, parent in ends)]
    assert shortest(net_of(both), "host:h1", "host:h2") == shortest(net_of(ends), "host:h1", "host:h2")


def test_loops_and_strangers_do_no_harm() -> None:
    ends = [*clos(), ("swport:leaf1/x", "swport:leaf1/y"), ("swport:a/1", "swport:b/1")]
    assert shortest(net_of(ends), "host:h1", "host:h2")[1] == 2
    assert shortest(net_of([]), "host:h1", "host:h2") == ([], 0)


def test_the_node_of_a_port_is_in_its_name() -> None:
    assert node_of("port:h3/eth0") == "host:h3"
    assert node_of("swport:leaf1/Ethernet1/1") == "switch:leaf1"
    assert node_of("swport:odd") == "switch:odd"
    assert link_id("swport:b/1", "port:a/1") == "link:a/1~b/1"


def test_ports_of_one_name_are_paired_and_others_all_with_all() -> None:
    ends = [("port:h1/eth0", "swport:x/1"), ("port:h1/fe0", "swport:y/1"), ("port:h2/eth0", "swport:x/2")]
    assert same_names(ends, "host:h1", "host:h2") == [("port:h1/eth0", "port:h2/eth0")]
    assert same_names([*ends[:1], ("port:h2/a", "swport:x/2"), ("port:h2/b", "swport:x/3")], "host:h1", "host:h2") == [
        ("port:h1/eth0", "port:h2/a"),
        ("port:h1/eth0", "port:h2/b"),
    ]


def test_only_the_ports_that_are_used_count() -> None:
    ends = [*clos(), ("port:h1/fe0", "swport:fe/1"), ("port:h2/fe0", "swport:fe/2")]
    links, paths = between(ends, [("port:h1/eth0", "port:h2/eth0")])
    assert (paths, max(link["hop"] for link in links)) == (2, 3)
    assert between(ends, [("port:h1/eth0", "port:h2/eth0"), ("port:h1/fe0", "port:h2/fe0")])[1] == 3
    assert between(ends, []) == ([], 0)
