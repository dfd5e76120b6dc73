"""Workflows of GitHub and the recipe of conda against the tree; `make lint-py` checks their form."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def jobs():
    for path in WORKFLOWS:
        for name, job in yaml.safe_load(path.read_text())["jobs"].items():
            yield pytest.param(job, id=f"{path.stem}-{name}")


def scripts(job):
    return [step["run"] for step in job.get("steps", []) if "run" in step]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_named_by_their_commit(path):
    used = re.findall(r"uses: (.*)", path.read_text())
    assert used
    for action in used:
        assert action.startswith("./.github/") or re.fullmatch(
            r"[\w-]+/[\w-]+@[0-9a-f]{40} # v[\d.]+", action
        )


@pytest.mark.parametrize("job", list(jobs()))
def test_each_job_ends_and_runs_what_the_tree_has(job):
    assert "uses" in job or job["timeout-minutes"] <= 90
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for script in scripts(job):
        assert set(re.findall(r"^make ([a-z-]+)", script)) <= targets
        for name in re.findall(r"(?<![\w/])\.ci/[\w.-]+", script):
            assert (ROOT / name).is_file(), name
        # Values of expressions are data: a script takes them from its environment.
        assert "${{" not in script


def test_every_wheel_is_built_and_used_by_the_workflow():
    command = [sys.executable, ROOT / ".ci" / "wheels.py", "bin", "dist", "tools", "--only", "none"]
    listed = subprocess.run(command, capture_output=True, text=True, timeout=25, check=False).stderr
    wanted = set(re.findall(r"\b(?:manylinux|musllinux|macosx|win)_\w+", listed))
    assert len(wanted) == 9
    found = yaml.safe_load((ROOT / ".github/workflows/wheels.yml").read_text())["jobs"]
    used = {entry["wheel"] for entry in found["linux-used"]["strategy"]["matrix"]["include"]}
    elsewhere = {entry["wheel"] for entry in found["elsewhere"]["strategy"]["matrix"]["include"]}
    # `make wheels` itself uses the wheel of the runner.
    short = {re.sub(r"linux(_\d+)+_", "linux_", wheel) for wheel in used}
    assert short | elsewhere | {"manylinux_x86_64"} == wanted
    (added,) = [script for script in scripts(found["linux"]) if script.startswith("rustup")]
    assert len(re.findall(r"\S+-linux-\S+", added)) == 6


def test_the_recipe_has_the_version_and_python_of_the_package():
    recipe = yaml.safe_load((ROOT / "deploy/conda/recipe.yaml").read_text())
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert recipe["context"]["version"] == cargo["workspace"]["package"]["version"]
    assert f"python {project['project']['requires-python']}" in recipe["requirements"]["run"]
    assert recipe["build"]["python"]["entry_points"] == [
        f"{name} = {target}" for name, target in project["project"]["scripts"].items()
    ]
    (needed,) = project["build-system"]["requires"]
    assert needed.replace("maturin", "maturin ") in recipe["requirements"]["host"]
    optional = {need for needs in project["project"]["optional-dependencies"].values() for need in needs}
    assert {need.replace(" ", "") for need in recipe["requirements"]["run_constraints"]} <= optional


@pytest.mark.parametrize("name", ["CODE_OF_CONDUCT.md", ".github/ISSUE_TEMPLATE/bug.yml"])
def test_texts_for_contributors_name_what_the_tree_has(name):
    text = (ROOT / name).read_text()
    assert "SECURITY.md" in text
    assert (ROOT / "SECURITY.md").exists()
