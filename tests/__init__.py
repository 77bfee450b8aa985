"""Tests, and programs that try more: `python -m tests.attack` and others. Their caches are not those of the user."""

import os
import tempfile

CACHES = f"{tempfile.gettempdir()}/scdh-tests-{os.getuid()}"  # kept for later runs: compiling loops takes a minute
os.environ["XDG_CACHE_HOME"] = CACHES
os.environ.setdefault("NUMBA_CACHE_DIR", CACHES)
os.environ["SCDH_FEATURE_DIR"] = ""  # features stay in the folder of each run, so tests do not depend on each other
