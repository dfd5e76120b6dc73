"""Building of wheels: what is built where, and the program that tries an installed one."""

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / ".ci" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    del sys.modules[name]
    return module


@pytest.fixture(scope="module")
def wheels():
    return script("wheels")


def target(wheels, name):
    (found,) = [target for target in wheels.TARGETS if target.wheel == name]
    return found


def test_a_wheel_is_built_where_its_system_and_library_are(wheels):
    arm, found, none = (
        target(wheels, "musllinux_aarch64"),
        wheels.Tool(Path("rustc")),
        wheels.Tool(reason="no source"),
    )
    assert arm.obstacle({"aarch64-unknown-linux-musl"}, "Linux", none) is None
    missing = arm.obstacle({"x86_64-unknown-linux-gnu"}, "Linux", none)
    assert missing.endswith("add aarch64-unknown-linux-musl (no source)")
    assert arm.obstacle({"x86_64-unknown-linux-gnu"}, "Linux", found) is None
    assert target(wheels, "macosx_universal2").obstacle(set(), "Linux", found) == "needs macOS"
    # Its linker is not ours.
    assert target(wheels, "win_arm64").obstacle(set(), "Windows", found) is not None
    assert target(wheels, "win_arm64").obstacle({"aarch64-pc-windows-msvc"}, "Windows", none) is None


def test_a_wheel_is_used_where_its_processor_and_libc_are(wheels):
    found, none = wheels.Tool(Path("python")), wheels.Tool(reason="no emulator")
    assert target(wheels, "manylinux_x86_64").foreign("x86_64", "glibc", none) is None
    assert target(wheels, "musllinux_x86_64").foreign("x86_64", "glibc", found) == "needs a Python with musl"
    armv7 = target(wheels, "manylinux_armv7l")
    assert armv7.foreign("x86_64", "glibc", none) == "needs a processor armv7l (no emulator)"
    assert armv7.foreign("x86_64", "glibc", found) is None
    assert target(wheels, "macosx_universal2").foreign("arm64", "", none) is None


def test_a_reason_is_left_where_a_tool_cannot_be_prepared(wheels, tmp_path):
    assert wheels.Tool.prepare("python", tmp_path, "riscv64").reason == "no emulator of a processor riscv64"


def test_a_compiler_has_the_source_of_its_standard_library_beside(wheels, tmp_path, monkeypatch):
    sysroot, programs = tmp_path / "toolchain", tmp_path / "bin"
    library = sysroot / "lib/rustlib/src/rust/library"
    library.mkdir(parents=True)
    (library / "Cargo.lock").touch()
    (sysroot / "lib/rustlib/some-host").mkdir()
    programs.mkdir()
    # Prints its arguments; -vV and --print sysroot as a compiler does.
    lines = [
        "#!/bin/sh",
        'if [ "$1" = -vV ]; then printf "release: 1.2.3\\nhost: some-host\\n"',
        f'elif [ "$1" = --print ]; then echo "{sysroot}"',
        'else echo "$@"; fi',
    ]
    (programs / "rustc").write_text("\n".join(lines) + "\n")
    (programs / "rustc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    compiler = wheels.Tool.prepare("rustc", tmp_path / "tools").path
    said = subprocess.run([compiler, "a b"], capture_output=True, text=True, timeout=20, check=True).stdout
    made = tmp_path / "tools" / "sysroot"
    assert said == f"--sysroot {made} a b\n"
    assert (made / "lib/rustlib/src/rust/library/Cargo.lock").exists()
    assert (made / "lib/rustlib/some-host").is_dir()
    # Nothing is done twice, unless there is another compiler.
    program = tmp_path / "tools" / "rustc"
    first = program.stat().st_ino
    assert wheels.Tool.prepare("rustc", tmp_path / "tools").path == program
    assert program.stat().st_ino == first
    (programs / "rustc").write_text((programs / "rustc").read_text().replace("1.2.3", "1.2.4"))
    (made / "lib/rustlib/src/rust").unlink()
    wheels.Tool.prepare("rustc", tmp_path / "tools")
    assert (made / "lib/rustlib/src/rust/library/Cargo.lock").exists()


def test_the_table_names_what_was_not_built(wheels, tmp_path, capsys):
    assert wheels.main([str(tmp_path), str(tmp_path / "dist"), str(tmp_path), "--only", "win_*"]) == 1
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split() == ["target", "size", "used", "built"]
    assert [line.split(maxsplit=3)[3] for line in shown[1:3]] == ["no: needs Windows"] * 2
    with pytest.raises(SystemExit):
        wheels.main([str(tmp_path), str(tmp_path / "dist"), str(tmp_path), "--only", "os2"])
    assert "no wheel matches 'os2': manylinux_x86_64" in capsys.readouterr().err


def test_the_program_that_tries_a_wheel_works_with_this_module(tmp_path, capsys):
    script("smoke").messages(tmp_path / "capture.pcap")
    assert "published, queried, and decoded" in capsys.readouterr().out


def test_the_page_says_with_which_python_it_was_tested():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = [name.rpartition(" ")[2] for name in project["classifiers"] if re.search(r":: 3\.\d+$", name)]
    page = (ROOT / "docs" / "guide" / "platforms.md").read_text()
    rows = re.findall(r"^\| (3\.[\d., ]+) \|", page, re.MULTILINE)
    assert [version for row in rows for version in row.split(", ")] == listed


def test_the_page_has_each_wheel(wheels):
    page = (ROOT / "docs" / "guide" / "platforms.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (`[^|]+`) \|", page, re.MULTILINE)
    # Tags have the version of the libc, which `make wheels` leaves to maturin.
    tags = [(re.sub(r"2014|_1_2", "", tag), triples) for tag, triples in rows]
    assert tags == [
        (target.wheel, ", ".join(f"`{triple}`" for triple in target.triples)) for target in wheels.TARGETS
    ]
