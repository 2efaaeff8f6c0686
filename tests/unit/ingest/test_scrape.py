"""The scraper: targets from settings and files, what a scrape writes, stale markers, failures that are counted."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import numpy as np
import pytest

from leadline.ingest import scrape
from leadline.ingest.config import ScrapeJob
from leadline.ingest.scrape import Page, Scraper, Target, gone, targets_of
from leadline.model.counters import counter
from leadline.model.errors import BusyError, ConfigError
from leadline.model.principal import Principal
from leadline.testing.clock import START_NS as T
from leadline.wire.samples import STALE_NAN_BITS, samples_from

from .conftest import Bench

S = 10**9
TEXT = "text/plain; version=0.0.4"
TARGET = Target("http://n12:9100/metrics", (("instance", "n12:9100"), ("job", "node")), 15.0, 10.0, False)


def silent(path: str, error: str) -> None:
    pytest.fail(f"{path}: {error}")


# --- targets -------------------------------------------------------------------------------------------------


def test_static_targets_get_job_instance_and_the_jobs_labels() -> None:
    job = ScrapeJob(
        "node", ["n12:9100", "[::1]:9100"], labels={"rack": "r7", "__secret": "x"}, scheme="https", path="/m"
    )
    first, second = targets_of([job], {}, silent)
    assert first.url == "https://n12:9100/m"
    assert dict(first.labels) == {"job": "node", "instance": "n12:9100", "rack": "r7"}
    assert second.url == "https://[::1]:9100/m"


@pytest.mark.parametrize(
    "address",
    ["", "http://n12:9100", "n12:9100/metrics", "n12:port", "n12:99999", "[::1", ":9100", "u:p@n12:1", "n?x", "n#x"],
)
def test_an_address_is_host_and_port(address: str) -> None:
    with pytest.raises(ConfigError, match="expected host:port"):
        targets_of([ScrapeJob("node", [address])], {}, silent)


def test_file_sd_lists_targets_in_json_and_yaml(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"targets": ["n1:1", "n2:1"], "labels": {"rack": "r1", "slot": 3}}]')
    (tmp_path / "b.yml").write_text("- targets: ['n3:1']\n- targets: []\n")
    job = ScrapeJob("node", labels={"rack": "of the job"}, file_sd=[str(tmp_path / "*.json"), str(tmp_path / "*.yml")])
    targets = targets_of([job], {}, silent)
    assert [target.url for target in targets] == [f"http://n{n}:1/metrics" for n in (1, 2, 3)]
    assert dict(targets[0].labels) == {"job": "node", "instance": "n1:1", "rack": "r1", "slot": "3"}
    assert dict(targets[2].labels)["rack"] == "of the job"


@pytest.mark.parametrize(
    "content",
    [
        b"{", b"[{]", b"\xff\xfe[]", b'{"targets": []}', b'["n1:1"]', b'[{"targets": "n1:1"}]',
        b'[{"targets": ["n1:1/x"]}]', b'[{"targets": [], "labels": []}]', b"[" * 100_000, b"null",
    ],
    ids=["cut off", "broken", "not UTF-8", "no list", "no group", "text", "bad address", "labels", "deep", "null"],
)  # fmt: skip
@pytest.mark.parametrize("name", ["t.json", "t.yml"])
def test_a_file_that_cannot_be_used_is_told_and_counts_as_it_was(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_text('[{"targets": ["n1:1"]}]')
    job = ScrapeJob("node", ["static:1"], file_sd=[str(path)])
    listed: dict[tuple[str, str], list[Target]] = {}
    before = targets_of([job], listed, silent)
    told: list[tuple[str, str]] = []
    path.write_bytes(content)
    assert targets_of([job], listed, lambda *what: told.append(what)) == before
    assert [where for where, _ in told] == [str(path)]
    path.unlink()
    assert [target.url for target in targets_of([job], listed, silent)] == ["http://static:1/metrics"]


# --- one page over time --------------------------------------------------------------------------------------


def take(bench: Bench, page: Page, body: bytes, at_ns: int, why: str = "", error: str = "") -> None:
    page.take(body, TEXT, at_ns, 0.25, why, error).result(5)


def values(bench: Bench, name: str) -> list[tuple[int, float | str]]:
    """(seconds after T, value) of the streams with this name, stale markers as a word."""
    found = []
    for labels, time_ns, value in bench.stored():
        if labels.startswith(name + "{"):
            stale = np.float64(value).view(np.uint64) == np.uint64(STALE_NAN_BITS)
            found.append(((time_ns - T) // S, "stale" if stale else value))
    return found


def test_a_scrape_writes_the_page_and_how_it_went(bench: Bench) -> None:
    take(bench, Page(TARGET, bench.intake, Principal()), b"a 1\nb 2\n", T)
    assert bench.stored() == [
        ("a{instance=n12:9100,job=node}", T, 1.0),
        ("b{instance=n12:9100,job=node}", T, 2.0),
        ("scrape_duration_seconds{instance=n12:9100,job=node}", T, 0.25),
        ("scrape_samples_scraped{instance=n12:9100,job=node}", T, 2.0),
        ("up{instance=n12:9100,job=node}", T, 1.0),
    ]
    row = next(row for row in bench.store.rows("series") if row["name"] == "up")
    assert (row["type"], row["source"]) == ("gauge", "scrape")


def test_a_stream_that_is_gone_gets_a_stale_marker_once(bench: Bench) -> None:
    page = Page(TARGET, bench.intake, Principal())
    for second, body in enumerate((b"a 1\nb 1\n", b"a 2\n", b"a 3\n", b"a 4\nb 4\n")):
        take(bench, page, body, T + second * S)
    assert values(bench, "a") == [(0, 1.0), (1, 2.0), (2, 3.0), (3, 4.0)]
    assert values(bench, "b") == [(0, 1.0), (1, "stale"), (3, 4.0)]


@pytest.mark.parametrize(("why", "body"), [("unreachable", b""), ("", b"not a page {"), ("", b"\xff")])
def test_a_scrape_that_fails_ends_the_streams_and_says_up_0(bench: Bench, why: str, body: bytes) -> None:
    page = Page(TARGET, bench.intake, Principal())
    take(bench, page, b"a 1\n", T)
    take(bench, page, body, T + S, why, "no route to host" if why else "")
    take(bench, page, body, T + 2 * S, why, "no route to host" if why else "")
    assert values(bench, "a") == [(0, 1.0), (1, "stale")]
    assert values(bench, "up") == [(0, 1.0), (1, 0.0), (2, 0.0)]
    assert bench.counts.totals()[counter("scrape_failed", why or "malformed")] == 2
    assert bench.sources.all()[0].last_error
    assert bench.accepted("samples") == 4 + 4 + 3, "nothing is sent twice"


def test_a_page_in_protobuf_or_of_too_many_streams_is_a_failed_scrape(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leadline.ingest.relabel.STREAMS_MAX", 1)
    page = Page(TARGET, bench.intake, Principal())
    page.take(b"", "application/vnd.google.protobuf; x", T, 0.1, "", "").result(5)
    page.take(b"a 1\nb 1\n", TEXT, T + S, 0.1, "", "").result(5)
    totals = bench.counts.totals()
    assert totals[counter("scrape_failed", "malformed")] == totals[counter("scrape_failed", "too_large")] == 1
    assert values(bench, "up") == [(0, 0.0), (1, 0.0)]


def test_a_target_that_goes_away_ends_its_streams(bench: Bench) -> None:
    page = Page(TARGET, bench.intake, Principal())
    take(bench, page, b"a 1\n", T)
    page.end(T + S)
    take(bench, page, b"a 2\nb 2\n", T + 2 * S)  # a scrape that was still being decoded
    bench.intake.stop()
    assert values(bench, "a") == [(0, 1.0), (1, "stale")]
    assert values(bench, "up") == [(0, 1.0), (1, "stale")]
    assert values(bench, "b") == []


def test_the_end_of_a_target_is_quiet_when_nothing_can_be_taken(bench: Bench) -> None:
    page = Page(TARGET, bench.intake, Principal())
    take(bench, page, b"a 1\n", T)
    bench.intake.stop()
    page.end(T + S)


def test_a_stale_marker_that_found_no_room_is_written_by_the_next_scrape(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Page(TARGET, bench.intake, Principal())
    take(bench, page, b"a 1\nb 1\n", T)
    real = bench.intake.samples

    def full(*_: Any) -> Any:
        raise BusyError("full")

    monkeypatch.setattr(bench.intake, "samples", full)
    with pytest.raises(BusyError):
        page.take(b"a 2\n", TEXT, T + S, 0.1, "", "")
    monkeypatch.setattr(bench.intake, "samples", real)
    take(bench, page, b"a 3\n", T + 2 * S)
    assert values(bench, "b") == [(0, 1.0), (2, "stale")]


def test_gone_names_what_the_second_page_lacks() -> None:
    before = samples_from([{"__name__": name} for name in "abc"], [0, 1, 2], [T] * 3, [1.0] * 3)
    after = samples_from([{"__name__": "b"}], [0], [T], [1.0])
    stale = gone(before, after, T + S)
    assert stale is not None
    assert [stale.labels(int(stream))["__name__"] for stream in stale.sample_series] == ["a", "c"]
    assert set(stale.value.view(np.uint64).tolist()) == {STALE_NAN_BITS}
    assert stale.time_ns.tolist() == [T + S] * 2
    assert gone(before, before, T) is None
    assert gone(None, after, T) is None


# --- over HTTP -----------------------------------------------------------------------------------------------

PAGES: dict[str, tuple[int, dict[str, str], bytes]] = {
    "/metrics": (200, {"content-type": TEXT}, b"a 1\n"),
    "/gzip": (200, {"content-type": TEXT, "content-encoding": "gzip"}, gzip.compress(b"a 1\n")),
    "/bomb": (200, {"content-type": TEXT, "content-encoding": "gzip"}, gzip.compress(b"#" * 10**6)),
    "/broken": (200, {"content-type": TEXT, "content-encoding": "gzip"}, b"not gzip"),
    "/brotli": (200, {"content-type": TEXT, "content-encoding": "br"}, b"x"),
    "/large": (200, {"content-type": TEXT}, b"#" * 300_000),
    "/error": (500, {}, b"oh no"),
    "/malformed": (200, {"content-type": TEXT}, b"a b c d\n"),
    "/slash": (307, {"location": "/metrics"}, b""),
    "/elsewhere": (302, {"location": "http://169.254.169.254/latest/meta-data"}, b""),
    "/round": (302, {"location": "/round"}, b""),
}


class Exporter(BaseHTTPRequestHandler):
    """A double of an exporter: pages as they stand in `PAGES`."""

    def do_GET(self) -> None:
        status, headers, body = PAGES[self.path]
        self.send_response(status)
        for name, value in {**headers, "content-length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Exporter)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


def scrape_once(bench: Bench, url: str, timeout_s: float = 5.0) -> None:
    async def run() -> None:
        with ThreadPoolExecutor(1) as decoders:
            scraper = Scraper([], bench.intake, decoders, Principal(), bench.clock)
            page = Page(Target(url, TARGET.labels, 15.0, timeout_s, False), bench.intake, Principal())
            async with httpx.AsyncClient(trust_env=False) as client:
                await scraper._read(client, page)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/metrics", None),
        ("/gzip", None),
        ("/bomb", "too_large"),
        ("/large", "too_large"),
        ("/broken", "malformed"),
        ("/brotli", "malformed"),
        ("/malformed", "malformed"),
        ("/error", "status"),
        ("/slash", None),
        ("/elsewhere", "status"),
        ("/round", "status"),
    ],
)
def test_each_way_a_scrape_can_fail_is_counted(
    make: Callable[..., Bench], port: int, path: str, reason: str | None
) -> None:
    bench = make(body_bytes_max=262144, decompressed_bytes_max=262144)
    scrape_once(bench, f"http://127.0.0.1:{port}{path}")
    failed = {c.reason: n for c, n in bench.counts.totals().items() if c.family == "scrape_failed" and n}
    assert failed == ({reason: 1} if reason else {})
    assert values(bench, "up") == [(0, 0.0 if reason else 1.0)]
    assert values(bench, "a") == ([] if reason else [(0, 1.0)])
    assert f"127.0.0.1:{port}{path}" in (bench.sources.all()[0].last_error or f"127.0.0.1:{port}{path}")


def test_a_target_that_does_not_answer_is_unreachable(bench: Bench) -> None:
    scrape_once(bench, "http://127.0.0.1:1/metrics")
    assert bench.counts.totals()[counter("scrape_failed", "unreachable")] == 1
    assert values(bench, "up") == [(0, 0.0)]


def test_a_store_that_fails_is_counted_and_the_scraper_goes_on(bench: Bench, port: int) -> None:
    bench.faults.broken = "disk is full"
    scrape_once(bench, f"http://127.0.0.1:{port}/metrics")
    assert bench.refused() == {"store_unavailable": 1}
    bench.faults.broken = ""
    scrape_once(bench, f"http://127.0.0.1:{port}/metrics")
    assert values(bench, "a") == [(0, 1.0)]


def test_targets_are_followed_and_all_of_it_ends_when_cancelled(
    bench: Bench, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrape, "FILE_SD_EVERY_S", 0.02)
    listed = tmp_path / "targets.json"
    listed.write_text(f'[{{"targets": ["127.0.0.1:{port}"]}}]')
    job = ScrapeJob("node", file_sd=[str(listed)], interval_s=0.1, timeout_s=2.0)

    async def until(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0.01)

    async def run() -> None:
        with ThreadPoolExecutor(1) as decoders:
            scraper = Scraper([job], bench.intake, decoders, Principal(), bench.clock)
            task = asyncio.create_task(scraper.run())
            await until(lambda: bool(values(bench, "a")))
            bench.clock.advance(1)
            listed.write_text("[]")
            await until(lambda: (1, "stale") in values(bench, "a") and not scraper._tasks)
            bench.clock.advance(1)
            listed.write_text(f'[{{"targets": ["127.0.0.1:{port}"]}}]')
            await until(lambda: (2, 1.0) in values(bench, "a"))
            bench.clock.advance(1)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert not scraper._tasks

    asyncio.run(run())
    bench.intake.stop()
    assert values(bench, "a")[-1] == (3, "stale")


def test_targets_beyond_the_bound_are_counted(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrape, "TARGETS_MAX", 2)
    jobs = [ScrapeJob("node", [f"127.0.0.1:{port}" for port in (1, 2, 3, 4, 4)], interval_s=60)]

    async def run() -> None:
        with ThreadPoolExecutor(1) as decoders:
            scraper = Scraper(jobs, bench.intake, decoders, Principal(), bench.clock)
            async with httpx.AsyncClient(trust_env=False) as client:
                scraper._follow(client, targets_of(jobs, {}, silent))
                assert len(scraper._tasks) == 2
                for task in scraper._tasks.values():
                    task.cancel()
                await asyncio.gather(*scraper._tasks.values(), return_exceptions=True)

    asyncio.run(run())
    assert bench.counts.totals()[counter("scrape_failed", "targets_limit")] == 2
