"""Man pages of all verbs: leadline.1 and one for each verb.

The source is what `--help` shows. A verb with verbs below it has one page, in which each of them has a part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from leadline import __version__
from leadline.cli.manual.commands import PROGRAM, Command, Flag, Operand
from leadline.host.secret import CA_VARIABLE, FILE_VARIABLE, VARIABLE

ENVIRONMENT = (
    ("LEADLINE_SERVER", "Address of the server that verbs ask, where --server is not given."),
    (VARIABLE, "The token, where the server needs one."),
    (FILE_VARIABLE, "File with the token, where --token-file is not given."),
    (CA_VARIABLE, "CA certificates (PEM) of an https server, where --ca-file is not given."),
    ("LEADLINE_SECTION__KEY", "Any setting of leadline.yaml, such as LEADLINE_STORE__PATH for store.path."),
)
FILES = (
    ("./leadline.yaml", "Settings, where --config names no other file; `leadline config show` lists all of them."),
    ("/etc/leadline/leadline.yaml", "The same for the service of a package."),
)
EXITS = (
    ("0", "It did what was asked; of a check: ok."),
    ("1", "Not all is well: a warning of `status`, `doctor` or a check."),
    ("2", "Wrong usage or configuration; of a check: critical."),
    ("3", "An unknown name, no server, or a failure outside Leadline; of a check: unknown."),
)


def pages(of: Command, date: str) -> dict[str, str]:
    """Each page by the name of its file. `date`: of their making, as 2026-11-27."""
    named = {each.path[-1]: each for each in of.commands}
    found = {f"{PROGRAM}.1": _page(of, date, named)}
    return found | {f"{PROGRAM}-{name}.1": _page(each, date, named) for name, each in named.items()}


def _page(of: Command, date: str, named: Mapping[str, Command]) -> str:
    name = "-".join((PROGRAM, *of.path))
    lines = [
        '.\\" Written by `python -m leadline.cli.manual` from what --help shows.',
        f'.TH {name.upper()} 1 {date} "Leadline {__version__}" "Leadline"',
        ".SH NAME",
        f"{_plain(name)} \\- {_line(_short(of))}",
        ".SH SYNOPSIS",
        *(line for number, each in enumerate(_leaves(of)) for line in _synopsis(each, number)),
        ".SH DESCRIPTION",
        *_text(of.text),
        *_options(of),
    ]
    if not of.path:
        lines += [".SH VERBS", *_list((f"leadline {name}", each.summary) for name, each in named.items())]
        lines += [".SH ENVIRONMENT", *_list(ENVIRONMENT), ".SH FILES", *_list(FILES)]
    for each in of.all()[1:] if of.path else ():
        lines += [f".SH {_plain(' '.join(each.path).upper())}", *_text(each.text), *_options(each, ".SS")]
    lines += [".SH EXIT STATUS", *_list(EXITS), ".SH SEE ALSO", _others(of, named)]
    return "\n".join(lines) + "\n"


def _short(of: Command) -> str:
    """What it is for as `whatis` shows it: the first sentence, without full stop and capital."""
    text = of.summary.partition(". ")[0].rstrip(".").replace("`", "")
    return text[:1].lower() + text[1:]


def _leaves(of: Command) -> list[Command]:
    """What has a line in the synopsis."""
    return [each for each in of.all() if not each.commands] if of.path else [of]


def _synopsis(of: Command, number: int) -> Iterator[str]:
    operands = [_place(each) for each in of.operands]
    rest = ["\\fIVERB\\fP", "..."] if of.commands else operands
    if number:
        yield ".br"
    yield f".B {' '.join((PROGRAM, *of.path))}"
    yield " ".join(["[\\fIOPTIONS\\fP]", *rest])


def _place(of: Operand) -> str:
    name = f"\\fI{_plain(of.name)}\\fP{'...' if of.many else ''}"
    return name if of.required else f"[{name}]"


def _options(of: Command, heading: str = ".SH") -> Iterator[str]:
    if of.operands:
        yield f"{heading} {'OPERANDS' if heading == '.SH' else 'Operands'}"
        yield from _list((each.name, _told(each)) for each in of.operands)
    flags = [each for each in of.flags if heading == ".SH" or "--help" not in each.names]  # told once a page
    if flags:
        yield f"{heading} {'OPTIONS' if heading == '.SH' else 'Options'}"
        for flag in flags:
            yield ".TP"
            yield ", ".join(_named(flag, name) for name in flag.names)
            yield _line(_told(flag))


def _named(flag: Flag, name: str) -> str:
    value = f"\\fI{_plain(flag.value)}\\fP"
    return f"\\fB{_plain(name)}\\fP" + (f"{'=' if name.startswith('--') else ' '}{value}" if flag.value else "")


def _told(of: Flag | Operand) -> str:
    """What it is for, and what it is if it is not given."""
    text = of.help or "No more is said of it."
    if isinstance(of, Operand):
        return f"{text} One of {', '.join(of.words)}." if of.words else text
    default = f" Default: {of.default}." if of.default else ""
    return text + default + (f" Environment: {of.variable}." if of.variable else "")


def _list(rows: Iterator[tuple[str, str]] | tuple[tuple[str, str], ...]) -> Iterator[str]:
    for name, text in rows:
        yield ".TP"
        yield f"\\fB{_plain(name)}\\fP"
        yield _line(text)


def _others(of: Command, named: Mapping[str, Command]) -> str:
    pages = [PROGRAM, *(f"{PROGRAM}-{name}" for name in named)] if of.path else [f"{PROGRAM}-{name}" for name in named]
    return ",\n".join(f"\\fB{_plain(page)}\\fP(1)" for page in pages if page != "-".join((PROGRAM, *of.path)))


def _text(text: str) -> Iterator[str]:
    """Paragraphs; one that is marked with \\b, or indented, as it stands."""
    for number, part in enumerate(re.split(r"\n\s*\n", text.strip("\n"))):
        if part.startswith(("\b", "  ")):
            lines = part.removeprefix("\b").strip("\n").splitlines()
            yield from (".PP", ".nf", *map(_line, lines), ".fi")
        else:
            yield from ([".PP"] if number else []) + [_line(" ".join(part.split()))]


def _line(text: str) -> str:
    """A line of text, with what stands in backquotes bold."""
    plain = re.sub(r"`([^`]*)`", r"\\fB\1\\fP", _plain(text))
    return f"\\&{plain}" if plain.startswith((".", "'")) else plain


def _plain(text: str) -> str:
    """Every character as it is: roff would make typographic dashes and quotes of some."""
    return (
        text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("^", "\\(ha").replace("~", "\\(ti")
    )
