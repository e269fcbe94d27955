#!/usr/bin/env python3
"""Tests what `cargo run --package pyhost-manual` has written: man takes the pages without a warning, they have every option and
key of the table, and bash, zsh and fish complete what they should, and nothing else.

    tools/manual/test.py [FOLDER]      without FOLDER: target/manual

Needs man, bash with bash-completion, zsh and fish; a shell that is not there is skipped, and named.
"""

import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "target/manual"
TABLE = ROOT / "src/host/options/table.rs"
SECONDS = 60

# What is typed, then what must be among the completions, and what must not. A name stands for each completion that ends with it.
CASES = [
    ("pyhost --st", ["--stats"], ["--live", "--cap"]),
    ("pyhost --live --cap 64M --re", ["--region", "--retain"], ["--stats"]),
    ("pyhost --cap obj=64M --numpy=pool,limit=64M --ho", ["--host-version"], ["--stats"]),
    ("pyhost --numpy b", ["bfc"], ["pool", "data.txt"]),
    ("pyhost --numpy bfc,reg", ["region="], ["pool"]),
    ("pyhost --stats=", ["json", "html", "file="], ["script.py"]),
    ("pyhost --stats=json,f", ["file=", "fd="], ["html"]),
    ("pyhost --brief d", ["data.txt"], ["script.py"]),
    ("pyhost --help=", ["all"], ["script.py"]),
    # The value of an option that needs none is behind an equals sign: this word is the program.
    ("pyhost --stats ", ["script.py"], ["json"]),
    ("pyhost s", ["script.py"], ["data.txt", "--stats"]),
    ("pyhost --stats -m jso", ["json"], ["script.py"]),
    ("pyhost -u s", ["script.py"], ["--stats"]),
    ("pyhost -c pass d", ["data.txt"], ["--debug-hooks"]),
    # The script's own options are not the host's.
    ("pyhost script.py --st", [], ["--stats"]),
    ("pyhost --stats script.py d", ["data.txt"], []),
    ("pyhostctl le", ["leaks"], ["top"]),
    ("pyhostctl convert --to p", ["pprof"], ["svg"]),
    ("pyhostctl lines --by f", ["function", "file"], ["line"]),
    ("pyhostctl sym", [], ["symbolize"]),
]

BASH = r"""
source /usr/share/bash-completion/bash_completion
source "$1"; shift
COMP_LINE=$1; COMP_POINT=${#COMP_LINE}; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
[[ $(complete -p "$1") =~ -F\ ([^ ]+) ]]
"${BASH_REMATCH[1]}" "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}" 2>errors
# It may only be called while the shell completes.
grep -v compopt errors
printf '%s\n' "${COMPREPLY[@]}"
"""

ZSH = r"""
PS1= LISTMAX=100000
setopt no_auto_list no_beep
fpath=($SITE $fpath)
autoload -Uz compinit && compinit -u -D
compadd() {
  if (( $@[(I)-[OAD]*] )); then builtin compadd "$@"; return; fi
  local -a hits
  builtin compadd -O hits "$@"
  print -rl -- $hits >> $OUT
  builtin compadd "$@"
}
finish() { zle complete-word; print END >> $OUT }
zle -N finish
bindkey '^I' finish
print READY >> $OUT
"""


def in_bash(line):
    # As COMP_WORDBREAKS splits it.
    words = [word for part in line.split(" ") for word in (re.findall(r"[=:]+|[^=:]+", part) or [""])]
    script = FOLDER / "share/bash-completion/completions" / words[0]
    run = subprocess.run(["bash", "--norc", "-c", BASH, "bash", script, line, *words], capture_output=True, text=True, timeout=SECONDS)
    return run.stdout.split("\n"), run.stderr


def in_zsh(line):
    out = pathlib.Path("zsh-out")
    out.write_text("")
    pathlib.Path("setup.zsh").write_text(ZSH)
    child, terminal = pty.fork()
    if child == 0:
        environment = dict(os.environ, SITE=str(FOLDER / "share/zsh/site-functions"), OUT=str(out.resolve()), TERM="dumb")
        os.execvpe("zsh", ["zsh", "-f", "-i"], environment)

    def until(mark):
        end = time.monotonic() + SECONDS
        while mark not in out.read_text().split("\n"):
            if time.monotonic() > end:
                raise TimeoutError(f"zsh: no {mark} after {line!r}; {out.read_text()}")
            time.sleep(0.02)
            os.set_blocking(terminal, False)
            try:
                os.read(terminal, 1 << 16)
            except BlockingIOError:
                pass

    try:
        os.write(terminal, b"source ./setup.zsh\n")
        until("READY")
        os.write(terminal, line.encode() + b"\t")
        until("END")
    finally:
        os.close(terminal)
        os.kill(child, 9)
        os.waitpid(child, 0)
    return out.read_text().split("\n")[1:-2], ""


def in_fish(line):
    # It reads the completions only of a program that is there.
    environment = dict(os.environ, XDG_DATA_DIRS=f"{FOLDER}/share:/usr/share", HOME=os.getcwd(), PATH=f"bin:{os.environ['PATH']}")
    run = subprocess.run(["fish", "-c", "complete -C $argv[1]", line], capture_output=True, text=True, timeout=SECONDS, env=environment)
    return [each.split("\t")[0] for each in run.stdout.split("\n")], run.stderr


class Pages(unittest.TestCase):
    @unittest.skipUnless(shutil.which("man"), "no man in PATH")
    def test_man_takes_the_pages_and_they_have_every_option_and_key(self):
        texts = {}
        for name in ("pyhost", "pyhostctl"):
            page = FOLDER / f"share/man/man1/{name}.1"
            environment = dict(os.environ, MANWIDTH="300", LC_ALL="C.UTF-8")
            run = subprocess.run(["man", "-l", "--warnings", page], capture_output=True, text=True, env=environment, check=True)
            self.assertEqual(run.stderr, "", name)
            texts[name] = re.sub(r"\s+", " ", re.sub(r".\x08|\x1b\[\d*m", "", run.stdout))
        source = TABLE.read_text()
        words = re.findall(r'^    "(--[\w-]+)", "', source, re.M)
        self.assertGreater(len(words), 15)
        words += re.findall(r'^        \w+: .*, "([^"]+)",?$', source, re.M)
        words += ["options come first", "EXIT STATUS", "53 the script"]
        for word in words:
            self.assertIn(word, texts["pyhost"])
        for word in ("pyhostctl sweep [OPTIONS]", "--interval TIME", "One of line, function, file"):
            self.assertIn(word, texts["pyhostctl"])
        self.assertNotIn("symbolize", texts["pyhostctl"])


class Completions(unittest.TestCase):
    def check(self, shell, complete):
        if not shutil.which(shell):
            self.skipTest(f"no {shell} in PATH")
        with tempfile.TemporaryDirectory(prefix="pyhost-completions-") as folder:
            self.addCleanup(os.chdir, os.getcwd())
            os.chdir(folder)
            for name in ("script.py", "data.txt"):
                pathlib.Path(name).write_text("")
            os.mkdir("bin")
            for name in ("pyhost", "pyhostctl"):
                os.symlink("/bin/true", f"bin/{name}")
            for line, wanted, unwanted in CASES:
                found, errors = complete(line)
                with self.subTest(line, shell=shell):
                    self.assertEqual(errors, "")
                    for word in wanted:
                        self.assertTrue(any(is_it(each, word) for each in found), f"{word} is not in {found}")
                    for word in unwanted:
                        self.assertFalse(any(is_it(each, word) for each in found), f"{word} is in {found}")
            os.chdir("/")

    def test_bash(self):
        self.check("bash", in_bash)

    def test_zsh(self):
        self.check("zsh", in_zsh)

    def test_fish(self):
        self.check("fish", in_fish)


def is_it(found, word):
    return found in (word, word.rstrip("=")) or found.endswith(("=" + word, "," + word))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        FOLDER = pathlib.Path(sys.argv.pop()).resolve()
    unittest.main()
