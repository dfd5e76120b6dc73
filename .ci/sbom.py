"""Prints the SBOM of the wheel, CycloneDX 1.6 as JSON: ``python .ci/sbom.py [TARGET]``.

maturin has an SBOM of its own, which names crates of all platforms and paths of the build machine. This one
has the crates that cargo builds for the wheel and for one target, by default this platform. A crate with
the scope ``excluded`` runs at build time only: build scripts, procedural macros, and their dependencies.
Packages with the scope ``optional`` are those of the extras, which pip installs on request. If Cargo compiles
the standard library (``CARGO_UNSTABLE_BUILD_STD``), the crates of that are listed, too. The same sources and
tools give the same bytes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

ROOT = Path(__file__).resolve().parents[1]
CRATE = "zwire-py"
# The part before the first comparison or marker of a requirement.
NAME = re.compile(r"[\w.-]+")

Json = dict[str, Any]
Package = tuple[str, str]


def run(*command: str) -> str:
    """Return what a command prints."""
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def purl(package: Package) -> str:
    """Return the package URL of a crate, which also is its reference within the document."""
    # A plus sign begins the build metadata of a version.
    return "pkg:cargo/{}@{}".format(package[0], package[1].replace("+", "%2B"))


def tree(triple: str, edges: str, *options: str) -> tuple[dict[Package, str], dict[Package, set[Package]]]:
    """Return the licence of each package in the wheel's tree of these edges, and its direct dependencies."""
    licences: dict[Package, str] = {}
    needs: dict[Package, set[Package]] = {}
    path: list[Package] = []
    options = options or ("--package", CRATE)
    command = ("cargo", "tree", "--locked", *options, "--target", triple, "--edges", edges)
    for line in run(*command, "--prefix", "depth", "--format", " {p}|{l}|").splitlines():
        depth, name, rest = line.split("|")[0].split(maxsplit=2)
        package = (name, rest.split()[0].removeprefix("v"))
        licences[package] = line.split("|")[1]
        needs.setdefault(package, set())
        path[int(depth) :] = [package]
        if len(path) > 1:
            needs[path[-2]].add(package)
    return licences, needs


def checksums(folder: Path) -> dict[Package, str | None]:
    """Return the checksum of each package in the lock file of a folder; packages of the folder have none."""
    lock = tomllib.loads((folder / "Cargo.lock").read_text())["package"]
    return {(package["name"], package["version"]): package.get("checksum") for package in lock}


def crate(package: Package, licence: str, checksum: str | None, *, linked: bool) -> Json:
    """Return the component of a crate."""
    component: Json = {
        "type": "library",
        "bom-ref": purl(package),
        "name": package[0],
        "version": package[1],
        "scope": "required" if linked else "excluded",
        # Cargo still takes a slash for "or"; SPDX has no such operator.
        "licenses": [{"expression": re.sub(r"\s*/\s*", " OR ", licence)}],
        "purl": purl(package),
    }
    if checksum:
        component["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return component


def library(triple: str) -> list[Json]:
    """Return the components of the crates that the standard library has, if it is compiled with the wheel."""
    if "CARGO_UNSTABLE_BUILD_STD" not in os.environ:
        return []
    sysroot = run(os.environ.get("RUSTC", "rustc"), "--print", "sysroot").strip()
    source = Path(sysroot) / "lib/rustlib/src/rust/library"
    options = ("--manifest-path", str(source / "Cargo.toml"), "--package", "std")
    # The features that Cargo gives it.
    licences, _ = tree(triple, "normal", *options, "--features", "backtrace,panic-unwind")
    sums = checksums(source)
    # Its own crates, which have no checksum, are one component.
    return [
        crate(package, licences[package], sums[package], linked=True)
        for package in sorted(licences)
        if sums[package]
    ]


def crates(triple: str) -> tuple[list[Json], list[Json]]:
    """Return the components of all crates, and the dependencies among them."""
    linked, _ = tree(triple, "normal,no-proc-macro")
    licences, needs = tree(triple, "normal,build")
    sums = checksums(ROOT)
    components = [
        crate(package, licences[package], sums[package], linked=package in linked)
        for package in sorted(licences)
    ]
    edges = [
        {"ref": purl(package), "dependsOn": sorted(purl(need) for need in needs[package])}
        for package in sorted(needs)
    ]
    return components, edges


def extras(project: Json) -> list[Json]:
    """Return the components of the Python packages that the wheel declares."""
    wanted: dict[str, list[Json]] = {}
    declared = {"": project["dependencies"], **project["optional-dependencies"]}
    for extra, requirements in declared.items():
        for requirement in requirements:
            (name,) = NAME.findall(requirement)[:1]
            uses = wanted.setdefault(name, [])
            uses.append({"name": f"zwire:requirement:{extra or 'always'}", "value": requirement})
    return [
        {
            "type": "library",
            "bom-ref": f"pkg:pypi/{name}",
            "name": name,
            "scope": "optional" if "always" not in str(uses) else "required",
            "purl": f"pkg:pypi/{name}",
            "properties": uses,
        }
        for name, uses in sorted(wanted.items())
    ]


def tool(name: str, found: str) -> Json:
    """Return the component of a program that builds the wheel."""
    return {"type": "application", "name": name, "version": found}


def document(target: str = "") -> Json:
    """Return the SBOM of the wheel."""
    rustc = dict(line.split(": ", 1) for line in run("rustc", "-vV").splitlines()[1:])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    target = target or rustc["host"]
    components, dependencies = crates(target)
    (release,) = (component["version"] for component in components if component["name"] == CRATE)
    wheel = f"pkg:pypi/zwire@{release}"
    rust = f"pkg:generic/rust@{rustc['release']}"
    # Each crate links to the standard library.
    standard: Json = {
        "type": "library",
        "bom-ref": rust,
        "name": "rust-std",
        "version": rustc["release"],
        "scope": "required",
        "licenses": [{"expression": "MIT OR Apache-2.0"}],
        "purl": rust,
    }
    known = {component["bom-ref"] for component in components}
    inner = [component for component in library(target) if component["bom-ref"] not in known]
    python = extras(project)
    metadata: Json = {
        "tools": {
            "components": [
                tool("maturin", version("maturin")),
                tool("rustc", rustc["release"]),
                tool("ziglang", version("ziglang")),
            ]
        },
        "component": {
            "type": "library",
            "bom-ref": wheel,
            "name": "zwire",
            "version": release,
            "licenses": [{"expression": project["license"]}],
            "purl": wheel,
        },
        "properties": [{"name": "zwire:target", "value": target}],
    }
    if epoch := os.environ.get("SOURCE_DATE_EPOCH"):
        metadata["timestamp"] = datetime.fromtimestamp(int(epoch), UTC).isoformat()
    content: Json = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": metadata,
        "components": [*components, standard, *inner, *python],
        "dependencies": [
            {"ref": wheel, "dependsOn": sorted([purl((CRATE, release)), rust, *(c["purl"] for c in python)])},
            {"ref": rust, "dependsOn": [component["bom-ref"] for component in inner]},
            *dependencies,
        ],
    }
    # Derived from the content, so that two documents differ in it exactly if they differ elsewhere.
    return {**content, "serialNumber": uuid5(NAMESPACE_URL, json.dumps(content, sort_keys=True)).urn}


if __name__ == "__main__":
    print(json.dumps(document(*sys.argv[1:]), indent=1))
