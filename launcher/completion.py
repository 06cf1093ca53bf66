"""`klamm completion bash|zsh|fish`: the scripts by which shells complete our command line.

A script asks `klamm` itself: with `_KLAMM_COMPLETE` set it prints names instead of running (typer's protocol).
"""

from enum import StrEnum
from typing import Annotated, Final

import typer

from admin.cli.output import examples

app = typer.Typer()

VARIABLE: Final = "_KLAMM_COMPLETE"


class Shell(StrEnum):
    """Shells for which there is a script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


# The command is the one that was typed, so that ./klamm of a clone completes as well; bash passes it as $1.
_SCRIPTS: Final = {
    Shell.BASH: """\
_klamm_completion() {
    local IFS=$'\\n' -
    set -f
    COMPREPLY=($(COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD _KLAMM_COMPLETE=complete_bash "$1" 2>/dev/null))
}
complete -o default -F _klamm_completion klamm
""",
    Shell.ZSH: """\
#compdef klamm
_klamm_completion() {
    local -a found
    found=("${(@f)$(_TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" _KLAMM_COMPLETE=complete_fish \\
        _TYPER_COMPLETE_FISH_ACTION=get-args "${words[1]}" 2>/dev/null)}")
    found=("${(@)found//:/\\\\:}")
    found=("${(@)found/$'\\t'/:}")
    if [[ -n "${found[1]}" ]]; then
        _describe -V klamm found
    else
        _files
    fi
}
if [[ "${funcstack[1]}" = _klamm ]]; then
    _klamm_completion "$@"
else
    compdef _klamm_completion klamm
fi
""",
    Shell.FISH: """\
function __klamm_completion
    set -l typed (commandline -opc)
    set -lx _KLAMM_COMPLETE complete_fish
    set -lx _TYPER_COMPLETE_FISH_ACTION get-args
    set -lx _TYPER_COMPLETE_ARGS (commandline -cp)
    $typed[1] 2>/dev/null
end
complete --command klamm --no-files --arguments '(__klamm_completion)'
complete --command klamm --force-files --condition 'test (count (__klamm_completion)) -eq 0'
""",
}


@app.command(
    epilog=examples(
        "source <(klamm completion bash)                     (this shell; in ~/.bashrc: every shell)",
        "klamm completion bash > ~/.local/share/bash-completion/completions/klamm",
        "klamm completion zsh > ~/.zfunc/_klamm              (a folder of $fpath, before compinit)",
        "klamm completion fish > ~/.config/fish/completions/klamm.fish",
    )
)
def completion(shell: Annotated[Shell, typer.Argument(help="The shell that reads the script.")]) -> None:
    """Print the completion script for a shell: commands, options, and names of topics and brokers.

    Names come from the cluster that the command line so far, the environment
    or the current context names; one that does not answer within two seconds
    has none.
    """
    typer.echo(_SCRIPTS[shell], nl=False)
