"""Pages of the docs that the API names are addresses on the terminal; what users stored stays as it is."""

from __future__ import annotations

import json

from tests.senders.running import Pages

from leadline.cli.client import Client


def test_a_page_that_an_answer_names_is_an_address() -> None:
    answer = {
        "why": "does it run with the hook (docs/how-to/watch-a-pytorch-job.md)?",
        "path": "/home/me/docs/how-to/mine.md",
        "other": "docs/mine.md",
    }
    with Pages() as pages:
        pages.answers["/api/v1/now"] = (200, {"content-type": "application/json"}, json.dumps(answer).encode())
        found = Client(pages.address).get("/api/v1/now")
    why = f"does it run with the hook (http://{pages.address}/docs/how-to/watch-a-pytorch-job/)?"
    assert found == {**answer, "why": why}
