"""The directive ``commands``: every command of the typer app, with its arguments and options."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import typer
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from deepwishart.cli import app as commands


def leaves(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Commands that do something, with the words that call them."""
    parts = getattr(command, "commands", None)
    if not parts:
        yield path, command
    for name, part in (parts or {}).items():
        yield from leaves(part, f"{path} {name}")


def plain(text: str) -> str:
    """Text as reStructuredText that says the same: options stay options, stars stay stars."""
    return re.sub(r"(?<![\w-])(--[a-z][\w-]*)", r"``\1``", text.replace("*", r"\*"))


def describe(path: str, command: Any) -> list[str]:
    """One command as reStructuredText."""
    context = typer.Context(command, info_name=path)
    usage = " ".join(command.collect_usage_pieces(context))
    help_lines = plain(inspect.cleandoc(command.help or "")).splitlines()
    lines = [path, "-" * len(path), "", *help_lines, ""]
    lines += ["::", "", f"   {path} {usage}", ""]
    if command.params:
        lines += [".. list-table::", "   :widths: 38 62", "   :width: 100%", ""]
    for parameter in command.params:
        names, text = parameter.get_help_record(context)
        lines.append(f"   * - ``{names.strip()}``")
        lines.append(f"     - {plain(' '.join(text.split()))}")
    return [*lines, ""]


class Commands(SphinxDirective):
    """All commands, one section each."""

    def run(self) -> list[nodes.Node]:
        text = [
            line
            for path, command in leaves(typer.main.get_command(commands), "deepwishart")
            for line in describe(path, command)
        ]
        return self.parse_text_to_nodes("\n".join(text), allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True}
