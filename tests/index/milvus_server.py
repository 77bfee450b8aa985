"""A Milvus server for tests, from the package milvus 2.3: start, kill and restart it."""

import shutil
import time
import urllib.request
from pathlib import Path

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
