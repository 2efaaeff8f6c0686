"""The scraper: reads exporters' pages as Prometheus does, from static targets and file_sd.

Per target and scrape it writes what the page says plus `up`, `scrape_duration_seconds` and
`scrape_samples_scraped`, all with the labels `job` and `instance`; a stream that was there the last time and is
gone gets Prometheus' stale marker.
"""

from __future__ import annotations

import asyncio
import glob
import logging
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import numpy as np

from leadline.ingest.config import ScrapeJob
from leadline.ingest.intake import Intake
from leadline.ingest.limits import Place
from leadline.ingest.listed import read_listed
from leadline.ingest.relabel import Relabelled
from leadline.ingest.sources import Sender
from leadline.model.counters import counter
from leadline.model.errors import BusyError, ConfigError, DataError, LeadlineError, RefusedError
from leadline.model.principal import Principal
from leadline.wire.body import Body
from leadline.wire.exposition.pages import decode_exposition
from leadline.wire.samples import STALE_NAN_BITS, Metadata, Samples, samples_from

log = logging.getLogger(__name__)

ACCEPT = "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
FILE_SD_EVERY_S = 5.0
REDIRECTS_MAX = 3  # within one exporter: `/metrics` to `/metrics/`, and what stands before it
TARGETS_MAX = 10_000  # one task and some 100 kB of label cache each


@dataclass(frozen=True, slots=True)
class Target:
    """One page to read, how, and the labels that every stream of it gets."""

    url: str
    labels: tuple[tuple[str, str], ...]
    interval_s: float
    timeout_s: float
    honor_labels: bool


class Scraper:
    """Keeps one task per target. Built inert; `run()` scrapes until cancelled."""

    def __init__(
        self,
        jobs: list[ScrapeJob],
        intake: Intake,
        decoders: Executor,
        principal: Principal,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Errors: ConfigError for a static target that is no host:port."""
        self._jobs = jobs
        self._intake = intake
        self._decoders = decoders
        self._principal = principal
        self._now_ns = now_ns
        self._tasks: dict[Target, asyncio.Task[None]] = {}
        self._listed: dict[tuple[str, str], list[Target]] = {}
        static_targets(jobs)  # a wrong one is a wrong setting: said now

    async def run(self) -> None:
        """Scrape all targets; look for new ones every 5 s; returns when cancelled."""
        limits = httpx.Limits(max_connections=200, max_keepalive_connections=200)
        # Proxies of the environment are for reaching other networks; exporters are near.
        async with httpx.AsyncClient(limits=limits, trust_env=False) as client:
            try:
                while True:
                    self._follow(client, targets_of(self._jobs, self._listed, self._say))
                    await asyncio.sleep(FILE_SD_EVERY_S)
            finally:
                for task in self._tasks.values():
                    task.cancel()
                await asyncio.gather(*self._tasks.values(), return_exceptions=True)
                self._tasks.clear()

    def _follow(self, client: httpx.AsyncClient, targets: list[Target]) -> None:
        distinct = list(dict.fromkeys(targets))
        wanted = dict.fromkeys(distinct[:TARGETS_MAX])
        self._intake.counts.add(counter("scrape_failed", "targets_limit"), len(distinct) - len(wanted))
        for gone in [target for target in self._tasks if target not in wanted]:
            self._tasks.pop(gone).cancel()
        for target in wanted:
            task = self._tasks.get(target)
            if task is None or task.done():
                self._tasks[target] = asyncio.create_task(self._keep_reading(client, target))

    def _say(self, path: str, error: str) -> None:
        sender = Sender(self._principal.tenant, "scrape", path)
        self._intake.sources.refuse(sender, self._now_ns(), counter("scrape_failed", "targets_file"), 1, error)

    async def _keep_reading(self, client: httpx.AsyncClient, target: Target) -> None:
        page = Page(target, self._intake, self._principal)
        interval_s = target.interval_s
        # Targets start spread over the interval, so that they are not all read in the same moment.
        await asyncio.sleep(random.uniform(0, min(interval_s, 5.0)) if interval_s > 1 else 0)
        due = time.monotonic()
        try:
            while True:
                try:
                    await self._read(client, page)
                except Exception:
                    # Our own bug, with this target: its next scrape is tried, and the other targets do not notice.
                    self._intake.counts.add(counter("background_failed", "scraper"))
                    log.exception("a scrape of %s failed by a mistake of ours", target.url)
                due += interval_s
                late = int((time.monotonic() - due) // interval_s) + 1
                if late > 0:
                    self._intake.counts.add(counter("scrape_failed", "behind"), late)
                    due += late * interval_s
                await asyncio.sleep(max(0.0, due - time.monotonic()))
        finally:
            # The target is gone or we stop: its streams end here, and a reader should not carry them on.
            page.end(self._now_ns())

    async def _read(self, client: httpx.AsyncClient, page: Page) -> None:
        began_ns, began = self._now_ns(), time.monotonic()
        why, error = "", ""
        body: Body | None = None
        content_type = ""
        place = self._intake.room.enter(page.target.url)
        try:
            try:
                async with asyncio.timeout(page.target.timeout_s):
                    body, content_type = await self._fetch(client, page.target, place)
            except (httpx.HTTPError, TimeoutError, OSError) as failure:
                why, error = "unreachable", f"{page.target.url}: {type(failure).__name__}: {failure}".rstrip(": ")
            except _StatusError as failure:
                why, error = "status", str(failure)
            except (RefusedError, DataError) as failure:
                why, error = _fault(page.target, failure)
            took_s = time.monotonic() - began
            receipt = await asyncio.get_running_loop().run_in_executor(
                self._decoders, page.take_packed, body, place, content_type, began_ns, took_s, why, error
            )
        except LeadlineError as failure:
            # The store, its queue or the room for bodies; the next scrape brings newer values.
            reason = failure.reason if isinstance(failure, BusyError) else "store_unavailable"
            self._intake.refuse(page.sender, reason, str(failure))
            return
        finally:
            place.close()
        try:
            await asyncio.wrap_future(receipt)
        except LeadlineError as failure:
            self._intake.refuse(page.sender, "store_unavailable", str(failure))

    async def _fetch(self, client: httpx.AsyncClient, target: Target, place: Place) -> tuple[Body, str]:
        """The page as it came, not unpacked. Errors: httpx's, _StatusError, RefusedError, DataError, BusyError."""
        config = self._intake.config
        headers = {"accept": ACCEPT, "accept-encoding": "gzip", "user-agent": "leadline-scrape"}
        request = client.build_request("GET", target.url, headers=headers, timeout=target.timeout_s)
        for _ in range(REDIRECTS_MAX + 1):
            answer = await client.send(request, stream=True)
            try:
                if answer.next_request is not None:
                    request = _same_host(target, answer.status_code, answer.next_request)
                    continue
                if answer.status_code != 200:
                    raise _StatusError(f"{target.url}: expected status 200, got {answer.status_code}")
                encoding = answer.headers.get("content-encoding", "").lower()
                body = Body(encoding, config.body_bytes_max, config.decompressed_bytes_max)
                async for chunk in answer.aiter_raw():
                    place.hold(len(chunk))
                    body.feed(chunk)
                place.arrived()
                return body, answer.headers.get("content-type", "text/plain")
            finally:
                await answer.aclose()
        raise _StatusError(f"{target.url}: expected a page, got more than {REDIRECTS_MAX} redirects")


def _same_host(target: Target, status: int, request: httpx.Request) -> httpx.Request:
    """The request that a redirect asks for, if it stays where it was (`/metrics` to `/metrics/`).

    Elsewhere it is not followed: an exporter could send Leadline to any address that only Leadline reaches.
    Errors: _StatusError.
    """
    here, there = urlsplit(target.url), request.url
    if (there.scheme, there.netloc.decode()) != (here.scheme, here.netloc):
        raise _StatusError(
            f"{target.url}: expected status 200, got {status} to another address, {str(there)[:200]}; scrape that one"
        )
    return request


def _fault(target: Target, failure: RefusedError | DataError) -> tuple[str, str]:
    """Why a page was not taken: the reason of a counter, and the words."""
    large = isinstance(failure, RefusedError) and failure.reason != "unsupported_encoding"
    return "too_large" if large else "malformed", f"{target.url}: {failure}"


class _StatusError(Exception):
    pass


class Page:
    """One target's page over time: its cache of finished labels, and the streams it had the last time."""

    def __init__(self, target: Target, intake: Intake, principal: Principal) -> None:
        self.target = target
        self.sender = Sender(principal.tenant, "scrape", target.url)
        self._intake = intake
        self._principal = principal
        self._relabelled = Relabelled(dict(target.labels), target.honor_labels)
        self._before: Samples | None = None
        self._own: Samples | None = None
        self._lock = threading.Lock()  # a scrape that is being decoded when its target goes away
        self._ended = False

    def take_packed(
        self, body: Body | None, place: Place, content_type: str, at_ns: int, took_s: float, why: str, error: str
    ) -> Future[None]:
        """As `take`, of a page as it came (None where `why` says that none did). Errors: BusyError."""
        page = b""
        if body is not None:
            try:
                page = body.finish(place.hold)
            except (RefusedError, DataError) as failure:
                why, error = _fault(self.target, failure)
        return self.take(page, content_type, at_ns, took_s, why, error)

    def take(self, body: bytes, content_type: str, at_ns: int, took_s: float, why: str, error: str) -> Future[None]:
        """Hand one scrape (or its failure, `why`) to the intake; returns the future of the stored rows.

        Errors: BusyError if the intake is full; what was not taken is not sent again, the next scrape is newer.
        """
        page: Samples | None = None
        if not why:
            try:
                page = self._relabelled.apply(decode_exposition(body, content_type, at_ns))
            except (DataError, RefusedError) as failure:
                why, error = _fault(self.target, failure)
        if why:
            self._intake.sources.refuse(self.sender, at_ns, counter("scrape_failed", why), 1, error)
        with self._lock:
            return self._hand_on(page, at_ns, took_s)

    def _hand_on(self, page: Samples | None, at_ns: int, took_s: float) -> Future[None]:
        if self._ended:  # its streams are marked as gone already
            nothing = Future[None]()
            nothing.set_result(None)
            return nothing
        own = samples_from(
            [{"__name__": name, **dict(self.target.labels)} for name in OWN],
            [0, 1, 2],
            [at_ns] * 3,
            [0.0 if page is None else 1.0, took_s, 0.0 if page is None else float(len(page.value))],
            OWN_METADATA,
        )
        self._own = own
        done = self._intake.samples(own, self._principal, self.sender).done
        stale = gone(self._before, page, at_ns)
        if stale is not None:
            done = self._intake.samples(stale, self._principal, self.sender).done
        if page is not None:
            # Before it is taken: if it is refused in part, its streams are there all the same.
            self._before = page
            done = self._intake.samples(page, self._principal, self.sender).done
        else:
            self._before = None
        return done  # one lane keeps the order, so the last is stored after the others

    def end(self, at_ns: int) -> None:
        """Mark all streams of the page as gone, and ours about it (`up`)."""
        with self._lock:
            self._ended = True
            stale = [gone(self._before, None, at_ns), gone(self._own, None, at_ns)]
            self._before = self._own = None
        for each in stale:
            if each is None:
                continue
            try:
                self._intake.samples(each, self._principal, self.sender)
            except LeadlineError as error:
                log.info("stale markers of %s not written: %s", self.target.url, error)


OWN = ("up", "scrape_duration_seconds", "scrape_samples_scraped")
OWN_METADATA = {
    "up": Metadata("gauge"),
    "scrape_duration_seconds": Metadata("gauge", "seconds"),
    "scrape_samples_scraped": Metadata("gauge"),
}


def gone(before: Samples | None, now: Samples | None, at_ns: int) -> Samples | None:
    """Stale markers for the streams of `before` that `now` lacks; None if there are none."""
    if before is None or not len(before.ids):
        return None
    pair = np.dtype([("low", np.uint64), ("high", np.uint64)])
    had = np.ascontiguousarray(before.ids).view(pair).ravel()
    has = had[:0] if now is None else np.ascontiguousarray(now.ids).view(pair).ravel()
    missing = np.flatnonzero(~np.isin(had, has))
    if not missing.size:
        return None
    value = np.full(missing.size, STALE_NAN_BITS, np.uint64).view(np.float64)
    return Samples(
        before.label_bytes,
        before.label_start,
        before.label_end,
        before.ids,
        missing.astype(np.int64),
        np.full(missing.size, at_ns, np.int64),
        value,
    )


def targets_of(
    jobs: list[ScrapeJob], listed: dict[tuple[str, str], list[Target]], say: Callable[[str, str], None]
) -> list[Target]:
    """All targets of the jobs now: static ones and those that file_sd files list.

    `listed` keeps what each job's file said last. A file that cannot be read is told through `say(path, error)` and
    counts as it was, because it may just be being written; one that was removed lists nothing.
    """
    found = static_targets(jobs)
    for job in jobs:
        for path in sorted({path for pattern in job.file_sd for path in glob.glob(pattern)}):
            try:
                listed[job.job, path] = _file_targets(job, Path(path))
            except (OSError, ConfigError) as error:
                say(path, str(error))
            found += listed.get((job.job, path), [])
    return found


def static_targets(jobs: list[ScrapeJob]) -> list[Target]:
    """The targets that the settings name. Errors: ConfigError for one that is no host:port."""
    return [_target(job, address, {}) for job in jobs for address in job.targets]


def _file_targets(job: ScrapeJob, path: Path) -> list[Target]:
    groups = read_listed(path)
    if not isinstance(groups, list):
        raise ConfigError(f"{path}: expected a list of {{targets, labels}}, got {type(groups).__name__}")
    found: list[Target] = []
    for place, group in enumerate(groups, 1):
        targets = group.get("targets") if isinstance(group, dict) else None
        labels = group.get("labels", {}) if isinstance(group, dict) else None
        if not isinstance(targets, list) or not isinstance(labels, dict):
            raise ConfigError(
                f"{path}: group {place}: expected targets (a list) and labels (a map), got {group!r:.200}"
            )
        extra = {str(name): str(value) for name, value in labels.items()}
        found += [_target(job, str(address), extra) for address in targets]
    return found


def _target(job: ScrapeJob, address: str, extra: dict[str, str]) -> Target:
    if not _is_host_and_port(address):
        raise ConfigError(f"scrape target of job {job.job}: expected host:port, got {address!r}")
    labels = {"job": job.job, "instance": address, **job.labels, **extra}
    # Prometheus' own: labels that begin with two underscores steer the scrape and are not stored.
    kept = tuple(sorted((name, value) for name, value in labels.items() if not name.startswith("__")))
    url = f"{job.scheme}://{address}{job.path}"
    return Target(url, kept, job.interval_s, job.timeout_s, job.honor_labels)


def _is_host_and_port(address: str) -> bool:
    try:
        parts = urlsplit(f"//{address}")
        return bool(parts.hostname) and parts.port != 0 and parts.netloc == address and "@" not in address
    except ValueError:  # a port that is no number, or a bracket without its other
        return False
