"""A training cluster as pure data: hosts, switches, links, addresses and routes. Nothing here touches the world."""

from leadline.lab.topology.build import build
from leadline.lab.topology.partial import cut_off, without
from leadline.lab.topology.parts import Host, Link, Port, Role, Switch, Topology
from leadline.lab.topology.reading import load, load_file, load_named, preset_names, read_shape
from leadline.lab.topology.relations import relations
from leadline.lab.topology.routing import EcmpGroup, Hop, Route, Rule, ecmp_groups, routes, rules
from leadline.lab.topology.shape import Shape

__all__ = [
    "EcmpGroup",
    "Hop",
    "Host",
    "Link",
    "Port",
    "Role",
    "Route",
    "Rule",
    "Shape",
    "Switch",
    "Topology",
    "build",
    "cut_off",
    "ecmp_groups",
    "load",
    "load_file",
    "load_named",
    "preset_names",
    "read_shape",
    "relations",
    "routes",
    "rules",
    "without",
]
