"""The completion of zsh: as that of bash, with what each verb and flag is for."""

from __future__ import annotations

import shlex

from leadline import __version__
from leadline.cli.manual.bash import values
from leadline.cli.manual.commands import Command, Flag

TEMPLATE = r"""#compdef leadline
# Completion of leadline for zsh, by `leadline completion zsh` of Leadline @VERSION@.

_leadline_about() { # verbs and flags with what they are for, what flags take, what operands may be
    verbs=() flags=() operands=()
    takes=()
    case $1 in
@TABLE@
    esac
}

_leadline_offer() {
    local -a found
    case $1 in
        @jobs | @incidents)
            found=(${(f)"$($words[1] completion names ${1#@} $given 2>/dev/null)"})
            compadd -a found ;;
        @files) _files ;;
        ?*) found=(${(s:|:)1}); compadd -a found ;;
    esac
}

_leadline() {
    local path_= flag= word i place=1
    local -a verbs flags operands given
    local -A takes
    _leadline_about ""
    for ((i = 2; i < CURRENT; i++)); do
        word=${words[i]}
        if [[ -n $flag ]]; then
            [[ $flag == (--server|--token-file|--ca-file) ]] && given+=($flag $word)
            flag=
        elif (( ${+takes[$word]} )); then
            flag=$word
        elif (( ${verbs[(I)${word}:*]} )); then
            path_+="${path_:+ }$word"
            _leadline_about "$path_"
        elif [[ $word != -* ]]; then
            (( place++ ))
        fi
    done
    word=${words[CURRENT]}
    if [[ -n $flag ]]; then
        _leadline_offer "${takes[$flag]}"
    elif [[ $word == -*=* ]] && (( ${+takes[${word%%=*}]} )); then
        compset -P 1 '*='
        _leadline_offer "${takes[${word%%=*}]}"
    elif [[ $word == -* ]]; then
        _describe -o flag flags
    elif (( $#verbs )); then
        _describe verb verbs
    elif (( $#operands )); then
        if (( place > $#operands )); then
            [[ ${operands[-1]} == *+ ]] || return 1
            place=$#operands
        fi
        _leadline_offer "${operands[place]%+}"
    fi
}

if [[ $funcstack[1] == _leadline ]]; then
    _leadline "$@"
else
    compdef _leadline leadline
fi
"""


def script(program: Command) -> str:
    """The script: a function `_leadline` for a directory of fpath, or to be sourced after compinit."""
    table = "\n".join(_row(each) for each in program.all())
    return TEMPLATE.replace("@VERSION@", __version__).replace("@TABLE@", table)


def _row(command: Command) -> str:
    verbs = " ".join(_told(each.path[-1], each.summary) for each in command.commands)
    flags = " ".join(_told(name, each.help) for each in command.flags for name in each.names)
    takes = " ".join(_takes(each, name) for each in command.flags if each.value for name in each.names)
    operands = " ".join(shlex.quote(f"{values(each)}{'+' if each.many else ''}") for each in command.operands)
    return (
        f"        '{' '.join(command.path)}')\n            verbs=({verbs})\n            flags=({flags})\n"
        f"            takes=({takes})\n            operands=({operands}) ;;"
    )


def _told(name: str, text: str) -> str:
    return shlex.quote(f"{name}:{' '.join(text.split())}")


def _takes(flag: Flag, name: str) -> str:
    return f"{name} {shlex.quote(values(flag))}"
