"""The completion of fish: one line for each verb, flag and operand, which is offered where it may stand."""

from __future__ import annotations

from leadline import __version__
from leadline.cli.manual.commands import Command, Flag, Kind, Operand

TEMPLATE = r"""# Completion of leadline for fish, by `leadline completion fish` of Leadline @VERSION@.
set -g __leadline_paths @PATHS@
set -g __leadline_takes @TAKES@

# Whether the words before the cursor lead to the verb $argv[1]; with $argv[2], whether so many operands follow it (with
# a + so many or more).
function __leadline_at
    set -l path ''
    set -l place 0
    set -l skip 0
    set -l words (commandline -opc)
    for word in $words[2..-1]
        set -l next (string trim -- "$path $word")
        if test $skip = 1
            set skip 0
        else if contains -- $word $__leadline_takes
            set skip 1
        else if contains -- $next $__leadline_paths
            set path $next
        else if not string match -q -- '-*' $word
            set place (math $place + 1)
        end
    end
    test "$path" = "$argv[1]"; or return 1
    set -q argv[2]; or return 0
    if string match -q -- '*+' $argv[2]
        test $place -ge (string replace + '' -- $argv[2])
    else
        test $place = $argv[2]
    end
end

# The flags of the line that say which server is asked.
function __leadline_names
    set -l given
    set -l words (commandline -opc)
    for i in (seq 2 (count $words))
        if contains -- $words[$i] --server --token-file --ca-file
            set -a given $words[$i] $words[(math $i + 1)]
        end
    end
    command $words[1] completion names $argv[1] $given 2>/dev/null
end

complete -c leadline -f
@TABLE@
"""


def script(program: Command) -> str:
    """The script, for a directory of fish_complete_path."""
    commands = program.all()
    takes = {name for each in commands for flag in each.flags if flag.value for name in flag.names}
    return (
        TEMPLATE.replace("@VERSION@", __version__)
        .replace("@PATHS@", " ".join(_quoted(" ".join(each.path)) for each in commands if each.path))
        .replace("@TAKES@", " ".join(sorted(takes)))
        .replace("@TABLE@", "\n".join(line for each in commands for line in _lines(each)))
    )


def _lines(command: Command) -> list[str]:
    path = _quoted(" ".join(command.path))
    at = f"complete -c leadline -n {_quoted(f'__leadline_at {path}')}"
    verbs = [f"{at} -a {each.path[-1]} -d {_quoted(each.summary)}" for each in command.commands]
    flags = [f"{at} {_flag(each)} -d {_quoted(' '.join(each.help.split()))}" for each in command.flags]
    places = [_operand(path, place, each) for place, each in enumerate(command.operands)]
    return [*verbs, *flags, *places]


def _flag(flag: Flag) -> str:
    names = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in flag.names]
    return " ".join([*names, *([f"-r {_offered(flag)}"] if flag.value else [])])


def _operand(path: str, place: int, operand: Operand) -> str:
    many = "+" if operand.many else ""
    return f"complete -c leadline -n {_quoted(f'__leadline_at {path} {place}{many}')} {_offered(operand)}"


def _offered(of: Flag | Operand) -> str:
    if of.words:
        return f"-f -a {_quoted(' '.join(of.words))}"
    if of.kind in (Kind.JOBS, Kind.INCIDENTS):
        return f"-f -a '(__leadline_names {of.kind})'"
    return "-F" if of.kind is Kind.FILES or isinstance(of, Operand) else "-f"


def _quoted(text: str) -> str:
    """In single quotes, where fish takes a backslash before a quote and before itself."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
