"""How the command line is read: options in groups, commands loaded when they are asked for, and what is said of a
command line that is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

from circlet.runtime.errors import CLOSE, suggestion


class Option(click.Option):
    """An option that help shows in a group."""

    def __init__(self, *names: str, group: str = "Options", **attributes: Any) -> None:
        super().__init__(names, **attributes)
        self.group = group


class Argument(click.Argument):
    """An argument that help describes."""

    def __init__(self, name: str, about: str, **attributes: Any) -> None:
        super().__init__([name], **attributes)
        self.about = about


class Choice(click.Choice[str]):
    """One of several words."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        return f"expected one of {', '.join(self.choices)}, found {value!r}{suggestion(value, self.choices)}"


class Command(click.Command):
    """A command whose help shows options in their groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        for param in self.get_params(ctx):
            if isinstance(param, Argument):
                sections["Arguments"].append((param.make_metavar(ctx), param.about))
            else:
                group = param.group if isinstance(param, Option) else "Other"
                record = param.get_help_record(ctx)
                sections.setdefault(group, []).extend([record] if record else [])
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


class Subcommands(click.Group):
    """Commands by name; it says of an unknown one which was meant."""

    def __init__(self, name: str, **attributes: Any) -> None:
        super().__init__(name, no_args_is_help=False, **attributes)

    def resolve_command(self, ctx: click.Context,
                        args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args[0] not in known and not ctx.resilient_parsing:
            raise click.UsageError(f"no command {args[0]!r}{suggestion(args[0], known) or _known(known)}", ctx)
        return super().resolve_command(ctx, args)


class Program(Subcommands):
    """Commands in modules of their own, `circlet.tools.NAME`, which are loaded when they are used."""

    def __init__(self, name: str, lines: Mapping[str, str], **attributes: Any) -> None:
        """
        Args:
            name: of the program.
            lines: what help says of each command; its module has it as `COMMAND`.
        """
        super().__init__(name, **attributes)
        self._lines = lines

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._lines)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._lines:
            return None
        command = import_module(f"circlet.tools.{cmd_name}").COMMAND
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self._lines.items()))


def _known(words: Iterable[str]) -> str:
    return f"; expected one of {', '.join(words)}"


def usage_message(error: click.UsageError) -> str:
    """What is wrong with a command line, on one line."""
    path = error.ctx.command_path if error.ctx else "circlet"
    if isinstance(error, click.NoSuchOption):
        known = [each for param in (error.ctx.command.params if error.ctx else ()) for each in param.opts]
        return f"no option {error.option_name}{_similar_option(error.option_name, [*known, '--help'])}"
    if isinstance(error, click.BadOptionUsage):
        return f"{error.option_name} needs a value"
    if isinstance(error, click.MissingParameter):
        return f"missing {_label(error)}; see {path} --help"
    if isinstance(error, click.BadParameter):
        return f"{_label(error)}: {error.message}"
    text = error.message.rstrip(".")
    return f"{text[:1].lower()}{text[1:]}" + ("" if type(error) is click.UsageError and ";" in text else
                                              f"; see {path} --help")


def _similar_option(name: str, known: Iterable[str]) -> str:
    words = {each.lstrip("-"): each for each in known}
    found = get_close_matches(name.lstrip("-"), words, 1, CLOSE)
    return f"; did you mean {words[found[0]]}?" if found else ""


def _label(error: click.BadParameter) -> str:
    """The parameter as people write it."""
    param = error.param
    if param is None:
        return str(error.param_hint)
    return max(param.opts, key=len) if isinstance(param, click.Option) else param.human_readable_name
