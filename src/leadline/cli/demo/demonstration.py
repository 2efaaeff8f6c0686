"""What `leadline up --demo` starts besides the server: its cluster, or a recording where no cluster can be made."""

from __future__ import annotations

from pathlib import Path

from leadline.cli.demo.demo import Demo
from leadline.cli.demo.recorded_story import RecordedStory
from leadline.cli.lab.server import Listening, hearing
from leadline.cli.output import console
from leadline.cli.replay import play
from leadline.cli.serving import url_of
from leadline.lab.incidents import SHOWN, incident
from leadline.lab.realise import privileges
from leadline.server.config import Config, Flag

REPLAY_SPEED = "10"
LAB = "demo"


def play_instead(config: Path | None, data_dir: Path | None, host: str | None, port: int | None, once: bool) -> None:
    """Play a recorded incident, which ends the program, where this user may make no cluster."""
    if lacks := privileges.missing():
        console().print(f"a cluster needs {', '.join(lacks)}; a recorded incident is played instead")
        play_recorded(config, data_dir, host, port, once)


def play_recorded(config: Path | None, data_dir: Path | None, host: str | None, port: int | None, once: bool) -> None:
    """Play the recorded incident of the demonstration and tell its story. Ends by `typer.Exit`."""
    bundle = incident(SHOWN)
    console().print(
        "A recorded incident: eight ranks train on an emulated cluster; a link flaps, then a host is slowed."
    )
    play(bundle, REPLAY_SPEED, once, data_dir, host, port, config, lambda url: RecordedStory(url, bundle))


def begun(settings: Config) -> tuple[Demo, list[Flag]]:
    """The story on a cluster, and flags of the server: what it listens to."""
    listening = _listening(settings)
    heard = hearing(LAB, listening.sflow[1], settings.ingest.scrape)
    return Demo(listening, LAB), heard


def _listening(settings: Config) -> Listening:
    """Where the lab of the demonstration finds this Leadline."""
    return Listening(url_of(settings), ("127.0.0.1", settings.ingest.sflow.port), Path(settings.store.path).resolve())
