"""What MkDocs does not do by itself to make the site of these pages, which are written to be read in a repository too.

- A pattern in the navigation, such as `how-to/*`, is every other page that fits.
- Three files of the repository's root become pages; links to other files outside docs/ become names.
- Anchors are those of a Git forge, because the links of the pages are.
- Colours and fonts are those of the web page.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
ROOT_PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "report-a-weakness.md",
}
OTHER_PAGES = {"README.md": "index.md"}
SITEMAP = "sitemap.xml"  # for search engines, which need an address that everybody has
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s:#]+)(#[^)\s]*)?\)")
_FENCED = re.compile(r"(^ *```.*?^ *```)", re.S | re.M)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Anchors, and the navigation in full."""
    config.mdx_configs["toc"]["slugify"] = anchor
    found = [str(path.relative_to(config.docs_dir)) for path in sorted(Path(config.docs_dir).rglob("*.md"))]
    config.theme.static_templates.discard(SITEMAP)
    config.nav = expanded(config.nav or [], found)
    return config


def anchor(title: str, _: str) -> str:
    """The anchor that a Git forge gives a title."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def expanded(nav: Sequence[Any], found: Sequence[str]) -> list[Any]:
    """`nav` with each pattern replaced by the pages that fit and are named nowhere else."""
    named = set(_names(nav))

    def grown(entry: Any) -> list[Any]:
        if isinstance(entry, dict):
            ((title, inside),) = entry.items()
            return [{title: [each for one in inside for each in grown(one)] if isinstance(inside, list) else inside}]
        if "*" not in entry:
            return [entry]
        depth = entry.count("/")  # of a pattern too: its star stays within a folder
        fits = [path for path in found if path.count("/") == depth and fnmatch(path, entry) and path not in named]
        named.update(fits)
        return fits

    return [each for entry in nav for each in grown(entry)]


def _names(nav: Sequence[Any]) -> list[str]:
    names: list[str] = []
    for entry in nav:
        if isinstance(entry, dict):
            (inside,) = entry.values()
            names += _names(inside) if isinstance(inside, list) else []
        else:
            names.append(entry)
    return names


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Pages and styles from outside docs/."""
    for name, path in ROOT_PAGES.items():
        files.append(File.generated(config, path, content=(ROOT / name).read_text()))
    if sitemap := files.get_file_from_path(SITEMAP):
        files.remove(sitemap)
    files.append(File.generated(config, "page.css", abs_src_path=str(ROOT / "web" / "src" / "app.css")))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """One page as MkDocs needs it: it begins with its title, and its links stay within the site."""
    path = page.file.src_uri
    from_root = next((name for name, made in ROOT_PAGES.items() if made == path), f"docs/{path}")
    text = re.sub(r"\A(\s*<!--.*?-->)+\s*", "", markdown, flags=re.S)
    parts = _FENCED.split(text)  # fenced blocks are at the odd places
    parts[::2] = [linked(part, from_root, path) for part in parts[::2]]
    return "".join(parts)


def linked(text: str, from_root: str, path: str) -> str:
    """`text` of the file `from_root` of the repository, with its links as page `path` of the site."""

    def link(found: re.Match[str]) -> str:
        words, target, place = found[1], found[2], found[3] or ""
        inside = posixpath.normpath(posixpath.join(posixpath.dirname(from_root), target))
        to = {**ROOT_PAGES, **OTHER_PAGES}.get(inside)
        if to is None and inside.startswith("docs/"):
            to = inside.removeprefix("docs/")
        if to is None:
            return words if words.startswith("`") or "`" in words else f"{words} (`{inside}`)"
        return f"[{words}]({posixpath.relpath(to, posixpath.dirname(path) or '.')}{place})"

    return _LINK.sub(link, text)
