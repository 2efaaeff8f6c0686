"""The completion of bash: a table of the verbs, and a function that looks words up in it without starting Python."""

from __future__ import annotations

from leadline import __version__
from leadline.cli.manual.commands import Command, Flag, Kind, Operand

# Of each verb: the verbs below it; its flags, NAME=VALUES where one takes a value; the values of its operands by place,
# with a + after the last if there may be more. VALUES: a|b|c, @files, @jobs, @incidents, or nothing.
TEMPLATE = r"""# Completion of leadline for bash, by `leadline completion bash` of Leadline @VERSION@.
_leadline_about() {
    case $1 in
@TABLE@
    esac
}

_leadline_offer() { # of VALUES, those that begin with what is typed
    case $1 in
        @jobs | @incidents)
            local names
            names=$("${COMP_WORDS[0]}" completion names "${1#@}" "${given[@]}" 2>/dev/null)
            COMPREPLY=($(compgen -W "$names" -- "$cur")) ;;
        @files) compopt -o default ;;
        ?*) COMPREPLY=($(compgen -W "${1//|/ }" -- "$cur")) ;;
    esac
}

_leadline_values() { # of the flag $1: found, and in `values` what it takes
    local flag
    for flag in $flags; do
        [[ $flag == "$1="* ]] && values=${flag#*=} && return
    done
    return 1
}

_leadline() {
    local cur=${COMP_WORDS[COMP_CWORD]} path= verbs flags operands values= flag= word i place=0
    local -a given=()
    COMPREPLY=()
    _leadline_about ""
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ $word == "=" && -n $flag ]]; then
            continue
        elif [[ -n $flag ]]; then # its value
            [[ $flag == --server || $flag == --token-file || $flag == --ca-file ]] && given+=("$flag" "$word")
            flag=
        elif _leadline_values "$word"; then
            flag=$word
        elif [[ " $verbs " == *" $word "* ]]; then
            path+="${path:+ }$word"
            _leadline_about "$path"
        elif [[ $word != -* ]]; then
            place=$((place + 1))
        fi
    done
    [[ $cur == "=" ]] && cur=
    if [[ -n $flag ]]; then
        _leadline_offer "$values"
    elif [[ $cur == -* ]]; then
        local -a names=()
        for word in $flags; do names+=("${word%%=*}"); done
        COMPREPLY=($(compgen -W "${names[*]}" -- "$cur"))
    elif [[ -n $verbs ]]; then
        COMPREPLY=($(compgen -W "$verbs" -- "$cur"))
    else
        local -a wanted=()
        read -ra wanted <<<"$operands"
        ((${#wanted[@]})) || return
        if ((place >= ${#wanted[@]})); then
            [[ ${wanted[-1]} == *+ ]] || return
            place=$((${#wanted[@]} - 1))
        fi
        _leadline_offer "${wanted[place]%+}"
    fi
}

complete -F _leadline leadline
"""


def script(program: Command) -> str:
    """The script, to be sourced or put where bash-completion finds it."""
    table = "\n".join(_row(each) for each in program.all())
    return TEMPLATE.replace("@VERSION@", __version__).replace("@TABLE@", table)


def _row(command: Command) -> str:
    verbs = " ".join(each.path[-1] for each in command.commands)
    flags = " ".join(_flag(each, name) for each in command.flags for name in each.names)
    operands = " ".join(f"{values(each)}{'+' if each.many else ''}" for each in command.operands)
    return f"        '{' '.join(command.path)}') verbs='{verbs}' flags='{flags}' operands='{operands}' ;;"


def _flag(flag: Flag, name: str) -> str:
    return f"{name}={values(flag)}" if flag.value else name


def values(of: Flag | Operand) -> str:
    """What may stand there, as the table has it. Any other operand may be a file, as of `diagnose`."""
    if isinstance(of, Operand) and not of.words and of.kind is Kind.ANY:
        return f"@{Kind.FILES}"
    return f"@{of.kind}" if of.kind is not Kind.ANY else "|".join(of.words)
