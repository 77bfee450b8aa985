"""``scdh serve`` as users start it: the examples of the page run against it, and signals end it well."""

import contextlib
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from scdh.errors import ConfigError, DataError
from scdh.serve import service as service_module
from scdh.serve.pictures import Pictures
from scdh.serve.server import END_SECONDS, STOP_SECONDS, connections_within
from scdh.serve.settings import Limits, Settings
from tests.cli.commands import must, run
from tests.serve.conftest import TOKEN, picture
from tests.serve.hosted import hosted
from tests.serve.malformed import head
from tests.serve.stops import SLOW_IMAGE, children_of
from tests.serve.uploads import served

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "serve.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def process(shop, tmp_path_factory):
    """A process of its own, its address, and the folder of the examples."""
    folder = tmp_path_factory.mktemp("command")
    must(["index", f"{shop}/photos.codes", "--out", f"{folder}/own.index"])
    for name in ("apple", "pear"):
        (folder / f"{name}.jpg").write_bytes(picture(7, "JPEG"))
    (folder / "token").write_text(f"{TOKEN}\n")
    arguments = f"{shop}/model --index own.index --images {shop}/photos --port 0 --token-file token --drain 1.5"
    command = [sys.executable, "-m", "scdh", "serve", *shlex.split(arguments)]
    with open(folder / "log", "w") as log:
        started = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True)
    line = started.stdout.readline()
    found = re.search(r"Ready: (http://127\.0\.0\.1:[0-9]+)/ ", line)
    assert found, line + (folder / "log").read_text()
    yield started, found[1], folder
    started.kill()
    started.wait()


@pytest.mark.slow
def test_the_calls_of_the_page_succeed(process):
    _, address, folder = process
    calls = [line[2:] for block in blocks("console") for line in block.splitlines() if line.startswith("$ ")]
    assert len(calls) >= 12
    for call in calls:
        text = call.replace("http://127.0.0.1:8000", address)
        done = subprocess.run(
            ["bash", "-c", text.replace("curl", "curl --fail-with-body", 1)],
            cwd=folder,
            env={**os.environ, "SCDH_SERVE_TOKEN": TOKEN},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{call}: {done.stdout} {done.stderr}"
        if done.stdout.startswith("{"):
            assert "error" not in json.loads(done.stdout)
    assert (folder / "thumbnail.jpg").read_bytes()[:2] == b"\xff\xd8"


@pytest.mark.slow
def test_the_python_of_the_page_runs(process, monkeypatch):
    _, address, folder = process
    monkeypatch.chdir(folder)
    (code,) = blocks("python")
    exec(compile(code.replace("http://127.0.0.1:8000", address), "docs/serve.md", "exec"), {})


@pytest.mark.slow
def test_a_signal_ends_it_after_what_has_begun(process):
    """The last test on this process: SIGTERM makes it not ready, lets requests finish, and ends it with 0."""
    started, address, folder = process
    host, port = address.removeprefix("http://").split(":")
    body = b'--x\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\n' + picture(3) + b"\r\n--x--\r\n"
    with socket.create_connection((host, int(port)), timeout=30) as begun, httpx.Client(base_url=address) as http:
        head = f"POST /v1/search/image HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n"
        begun.sendall(head.encode() + b"Content-Type: multipart/form-data; boundary=x\r\n\r\n" + body[:50])
        assert http.get("/ready").status_code == 200
        started.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 20
        while (answer := http.get("/ready")).status_code == 200:
            assert time.monotonic() < deadline
        assert answer.json()["error"]["code"] == "stopping"
        begun.sendall(body[50:])
        received = begun.recv(1 << 16)
        assert received.startswith(b"HTTP/1.1 200")
    assert started.wait(60) == 0
    events = [json.loads(line) for line in (folder / "log").read_text().splitlines() if line.startswith("{")]
    names = [event["event"] for event in events]
    assert names[0] == "ready"
    assert names[-1] == "stopped"
    requests = [event for event in events if event["event"] == "request"]
    assert {event["route"] for event in requests} >= {"/v1/search/image", "/v1/items/{id}/similar"}
    assert all(set(event) >= {"id", "method", "route", "status", "milliseconds", "bytes"} for event in requests)
    assert "Traceback" not in (folder / "log").read_text()
    assert TOKEN not in (folder / "log").read_text()


@pytest.mark.slow
def test_sigterm_ends_it_while_it_decodes_and_clients_stay_connected(tmp_path):
    """Decoders went on for minutes after the log said "stopped"."""
    unread = head("/v1/info", "text/plain", 0, method="GET") * 20
    with served(tmp_path) as service, contextlib.ExitStack() as clients:
        for content in (SLOW_IMAGE, SLOW_IMAGE, SLOW_IMAGE, unread, unread[:50], b""):
            client = clients.enter_context(socket.create_connection(("127.0.0.1", service.port)))
            client.sendall(content)
        deadline = time.monotonic() + 60
        while not children_of(service.process.pid):  # on a busy machine reading an upload takes seconds
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(1.0)
        children = children_of(service.process.pid)
        service.process.terminate()
        assert service.process.wait(1 + STOP_SECONDS + END_SECONDS) == 0
        assert children
        assert not any(Path(f"/proc/{child}").exists() for child in children)


@pytest.mark.slow
def test_malformed_uploads_leave_it_as_it_was():
    command = [sys.executable, "-m", "tests.serve.uploads", "--count", "100"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    result = json.loads(done.stdout)
    assert (result["requests"], result["wrong"]) == (100, [])
    assert set(result["by_status"]) >= {"200", "400", "422"}


@pytest.mark.slow
def test_kills_lose_nothing_that_was_acknowledged():
    command = [sys.executable, "-m", "tests.serve.kills", "--times", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["kills"], result["lost"]) == (2, 0)
    assert result["acknowledged"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("nothing --index empty --port 0", "nothing"),
        ("nothing --index nothing --port 0", "no index file nothing; `scdh index`"),
        ("nothing --index empty --host nowhere.invalid", "cannot be used"),
        ("nothing", "--index"),
        ("nothing --index empty --token-file empty", "is empty"),
        ("nothing --index nothing --port 99999", "--port"),
    ],
)
def test_mistakes_are_one_sentence(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").write_text("\n")
    code, out, err = run(f"serve {arguments}")
    assert (code, out) == (2, "")
    assert message in err
    errors = [line for line in err.splitlines() if line.startswith("Error: ")]
    assert len(errors) == 1, err


def test_pictures_that_are_not_there_are_called_so(shop):
    with pytest.raises(DataError, match=r"^--images cannot be used: Unknown data 'nowhere'"):
        Pictures("nowhere", Limits())


def test_a_first_start_says_what_it_does(shop, monkeypatch):
    class Compiler:
        """Takes long the first time it is waited for."""

        def wait(self, seconds=None):
            if seconds is not None:
                raise subprocess.TimeoutExpired("compiler", seconds)

    monkeypatch.setattr(service_module, "compile_search", lambda bits, kinds: [Compiler(), Compiler()])
    said = []
    with hosted(Settings(f"{shop}/model", f"{shop}/photos.index"), report=said.append) as running:
        running.service._compilers.clear()
    compiling = [f"Compiling the search loops, once per machine; {done} of 2 parts are done …" for done in (0, 1)]
    start = ("Loading the model", "Opening the index", "Preparing the network, which takes a minute the first time")
    assert [line.startswith(words) for line, words in zip(said, start, strict=False)] == [True] * 3
    assert said[3:] == compiling


def test_an_occupied_port_is_reported(tmp_path):
    index = tmp_path / "x.index"
    index.touch()
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        code, _, err = run(f"serve nothing --index {index} --port {other.getsockname()[1]}")
    assert code == 2
    assert "cannot be used" in err


def test_a_token_that_every_user_can_read_is_reported(tmp_path):
    token, index = tmp_path / "token", tmp_path / "x.index"
    index.touch()
    token.write_text(TOKEN)
    token.chmod(0o644)
    _, _, err = run(f"serve nothing --index {index} --port 0 --token-file {token}")
    assert f"run: chmod o-r {token}" in " ".join(err.split())
    token.chmod(0o640)
    assert "chmod" not in run(f"serve nothing --index {index} --port 0 --token-file {token}")[2]


@pytest.mark.parametrize(("files", "most"), [(1 << 16, 1000), (2000, 1000), (1024, 512), (80, 40), (1, 1)])
def test_connections_leave_descriptors_for_the_rest(files, most):
    """With few descriptors, idle connections made every new one end without an answer."""
    assert connections_within(files, 1000) == most


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"origins": ("https://shop.example/",)}, "--cors takes .* got 'https://shop.example/'"),
        ({"origins": ("shop.example",)}, "got 'shop.example'"),
        ({"hosts": ("shop.example:8000",)}, "--allow-host takes .* got 'shop.example:8000'"),
        ({"hosts": ("http://shop.example",)}, "got 'http://shop.example'"),
    ],
)
def test_names_that_no_browser_sends_are_rejected(given, message):
    """They would be compared with what browsers send, and never be equal."""
    with pytest.raises(ConfigError, match=message):
        Settings("model", "index", **given)


def test_names_that_browsers_send_are_taken():
    origins = ("https://shop.example", "http://localhost:3000", "*")
    assert Settings("model", "index", hosts=("shop.example", "::1", "10.0.0.1"), origins=origins).origins == origins


def test_full_collections_leave_out_what_is_loaded_at_the_start():
    import gc

    from scdh.serve.server import keep_what_is_loaded

    loaded = [[] for _ in range(1000)]
    try:
        keep_what_is_loaded()
        assert gc.get_freeze_count() > len(loaded)
        assert not any(each is loaded[0] for each in gc.get_objects(2))
    finally:
        gc.unfreeze()
