"""Checks the crates for other platforms: ``python .ci/elsewhere.py BIN-OF-VENV FOLDER TOOLS [MANIFEST]``.

The compiler checks them for the targets themselves: names, types, and what dependencies have there. The
standard library of a target is compiled from its source (``.ci/foreign rustc``), and zig compiles what crates
have in C. Nothing is linked, so that neither macOS nor Windows has to be there.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from wheels import Tool, compiling_std

ROOT = Path(__file__).resolve().parents[1]

# Targets, and what zig calls them. GNU's Windows differs from Microsoft's in the linker alone.
TARGETS = {
    "aarch64-apple-darwin": "aarch64-macos",
    "x86_64-pc-windows-gnu": "x86_64-windows-gnu",
    "x86_64-unknown-linux-musl": "x86_64-linux-musl",
    # Has a `usize` of 32 bits.
    "armv7-unknown-linux-gnueabihf": "arm-linux-gnueabihf",
}
# The crate cc passes a target of Rust with `--target`, which zig does not know.
C_COMPILER = """\
#!/bin/sh
for argument in "$@"; do
    shift
    case $argument in --target=*) ;; *) set -- "$@" "$argument" ;; esac
done
exec "{python}" -m ziglang cc -target {target} "$@"
"""
TOOL = """\
#!/bin/sh
exec "{python}" -m ziglang {name} "$@"
"""


def program(path: Path, text: str) -> Path:
    """Write a program."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def environment(target: str, compiler: Path, python: Path, folder: Path) -> dict[str, str]:
    """Return the environment in which Cargo compiles for a target."""
    programs, name = folder / "bin", target.replace("-", "_")
    cc = program(programs / f"cc-{target}", C_COMPILER.format(python=python, target=TARGETS[target]))
    ar = program(programs / "ar", TOOL.format(python=python, name="ar"))
    # The compiler looks for it by this name.
    program(programs / "x86_64-w64-mingw32-dlltool", TOOL.format(python=python, name="dlltool"))
    return os.environ | {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        f"CC_{name}": str(cc),
        f"AR_{name}": str(ar),
        # What cc asks Xcode for otherwise.
        "SDKROOT": "/",
        **compiling_std(compiler),
        "PYO3_NO_PYTHON": "1",
        # As maturin: a module of Python links to no library of it.
        "PYO3_BUILD_EXTENSION_MODULE": "1",
        # Without it, there are no shared libraries for musl.
        "CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_RUSTFLAGS": "-C target-feature=-crt-static",
    }


def main(arguments: list[str] | None = None) -> int:
    """Check each target; the exit code tells whether all of them compile."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bin", type=Path)
    parser.add_argument("folder", type=Path, help="folder for what the compiler writes")
    parser.add_argument("tools", type=Path, help="folder for the compiler")
    parser.add_argument("manifest", type=Path, nargs="?", default=ROOT / "Cargo.toml")
    args = parser.parse_args(arguments)
    compiler = Tool.prepare("rustc", args.tools.absolute() / "rust")
    if compiler.path is None:
        print(f"no standard library of other targets: {compiler.reason}", file=sys.stderr)
        return 2
    failed = []
    for target in TARGETS:
        print(f"== {target}", flush=True)
        command: list[str | Path] = [ROOT / ".ci" / "no-warnings", "cargo", "check", "--locked", "--quiet"]
        command += ["--workspace", "--lib", "--target", target, "--manifest-path", args.manifest]
        command += ["--target-dir", args.folder.absolute()]
        env = environment(target, compiler.path, args.bin.absolute() / "python", args.folder.absolute())
        if subprocess.run(command, cwd=ROOT, env=env, check=False).returncode:
            failed.append(target)
    print(f"== FAILED: {', '.join(failed)}" if failed else f"== compiled: {', '.join(TARGETS)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
