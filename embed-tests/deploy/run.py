"""Tries the files that docs/deploy has to copy, and the workflows, by the tools that read them and by the host.

    run.py --python PYTHON --pyhost PYHOST

Workflows are looked at by zizmor and the schema of GitHub's workflows, the deployment by that of Kubernetes. pre-commit refuses a
commit whose test exceeds its limit; debugpy's adapter launches a program as VS Code has it do; the commands of the workflow for extensions
end as they should. The commands of the Dockerfile, the deployment and the unit are run by embed-tests/wheel/run.py, and the
installed kernel by embed-tests/observe/notebook.rs. Prints each check; exit status 0 if all hold.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "embed-tests/environments"))
import make  # noqa: E402

DEPLOY = ROOT / "docs/deploy"
EXTENSIONS = ROOT / "docs/debug/extension-authors.md"
SECONDS = 120
TEST = """
import pytest
@pytest.mark.limit_memory("2 MB")
def test_rows(): bytearray(%s)
"""


class Place:
    """A folder with the environment of a user: `pyhost` and `pytest` are commands of it."""

    def __init__(self, folder, arguments):
        self.folder = folder
        self.tools = make.environment(arguments.python, "deploy")
        (folder / "bin").mkdir()
        for name in ("pyhost", "pyhostctl"):
            (folder / "bin" / name).symlink_to(arguments.pyhost.resolve().with_name(name))
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYHOST", "PYTHON", "GIT_"))}
        self.environment = {**kept, "PATH": f"{folder / 'bin'}:{self.tools / 'bin'}:{os.environ['PATH']}", "HOME": str(folder),
                            "PYTHONPATH": str(make.site_packages(self.tools)), "PYTHONDONTWRITEBYTECODE": "1"}

    def run(self, *words, status=0, **settings):
        """What a command prints, both streams together; it must end with a status."""
        done = subprocess.run(words, cwd=self.folder, env={**self.environment, **settings}, timeout=SECONDS, encoding="utf-8",
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.returncode == status, (words, done.returncode, done.stdout[-2000:])
        return done.stdout


def workflow_for_extensions():
    return re.search(r"```yaml\n(name: heap.*?)```", EXTENSIONS.read_text(), re.S)[1]


def workflows(place):
    folder = place.folder / ".github/workflows"
    folder.mkdir(parents=True)
    for path in [DEPLOY / "github-workflow.yml", *(ROOT / ".github/workflows").glob("*.yml")]:
        (folder / path.name).write_text(path.read_text())
    (folder / "heap.yml").write_text(workflow_for_extensions())
    files = sorted(map(str, folder.glob("*.yml")))
    place.run("zizmor", "--offline", "--no-progress", "--quiet", "--persona=regular", *files)
    place.run("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *files)


def kubernetes(place):
    assert "passed for resource deployment/app" in place.run("kubernetes-validate", str(DEPLOY / "kubernetes.yaml"))


def pre_commit(place):
    """A commit with a test below its limit is made, one with a test above is not."""
    (place.folder / ".pre-commit-config.yaml").write_text((DEPLOY / "pre-commit-config.yaml").read_text())
    (place.folder / "test_rows.py").write_text(TEST % "1_000_000")
    place.run("git", "init", "--quiet")
    place.run("git", "config", "user.email", "user@example.org")
    place.run("git", "config", "user.name", "user")
    place.run("pre-commit", "install")
    place.run("git", "add", ".pre-commit-config.yaml", "test_rows.py")
    assert "Passed" in place.run("git", "commit", "-m", "below")
    (place.folder / "test_rows.py").write_text(TEST % "8_000_000")
    said = place.run("git", "commit", "-a", "-m", "above", status=1)
    assert "limit" in said and "test_rows" in said, said


def vs_code(place):
    """Each configuration of launch.json runs a program under the host, and its breakpoint stops it."""
    program = place.folder / "program.py"
    program.write_text("import pyhost\nkept = [bytes(100_000) for _ in range(50)]\nprint('active', pyhost.active, len(kept))\n")
    (place.folder / ".venv/bin").mkdir(parents=True)
    (place.folder / ".venv/bin/pyhost").symlink_to(place.folder / "bin/pyhost")
    text = "\n".join(line for line in (DEPLOY / "launch.json").read_text().splitlines() if not line.startswith("//"))
    text = text.replace("${file}", str(program)).replace("${workspaceFolder}", str(place.folder))
    for configuration in json.loads(text)["configurations"]:
        # No terminal is here for the program.
        configuration["console"] = "internalConsole"
        said = debugged(place, configuration, program, 3)
        assert "active True 50" in said, said
        assert "--lines" not in configuration["pythonArgs"] or "program.py:2 in" in said, said


def debugged(place, configuration, program, line):
    """What a program prints that debugpy's adapter launches, and stops at a line."""
    command = [place.tools / "bin/python", "-m", "debugpy.adapter"]
    said, stopped = "", False
    with subprocess.Popen(command, env=place.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL) as adapter:
        def ask(number, request, /, **arguments):
            text = json.dumps({"seq": number, "type": "request", "command": request, "arguments": arguments}).encode()
            adapter.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(text), text))
            adapter.stdin.flush()

        ask(1, "initialize", adapterID="debugpy", clientID="vscode")
        ask(2, "launch", **configuration)
        while header := adapter.stdout.readline():
            size = int(header.split(b":")[1])
            assert adapter.stdout.readline() == b"\r\n"
            message = json.loads(adapter.stdout.read(size))
            assert message.get("success", True), message
            kind = message.get("event")
            if kind == "initialized":
                ask(3, "setBreakpoints", source={"path": str(program)}, breakpoints=[{"line": line}])
                ask(4, "configurationDone")
            elif kind == "stopped":
                stopped = True
                ask(5, "continue", threadId=message["body"]["threadId"])
            elif kind == "output":
                said += message["body"]["output"] if message["body"].get("category") in ("stdout", "stderr") else ""
            elif kind == "terminated":
                ask(6, "disconnect")
                break
        adapter.communicate(timeout=SECONDS)
    assert stopped, said
    return said


def extensions(place):
    """The commands of the workflow for extensions, over a test that has no fault."""
    (place.folder / "tests").mkdir()
    (place.folder / "tests/test_no_memory.py").write_text(
        "import pyhost\ndef test():\n    try:\n        with pyhost.fail(): [0] * 1000\n    except MemoryError: pass\n")
    commands = re.findall(r"run: (pyhost\w* .*)", workflow_for_extensions())
    assert len(commands) == 2, commands
    for command in commands:
        place.run(*command.replace("-m pytest --", "-m pytest tests --").split(), PYHOST_FAIL="when=open")


CHECKS = [workflows, kubernetes, pre_commit, vs_code, extensions]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True)
    parser.add_argument("--pyhost", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    failed = 0
    for check in CHECKS:
        with tempfile.TemporaryDirectory(prefix="pyhost-deploy-") as folder:
            try:
                check(Place(pathlib.Path(folder).resolve(), arguments))
            except make.BadName as error:
                print(f"skipped: {check.__name__}: {error}", flush=True)
            except Exception as error:  # noqa: BLE001, a failed check stops no other
                failed += 1
                print(f"{check.__name__}: FAILED: {type(error).__name__}: {error}", flush=True)
            else:
                print(f"{check.__name__}: ok", flush=True)
    print(f"{len(CHECKS) - failed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
