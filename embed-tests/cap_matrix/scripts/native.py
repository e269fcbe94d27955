"""Memory that C libraries take from malloc: zlib, bz2, lzma, hashlib, pyexpat."""

from growing import need, run

[zlib, bz2, lzma] = need("zlib", "bz2", "lzma")

run("native", [
    ("data = []", "data.append(zlib.compressobj())"),
    ("data = []", "data.append(zlib.decompressobj())\ndata[-1].decompress(zlib.compress(bytes(n)))"),
    ("data = []", "data.append(bz2.BZ2Compressor(1))"),
    ("data = []", "data.append(lzma.LZMACompressor(preset=0))"),
    ("data = []", "data.append(zlib.decompress(zlib.compress(bytes(n * 20))))"),
    ("data = b'x' * n", "data = zlib.compress(data * 3, 0)"),
], names={"zlib": zlib, "bz2": bz2, "lzma": lzma})
