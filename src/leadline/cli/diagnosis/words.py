"""A diagnosis as one screen: the symptoms, since when, the cause and how that is known, what to do, what waiting costs.

The picture of an answer of `/api/v1/diagnosis`; pure, so that it is the same for a server, a bundle and a test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from leadline.cli.output import STATE_STYLE, ago, when
from leadline.cli.words.ledger import gpu_hours, money, share, so_far
from leadline.cli.words.slow_workers import slow_worker_lines
from leadline.model.ids import name_of
from leadline.model.incidents import ActionKind, FaultClass, Symptom, symptom_words
from leadline.model.units import gpu_time
from leadline.views.incidents.diagnosis import SYMPTOM_ANALYSES

WIDTH = 100  # lines are no longer, however wide the terminal: long lines are hard to read
EVIDENCE_SHOWN = 5
EVIDENCE_MORE = 3  # of each, where several causes are named
EVIDENCE_CHARS = 150  # of one: a kernel's line in whole is for --output json
CONSIDERED_SHOWN = 3
COMMANDS_SHOWN = 10  # of one advice: two hosts with four each, and their job
OTHERS_SHOWN = 5
JOBS_SHOWN = 5
FAILED_SHOWN = 3
CLASSES: Mapping[str, str] = {
    FaultClass.TRANSIENT: "transient: it comes and goes by itself", FaultClass.GRAY: "gray: it works, but badly",
    FaultClass.PERSISTENT: "persistent: it will not go by itself",
}  # fmt: skip
BEHIND_S = 15.0  # an open incident that no window of so long has told is told with the time it is of
Answer = Mapping[str, Any]

# Words for a probability, the first whose bound it reaches.
SURE = (
    (0.95, "almost certain"),
    (0.8, "very likely"),
    (0.6, "likely"),
    (0.4, "about as likely as not"),
    (0.0, "a guess"),
)
SUPPRESSED: Mapping[str, str] = {
    "maintenance": "its hosts are under maintenance", "drain": "its hosts are being drained",
    "preemption": "the scheduler took its place for another job", "dismissed": "somebody dismissed it",
}  # fmt: skip


def counting(found: Answer) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Incidents that count now (in a recording all of them), the costliest first; and those that are over."""
    now = [one for one in found["incidents"] if one["state"] == "open" or found["recorded"]]
    now.sort(key=lambda one: (bool(one["suppressed"]), -one["lost_gpu_seconds"]))
    return now, [one for one in found["incidents"] if one["state"] != "open" and not found["recorded"]]


def tell(out: Console, found: Answer, every: bool = False) -> None:
    """Print a diagnosis for a person: one incident whole (with `every` each of them), the others a line each."""
    page = _Page(out, found)
    now, over = counting(found)
    whole = now if every else now[:1]
    if not now:
        if found["about_kind"] != "incident":  # one that was asked for by its id is the answer itself
            page.fine(over)
        whole = over if every else over[:1]
    for place, one in enumerate(whole):
        if place or not now:
            out.print()
        page.incident(one, counts=bool(now))
    page.others([one for one in [*now, *over] if one not in whole])
    page.failed(found.get("failed", []))
    page.slow_workers(found.get("slow_workers", []))
    page.checked()


class _Page:
    """Prints parts with one margin: a word on the left, what it is on the right."""

    def __init__(self, out: Console, found: Answer) -> None:
        self._out, self._found = out, found
        self._width = min(out.width, WIDTH)

    def _line(self, label: str, text: str | Text, style: str = "", label_style: str = "dim") -> None:
        self._part(label, [text if isinstance(text, Text) else Text(text, style)], label_style)

    def _part(self, label: str, texts: Sequence[Text | Table], label_style: str = "dim") -> None:
        rows = Table.grid(padding=(0, 2, 0, 0), expand=False)
        rows.width = self._width
        rows.add_column(width=10, no_wrap=True)
        rows.add_column(ratio=1, overflow="fold")
        for place, text in enumerate(texts):
            rows.add_row(Text(label if place == 0 else "", label_style), text)
        self._out.print(rows)

    def slow_workers(self, jobs: Sequence[Answer]) -> None:
        """Which ranks of the jobs that were asked for are slow by their own doing, and since which step."""
        for each in jobs:
            lines = slow_worker_lines(each)
            if lines:
                self._part("slow ranks", [Text(f"of {each['job']}"), *map(Text, lines)])

    # -- no problem found --------------------------------------------------------------------------------------------

    def fine(self, over: Sequence[Answer]) -> None:
        """That no problem was found and what was watched to say so; or why that cannot be said."""
        state = self._found["state"]
        about = self._found["about"] or "every job"
        unsure = "no open incident, but some data is missing" if over else "cannot tell"
        words = f"{about}: {'no problem found' if state == 'ok' else unsure}"
        if state == "ok" and over and over[0].get("ended_with_ns") is not None:
            # No problem is left, and yet nothing was fine.
            self._line("OVER", f"{about}: the job ended with the problem below", "bold")
            return
        self._line(state.upper(), words, "bold", f"bold {STATE_STYLE[state]}")
        if self._found["why"]:
            self._line("", self._found["why"], "yellow")
        if over:
            ended = over[0]["end_ns"] or over[0]["seen_ns"]
            how = "was not watched since" if over[0]["unwatched"] else "ended"
            self._line("before", f"the last incident {how} {self._since(ended)}; see below")

    def checked(self) -> None:
        """How far it was looked, and at what: of which jobs, and how fresh their steps are."""
        watched = self._found["watched"]
        ends = [end_ns for name, end_ns in watched["judged_ns"].items() if name in SYMPTOM_ANALYSES]
        jobs = [
            f"{each['job']} (step {each['step']} of {_ranks(each['ranks'])}, {self._since(each['until_ns'])})"
            for each in watched["jobs"]
        ]
        more = f" and {len(jobs) - JOBS_SHOWN} more jobs" if len(jobs) > JOBS_SHOWN else ""
        words = f"up to {when(min(ends))[11:]}: " if ends else "nothing yet: " if jobs else ""
        if words or jobs:
            self._line("checked", f"{words}{', '.join(jobs[:JOBS_SHOWN]) or 'no job'}{more}", "dim")

    def _since(self, at_ns: int) -> str:
        """How long before the time of the diagnosis."""
        seconds = (self._found["at_ns"] - at_ns) / 1e9
        return f"{ago(max(0.0, seconds))} {self._before}"

    @property
    def _before(self) -> str:
        return "before the end of the recording" if self._found["recorded"] else "ago"

    def failed(self, failed: Sequence[str]) -> None:
        """That windows could not be analysed: what they would have found is missing above."""
        if failed:
            count = f"{len(failed)} window{'s' if len(failed) > 1 else ''} could not be analysed: "
            more = [f"and {len(failed) - FAILED_SHOWN} more"] if len(failed) > FAILED_SHOWN else []
            lines = [f"{count}what {'they' if len(failed) > 1 else 'it'} would have found is missing above"]
            self._part("failed", [Text(line, "yellow") for line in [*lines, *failed[:FAILED_SHOWN], *more]], "yellow")

    # -- an incident ----------------------------------------------------------------------------------------------

    def incident(self, one: Answer, counts: bool) -> None:
        """One incident, whole."""
        state = state_of(one) if counts else "over"
        self._line(state.upper(), one["title"], "bold", f"bold {STATE_STYLE.get(state, 'dim')}")
        self._line("", self.headline(one))
        self._line("", self._when(one))
        lost = self._gpus(one["lost_gpu_seconds"], gpu_time)
        self._line("", f"{lost} lost{self._so_far(one)}")
        behind_s = (self._found["at_ns"] - one["seen_ns"]) / 1e9
        if one["state"] == "open" and behind_s > BEHIND_S and not self._found["recorded"]:
            text = f"up to {when(one['seen_ns'])[11:]} only: the analysis lags by {ago(behind_s)} (`leadline doctor`)"
            self._line("checked", text, "yellow")
        if one["suppressed"]:
            why = SUPPRESSED.get(one["suppressed"], one["suppressed"])
            self._line("suppressed", f"because {why}: no alerts are sent", "yellow")
        if not one["causes"]:
            self._unknown(one)
        many = len(one["causes"]) > 1
        for place, cause in enumerate(one["causes"], 1):
            self._cause(one, cause, f"cause {place}" if many else "cause", EVIDENCE_MORE if many else EVIDENCE_SHOWN)
        self._considered(one)
        for done in one["advice"]:
            self._do(done, self._of(one, done), lasts=one.get("ended_with_ns") is None)
        self._waiting(one)
        self._line("id", one["incident"], "dim")

    @staticmethod
    def _so_far(one: Answer) -> str:
        guess = so_far(one["lost_gpu_seconds"], one["estimated_gpu_seconds"])
        return f" {guess}" if guess else " so far" if is_ongoing(one) else ""

    def headline(self, one: Answer) -> str:
        """Who suffers, how, and how much: `bert-1 is slow: 52 % of its GPU time is lost (8 GPUs)`."""
        jobs = [job for job in one["jobs"] if job != one["job"]]
        who = one["job"] or one["entity"]
        others = f" and {len(jobs)} more job{'s' if len(jobs) > 1 else ''}" if jobs else ""
        words = symptom_words(one["symptom"], ongoing=is_ongoing(one))
        same = [each for each in one["symptoms"] if each["symptom"] == one["symptom"] == Symptom.SLOW]
        lost = max((each["lost_share"] or 0.0 for each in same), default=0.0)
        much = f": {share(lost)} of its GPU time {'is' if is_ongoing(one) else 'was'} lost" if lost else ""
        gpus = f" ({one['gpus']} GPUs)" if one["gpus"] else ""
        return f"{who}{others} {words}{much}{gpus}"

    def _when(self, one: Answer) -> str:
        told_s = (one["reported_ns"] - one["start_ns"]) / 1e9
        reported = f"reported {ago(told_s)} later"
        if one["held"]:
            until = f"{when(one['start_ns'])} to {when(one['over_ns'])[11:]}, {reported}"
            return f"{until}; still open, because a part of the cause is dead until it is reset"
        if one.get("ended_with_ns") is not None:
            length = ago((one["ended_with_ns"] - one["start_ns"]) / 1e9)
            until = f"the end of the job at {when(one['ended_with_ns'])[11:]}"
            return f"{when(one['start_ns'])} to {until} ({length}), {reported}"
        if one["state"] == "open":
            return f"since {when(one['start_ns'])} ({self._since(one['start_ns'])}), {reported}"
        until_ns = one["end_ns"] or one["seen_ns"]
        length = ago((until_ns - one["start_ns"]) / 1e9)
        unseen = "; end not seen: no data since then" if one["unwatched"] else ""
        return f"{when(one['start_ns'])} to {when(until_ns)[11:]} ({length}), {reported}{unseen}"

    def _gpus(self, gpu_seconds: float, words: Callable[[float], str] = gpu_hours) -> str:
        """GPU time, with its price where one is set."""
        price = self._found["price"]
        cost = "" if price is None else f" ({money(gpu_seconds / 3600 * price, self._found['currency'])})"
        return f"{words(gpu_seconds)}{cost}"

    def _unknown(self, one: Answer) -> None:
        self._line("cause", "unknown: the evidence is thin", "bold yellow")
        if one["missing"]:
            self._line("missing", one["missing"])
        blamed = [each.get("owner") for symptom in one["symptoms"] for each in symptom["blamed"] if each.get("owner")]
        if blamed:
            self._line("blamed", f"most is lost on {', '.join(str(name) for name in dict.fromkeys(blamed[:3]))}")
        pieces = [each for symptom in one["symptoms"] for each in symptom["evidence"]]
        self._evidence(pieces, EVIDENCE_SHOWN)

    def _cause(self, one: Answer, cause: Answer, label: str, shown: int) -> None:
        place = f" on {_name(cause['host'])}" if cause["host"] and cause["host"] != cause["entity"] else ""
        called = f"{cause['name']} ({_name(cause['entity'])})" if cause["name"] else f"{cause['entity']}{place}"
        named = Text.assemble((f"{called}: {_rule(cause['rule'])}", "bold"), f"   {sure(cause)}")
        self._line(label, named)
        from leadline.analysis.cause.rules import BY_NAME as RULES  # loads kernels

        rule = RULES.get(cause["rule"])
        self._line("", f"{f'it {rule.words} ' if rule else ''}(layer {cause['layer']})")
        if of := CLASSES.get(cause["class"]):
            self._line("", of)
        if not cause["evidence"]:
            self._line("", _sentence(cause["text"]))
        self._evidence(cause["evidence"], shown, cause["entity"])

    def _evidence(self, pieces: Sequence[Answer], most: int, of: str = "") -> None:
        shown = pieces[:most]
        if not shown:
            self._line(
                "evidence", "no direct evidence: only what the symptom blames and where the part sits in the topology"
            )
            return
        rows = Table.grid(padding=(0, 2, 0, 0))
        rows.add_column(justify="right", no_wrap=True)
        rows.add_column(justify="right", no_wrap=True)
        rows.add_column(overflow="fold", ratio=1)
        for place, each in enumerate(shown, 1):
            rows.add_row(Text(str(place), "dim"), Text(moment(each)), Text(shortened(piece_words(each, of))))
        legend = "seconds from the first lost one"
        if any(moment(each).endswith("?") for each in shown):
            legend += "; ?: clocks too uncertain to order"
        self._part("evidence", [rows, Text(legend, "dim")])

    def _considered(self, one: Answer) -> None:
        texts = []
        for cause in one["considered"][:CONSIDERED_SHOWN]:
            texts.append(Text(why_not(cause), overflow="fold"))
        rest = len(one["considered"]) - len(texts)
        if rest > 0:
            texts.append(Text(f"and {rest} more; see --output json", "dim"))
        if texts:
            self._part("not", texts)

    @staticmethod
    def _of(one: Answer, done: Answer) -> str:
        """Which causes an advice is of, where it is not of all: `do`, `do 2`."""
        every = len(done["positions"]) == len(one["causes"])
        return "do" if every else f"do {', '.join(str(each) for each in done['positions'])}"

    def _do(self, done: Answer, label: str, *, lasts: bool) -> None:
        texts = [Text.assemble((done["action"], "bold"), f": {done['words']}")]
        texts += [Text(f"$ {command}", "cyan", overflow="fold") for command in done["commands"][:COMMANDS_SHOWN]]
        if (rest := len(done["commands"]) - COMMANDS_SHOWN) > 0:
            texts.append(Text(f"and {rest} more commands; see --output json", "dim"))
        if self._found["recorded"] and any(each.startswith("leadline ") for each in done["commands"][:COMMANDS_SHOWN]):
            texts.append(
                Text(f"Its leadline commands ask a server: `leadline replay {self._found['about']}` is one.", "dim")
            )
        costs = (
            []
            if done["action"] == ActionKind.NONE
            else [
                f"costs {self._gpus(done['action_cost'])}" if done["action_cost"] else "",
                f"saves {self._gpus(done['saves'])} in the next hour" if done["saves"] and lasts else "",
            ]
        )
        if any(costs):
            texts.append(Text(", ".join(each for each in costs if each)))
        self._part(label, texts)

    def _waiting(self, one: Answer) -> None:
        if one["state"] == "open" and one["waiting_cost"]:
            at_rate = "" if one["causes"] else ", if it goes on as so far"
            self._line("waiting", f"ten minutes more cost {self._gpus(one['waiting_cost'], gpu_time)}{at_rate}", "bold")

    def others(self, some: Sequence[Answer]) -> None:
        """Other incidents, a line each."""
        if not some:
            return
        texts = [Text(self.in_a_line(one), overflow="fold") for one in some[:OTHERS_SHOWN]]
        rest = self._found["incidents_total"] - len(self._found["incidents"]) + len(some) - len(texts)
        if rest > 0:
            texts.append(Text(f"and {rest} more: leadline show incidents", "dim"))
        self._out.print()
        self._part("also", texts)

    def in_a_line(self, one: Answer) -> str:
        """`Link h3/eth0 to leaf1 flapped 5 times: bert-1 lost 128 GPU-s, for 41 s from 20:22:16Z (0.93)  [ID]`."""
        until_ns = one["over_ns"] if one["held"] else one["end_ns"]
        until_ns = until_ns or (self._found["at_ns"] if one["state"] == "open" else one["seen_ns"])
        length = ago(max(0.0, (until_ns - one["start_ns"]) / 1e9))
        why = ", suppressed" if one["suppressed"] else ""
        sure_of = f" ({chance(one['causes'][0])})" if one["causes"] else ""
        return f"{one['title']}, for {length} from {when(one['start_ns'])[11:]}{why}{sure_of}  [{one['incident']}]"


def is_ongoing(one: Answer) -> bool:
    """Whether an incident has symptoms now: one that is open for the sake of a dead part has none, nor one whose job
    has ended."""
    return one["state"] == "open" and not one["held"] and one.get("ended_with_ns") is None


def sure(cause: Answer) -> str:
    """A probability in words and as a number: `very likely (0.93)`."""
    words = next(words for least, words in SURE if cause["probability"] >= least)
    return f"{words} ({chance(cause)})"


def chance(cause: Answer) -> str:
    """A probability to two digits, but never a rounded 1 or 0."""
    probability = cause["probability"]
    return ">0.99" if probability >= 0.995 else "<0.01" if probability < 0.005 else f"{probability:.2f}"


def moment(piece: Answer) -> str:
    """When evidence was, from the first lost second: `0.4 s before`, `3.0 s after ?`, `with it`; `-` if not told."""
    if piece["after_s"] is None:
        return "-"
    if piece["order"] == "together" or abs(piece["after_s"]) < 0.05:
        return "with it"
    words = f"{ago(abs(piece['after_s']))} {'before' if piece['after_s'] < 0 else 'after'}"
    return f"{words} ?" if piece["order"] == "unknown" else words


def piece_words(piece: Answer, of: str = "") -> str:
    """A piece of evidence in a line: its sentence, after its entity unless that is in it, or is the one it is `of`."""
    text, entity = piece["text"] or piece["what"], piece["entity"]
    return text if entity in ("", of) or _name(entity) in text else f"{entity}: {text}"


def why_not(cause: Answer) -> str:
    """What is not the cause, and why: `host:h6 cpu throttled (0.04): throttled only 8 s after.`"""
    text = cause["text"].partition(" Seen: ")[0]
    why = text.partition("rejected: ")[2] or text.partition("is not named: ")[2] or text
    named = f"{cause['name'] or cause['entity']} {_rule(cause['rule'])} ({chance(cause)})"
    return f"{named}: {_sentence(why)}" if why else named


def shortened(text: str) -> str:
    """A text as it fits into two lines of a terminal."""
    return text if len(text) <= EVIDENCE_CHARS else f"{text[: EVIDENCE_CHARS - 1]}…"


def state_of(one: Answer) -> str:
    """The state of one incident: critical where a cause is known and nothing suppresses it, else warning."""
    return "critical" if one["causes"] and not one["suppressed"] else "warning"


def state_line(found: Answer) -> str:
    """One line for a monitoring system that shows no more."""
    now, _ = counting(found)
    if not now:
        words = found["why"] or "no problem found"
        return f"{found['state'].upper()}: {found['about'] or 'every job'}: {words}"
    return f"{found['state'].upper()}: {now[0]['title']}"


def _name(entity: str) -> str:
    return name_of(entity) or entity


def _rule(rule: str) -> str:
    return rule.replace("-", " ")


def _sentence(text: str) -> str:
    text = text.strip()
    return text if not text or text[-1] in ".!?" else f"{text}."


def _ranks(count: int) -> str:
    return "1 rank" if count == 1 else f"{count} ranks"
