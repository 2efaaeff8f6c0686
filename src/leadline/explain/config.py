"""Settings of the explanation of incidents by a language model. Without one there is the text of the verdict alone."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ExplainConfig:
    """A language model that words what was found. It ranks nothing, and what it says must cite the evidence."""

    url: str = field(
        default="",
        metadata={
            "doc": "base of an OpenAI-compatible API, such as http://localhost:8000/v1; empty: no model is asked"
        },
    )
    model: str = field(default="", metadata={"doc": "name of the model, as that API knows it"})
    api_key: str = field(default="", metadata={"doc": "key sent as a bearer token; better a file", "secret": True})
    api_key_file: str = field(default="", metadata={"doc": "file with that key"})
    timeout_s: float = field(
        default=20.0,
        metadata={"doc": "an answer that takes longer is not waited for", "unit": "s", "above": 0.0, "max": 280.0},
    )
    tokens_max: int = field(
        default=700, metadata={"doc": "longest answer asked for", "unit": "tokens", "min": 16, "max": 32_768}
    )
    tokens_per_day: int = field(
        default=200_000,
        metadata={"doc": "tokens of questions and answers in a UTC day; beyond that no model is asked",
                  "unit": "tokens", "min": 0},
    )  # fmt: skip
    money_per_day: float = field(
        default=1.0,
        metadata={"doc": "what a UTC day may cost by the prices below; beyond that no model is asked",
                  "unit": "currency", "min": 0.0},
    )  # fmt: skip
    price_in: float = field(
        default=0.0, metadata={"doc": "price of a million tokens of questions", "unit": "currency", "min": 0.0}
    )
    price_out: float = field(
        default=0.0, metadata={"doc": "price of a million tokens of answers", "unit": "currency", "min": 0.0}
    )
    state: str = field(
        default="",
        metadata={"doc": "SQLite file of what was spent; empty: `explain.sqlite` in the directory of store.path"},
    )
