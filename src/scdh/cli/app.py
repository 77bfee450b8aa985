"""The program ``scdh``: its commands, and how mistakes end: one sentence and exit code 2."""

import sys
import warnings
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import typer

from scdh._version import __version__
from scdh.cli.compare import EXAMPLES as COMPARE_EXAMPLES
from scdh.cli.compare import compare
from scdh.cli.datasets import EXAMPLES as DATASETS_EXAMPLES
from scdh.cli.datasets import datasets
from scdh.cli.demo import EXAMPLES as DEMO_EXAMPLES
from scdh.cli.demo import demo
from scdh.cli.encode import EXAMPLES as ENCODE_EXAMPLES
from scdh.cli.encode import encode
from scdh.cli.evaluate import EXAMPLES as EVALUATE_EXAMPLES
from scdh.cli.evaluate import evaluate
from scdh.cli.index import EXAMPLES as INDEX_EXAMPLES
from scdh.cli.index import index
from scdh.cli.methods import EXAMPLES as METHODS_EXAMPLES
from scdh.cli.methods import methods
from scdh.cli.search import EXAMPLES as SEARCH_EXAMPLES
from scdh.cli.search import search
from scdh.cli.show import Stopped, examples, paragraphs, rank
from scdh.cli.train import EXAMPLES as TRAIN_EXAMPLES
from scdh.cli.train import train
from scdh.errors import ScdhError

MISTAKE, BUG, STOPPED = 2, 1, 130
COMMANDS: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (demo, DEMO_EXAMPLES),
    (train, TRAIN_EXAMPLES),
    (encode, ENCODE_EXAMPLES),
    (index, INDEX_EXAMPLES),
    (search, SEARCH_EXAMPLES),
    (evaluate, EVALUATE_EXAMPLES),
    (compare, COMPARE_EXAMPLES),
    (methods, METHODS_EXAMPLES),
    (datasets, DATASETS_EXAMPLES),
)

app = typer.Typer(
    name="scdh",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog=examples("scdh demo --data digits", "scdh train --preset demo-digits", "scdh search --help"),
)
for command, shown in COMMANDS:
    app.command(help=paragraphs(command.__doc__), epilog=examples(*shown))(command)


def _version(asked: bool) -> None:
    if asked:
        print(f"scdh {__version__}")
        raise typer.Exit


@app.callback()
def program(
    version: Annotated[
        bool, typer.Option("--version", metavar="", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", metavar="", help="Show the trace of an error; may stand anywhere.")
    ] = False,
) -> None:
    """Short binary codes for images and embeddings: learn them, search them, score them."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and end the program."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"] or ["--help"]
    with warnings.catch_warnings():
        _show_warnings_as_lines(debug)
        try:
            code = typer.main.get_command(app).main(args=words, prog_name="scdh", standalone_mode=False)
            if code == STOPPED:  # Ctrl-C, which typer turns into this number
                _tell("Stopped.")
        except Stopped as stopped:
            _tell(str(stopped))
            code = STOPPED
        except (KeyboardInterrupt, typer.Abort):
            _tell("Stopped.")
            code = STOPPED
        except Exception as error:
            if debug:
                raise
            code, sentence = explain(error)
            _tell(sentence)
    sys.exit(code if isinstance(code, int) else 0)


def explain(error: Exception) -> tuple[int, str]:
    """Exit code and sentence for anything that a command raised."""
    if isinstance(error, ScdhError):
        return MISTAKE, f"Error: {error}"
    if callable(words := getattr(error, "format_message", None)):  # typer's own: unknown option, missing argument
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "scdh"
        said = str(words()).replace("Value error, ", "").strip()
        return MISTAKE, f"Error: {said}" if said.endswith("?") else f"Error: {said.rstrip('.')}; see `{command} --help`"
    if "No space left on device" in str(error):  # an OSError from Python, another kind from safetensors
        where = f" ({_plain(error)})" if isinstance(error, OSError) and error.filename is not None else ""
        return MISTAKE, f"Error: No space is left on the device to write to{where}"
    if isinstance(error, OSError):
        return MISTAKE, f"Error: {_plain(error)}"
    if isinstance(error, MemoryError):
        return MISTAKE, "Error: There is not enough memory; try a smaller batch or a part of the data"
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return BUG, f"Error: This should not have happened ({what}); add --debug to see where, and please report it"


def _plain(error: Exception) -> str:
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    reason = error.strerror[:1].lower() + error.strerror[1:]
    return f"{error.filename!r} cannot be used: {reason}" if error.filename is not None else reason


def _tell(sentence: str) -> None:
    """One line, whatever the message holds; other processes than the first say who they are."""
    line = " ".join(sentence.split())
    line += "" if line.endswith((".", "?", "!")) else "."
    print(line if rank() == 0 else f"[process {rank()}] {line}", file=sys.stderr, flush=True)


def _show_warnings_as_lines(debug: bool) -> None:
    """Warnings are for users, without the file and line that raised them; ``--debug`` leaves them as they are."""
    if debug:
        return

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        _tell(f"Warning: {message}")

    warnings.simplefilter("default")
    for category in (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ImportWarning, ResourceWarning):
        warnings.simplefilter("ignore", category)  # for programmers, and mostly of other packages
    warnings.showwarning = show
