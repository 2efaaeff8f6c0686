"""What `bert` is made of: the language, the masking, the storage host, the control file."""

from __future__ import annotations

import http.client
import itertools
import math
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from leadline.lab.workloads.bert.model import IGNORED, Bert, Config, masked
from leadline.lab.workloads.control import Control, write_control
from leadline.lab.workloads.storage.client import StorageClient
from leadline.lab.workloads.storage.server import KEPT, StorageServer
from leadline.lab.workloads.text import MASK, SEP, SPECIAL, UNK, Language
from leadline.model.errors import WorldError

LANGUAGE = Language()
torch.set_num_threads(1)  # as ranks do


# -- the language ---------------------------------------------------------------------------------------------------


def test_text_is_the_same_for_the_same_seed_and_another_for_another() -> None:
    assert Language(1).shard(3, 7) == Language(1).shard(3, 7)
    assert len({LANGUAGE.shard(number, seed) for number in range(3) for seed in range(2)}) == 6


def test_every_word_is_in_the_vocabulary() -> None:
    tokens = LANGUAGE.tokens(LANGUAGE.shard(0))
    assert UNK not in tokens
    assert tokens.count(SEP) == LANGUAGE.shard(0).count("\n")
    assert len(set(tokens)) > 400  # of 650
    assert max(tokens) < len(LANGUAGE.vocabulary)
    assert LANGUAGE.tokens("strange") == [UNK, SEP]


def test_there_is_something_to_learn_agreement() -> None:
    """A determiner decides the class of the noun after it: never one of another class."""
    nouns = {noun: number for topic in LANGUAGE.nouns for number, each in enumerate(topic) for noun in each}
    determiners = {one: number for number, each in enumerate(LANGUAGE.determiners) for one in each}
    words = LANGUAGE.shard(5).split()
    pairs = [(determiners[a], nouns[b]) for a, b in itertools.pairwise(words) if a in determiners and b in nouns]
    assert len(pairs) > 500
    assert all(a == b for a, b in pairs)


# -- the model --------------------------------------------------------------------------------------------------------


def test_masking_asks_for_the_words_it_hides() -> None:
    tokens = torch.tensor(LANGUAGE.tokens(LANGUAGE.shard(0))[: 64 * 64]).view(64, 64)
    shown, targets = masked(tokens, len(LANGUAGE.vocabulary), torch.Generator().manual_seed(1))
    asked = targets != IGNORED
    assert 0.12 < asked.float().mean() < 0.18
    assert torch.equal(targets[asked], tokens[asked])
    assert torch.equal(shown[~asked], tokens[~asked])
    assert 0.75 < (shown[asked] == MASK).float().mean() < 0.85
    assert (tokens[asked] >= len(SPECIAL)).all()


def test_a_batch_of_special_words_still_asks_for_one() -> None:
    _, targets = masked(torch.full((2, 4), SEP), 100, torch.Generator())
    assert int((targets != IGNORED).sum()) == 1


def test_the_loss_falls() -> None:
    torch.manual_seed(0)
    vocabulary = len(LANGUAGE.vocabulary)
    model = Bert(Config(vocabulary, hidden=32, layers=1, heads=2, length=32))
    optimizer = torch.optim.AdamW(model.parameters(), 5e-3)
    chance = torch.Generator().manual_seed(0)
    stream = torch.tensor(LANGUAGE.tokens(LANGUAGE.shard(0)))[: 40 * 8 * 32].view(40, 8, 32)
    losses = []
    for tokens in stream:
        loss, _ = model(*masked(tokens, vocabulary, chance))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[0] == pytest.approx(math.log(vocabulary), rel=0.1)
    assert sum(losses[-5:]) / 5 < losses[0] - 0.7


# -- the storage host ----------------------------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path) -> Iterator[StorageServer]:
    with StorageServer(("127.0.0.1", 0), tmp_path / "objects", 0) as one:
        thread = threading.Thread(target=one.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield one
        one.shutdown()
        thread.join()


def client_of(server: StorageServer) -> StorageClient:
    return StorageClient(f"127.0.0.1:{server.server_address[1]}")


def test_objects_come_back_as_they_were_put(server: StorageServer) -> None:
    client = client_of(server)
    body = bytes(range(256)) * 5000
    client.put("checkpoint/step1.pt", body)
    assert client.get("checkpoint/step1.pt") == body
    assert client.shard(4) == LANGUAGE.shard(4)
    client.close()


def test_only_the_last_objects_of_a_folder_are_kept(server: StorageServer) -> None:
    client = client_of(server)
    for number in range(KEPT + 3):
        client.put(f"checkpoint/step{number}", b"x" * (number + 1))
    client.put("other/one", b"y")
    kept = sorted(path.name for path in (server.directory / "checkpoint").iterdir())
    assert kept == [f"step{number}" for number in range(3, KEPT + 3)]
    with pytest.raises(WorldError, match="404"):
        client.get("checkpoint/step0")
    client.close()


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/objects/a/b", {"Content-SHA256": "0" * 64}, 422),
        ("/objects/../b", {}, 400),
        ("/objects/a/b", {"Content-Length": "999999999999"}, 400),
    ],
)
def test_what_does_not_fit_is_refused(server: StorageServer, path: str, headers: dict[str, str], status: int) -> None:
    connection = http.client.HTTPConnection(*server.server_address[:2], timeout=5)
    connection.request("PUT", path, b"body", headers)
    assert connection.getresponse().status == status
    connection.close()
    assert [file for file in server.directory.rglob("*") if file.is_file()] == []


def test_a_server_that_is_gone_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.lab.workloads.storage.client.BETWEEN_S", 0.0)
    with pytest.raises(WorldError, match=r"127\.0\.0\.1:9: GET /shards/0 failed 3 times"):
        StorageClient("127.0.0.1:9").shard(0)


# -- the control file ----------------------------------------------------------------------------------------------


def test_a_control_file_is_read_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "rank0.json"
    control = Control(str(path))
    assert not control.changed()  # not there: behave normally
    write_control(path, {"data_delay_s": 0.3, "diverge": True})
    assert control.changed()
    assert not control.changed()
    assert control.number("data_delay_s") == 0.3
    assert control.number("missing") == 0.0
    write_control(path, {})
    assert control.changed()
    assert control.settings == {}
    assert not Control(None).changed()


@given(st.binary(max_size=60))
def test_any_control_file_is_obeyed_or_ignored(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("control") / "rank0.json"
    path.write_bytes(data)
    control = Control(str(path))
    control.changed()
    assert isinstance(control.settings, dict)
    assert control.number("data_delay_s") == 0.0
