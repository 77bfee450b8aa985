"""What the tests share: one thread per process, as pytest runs one process per core."""

import os

# Read by torch when it is imported, here and in the processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")
