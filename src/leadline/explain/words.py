"""Words that sentences about incidents are held against. A word that is missing makes a check weaker, not wrong."""

from __future__ import annotations

from collections.abc import Mapping

_SUFFIXES = ("ations", "ation", "ingly", "ings", "ing", "ies", "ied", "ers", "er", "ed", "es", "ly", "s", "e")
_VOWELS = frozenset("aeiou")


def stem(word: str) -> str:
    """A word without its ending, roughly: `flapping`, `flaps`, `flapped` are all `flap`."""
    word = word.partition("'")[0]
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            word = word.removesuffix(suffix)
            break
    doubled = len(word) > 3 and word[-1] == word[-2] and word[-1] not in _VOWELS
    return word[:-1] if doubled else word


def _each(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _stems(words: str) -> frozenset[str]:
    return frozenset(stem(word) for word in words.split())


CAUSAL = _stems(
    "cause causes caused because due reason culprit responsible blame blamed blames fault faulty guilty origin "
    "originates stems triggered triggers explains explained leads led broke breaks behind root source"
)
"""Words that say why."""

CERTAIN = _stems(
    "certain certainly definite definitely undoubtedly doubt proven proves surely guaranteed clearly obviously always "
    "confirmed confirms unquestionably exactly impossible"
)
"""Words that are surer than a probability."""

NEGATIONS = _each(
    "not no never none nothing neither nor without cannot nobody unlikely false fine healthy harmless innocent "
    "unrelated unaffected irrelevant ignore ignored disregard excluded exonerated ruled resolved recovered fixed "
    "normal wrong wrongly mistaken instead rather"
)
"""Words that deny."""

SPOKEN_OF = _stems(
    # components
    "gpu gpus nic switch switches cable transceiver optic optics fibre fiber disk storage nfs memory ram cpu kernel "
    "driver firmware network fabric spine leaf link port host node machine server rack power fan heat thermal "
    "temperature cooling nvlink pcie clock battery bus container process worker rank loader dataset checkpoint python "
    "code script user operator administrator scheduler tenant neighbour neighbor attacker malware virus security "
    "hardware software model batch sequence filesystem cache queue buffer lane interface "
    # faults
    "throttle overheat congestion packet loss drop retransmit bug leak crash hang deadlock timeout corruption error "
    "flap down dead broken failure fail defect damage misconfigured attack exhausted full overload starvation "
    # actions
    "reboot restart reset drain replace quarantine reroute rebalance resize pace disable enable remove delete kill "
    "stop upgrade downgrade update install rollback revert run execute click visit download send email contact call "
    "pay wait avoid check swap clean reseat increase decrease raise lower change turn unplug plug migrate cordon "
    "evict buy"
)
"""Components, faults and actions: a sentence may speak of those only that its facts speak of."""

NUMBER_WORDS: Mapping[str, str] = {
    "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9",
    "ten": "10", "eleven": "11", "twelve": "12", "dozen": "12", "twenty": "20", "hundred": "100", "thousand": "1000",
    "million": "1e+06", "twice": "2", "double": "2", "doubled": "2", "half": "0.5", "triple": "3", "both": "2",
}  # fmt: skip

UNITS: Mapping[str, str] = {
    "%": "%", "percent": "%", "s": "s", "sec": "s", "second": "s", "seconds": "s", "ms": "ms", "milliseconds": "ms",
    "us": "us", "ns": "ns", "min": "min", "minute": "min", "minutes": "min", "h": "h", "hour": "h", "hours": "h",
    "d": "d", "day": "d", "days": "d", "gpu-seconds": "GPU-s", "gpu-second": "GPU-s", "gpu-s": "GPU-s",
    "gpu-hours": "GPU-h", "gpu-hour": "GPU-h", "gpu-h": "GPU-h", "bytes": "B", "b": "B", "kb": "kB", "mb": "MB",
    "gb": "GB", "gib": "GiB", "mib": "MiB", "gb/s": "GB/s", "gbit/s": "Gbit/s", "mb/s": "MB/s", "mhz": "MHz",
    "ghz": "GHz", "w": "W", "c": "C", "times": "times", "x": "times",
}  # fmt: skip

COMMON = _each(
    "a an the this that these those it its itself they them their there here he she we our you your i and or but so "
    "also too only just then than as at by for from in into of off on onto out over to under up with within while when "
    "where which who whose what how if since until after before during between is are was were be been being am has "
    "have had having do does did done can could may might must should would will shall about around some any each "
    "every all more most less least much many other another same such very still yet already now currently far even "
    "further first last per via because due shows show showed shown seen see saw seems suggests suggest indicates "
    "indicate points point likely likeliest probably possible cause causes caused reason evidence sign "
    "signs one"
)
"""Words that carry no claim of their own here."""
