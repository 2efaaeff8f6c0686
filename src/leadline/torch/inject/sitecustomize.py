"""Read at its start by every Python of a job that `leadline run` started: watches training once torch is imported.

The job may run in another environment than Leadline, so nothing but the package `leadline` is taken from ours
(LEADLINE_RUN_PACKAGE, its folder). A sitecustomize that the job's environment has of its own runs as ever. Nothing here
may end, slow or change a program: errors are one line on standard error.

Kept to what an old Python can parse, because any may read it; it watches from 3.11 on.
"""

from __future__ import annotations

import os
import sys
from typing import Any

_PACKAGE = "LEADLINE_RUN_PACKAGE"


def _say(words: str) -> None:
    sys.stderr.write("leadline: this process is not watched: {}\n".format(words))  # noqa: UP032


def _begin() -> None:
    """Called when torch is imported."""
    try:
        if sys.version_info < (3, 11):  # noqa: UP036
            _say("the hook needs Python 3.11, this is {}.{}".format(*sys.version_info[:2]))
            return
        _find_leadline(os.environ[_PACKAGE])
        from leadline.torch.automatic import install

        install()
    except Exception as error:
        _say(f"{type(error).__name__}: {error}")


def _find_leadline(folder: str) -> None:
    """Make `import leadline` find this folder, where nobody imported it yet: agent and hook are of one version then."""
    import importlib.util

    if "leadline" in sys.modules:
        return
    spec: Any = importlib.util.spec_from_file_location(
        "leadline", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["leadline"] = module
    spec.loader.exec_module(module)


class _WhenTorch:
    """Lets torch be imported as ever, and then begins."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "torch":
            return None
        from importlib.util import find_spec

        if self in sys.meta_path:
            sys.meta_path.remove(self)
        spec: Any = find_spec(name)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                load(module)
                _begin()

            spec.loader.exec_module = exec_module
        return spec


def _go_on() -> None:
    """Run the sitecustomize that would have been read without us, if there is one."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [each for each in sys.path if os.path.abspath(each or ".") != here]
    ours: Any = sys.modules.pop("sitecustomize", None)
    try:
        __import__("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = ours


if os.environ.get(_PACKAGE):
    sys.meta_path.insert(0, _WhenTorch())
    _go_on()
