"""Imports most of the standard library."""
import importlib

NAMES = """
abc aifc argparse array ast asyncio base64 binascii bisect builtins bz2 calendar cmath cmd code codecs codeop
collections colorsys compileall concurrent.futures configparser contextlib copy csv ctypes curses dataclasses datetime
dbm decimal difflib dis doctest email encodings enum fcntl filecmp fileinput fnmatch fractions ftplib functools gc
getopt getpass gettext glob graphlib grp gzip hashlib heapq hmac html http http.client http.cookies http.server imaplib
imp inspect io ipaddress itertools json keyword linecache locale logging lzma mailbox marshal math mimetypes mmap
multiprocessing netrc numbers opcode operator optparse os parser pathlib pdb pickle pickletools pkgutil platform
plistlib poplib posix pprint profile pstats pty pwd py_compile pyclbr pydoc queue quopri random re readline resource
rlcompleter runpy sched secrets select selectors shelve shlex shutil signal site smtplib socket socketserver sqlite3
ssl stat statistics string stringprep struct subprocess symtable sysconfig syslog tarfile tempfile termios textwrap
threading time timeit token tokenize tomllib trace traceback tracemalloc tty types typing unicodedata unittest
urllib.request urllib.parse uuid venv warnings wave weakref webbrowser xml.dom.minidom xml.sax xmlrpc.client zipapp
zipfile zipimport zlib zoneinfo
"""
for name in NAMES.split():
    try:
        importlib.import_module(name)
    except ImportError:
        pass
