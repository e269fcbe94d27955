"""Bugs of published extensions: the versions around each fix, and what the host says of the one before it.

`run` names the run of run.py that must find the bug, and `message` is what it says: where CPython's debug hooks speak
first, in other runs their words. The digests are those of the sources
on PyPI; a version that is built must have it.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Release:
    version: str
    sha256: str


@dataclasses.dataclass(frozen=True)
class Bug:
    name: str  # of its script, too
    project: str
    kind: str
    report: str
    before: Release
    after: Release
    run: str
    message: str


BUGS = (
    Bug(
        "bsdiff4_patch", "bsdiff4", "overflow write", "CVE-2020-15904",
        Release("1.1.9", "a7c48ec58dc1c4a2b9fb5da05637524d5dbb1643a3df7cdc6ed105636909ff79"),
        Release("1.2.0", "3c2f7f5504f41a54d238b54b00b4544d0eb4276179edabf02b9d00415a03cc9d"),
        "guarded", r"3 bytes past the end of a block of 17 bytes of the account mem|bad trailing pad byte",
    ),
    Bug(
        "mutf8_encode", "mutf8", "overflow write", "TkTech/mutf8 issue 3",
        Release("1.0.5", "4362e44ce5cec78ac881407f3555082f60c44b9cdc28b6ea56502589c8e8965f"),
        Release("1.0.6", "1bbbefb67c2e5a57104750bb04b0912200b57b2fa9841be245279e83859cb346"),
        "guarded", r"5 bytes past the end of a block of 10 bytes of the account mem|bad trailing pad byte",
    ),
    Bug(
        "ujson_indent", "ujson", "overflow write", "CVE-2021-45958",
        Release("5.1.0", "a88944d2f99db71a3ca0c63d81f37e55b660edde0b07216fb65a3e46403ef004"),
        Release("5.2.0", "163191b88842d874e081707d35de2e205e0e396e70fd068d1038879bca8b17ad"),
        "checked", r"write \d+ bytes? past the end of a block of 524\d\d\d bytes of the account obj",
    ),
    Bug(
        "bitarray_encode", "bitarray", "use after free", "ilanschnell/bitarray issue 250",
        Release("3.8.0", "3eae38daffd77c9621ae80c16932eea3fb3a4af141fb7cc724d4ad93eff9210d"),
        Release("3.8.1", "f90bb3c680804ec9630bcf8c0965e54b4de84d33b17d7da57c87c30f0c64c6f5"),
        "guarded", r"read at byte \d+ of a freed block of \d+ bytes of the account obj",
    ),
    Bug(
        "psutil_partitions", "psutil", "double free", "CVE-2019-18874",
        Release("5.6.5", "d051532ac944f1be0179e0506f6889833cf96e466262523e57a871de65a15147"),
        Release("5.6.6", "ad21281f7bd6c57578dd53913d2d44218e9e29fd25128d10ff7819ef16fa46e7"),
        "sweep", r"of the account obj .*was written to after it was freed",
    ),
    Bug(
        "multidict_pop", "multidict", "leak", "aio-libs/multidict issue 1232",
        Release("6.6.3", "798a9eb12dab0a6c2e29c1de6f3468af5cb2da6053a20dfa3344907eed0937cc"),
        Release("6.6.4", "d2d4e4787672911b48350df02ed3fa3fffdc2f2e8ca06dd6afdf34189b76a9dd"),
        "checked", r"mem +100 of \d+ bytes",
    ),
    Bug(
        "ujson_integer", "ujson", "leak", "CVE-2026-32874",
        Release("5.11.0", "e204ae6f909f099ba6b6b942131cee359ddda2b6e4ea39c12eb8b991fe2010e0"),
        Release("5.12.0", "14b2e1eb528d77bc0f4c5bd1a7ebc05e02b5b41beefb7e8567c9675b8b13bcf4"),
        "checked", r"obj +100 of \d+ bytes",
    ),
)
