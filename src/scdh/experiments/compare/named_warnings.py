"""Warnings of one run among many say which run they are about."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def warnings_named(name: str) -> Iterator[None]:
    """Put ``name: `` before the text of every warning that is shown in the ``with`` block.

    A warning is shown once for each block, also if an earlier block has shown the same text.
    """
    with warnings.catch_warnings():
        show = warnings.showwarning

        def show_named(message: Warning | str, category: type[Warning], *more: Any, **options: Any) -> None:
            show(f"{name}: {message}", category, *more, **options)

        warnings.showwarning = show_named
        yield
