"""The program ``scdh``: its commands, and how errors end: one sentence and exit code 2."""

import errno
import sys
import warnings
from collections.abc import Sequence
from contextvars import copy_context
from functools import partial
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from scdh._version import __version__
from scdh.cli import (
    cache,
    check,
    compare,
    datasets,
    demo,
    duplicates,
    encode,
    evaluate,
    export,
    index,
    info,
    methods,
    quantise,
    report,
    reproduce,
    search,
    serve,
    train,
)
from scdh.cli.output import Stopped, help_examples, help_text, never_fail_to_print, process_rank
from scdh.errors import ScdhError, is_out_of_memory
from scdh.printable import printable

USER_ERROR = 2
BUG = 1
STOPPED = 130
COMMANDS: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (demo.demo, demo.EXAMPLES),
    (train.train, train.EXAMPLES),
    (encode.encode, encode.EXAMPLES),
    (quantise.quantise, quantise.EXAMPLES),
    (index.index, index.EXAMPLES),
    (search.search, search.EXAMPLES),
    (duplicates.duplicates, duplicates.EXAMPLES),
    (export.export, export.EXAMPLES),
    (serve.serve, serve.EXAMPLES),
    (evaluate.evaluate, evaluate.EXAMPLES),
    (report.report, report.EXAMPLES),
    (compare.compare, compare.EXAMPLES),
    (reproduce.reproduce, reproduce.EXAMPLES),
    (info.info, info.EXAMPLES),
    (check.check, check.EXAMPLES),
    (cache.cache, cache.EXAMPLES),
    (methods.methods, methods.EXAMPLES),
    (datasets.datasets, datasets.EXAMPLES),
)
# Warnings for programmers, mostly of other packages.
HIDDEN_WARNINGS = (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ImportWarning, ResourceWarning)


class _PlainHelp:
    """``--help`` takes no value; typer would show it as ``--help <bool>``."""

    def get_help_option(self, ctx: Any) -> Any:
        option = super().get_help_option(ctx)  # type: ignore[misc]
        if option is not None:
            option.metavar = ""
        return option


class _Command(_PlainHelp, TyperCommand):
    pass


class _Program(_PlainHelp, TyperGroup):
    pass


app = typer.Typer(
    name="scdh",
    cls=_Program,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog=help_examples(("scdh demo --data digits", "scdh train --preset demo-digits", "scdh search --help")),
)
for command, examples in COMMANDS:
    app.command(cls=_Command, help=help_text(command.__doc__), epilog=help_examples(examples))(command)


def _print_version(given: bool) -> None:
    if given:
        print(f"scdh {__version__}")
        raise typer.Exit


@app.callback()
def program(
    version: Annotated[
        bool,
        typer.Option(
            "--version", metavar="", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", metavar="", help="Show the traceback of an error; may be given anywhere.")
    ] = False,
) -> None:
    """Short binary codes for images and embeddings: learn them, search them, score them."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and end the program.

    Raises:
        SystemExit: always; 0 after success, 1 for a bug, 2 for a user's error, 130 after Ctrl-C.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    given = [argument for argument in given if argument != "--debug"] or ["--help"]
    never_fail_to_print()
    # In a context of its own: the device and the rank that a command chooses are chosen for it alone.
    context = copy_context()
    with warnings.catch_warnings():
        if not debug:
            _print_warnings_as_lines()
        try:
            run = partial(typer.main.get_command(app).main, prog_name="scdh", standalone_mode=False)
            code = context.run(run, args=given)
            if code == STOPPED:  # typer turns Ctrl-C into this number
                context.run(_print_message, "Stopped.")
        except Stopped as stopped:
            context.run(_print_message, str(stopped))
            code = STOPPED
        except (KeyboardInterrupt, typer.Abort):
            context.run(_print_message, "Stopped.")
            code = STOPPED
        except Exception as error:
            if debug:
                raise
            code, message = explain(error)
            context.run(_print_message, message)
    sys.exit(code if isinstance(code, int) else 0)


def explain(error: Exception) -> tuple[int, str]:
    """Exit code and message for anything that a command raised."""
    if isinstance(error, ScdhError):
        return USER_ERROR, f"Error: {error}"
    if callable(format_message := getattr(error, "format_message", None)):  # of typer: unknown option, missing argument
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "scdh"
        message = str(format_message()).replace("Value error, ", "").strip()
        help_hint = "" if message.endswith("?") else f"; see `{command} --help`"
        return USER_ERROR, f"Error: {message.rstrip('.')}{help_hint}"
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        file = f" ({_describe_os_error(error)})" if error.filename is not None else ""
        return USER_ERROR, f"Error: No space is left on the device to write to{file}"
    if isinstance(error, OSError):
        return USER_ERROR, f"Error: {_describe_os_error(error)}"
    if is_out_of_memory(error):
        return USER_ERROR, "Error: There is not enough memory; try a smaller batch or a part of the data"
    cause = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return BUG, f"Error: This should not have happened ({cause}); add --debug to see where, and please report it"


def _describe_os_error(error: OSError) -> str:
    if error.strerror is None:
        return str(error)
    reason = error.strerror[:1].lower() + error.strerror[1:]
    return f"{error.filename!r} cannot be used: {reason}" if error.filename is not None else reason


def _print_message(message: str) -> None:
    """Print one line to standard error; processes other than the first add their number."""
    line = printable(" ".join(message.split()))
    line += "" if line.endswith((".", "?", "!")) else "."
    print(line if process_rank() == 0 else f"[process {process_rank()}] {line}", file=sys.stderr, flush=True)


def _print_warnings_as_lines() -> None:
    """Warnings are for users here, so they are printed without the file and line that raised them."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        _print_message(f"Warning: {message}")

    warnings.simplefilter("default")
    for category in HIDDEN_WARNINGS:
        warnings.simplefilter("ignore", category)
    warnings.showwarning = show
