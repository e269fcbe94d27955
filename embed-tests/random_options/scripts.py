"""Thirty small scripts of what programs do. Each prints the same whatever runs it, and ends with the status beside it."""

# Name: status, code.
SCRIPTS = {
    "objects": (0, "print(sum(len(str(n)) for n in range(100000)))"),
    "dictionaries": (0, "d = {n: [n] * 5 for n in range(30000)}; del d[7]; print(len(d), sum(map(len, d.values())))"),
    "big bytes": (0, "b = bytearray(5 << 20); b[-1] = 7; b.extend(bytes(1 << 20)); print(len(b), sum(b))"),
    "growing list": (0, "a = []\nfor n in range(500000): a.append(n)\nprint(len(a), a[-1])"),
    "strings": (0, "s = ''\nfor n in range(20000): s += chr(65 + n % 26)\nprint(len(s), s[:30], s.count('Q'))"),
    "recursion": (0, "def f(n): return n and 1 + f(n - 1)\nprint(f(900))"),
    "too deep": (1, "print('begins', flush=True)\ndef f(): return f()\nf()"),
    "an error": (1, "print('before'); raise ValueError('wrong')"),
    "an exit": (7, "import sys; print('ends'); sys.exit(7)"),
    "a hard exit": (9, "import os; print('ends', flush=True); os._exit(9)"),
    "a text as status": (1, "print('ends'); raise SystemExit('a text')"),
    "a signal": (-15, "import os, signal; print('ends', flush=True); os.kill(os.getpid(), signal.SIGTERM)"),
    "a kill": (-9, "import os, signal; print('ends', flush=True); os.kill(os.getpid(), signal.SIGKILL)"),
    "an abort": (-6, "import os; print('ends', flush=True); os.abort()"),
    "a handler": (0, "import os, signal\nsignal.signal(signal.SIGUSR1, lambda *_: print('handled'))\n"
                     "os.kill(os.getpid(), signal.SIGUSR1); print('goes on')"),
    "atexit": (0, "import atexit; atexit.register(print, 'at exit'); print('at the end')"),
    "threads": (0, "import threading\nfound = []\ndef work(n): found.append(sum(len(bytes(k)) for k in range(n)))\n"
                   "ts = [threading.Thread(target=work, args=(n,)) for n in range(100, 900, 100)]\n"
                   "[t.start() for t in ts]; [t.join() for t in ts]; print(sorted(found))"),
    "a daemon thread": (0, "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
                           "print('main ends')"),
    "a fork": (0, "import os\npid = os.fork()\nif not pid: print('child', flush=True); os._exit(3)\n"
                  "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"),
    "a child": (0, "import subprocess, sys\nr = subprocess.run([sys.executable, '-c', 'print(1 + 1); raise SystemExit(4)'], "
                   "stdout=-1, text=True)\nprint(r.stdout.strip(), r.returncode)"),
    "a pool": (0, "import multiprocessing as m\nif __name__ == '__main__':\n"
                  "    with m.get_context('fork').Pool(2) as p: print(p.map(abs, range(-5, 5)))"),
    "exec": (5, "import os, sys; print('first', flush=True)\n"
                "os.execv(sys.executable, [sys.executable, '-c', 'print(\"second\"); raise SystemExit(5)'])"),
    "json": (0, "import json; t = json.dumps([{'n': n, 's': str(n)} for n in range(20000)]); print(len(t), len(json.loads(t)))"),
    "re": (0, "import re; print(len(re.findall(r'[a-z]+\\d+', ' '.join(f'word{n}' for n in range(20000)))))"),
    "sqlite": (0, "import sqlite3\nc = sqlite3.connect(':memory:'); c.execute('create table t (n, s)')\n"
                  "c.executemany('insert into t values (?, ?)', ((n, str(n)) for n in range(20000)))\n"
                  "print(c.execute('select count(*), sum(n) from t').fetchone())"),
    "compress": (0, "import zlib; d = bytes(range(256)) * 8000; z = zlib.compress(d); print(zlib.decompress(z) == d)"),
    "ctypes": (0, "import ctypes\nlibc = ctypes.CDLL(None); libc.malloc.restype = ctypes.c_void_p\n"
                  "libc.free.argtypes = [ctypes.c_void_p]; p = libc.malloc(1000); ctypes.memset(p, 65, 1000)\n"
                  "print(ctypes.string_at(p, 3)); libc.free(p)"),
    "mmap": (0, "import mmap; m = mmap.mmap(-1, 1 << 20); m[5:8] = b'abc'; m.resize(2 << 20); print(m[5:8], len(m))"),
    "asyncio": (0, "import asyncio\nasync def f(n): await asyncio.sleep(0); return n * n\n"
                   "async def main(): print(sum(await asyncio.gather(*map(f, range(300)))))\nasyncio.run(main())"),
    "garbage": (0, "import gc\nclass C: pass\nfor n in range(20000): a = C(); a.a = a\nprint(gc.collect() >= 0, len(gc.garbage))"),
}
