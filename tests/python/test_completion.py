"""Scripts of `zwire completion`."""

import shutil
import subprocess

import pytest

from zwire.cli import COMMANDS, completion, main

PATIENCE = 20.0


def completed(*words):
    """What bash proposes for the last of some words."""
    script = "\n".join(completion._bash(completion.commands()))
    ask = f"{script}\nCOMP_WORDS=({' '.join(map(repr, words))}) COMP_CWORD={len(words) - 1}\n_zwire\n"
    ask += 'printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert done.stderr == ""
    return done.stdout.split()


def test_completion_of_bash(tmp_path, monkeypatch):
    assert set(COMMANDS) <= set(completed("zwire", ""))
    assert completed("zwire", "liv") == ["liveliness"]
    assert completed("zwire", "put", "--pri") == ["--priority"]
    assert completed("zwire", "put", "k", "--priority", "") == [str(number) for number in range(1, 8)]
    assert completed("zwire", "zre", "wh") == ["whisper"]
    assert completed("zwire", "zre", "peers", "--adv") == ["--advertise"]
    assert completed("zwire", "bench", "pub") == ["publish"]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.json5").touch()
    assert completed("zwire", "sub", "--config", "ru") == ["run.json5"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_has_every_command_and_option(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for command in completion.commands():
        assert command.words[-1] in script
        for option in command.options:
            names = [name if shell != "fish" else name.lstrip("-") for name in option.names]
            assert all(name in script for name in names), command.words
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True, timeout=PATIENCE)
