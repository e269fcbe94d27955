"""Runs other tools under the host, and says of each whether it works: the table of docs/results/tools.md.

    python3 embed-tests/tools/run.py --python PYTHON --pyhost PYHOST [NAME ...]

PYTHON is a CPython 3.11 with the libpython of PYHOST. The tools are pinned in
embed-tests/environments/pins/py3.11-beside.txt, and installed below target/ by embed-tests/environments/make.py.
Debuggers and memory tools have tests of their own: `cargo test --test embed tools::`.

Exit status: 0; 1 if a tool does not work; 2 for a bad command line.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "environments"))

import make  # noqa: E402

HOSTED = "import pyhost, sys; print('hosted', pyhost.memory_stats()['total']['live_bytes'] > 0)"
TEST = "import pyhost\n\ndef test_is_hosted():\n    assert pyhost.memory_stats()\n"
SERVED = """
import pyhost

def app(environ, respond):
    respond("200 OK", [])
    return [b"hosted"]

async def asgi(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"hosted"})
"""
SERVE = """
import signal, socket, subprocess, sys, time, urllib.request
listener = socket.socket(); listener.bind(("127.0.0.1", 0)); port = listener.getsockname()[1]; listener.close()
server = subprocess.Popen([sys.executable, "-m", *[word.replace("PORT", str(port)) for word in sys.argv[1:]]])
for _ in range(600):
    try:
        print(urllib.request.urlopen("http://127.0.0.1:%d/" % port).read().decode(), flush=True)
        break
    except OSError:
        time.sleep(0.1)
server.send_signal(signal.SIGTERM)
print("ended", server.wait(60))
"""
KERNEL = """
import jupyter_client
manager, client = jupyter_client.manager.start_new_kernel(kernel_name="python3")
client.execute_interactive("import pyhost; print('hosted')", timeout=60)
manager.shutdown_kernel(now=True)
"""
DASK = """
if __name__ == "__main__":
    import distributed
    with distributed.Client(n_workers=2, threads_per_worker=1, dashboard_address=None) as client:
        print(client.submit(lambda: __import__("pyhost") and "hosted").result())
"""

# Name, what follows the host's path, what the output must hold. A word that is a key of FILES is that file's path.
FILES = {"test_one.py": TEST, "served.py": SERVED, "serve.py": SERVE, "kernel.py": KERNEL, "dask_two.py": DASK,
         "hosted.py": HOSTED, "tox.ini": "[tox]\nskipsdist = true\n[testenv]\ncommands = python hosted.py\n"}
CHECKS = [
    ("pip", ["-m", "pip", "--version"], "pip "),
    ("virtualenv", ["-m", "virtualenv", "-q", "--copies", "made"], ""),
    ("uv", ["-m", "uv", "venv", "-q", "--python", "PYHOST", "made-by-uv"], ""),
    ("tox", ["-m", "tox", "-q", "-e", "py"], "hosted True"),
    ("pytest", ["-m", "pytest", "-q", "test_one.py"], "1 passed"),
    ("coverage", ["-m", "coverage", "run", "hosted.py"], "hosted True"),
    ("ipython", ["-m", "IPython", "--no-banner", "-c", HOSTED], "hosted True"),
    ("jupyter_client", ["kernel.py"], "hosted"),
    ("gunicorn", ["serve.py", "gunicorn", "-b", "127.0.0.1:PORT", "served:app"], "hosted"),
    ("uvicorn", ["serve.py", "uvicorn", "--port", "PORT", "served:asgi"], "hosted"),
    ("distributed", ["dask_two.py"], "hosted"),
    ("py-spy", None, "hosted True"),
    ("filprofiler", ["-m", "filprofiler", "--no-browser", "-o", "fil", "run", "hosted.py"], "hosted True"),
    ("pex", ["-m", "pex", "--python", "PYHOST", "--no-index", "-D", ".", "--", "hosted.py"], "hosted True"),
]


def run(check, pyhost, folder, site_packages):
    """Runs one check; None, or the last lines of what it printed where it did not work."""
    name, words, expected = check
    if name == "py-spy":
        command = [str(site_packages.parents[2] / "bin" / "py-spy"), "record", "-o", "spy.txt", "-f", "raw", "--",
                   pyhost, "hosted.py"]
    else:
        command = [pyhost, *[pyhost if word == "PYHOST" else word for word in words]]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYHOST"))}
    environment["PYTHONPATH"] = str(site_packages)
    try:
        done = subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, timeout=300,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    except subprocess.TimeoutExpired:
        return "no end within 300 s"
    if done.returncode == 0 and expected in done.stdout:
        return None
    return f"status {done.returncode}: " + " | ".join(done.stdout.strip().splitlines()[-6:])


def version_of(site_packages, name):
    found = sorted(site_packages.glob(name.replace("-", "_").lower() + "-*.dist-info"))
    return found[0].name.split("-")[1][: -len(".dist")] if found else "the Python's own"


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", required=True)
    parser.add_argument("--pyhost", required=True)
    parser.add_argument("names", nargs="*", metavar="NAME", help="the tools to run (all)")
    options = parser.parse_args(arguments)
    pyhost = os.path.abspath(options.pyhost)
    site_packages = make.site_packages(make.environment(options.python, "beside"))
    failed = 0
    print("| tool | version | works |\n|---|---|---|")
    for check in CHECKS:
        name = check[0]
        if options.names and name not in options.names:
            continue
        folder = pathlib.Path(tempfile.mkdtemp(prefix="pyhost-tools-"))
        for file, text in FILES.items():
            (folder / file).write_text(text)
        trouble = run(check, pyhost, folder, site_packages)
        shutil.rmtree(folder, ignore_errors=True)
        failed += trouble is not None
        print(f"| {name} | {version_of(site_packages, name)} | {'no: ' + trouble if trouble else 'yes'} |", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
