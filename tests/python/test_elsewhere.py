"""The check of the crates for macOS, Windows, musl and 32 bits finds what one branch of the code lacks."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_branch_that_lacks_a_name_is_found(tmp_path):
    crate = tmp_path / "one"
    (crate / "src").mkdir(parents=True)
    (crate / "Cargo.toml").write_text('[package]\nname = "one"\nversion = "1.0.0"\nedition = "2024"\n')
    (crate / "Cargo.lock").write_text('version = 4\n\n[[package]]\nname = "one"\nversion = "1.0.0"\n')
    lines = ["#[cfg(unix)]", "pub fn one() {}", "pub fn two() {", "one()", "}"]
    lines += ["pub const THREE: u64 = usize::MAX as u64 + (1 << 63);"]
    (crate / "src" / "lib.rs").write_text("\n".join(lines))

    program, programs = ROOT / ".ci" / "elsewhere.py", Path(sys.executable).parent
    command = [sys.executable, program, programs, tmp_path / "out", ROOT / ".tools", crate / "Cargo.toml"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=850, check=False)
    assert run.returncode == 1
    # The sum is too large where a `usize` has 64 bits.
    failed = "aarch64-apple-darwin, x86_64-pc-windows-gnu, x86_64-unknown-linux-musl"
    assert run.stdout.endswith(f"== FAILED: {failed}\n")
    assert "cannot find function `one`" in run.stderr
