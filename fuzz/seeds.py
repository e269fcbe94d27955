"""Makes the first inputs of the fuzz targets from real files, and from what once ended one: seeds.py FOLDER PYHOST."""

import pathlib
import re
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRIPT = """import json, threading
def work():
    global kept
    kept = [json.loads('[[1, 2], "%d"]' % number) for number in range(3000)]
thread = threading.Thread(target=work, name='worker'); thread.start(); thread.join()
try: bytes(1 << 40)
except MemoryError: pass"""
RULES = "libopenblas.so\nleak:blas\naccount:native library:/lib*open$ size:1-64K\n# known\nline:a.py:3 type:^dict$ function:f\n"
REQUEST = ("GET /hosts/7/debug/pprof/heap?seconds=1&gc=1&debug=%31 HTTP/1.1\r\nHost: localhost:9\r\nAccept: text/plain;q=0.5, "
           "application/openmetrics-text;version=1.0.0;q=0.9\r\n\r\n  f (/lib/x.so+0x10, build id 3a)\n")
LIBRARY = """int inner(int (*f)(int), int n) { int a[n]; a[n - 1] = f(n); return a[n - 1] + a[0]; }
static int hidden(int n) { return n + 1; }
int outer(int n) { return inner(hidden, n) + 1; }"""


def patches(data):
    """What is not zero in the data, as src/ctl/hostile.rs reads it."""
    found = re.finditer(rb"[^\0](?:[^\0]|\0{1,3}(?!\0)){0,254}", data)
    return b"".join(struct.pack("<I", match.start())[:3] + bytes([len(match[0])]) + match[0]
                    for match in found if len(match[0]) < 256 and match.start() < 1 << 24)


def of_host(pyhost, folder):
    live, report, timeline = folder / "live", folder / "report", folder / "timeline"
    host = [pyhost, "--lines=4K", "--cap=1G"]
    subprocess.run([*host, f"--stats=json,file={report}", f"--timeline={timeline}", "-c", SCRIPT], stderr=subprocess.DEVNULL, check=True)
    yield "report", report.read_bytes()
    yield "timeline", timeline.read_bytes()[:20000]
    # Only what was killed leaves its samples.
    subprocess.run([*host, f"--live={live}", "-c", SCRIPT + "\nimport os; os.kill(os.getpid(), 9)"], stderr=subprocess.DEVNULL)
    for file in filter(pathlib.Path.is_file, live.rglob("*")):
        data = file.read_bytes()
        start = data.find(b"pyhcard")
        yield ("lines", patches(data)) if start < 0 else ("live_file", patches(data[start:]))


def of_library(folder):
    source, library = folder / "x.c", folder / "x.so"
    source.write_text(LIBRARY)
    subprocess.run(["cc", "-g", "-O1", "-shared", "-nostdlib", "-fPIC", "-Wl,-z,noseparate-code,--hash-style=gnu,--build-id", "-o",
                    library, source], check=True)
    data = library.read_bytes()
    symbols = subprocess.run(["nm", library], stdout=subprocess.PIPE, check=True, text=True).stdout
    start, count = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
    headers = [struct.unpack_from("<IIQQQQQQ", data, start + 56 * number) for number in range(count)]
    image = bytearray(max(header[3] + header[6] for header in headers))
    for kind, _, offset, address, _, length, _, _ in headers:
        if kind == 1:  # PT_LOAD
            image[address:address + length] = data[offset:offset + length]
    places = {header[0]: header[3] for header in headers}
    for name in ("inner", "hidden", "outer"):
        address = int(re.search(rf"(\w+) [tT] {name}\n", symbols)[1], 16) + 4
        yield "elf", struct.pack("<Q", address) + data
        yield "unwind_table", struct.pack("<3I", address, places[0x6474e550], places[2]) + image


def of_texts():
    for file in ROOT.glob("fuzz/found/*/*"):
        yield file.parent.name, file.read_bytes()
    yield "suppressions", RULES.encode()
    yield "request", REQUEST.encode()
    yield "report", (ROOT / "src/ctl/html/sample.json").read_bytes()


def main(folder, pyhost):
    with tempfile.TemporaryDirectory() as own:
        own = pathlib.Path(own)
        for number, (target, data) in enumerate([*of_host(pyhost, own), *of_library(own), *of_texts()]):
            place = pathlib.Path(folder, target)
            place.mkdir(parents=True, exist_ok=True)
            (place / f"seed-{number}").write_bytes(data)


if __name__ == "__main__":
    main(*sys.argv[1:])
