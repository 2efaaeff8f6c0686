"""Writes openapi.json, of which the page's types are made: `python web/api/dump.py`."""

from pathlib import Path

from leadline.server.api import openapi_json
from leadline.server.config import load
from leadline.server.main import ServerProcess

if __name__ == "__main__":
    Path(__file__).with_name("openapi.json").write_text(openapi_json(ServerProcess(load(None, {}, [])).api) + "\n")
