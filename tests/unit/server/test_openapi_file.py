"""What the page's types are made of is what the server says."""

from pathlib import Path

from leadline.server.api import openapi_json
from leadline.server.config import load
from leadline.server.main import ServerProcess

FILE = Path(__file__).parents[3] / "web" / "api" / "openapi.json"


def test_file_is_what_the_server_says() -> None:
    said = openapi_json(ServerProcess(load(None, {}, [])).api) + "\n"
    assert FILE.read_text() == said, "write it anew: python web/api/dump.py, then (cd web && npm run api)"
