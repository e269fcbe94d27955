#!/usr/bin/env bash
# Installs, uses and removes the Debian packages of tools/deb in fresh Debians, made by mmdebstrap:
#
#   embed-tests/deb.sh [SUITE...]      without SUITE: bookworm trixie; each needs its package in target/debs
#
# An ordinary user runs README's example, `python3 -m pyhost`, a cap, lines, a page, `man` and gdb's py-bt; systemd takes the example of a
# drop-in; bash, zsh and fish complete. After `apt purge` no file of the package is left. lintian reads the package. Needs root; a system is made once, and
# unpacked anew below target/deb-SUITE each time.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/debians.sh

suites=("$@")
[ $# -gt 0 ] || suites=(bookworm trixie)
[ "$(id -u)" = 0 ] || { echo "deb.sh: needs root, to make a Debian and to enter it" >&2; exit 2; }
tools/install-packages mmdebstrap:mmdebstrap lintian:lintian

within() { # a user, a shell's words
  user=$1 words=$2 root=$root unshare --mount --propagation private bash -euc '
    mount --bind . "$root/pyhost"
    for folder in proc dev sys; do mount --rbind "/$folder" "$root/$folder"; done
    mount -t tmpfs none "$root/tmp"
    exec chroot "$root" su -s /bin/bash "$user" -c "set -euo pipefail; cd /home/ann; $words"' </dev/null 2>&1
}

check() { # what is tried, a user, the words, what is to be printed; "..." stands for anything
  text=$(within "$2" "$3") || { printf 'failed: %s: %s\n%s\n' "$suite" "$1" "$text" >&2; exit 1; }
  # shellcheck disable=SC2053  # A pattern.
  [[ $text == ${4//.../*} ]] || { printf 'failed: %s: %s\n%s\n' "$suite" "$1" "$text" >&2; exit 1; }
  echo "$suite: $1: ok"
}

for suite in "${suites[@]}"; do
  version=
  for each in "${!debians[@]}"; do
    [ "${debians[$each]}" != "$suite" ] || [ ! -e "$(echo target/debs/pyhost_*+py"$each"_"$(dpkg --print-architecture)".deb)" ] || version=$each
  done
  [ -n "$version" ] || { echo "deb.sh: no package in target/debs is for $suite; expected 'tools/deb WHEEL' first" >&2; exit 2; }
  package=$(echo target/debs/pyhost_*+py"$version"_"$(dpkg --print-architecture)".deb)
  lintian --allow-root --fail-on warning "$package"
  root=$PWD/target/deb-$suite
  made=$PWD/target/deb-$suite-$version.tar
  [ -e "$made" ] || {
    # The lists of a mirror that is kept as a copy may be past their date.
    mmdebstrap --quiet --variant=minbase --include=python3,man-db,gdb,python3-dbg,systemd,bash-completion,zsh,fish \
      --aptopt='Acquire::Check-Valid-Until "false"' --aptopt='APT::Install-Recommends "false"' "$suite" "${made%.tar}.new.tar"
    mv "${made%.tar}.new.tar" "$made"
  }
  rm -rf "$root"
  mkdir "$root"
  tar --extract --file "$made" --directory "$root"
  mkdir -p "$root/pyhost"
  chroot "$root" useradd --create-home ann

  check "apt installs it" root "apt-get -qq install -y /pyhost/$package && dpkg --verify pyhost" "..."
  check "README's example" ann "pyhost --stats /pyhost/python-scripts/where_memory_went.py" "...pyhost: Python $version.*native ...total ..."
  check "the interpreter is Debian's" ann "pyhost -c 'import sys, pyhost; print(sys.executable, pyhost.active)'" "/usr/bin/python$version True"
  check "python3 -m pyhost" ann "python3 -m pyhost -c 'import pyhost; print(pyhost.active)'" True
  check "a plain python3 imports it" ann "python3 -c 'import pyhost; print(pyhost.active)'" False
  check "a cap" ann "pyhost --cap 64M -c '
try:
    kept = []
    while True: kept.append(bytearray(100_000))
except MemoryError:
    del kept
    print(\"caught\")'" "...cap of 64.0 MiB...caught"
  check "lines" ann "printf 'kept = list(map(bytes, [1000] * 20_000))\n' > lines.py; pyhost --lines=16K lines.py" "...lines.py:1 in <module>..."
  check "a page" ann "pyhost --stats=html,file=run.html -c 'print(1)'; pyhostctl --version; test -s run.html" "1..."
  check "manual pages" ann "man -P cat pyhost | head -1; man -P cat pyhostctl | head -1" "PYHOST(1)...PYHOSTCTL(1)..."
  check "bash completes" ann "bash -ic '. /usr/share/bash-completion/bash_completion; _completion_loader pyhost; complete -p pyhost' 2>/dev/null" \
    "complete ...pyhost"
  check "zsh completes" ann "zsh -fc 'autoload -Uz compinit; compinit -D; echo \$_comps[pyhost]'" _pyhost
  check "fish completes" ann "fish -c 'complete -C \"pyhost --st\"'" "...--stats..."
  check "the drop-in" root "mkdir -p /etc/systemd/system/app.service.d /opt/app; touch /opt/app/server.py
    printf '[Service]\nExecStart=/usr/bin/python3 /opt/app/server.py\n' > /etc/systemd/system/app.service
    cp /usr/share/doc/pyhost/examples/drop-in.conf /etc/systemd/system/app.service.d/pyhost.conf
    systemd-analyze verify app.service" ""
  # From 3.13 on it names the frames only if python3 has debug symbols, as for a plain python3.
  check "gdb's py-bt" ann "printf 'import os\ndef wait_here(): os.abort()\nwait_here()\n' > abort.py
    gdb -batch -ex 'set breakpoint pending on' -ex run -ex py-bt --args pyhost abort.py" "...Traceback (most recent call first)..."
  # What Python itself has compiled by root goes, too.
  check "apt purges it" root "python3 -c 'import pyhost, pyhost.asgi'; dpkg -L pyhost > /tmp/files; apt-get -qq purge -y pyhost >/dev/null
    while read -r file; do [ -d \$file ] || [ ! -e \$file ] || echo left: \$file; done < /tmp/files; find /usr /etc /var /run -iname '*pyhost*' -not -path '/etc/systemd/*'" ""
done
