"""A folder is private only if no other user can change any part of the path to it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from scdh.storage.private_folder import NotPrivateError, make_private, open_own

ANOTHER_USER = 12345
needs_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can change owners")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


def test_missing_folders_are_made_for_the_user_alone(home: Path) -> None:
    make_private(home / "a" / "b")
    assert [(home / name).stat().st_mode & 0o777 for name in ("a", "a/b")] == [0o700, 0o700]
    make_private(home / "a" / "b")


def test_own_links_above_the_folder_are_followed(home: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir(mode=0o755)
    (home / "cache").symlink_to("../disk")
    (home / "far").symlink_to(tmp_path / "home" / "cache")
    make_private(home / "far" / "scdh")
    assert (tmp_path / "disk" / "scdh").is_dir()


def test_links_in_a_circle_are_rejected(home: Path) -> None:
    (home / "a").symlink_to("b")
    (home / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        make_private(home / "a" / "c")


def writable(home: Path) -> None:
    home.chmod(0o777)


def own_link(home: Path) -> None:
    (home / "elsewhere").mkdir()
    (home / "scdh").symlink_to("elsewhere")


def file_in_its_place(home: Path) -> None:
    (home / "scdh").write_text("")


def writable_itself(home: Path) -> None:
    (home / "scdh").mkdir()
    (home / "scdh").chmod(0o1777)


@pytest.mark.parametrize(
    ("arrange", "problem"),
    [
        (writable, "other users can write to .*home"),
        (writable_itself, "other users can write to .*scdh"),
        (own_link, "scdh is a link or a file, not a folder"),
        (file_in_its_place, "scdh is a link or a file, not a folder"),
    ],
)
def test_a_folder_that_others_can_change_is_rejected(home: Path, arrange: Callable[[Path], None], problem: str) -> None:
    arrange(home)
    with pytest.raises(NotPrivateError, match=problem):
        make_private(home / "scdh")


def home_of_another(home: Path) -> None:
    os.chown(home, ANOTHER_USER, -1)


def folder_of_another(home: Path) -> None:
    (home / "scdh").mkdir()
    os.chown(home / "scdh", ANOTHER_USER, -1)


def link_of_another(home: Path) -> None:
    home.rmdir()
    (home.parent / "own").mkdir(mode=0o700)
    home.symlink_to("own")
    os.chown(home, ANOTHER_USER, -1, follow_symlinks=False)


def linked_folder_of_another(home: Path) -> None:
    elsewhere = home.parent / "elsewhere"
    (elsewhere / "own").mkdir(mode=0o700, parents=True)
    os.chown(elsewhere, ANOTHER_USER, -1)
    home.rmdir()
    home.symlink_to(elsewhere / "own")


@needs_root
@pytest.mark.parametrize("arrange", [home_of_another, folder_of_another, link_of_another, linked_folder_of_another])
def test_every_part_of_the_path_must_belong_to_root_or_the_user(home: Path, arrange: Callable[[Path], None]) -> None:
    arrange(home)
    with pytest.raises(NotPrivateError, match="belongs to another user"):
        make_private(home / "scdh")


def test_only_own_files_are_opened(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "file").write_text("text")
    (home / "link").symlink_to("file")
    with open(home / "file", opener=open_own) as handle:
        assert handle.read() == "text"
    with pytest.raises(OSError, match="symbolic links"):
        open_own(str(home / "link"), os.O_RDONLY)
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(PermissionError):
        open_own(str(home / "file"), os.O_RDONLY)
