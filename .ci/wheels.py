"""Builds each wheel that this machine can: ``python .ci/wheels.py BIN-OF-VENV FOLDER TOOLS [--only NAME]``.

A target needs its Rust standard library: that of ``rustup target add TARGET``, or else it is compiled from
its source (``.ci/foreign rustc``). Wheels for Linux are linked by zig, so that any Linux builds all of them;
wheels for macOS and Windows are built on those systems. A wheel for this machine is installed into a clean
environment and used; one for another processor is used by an emulated CPython (``.ci/foreign python``). The
table at the end lists every target, also those that were not built or not used, with the reason.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Tool:
    """Program that ``.ci/foreign`` prepares, or the reason for which there is none."""

    path: Path | None = None
    reason: str = "not looked for"

    @classmethod
    def prepare(cls, kind: str, folder: Path, *arguments: str) -> Tool:
        """Prepare it in a folder, the first time by the network."""
        print(f"== preparing {kind} {' '.join(arguments)}", flush=True)
        command: list[str | Path] = ["bash", ".ci/foreign", kind, folder, *arguments]
        subprocess.run(command, cwd=ROOT, check=True)
        if (folder / kind).exists():
            return cls(folder / kind)
        return cls(reason=(folder / "missing").read_text().strip())


def compiling_std(compiler: Path) -> dict[str, str]:
    """Return variables with which Cargo compiles the standard library; stable releases call that unstable."""
    return {
        "RUSTC": str(compiler),
        "RUSTC_BOOTSTRAP": "1",
        "CARGO_UNSTABLE_BUILD_STD": "std,panic_abort",
    }


@dataclass(frozen=True)
class Target:
    """Wheel that a release has."""

    wheel: str
    """End of the wheel's name: its platform tag, without the version of the system."""
    triples: tuple[str, ...]
    """Rust targets; several for a universal binary."""
    system: str
    """Value of ``platform.system`` where it is built."""
    machines: tuple[str, ...]
    """Values of ``platform.machine`` where it is run."""
    libc: str = ""
    compatibility: str = ""

    def missing(self, installed: set[str]) -> list[str]:
        """Return the Rust targets of the wheel that have no standard library."""
        return [triple for triple in self.triples if triple not in installed]

    def obstacle(self, installed: set[str], system: str, source: Tool) -> str | None:
        """Return the reason for which the wheel is not built here; None if it is."""
        if system != self.system:
            return f"needs {'macOS' if self.system == 'Darwin' else self.system}"
        missing = self.missing(installed)
        if not missing or (system == "Linux" and source.path):
            return None
        return f"no standard library: rustup target add {' '.join(missing)} ({source.reason})"

    def foreign(self, machine: str, libc: str, emulated: Tool) -> str | None:
        """Return the reason for which the wheel is not run here; None if it is."""
        if libc != self.libc:
            return f"needs a Python with {self.libc}"
        if machine not in self.machines and not emulated.path:
            return f"needs a processor {self.machines[0]} ({emulated.reason})"
        return None


X86, ARM = ("x86_64", "AMD64"), ("aarch64", "arm64", "ARM64")
TARGETS = (
    Target("manylinux_x86_64", ("x86_64-unknown-linux-gnu",), "Linux", X86, "glibc", "manylinux2014"),
    Target("manylinux_aarch64", ("aarch64-unknown-linux-gnu",), "Linux", ARM, "glibc", "manylinux2014"),
    Target(
        "manylinux_armv7l",
        ("armv7-unknown-linux-gnueabihf",),
        "Linux",
        ("armv7l",),
        "glibc",
        "manylinux2014",
    ),
    Target("musllinux_x86_64", ("x86_64-unknown-linux-musl",), "Linux", X86, "musl", "musllinux_1_2"),
    Target("musllinux_aarch64", ("aarch64-unknown-linux-musl",), "Linux", ARM, "musl", "musllinux_1_2"),
    Target(
        "musllinux_armv7l",
        ("armv7-unknown-linux-musleabihf",),
        "Linux",
        ("armv7l",),
        "musl",
        "musllinux_1_2",
    ),
    Target("macosx_universal2", ("x86_64-apple-darwin", "aarch64-apple-darwin"), "Darwin", X86 + ARM),
    Target("win_amd64", ("x86_64-pc-windows-msvc",), "Windows", X86),
    Target("win_arm64", ("aarch64-pc-windows-msvc",), "Windows", ARM),
)


@dataclass
class Outcome:
    """Row of the table."""

    target: Target
    built: str = "no"
    ran: str = ""
    size: str = ""
    failed: bool = False


def installed() -> set[str]:
    """Return the targets with a standard library on this machine."""
    root = subprocess.run(["rustc", "--print", "sysroot"], check=True, capture_output=True, text=True).stdout  # noqa: S607
    return {
        path.parent.name
        for path in (Path(root.strip()) / "lib" / "rustlib").glob("*/lib")
        if any(path.glob("libcore-*"))
    }


def produce(target: Target, bin_of_venv: Path, folder: Path, tools: Path) -> Outcome:
    """Build a wheel, and use it where that is possible."""
    outcome, source, env = Outcome(target), Tool(), dict(os.environ)
    missing = target.missing(installed()) if platform.system() == target.system == "Linux" else []
    if missing:
        source = Tool.prepare("rustc", tools / "rust")
    if reason := target.obstacle(installed(), platform.system(), source):
        outcome.built = f"no: {reason}"
        return outcome
    if source.path:
        env |= compiling_std(source.path)
    triple = target.triples[0] if len(target.triples) == 1 else "universal2-apple-darwin"
    begin = time.time()
    print(f"== {target.wheel}: building", flush=True)
    command: list[str | Path] = [
        "bash",
        ".ci/wheel",
        bin_of_venv,
        folder,
        ROOT / "target",
        triple,
        target.compatibility,
    ]
    if subprocess.run(command, cwd=ROOT, env=env, check=False).returncode:
        outcome.built, outcome.failed = "FAILED", True
        return outcome
    (wheel,) = (path for path in folder.glob("*.whl") if path.stat().st_mtime >= begin)
    outcome.built, outcome.size = "yes", f"{wheel.stat().st_size / 1e6:.2f} MB"
    use(target, wheel, bin_of_venv, tools, outcome)
    return outcome


def use(target: Target, wheel: Path, bin_of_venv: Path, tools: Path, outcome: Outcome) -> None:
    """Install a wheel and use it, where that is possible."""
    libc = "glibc" if platform.libc_ver()[0] == "glibc" else "musl" if platform.system() == "Linux" else ""
    machine, emulated = platform.machine(), Tool()
    if machine not in target.machines and libc == target.libc:
        emulated = Tool.prepare("python", tools / f"python-{target.machines[0]}", target.machines[0])
    if reason := target.foreign(machine, libc, emulated):
        outcome.ran = f"no: {reason}"
        return
    print(f"== {target.wheel}: installing and using it", flush=True)
    # Not the Python of the environment, which the wheel is no part of: the one that made it.
    python = os.environ.get("PYTHON", getattr(sys, "_base_executable", sys.executable))
    command: list[str | Path] = ["bash", ".ci/try-wheel", emulated.path or python, wheel]
    if emulated.path:
        command += [emulated.path.parent / "site", bin_of_venv / "python"]
    outcome.failed = bool(subprocess.run(command, cwd=ROOT, check=False).returncode)
    outcome.ran = "FAILED" if outcome.failed else "by an emulator" if emulated.path else "yes"


def table(outcomes: list[Outcome]) -> str:
    """Return the table of all targets."""
    rows = [("target", "size", "used", "built")]
    rows += [(o.target.wheel, o.size or "-", o.ran or "-", o.built) for o in outcomes]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]])
        for row in rows
    )


def main(arguments: list[str] | None = None) -> int:
    """Build the wheels; the exit code tells whether all that can be built here were built and worked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bin", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("tools", type=Path, help="folder for compilers and emulators")
    parser.add_argument("--only", default="*", help="wheels whose name matches, such as 'manylinux_*'")
    args = parser.parse_args(arguments)
    wanted = [target for target in TARGETS if fnmatch.fnmatch(target.wheel, args.only)]
    if not wanted:
        parser.error(f"no wheel matches {args.only!r}: {', '.join(target.wheel for target in TARGETS)}")
    args.folder.mkdir(parents=True, exist_ok=True)
    outcomes = [
        produce(target, args.bin.absolute(), args.folder.absolute(), args.tools.absolute())
        for target in wanted
    ]
    print(table(outcomes))
    if not any(outcome.built == "yes" for outcome in outcomes):
        print("no wheel was built")
        return 1
    return int(any(outcome.failed for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
