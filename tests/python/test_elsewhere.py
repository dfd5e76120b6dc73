"""The stand-ins for macOS and Windows: conditions of the code, as those systems decide them."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def elsewhere():
    spec = importlib.util.spec_from_file_location("elsewhere", ROOT / ".ci" / "elsewhere.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.mark.parametrize(
    ("source", "macos", "windows"),
    [
        ('#[cfg(target_os = "linux")]', "#[cfg(any())]", "#[cfg(any())]"),
        ('#[cfg(not(target_os = "linux"))]', "#[cfg(not(any()))]", "#[cfg(not(any()))]"),
        ("#[cfg(unix)]", "#[cfg(unix)]", "#[cfg(any(any()))]"),
        ("if cfg!(windows) { a } else { unix }", "if cfg!(windows) { a } else { unix }", None),
        ("[target.'cfg(unix)'.dependencies]", "[target.'cfg(unix)'.dependencies]", None),
        ("let unix = windows;", "let unix = windows;", "let unix = windows;"),
    ],
)
def test_conditions_are_those_of_the_system(elsewhere, source, macos, windows):
    assert elsewhere.rewritten(source, elsewhere.SYSTEMS["like-macos"]) == macos
    result = elsewhere.rewritten(source, elsewhere.SYSTEMS["like-windows"])
    assert "cfg(unix)" not in result
    assert "cfg!(windows)" not in result
    assert windows is None or result == windows


@pytest.mark.timeout(120)
def test_a_branch_that_lacks_a_name_is_found(elsewhere, tmp_path):
    crate = tmp_path / "root" / "rust" / "zwire-one"
    (crate / "src").mkdir(parents=True)
    (tmp_path / "root" / ".ci").mkdir()
    script = tmp_path / "root" / ".ci" / "elsewhere.py"
    script.write_text((ROOT / ".ci" / "elsewhere.py").read_text())
    (tmp_path / "root" / "Cargo.toml").write_text(
        '[workspace]\nresolver = "3"\nmembers = ["rust/zwire-one"]\n'
    )
    (tmp_path / "root" / "Cargo.lock").write_text("version = 4\n")
    (crate / "Cargo.toml").write_text('[package]\nname = "zwire-one"\nversion = "1.0.0"\nedition = "2024"\n')
    (crate / "src" / "lib.rs").write_text("#[cfg(unix)]\npub fn one() {}\npub fn two() {\n    one()\n}\n")

    run = subprocess.run(
        [sys.executable, script, tmp_path / "out"], capture_output=True, text=True, timeout=100, check=False
    )
    assert run.returncode == 1
    assert run.stdout.endswith("== FAILED: like-windows\n")
    assert "cannot find function `one`" in run.stderr
