"""Prints what makes a shell complete the words of the program."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

from circlet.tools.console import write
from circlet.tools.usage import Argument, Choice, Command

VARIABLE = "_CIRCLET_COMPLETE"
"""The environment variable by which a shell asks the program for completions."""
SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


def _print(shell: str) -> None:
    """Print what makes a shell complete commands, options and their values.

    In bash: `eval "$(circlet completion bash)"` in ~/.bashrc. In zsh the same in ~/.zshrc. In fish:
    `circlet completion fish > ~/.config/fish/completions/circlet.fish`.
    """
    program = click.get_current_context().find_root().command
    write(SHELLS[shell](program, {}, "circlet", VARIABLE).source())


COMMAND = Command("completion", callback=_print, help=_print.__doc__,
                  params=[Argument("shell", "whose completion is to be printed", type=Choice(list(SHELLS)))])
