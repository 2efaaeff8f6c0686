"""What every training workload is made of, apart from processes: data, controls, images, features, checkpoints."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.torch.job import run_job
from torch import Tensor, nn

from leadline.lab.workloads.bert.model import Bert, Config
from leadline.lab.workloads.control import Control, write_control
from leadline.lab.workloads.finetune.model import Classifier, topics_of, topics_of_words
from leadline.lab.workloads.recommendation.model import FEATURES, HASHED_ROWS, Ranker, features_of
from leadline.lab.workloads.storage.client import StorageClient
from leadline.lab.workloads.storage.server import StorageServer
from leadline.lab.workloads.text import Language
from leadline.lab.workloads.training.checkpoint import Checkpoints
from leadline.lab.workloads.training.control import VARIED, Obedience, SlowOperator, scan_directory
from leadline.lab.workloads.training.job import _earlier_logs, _steps_of
from leadline.lab.workloads.training.task import Shards
from leadline.lab.workloads.vision.model import CLASSES, ResNet, images_of, patterns, resized
from leadline.model.errors import DataError, WorldError

LANGUAGE = Language()
torch.set_num_threads(1)  # as ranks do: beside other tests two threads wait for each other in loops, 71 s instead of 9

# -- data ---------------------------------------------------------------------------------------------------------


def shard_of(number: int) -> Tensor:
    """Shards of different lengths; an item says from which one it is."""
    return torch.arange(7 + number % 5) + 1000 * number


@given(st.integers(0, 5), st.integers(1, 4), st.lists(st.integers(1, 20), max_size=12), st.integers(0, 12))
def test_shards_are_one_stream_that_can_be_gone_on_with(first: int, by: int, counts: list[int], cut: int) -> None:
    whole = torch.cat([shard_of(first + by * number) for number in range(60)])
    shards = Shards(shard_of, first, by)
    at = 0
    for number, count in enumerate(counts):
        if number == cut:
            other = Shards(shard_of, first, by)
            other.seek(shards.place())
            shards = other
        assert torch.equal(shards.take(count), whole[at : at + count])
        at += count


# -- what the control file asks for -------------------------------------------------------------------------------


class Told:
    """Takes down the events of a rank, in place of a watch."""

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self.attributes: list[dict[str, str]] = []

    def __call__(self, kind: str, message: str, attributes: dict[str, str]) -> None:
        self.kinds.append(kind)
        self.attributes.append(attributes)


def obedience_of(tmp_path: Path, operator: SlowOperator | None = None) -> tuple[Obedience, Path, Told, Control]:
    path, told = tmp_path / "rank0.json", Told()
    write_control(path, {})
    control = Control(str(path))
    nobody = StorageClient("127.0.0.1:9")
    one = Obedience(control, tmp_path, 0, nobody, operator or SlowOperator(), told)
    one.begin()
    return one, path, told, control


def test_a_rank_says_what_it_computes_with_at_first_and_when_it_changes(tmp_path: Path) -> None:
    norm = nn.LayerNorm(4)
    one, path, told, control = obedience_of(tmp_path, SlowOperator(norm))
    calls: list[int] = []
    plain = norm.forward

    def counted(value: Tensor) -> Tensor:
        calls.append(1)
        return plain(value)

    norm.forward = counted  # type: ignore[method-assign, assignment]
    norm(torch.ones(4))
    write_control(path, {"operator_repeats": 3, "operator_version": "2.14.0"})
    one.before_step(control.changed())
    before = norm(torch.ones(4))
    write_control(path, {})
    one.before_step(control.changed())
    assert torch.equal(norm(torch.ones(4)), before)  # the same result, only later
    assert len(calls) == 1 + (1 + 3) + 1
    assert told.kinds == ["software-version"] * 3
    assert [each.get("layer_norm") for each in told.attributes] == [None, "2.14.0", None]
    assert told.attributes[0]["torch"] == torch.__version__


def test_a_pause_is_made_once_for_each_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("leadline.lab.workloads.training.control.time.sleep", slept.append)
    one, path, told, control = obedience_of(tmp_path)
    for number in (1, 1, 2, 0, 2):  # the last one is another one: in between there was none
        write_control(path, {"pause_number": number, "pause_s": 1.5, "data_delay_s": len(slept)})
        one.before_step(control.changed())
    assert slept == [1.5] * 3
    assert told.kinds.count("recompilation") == 3


@given(st.floats(allow_nan=True), st.integers(0, 10_000), st.booleans())
def test_a_step_is_never_of_no_length_or_without_bounds(
    tmp_path_factory: pytest.TempPathFactory, factor: float, number: int, varied: bool
) -> None:
    one, path, _, control = obedience_of(tmp_path_factory.mktemp("control"))
    write_control(path, {"sequence_factor": factor})
    control.changed()
    assert 0.02 < one.stretch(number, varied) <= 16 * 1.5


def test_lengths_vary_around_the_usual_one() -> None:
    assert sum(VARIED) / len(VARIED) == pytest.approx(1.0, abs=0.02)
    assert len(set(VARIED)) == len(VARIED)


def test_a_file_is_written_and_read_back_and_leaves_nothing(tmp_path: Path) -> None:
    one, path, _, control = obedience_of(tmp_path)
    write_control(path, {"scan_mb_per_step": 3})
    control.changed()
    one.scan()
    assert one._file is not None
    assert one._file.seek(0, 2) == 3 * (1 << 20)
    one.scan()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["rank0.json"]  # it has no name
    write_control(path, {})
    control.changed()
    one.scan()
    assert one._file is None


@pytest.mark.parametrize(
    ("mounts", "expected"),
    [
        ("/dev/vda / ext4 rw 0 0\n", "/run/lab/jobs/a"),
        ("/dev/vda / ext4 rw 0 0\ntmpfs /run tmpfs rw 0 0\n", "/var/tmp"),
        ("nonsense\n", "/run/lab/jobs/a"),
    ],
)
def test_a_file_in_memory_would_be_no_page_cache(mounts: str, expected: str) -> None:
    assert scan_directory("/run/lab/jobs/a/rank0.json", mounts) == Path(expected)


# -- models -------------------------------------------------------------------------------------------------------


def test_images_are_made_of_their_bytes_and_tell_their_class() -> None:
    looks = patterns(16, 0)
    octets = (
        torch.frombuffer(bytearray(LANGUAGE.shard(0).encode()), dtype=torch.uint8)[: 200 * 256].long().view(200, -1)
    )
    images, labels = images_of(octets, looks)
    again, _ = images_of(octets, looks)
    assert images.shape == (200, 3, 16, 16)
    assert torch.equal(images, again)
    assert set(labels.tolist()) == set(range(CLASSES))
    assert float(images.mean().abs()) < 0.3
    assert resized(images, 4.0).shape[-1] == 32
    assert resized(images, 1.0) is images


def test_a_network_learns_the_images() -> None:
    torch.manual_seed(0)
    looks, model = patterns(16, 0), ResNet(16)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    octets = torch.randint(97, 123, (60, 32, 256), generator=torch.Generator().manual_seed(0))
    losses = []
    for part in octets:
        loss, _ = model(*images_of(part, looks))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert sum(losses[-5:]) / 5 < losses[0] - 0.5
    _, labels = images_of(octets.view(-1, 256), looks)
    wrong = (labels != octets.view(-1, 256).sum(1) % CLASSES).float().mean()
    assert 0.05 < float(wrong) < 0.15


def test_features_are_rows_of_their_tables() -> None:
    tokens = torch.tensor(LANGUAGE.tokens(LANGUAGE.shard(0)))[: 6 * 9].view(6, 9)
    ids = features_of(tokens[:, :-1], tokens[:, -1])
    assert tuple(ids) == FEATURES
    assert {name for name, each in ids.items() if each.shape != (6,)} == {"history"}
    for name in FEATURES[4:]:
        assert int(ids[name].min()) >= 0
        assert int(ids[name].max()) < HASHED_ROWS


def test_the_dense_part_takes_histories_of_any_length() -> None:
    model = Ranker(8)
    for length in (2, 9):
        rows = {name: torch.randn(4, 8) for name in FEATURES} | {"history": torch.randn(4, length, 8)}
        loss, chances = model(rows, torch.tensor([0, 1, 0, 1]))
        assert loss.shape == ()
        assert ((chances > 0) & (chances < 1)).all()


EXCHANGE = """
from leadline.lab.workloads.recommendation import model
watch = leadline_torch.watch()
join()
for features in (model.FEATURES, ("candidate", "history")):  # of two tables one rank of three has none
    model.FEATURES = features
    torch.manual_seed(rank)
    tables = model.Tables(rank, world_size, 50, 4)
    ids = model.features_of(torch.randint(0, 50, (5, 3 + rank)), torch.randint(0, 50, (5,)))
    gathered, asked = [None] * world_size, [None] * world_size
    dist.all_gather_object(gathered, {name: one.weight.detach() for name, one in tables.tables.items()})
    dist.all_gather_object(asked, ids)
    whole = {name: weight for part in gathered for name, weight in part.items()}
    rows = tables.lookup(ids)
    assert set(rows) == set(features) == set(whole)
    assert all(torch.equal(rows[name], whole[name][ids[name]]) for name in features)
    sum((rows[name] * (rank + 1)).sum() for name in features).backward()
    for name, one in tables.tables.items():
        expected = torch.zeros_like(one.weight)
        for other, each in enumerate(asked):
            flat = each[name].reshape(-1)
            expected.index_add_(0, flat, torch.full((len(flat), 4), (other + 1) / world_size))
        assert torch.allclose(one.weight.grad, expected), name
"""


@pytest.mark.slow
def test_tables_on_other_ranks_are_as_if_they_were_here(tmp_path: Path) -> None:
    """Rows, and the gradients that come back, with histories of another length on each rank."""
    run_job(EXCHANGE, tmp_path, ranks=3)


def test_a_classifier_trains_its_end_only_and_topics_are_those_of_the_nouns() -> None:
    vocabulary = LANGUAGE.vocabulary
    model = Classifier(Bert(Config(len(vocabulary), hidden=32, layers=2, heads=2, length=16)), 32)
    trained = {name for name, one in model.named_parameters() if one.requires_grad}
    assert {name.split(".")[0] for name in trained} == {"base", "head"}
    assert not any("words" in name or "layers.0" in name for name in trained)
    assert any("layers.1" in name for name in trained)
    texts = [[vocabulary[LANGUAGE.nouns[topic][0][0]]] * 2 + [vocabulary["."]] for topic in range(8)]
    assert topics_of(torch.tensor(texts), topics_of_words(LANGUAGE)).tolist() == list(range(8))


def test_a_longer_sequence_begins_its_positions_anew() -> None:
    model = Bert(Config(50, hidden=32, layers=1, heads=2, length=8))
    tokens = torch.randint(5, 50, (2, 8))
    assert torch.equal(model.encoded(tokens), model.encoded(tokens.clone()))
    assert model.encoded(torch.cat([tokens, tokens], 1)).shape == (2, 16, 32)


# -- checkpoints and logs -----------------------------------------------------------------------------------------


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[StorageClient]:
    with StorageServer(("127.0.0.1", 0), tmp_path / "objects", 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        client = StorageClient(f"127.0.0.1:{server.server_address[1]}")
        yield client
        client.close()
        server.shutdown()
        thread.join()


def test_the_newest_checkpoint_is_found_each_job_its_own(storage: StorageClient) -> None:
    one, other = Checkpoints(storage), Checkpoints(storage, "finetune-2-")
    assert one.latest() is None
    content: dict[str, Any] = {"step": 7, "model": {"weight": torch.arange(3.0)}, "place": {"shards": 2, "left": 5}}
    assert one.put(one.name(7), content) > 100
    assert one.latest() is None  # not before it is told that it is whole
    one.tell_latest(7)
    assert (one.latest(), other.latest()) == (7, None)
    found = one.get(one.name(7))
    assert torch.equal(found["model"]["weight"], torch.arange(3.0))
    assert found["place"] == content["place"]
    assert one.name(7, 3) == "checkpoint-rank3/step000007.pt"
    with pytest.raises(WorldError, match="404"):
        one.get(one.name(8))


@given(data=st.binary(max_size=60))
def test_what_is_no_checkpoint_is_said_to_be_none(data: bytes) -> None:
    class Fixed:
        """A double of the storage client: one object under every name."""

        def get(self, name: str) -> bytes:
            return data

    checkpoints = Checkpoints(Fixed())  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"step000001\.pt"):
        checkpoints.get(checkpoints.name(1))
    with pytest.raises(DataError, match="latest/step"):
        checkpoints.latest()


def test_steps_of_earlier_attempts_come_first_and_half_a_line_is_none(tmp_path: Path) -> None:
    step = '{"rank": 0, "event": "step", "number": 0, "loss": 1.0, "seconds": 0.5, "end_ns": %d}\n'
    for number in (10, 2):
        (tmp_path / f"rank0.attempt{number}.log").write_text(step % (number * 10**9))
    (tmp_path / "rank1.attempt0.log").write_text("")
    (tmp_path / "rank0.log").write_text("torch says something\n" + step % 10**12 + '{"rank": 0, "event": "step"')
    assert [path.name for path in _earlier_logs(tmp_path)] == ["rank0.attempt2.log", "rank0.attempt10.log"]
    assert _steps_of(tmp_path / "rank0.log", '"event": "step"') == [(10**12 - 5 * 10**8, 10**12)]
