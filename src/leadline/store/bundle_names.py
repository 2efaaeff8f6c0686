"""Pseudonyms for names and addresses: the same one for the same name wherever it stands, and never for two.

A text is cut into tokens at `/ : ~ , ; = @ |`, brackets, quotes and blanks, so `port:h3/eth0`, `h3:9100` and
`link:h3/eth0~leaf1/Ethernet3` speak of the same `h3` before and after. What a token becomes is the keyed hash of
itself (HMAC-SHA256): without the key, which is drawn for one bundle and kept nowhere, names cannot be tried out.

    10.1.2.3  another address, prefixes kept    GPU-5c1e...  GPU-<another UUID>    h3  n4k2m7qxa
    42, 0.5   kept, unless a thing is called so                                     host  kept, where it is a kind

Prefix-preserving addresses: J. Xu, J. Fan, M. Ammar, S. Moon, "Prefix-preserving IP address anonymization" (2002),
with HMAC-SHA256 in the place of their block cipher: two addresses share as many leading bits after as before.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import re
import uuid
from collections.abc import Iterable, Iterator

from leadline.model.errors import UsageError
from leadline.model.ids import ENTITY_KINDS, link_id, parse_entity_id

# Leadline's own words for "nobody in particular".
NOBODY = frozenset({"", "default", "localhost"})

# Words that name nothing of yours; kept in labels unless a thing is called so.
WORDS = NOBODY | frozenset(ENTITY_KINDS) | frozenset(
    {
        "active", "counter", "cpu", "critical", "cuda", "debug", "down", "error", "eth", "false", "fatal", "file",
        "gauge", "gloo", "gpu", "grpc", "guest", "histogram", "http", "https", "icmp", "idle", "in", "inactive", "inf",
        "info", "iowait", "ip", "ipv4", "ipv6", "irq", "linux", "mellanox", "mpi", "nan", "nccl", "nic", "nice", "no",
        "node", "none", "null", "nvidia", "off", "ok", "on", "out", "python", "read", "recv", "rx", "send", "softirq",
        "stateset", "steal", "summary", "system", "tcp", "torch", "true", "tx", "udp", "unix", "unknown", "untyped",
        "up", "user", "warning", "write", "yes",
    }
)  # fmt: skip

_DELIMITERS = re.compile(r"([/~,;=@|\s\[\](){}<>\"']+)")
_BLANKS = re.compile(r"(\s+)")
_NUMBER = re.compile(r"[+-]?(\d{1,6}(\.\d+)?([eE][+-]?\d{1,3})?|Inf|NaN)")
_GPU = re.compile(r"(GPU|MIG)-[0-9a-fA-F][0-9a-fA-F-]{3,}")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_MAC = re.compile(r"([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}")
_FLOW = re.compile(r"flow:[0-9a-f]{32}")
_RUNS = re.compile(r"[A-Za-z0-9]+")
EDGE = ">"  # between the two ends of an edge, each an entity id
_RUNS_MAX = 8  # how many runs of letters and digits a name inside a word is looked for in
KEY_TRIES = 32


class Pseudonyms:
    """What every name and address of one bundle becomes. Stateful only as a cache and against collisions."""

    def __init__(self, key: bytes, names: Iterable[str], addresses: Iterable[str] = ()) -> None:
        """`names`: tokens that name a thing, wherever they occur; `addresses`: all that occur."""
        self._names = frozenset(names) - NOBODY
        self._originals = self._names | frozenset(addresses)
        self._of: dict[str, str] = {}
        self._taken: set[str] = set()
        self._bits: dict[tuple[int, str], int] = {}
        self._texts: dict[str, str] = {}
        self.flows: dict[int, int] = {}  # flow ids, by whoever knows what they are made of
        self._key = key
        addresses = list(addresses)
        # An address may become another that occurs, by chance; then another key is drawn from this one.
        for attempt in range(KEY_TRIES):
            self._key = hashlib.sha256(key + attempt.to_bytes(2, "big")).digest()
            self._bits.clear()
            if not any(self._address(each) in self._originals for each in addresses):
                break

    def text(self, value: str) -> str:
        """A name, id, address or other text with every token replaced that is no number and no word."""
        found = self._texts.get(value)
        if found is None:
            found = self._texts[value] = self._text(value)
        return found

    def word(self, value: str) -> str:
        """A metric name, kind or other word of a vocabulary: as it is, but for names of things inside it."""
        runs = list(_RUNS.finditer(value))
        out, done, place = [], 0, 0
        while place < len(runs):
            step = 1
            for end in range(min(place + _RUNS_MAX, len(runs)), place, -1):
                inside = value[runs[place].start() : runs[end - 1].end()]
                if inside in self._names and inside.lower() not in WORDS and not inside.isdecimal():
                    out += [value[done : runs[place].start()], self.text(inside)]
                    done, step = runs[end - 1].end(), end - place
                    break
            place += step
        return "".join([*out, value[done:]])

    def sentence(self, value: str) -> str:
        """A sentence of Leadline's with the names in it replaced."""
        return "".join(self.text(piece) if is_id else self.word(piece) for piece, is_id in sentence(value))

    def id128(self, what: str, value: int) -> int:
        """Another 128-bit id; `what` keeps kinds of ids apart."""
        return int.from_bytes(self._hash(what, value.to_bytes(16, "little").hex())[:16], "little")

    def flow(self, value: int) -> int:
        """The id of a flow: recomputed where its addresses are known, else another one."""
        if value not in self.flows:
            self.flows[value] = self.id128("flow", value)
        return self.flows[value]

    # --- inside ---

    def _text(self, value: str) -> str:
        ends = edge_ends(value)
        if ends:
            return EDGE.join(self.text(end) for end in ends)
        kind, name = _entity(value)
        if kind == "flow" and _FLOW.fullmatch(value):
            return f"flow:{self.flow(int(name, 16)):032x}"
        if kind == "link" and name.count("~") == 1:
            return link_id(*(self._tokens(end) for end in name.split("~")))
        return f"{kind}:{self._tokens(name)}" if kind else self._tokens(value)

    def _tokens(self, value: str) -> str:
        return "".join(part if place % 2 else self._piece(part) for place, part in enumerate(_DELIMITERS.split(value)))

    def _piece(self, piece: str) -> str:
        """What stands between delimiters; a colon is one only where this is no address."""
        if _is_address(piece):
            return self._address(piece)
        if _MAC.fullmatch(piece) or ":" not in piece:
            return self._token(piece)
        return ":".join(self._address(each) if _is_address(each) else self._token(each) for each in piece.split(":"))

    def _token(self, token: str) -> str:
        known = self._of.get(token)
        if known is not None:
            return known
        kept = token in NOBODY or (
            token not in self._names and (token.lower() in WORDS or _NUMBER.fullmatch(token) is not None)
        )
        made = token if kept else self._made(token)
        self._of[token] = made
        self._taken.add(made)
        return made

    def _made(self, token: str) -> str:
        """A pseudonym in the shape of the token; never one that is taken, or that is a name itself."""
        for attempt in range(1000):
            raw = self._hash(f"token {attempt}", token)
            if _GPU.fullmatch(token):
                made = f"{token[:3]}-{uuid.UUID(bytes=raw[:16])}"
            elif _UUID.fullmatch(token):
                made = str(uuid.UUID(bytes=raw[:16]))
            elif _MAC.fullmatch(token):
                made = ":".join(["02", *(f"{each:02x}" for each in raw[:5])])
            else:
                made = "n" + base64.b32encode(raw[:5]).decode().lower()
            if made not in self._taken and made not in self._originals:
                return made
        raise AssertionError("a thousand pseudonyms of 40 bits were taken")

    def _address(self, text: str) -> str:
        address = ipaddress.ip_address(text)
        bits = f"{int(address):0{address.max_prefixlen}b}"
        out = 0
        for place, bit in enumerate(bits):
            out = out << 1 | (int(bit) ^ self._flip(address.version, bits[:place]))
        return str(type(address)(out))

    def _flip(self, version: int, prefix: str) -> int:
        found = self._bits.get((version, prefix))
        if found is None:
            found = self._bits[version, prefix] = self._hash(f"ipv{version}", prefix)[0] & 1
        return found

    def _hash(self, what: str, value: str) -> bytes:
        # `surrogatepass`: whatever text there is gets a hash.
        return hmac.digest(self._key, f"{what}\0{value}".encode(errors="surrogatepass"), "sha256")


def names_in(value: str) -> Iterator[str]:
    """The tokens of a name or entity id that name a thing: not its kind, not a number after the first (a rank)."""
    ends = edge_ends(value)
    if ends:
        for end in ends:
            yield from names_in(end)
        return
    kind, name = _entity(value)
    if kind == "flow" and _FLOW.fullmatch(value):
        return
    first = True
    for piece in _DELIMITERS.split(name if kind else value)[::2]:
        if _is_address(piece):
            continue
        for token in [piece] if _MAC.fullmatch(piece) else piece.split(":"):
            if token and not _is_address(token) and (first or not _NUMBER.fullmatch(token)):
                yield token
            first = False


def sentence(value: str) -> Iterator[tuple[str, bool]]:
    """The pieces of a sentence of Leadline's, which put together are it, and whether each is an id: `no steps heard
    from rank:bert-1/3`, `all_reduce 524288 B on 8 of bert-1/0x9c`. Its other words name nothing."""
    for piece in _BLANKS.split(value):
        yield piece, "/" in piece or bool(_entity(piece)[0])


def edge_ends(value: str) -> list[str]:
    """The entity ids of an edge, `rank:bert-1/0>rank:bert-1/1`; empty for another text."""
    ends = value.split(EDGE)
    return ends if len(ends) > 1 and all(_entity(end)[0] for end in ends) else []


def addresses_in(value: str) -> Iterator[str]:
    """The addresses in a text."""
    for piece in _DELIMITERS.split(value)[::2]:
        if _is_address(piece):
            yield piece
        else:
            yield from (each for each in piece.split(":") if _is_address(each))


def _entity(value: str) -> tuple[str, str]:
    """(kind, name) of an entity id; empty for another text."""
    try:
        return parse_entity_id(value)
    except UsageError:
        return "", ""


def _is_address(text: str) -> bool:
    """Whether it is an address as Leadline writes it; another spelling is a name like any other."""
    if not text or len(text) > 45 or not (text[0].isdecimal() or ":" in text):
        return False
    try:
        return str(ipaddress.ip_address(text)) == text and "%" not in text
    except ValueError:
        return False
