"""Bytes: compression, hashes, ciphers."""

import contextlib
import io

from . import TEXTS, package


def compressing(compress, decompress, wrong):
    data = "\n".join(TEXTS).encode()

    def call():
        assert bytes(decompress(compress(data))) == data
        with contextlib.suppress(wrong):
            decompress(b"no compressed bytes at all")
    return call


@package("zstandard", "C, cffi")
def zstandard():
    import zstandard as zstd

    plain = compressing(zstd.ZstdCompressor().compress, zstd.ZstdDecompressor().decompress, zstd.ZstdError)

    def call():
        plain()
        made = zstd.ZstdCompressor(level=9).compressobj()
        zstd.ZstdDecompressor().decompressobj().decompress(made.compress(b"abc" * 100) + made.flush())
        file = io.BytesIO()
        with zstd.ZstdCompressor().stream_writer(file, closefd=False) as writer:
            writer.write(b"abc" * 1000)
    return call


@package("lz4", "C")
def lz4():
    import lz4.block
    import lz4.frame

    plain = compressing(lz4.frame.compress, lz4.frame.decompress, RuntimeError)

    def call():
        plain()
        lz4.block.decompress(lz4.block.compress(b"abc" * 100))
        with contextlib.suppress(lz4.block.LZ4BlockError):
            lz4.block.decompress(b"\x10\0\0\0junk")
    return call


@package("brotli", "C, C++", "/_brotli")
def brotli():
    import brotli

    return compressing(lambda data: brotli.compress(data, quality=4), brotli.decompress, brotli.error)


@package("cramjam", "Rust")
def cramjam():
    import cramjam

    calls = [compressing(kind.compress, kind.decompress, cramjam.DecompressionError)
             for kind in (cramjam.snappy, cramjam.gzip, cramjam.lz4)]
    return lambda: [call() for call in calls]


@package("xxhash", "C")
def xxhash():
    import xxhash

    def call():
        for kind in (xxhash.xxh32, xxhash.xxh64, xxhash.xxh3_128):
            made = kind(b"one")
            made.update(b"two")
            made.copy().hexdigest()
        with contextlib.suppress(TypeError):
            xxhash.xxh32(5)
    return call


@package("mmh3", "C", "/mmh3.")
def mmh3():
    import mmh3

    def call():
        mmh3.hash128(TEXTS[1])
        made = mmh3.mmh3_x64_128(b"one")
        made.update(b"two")
        made.digest()
        with contextlib.suppress(TypeError):
            mmh3.hash(5)
    return call


@package("blake3", "Rust")
def blake3():
    import blake3

    def call():
        made = blake3.blake3(b"one", key=b"k" * 32)
        made.update(b"two" * 1000)
        made.hexdigest()
        with contextlib.suppress(ValueError):
            blake3.blake3(key=b"short")
    return call


@package("crc32c", "C")
def crc32c():
    import crc32c

    def call():
        made = crc32c.CRC32CHash(b"one")
        made.update(b"two")
        made.hexdigest()
        crc32c.crc32c(b"abc" * 100)
    return call


@package("murmurhash", "Cython, C++")
def murmurhash():
    from murmurhash import mrmr

    return lambda: [mrmr.hash(text) for text in TEXTS]


@package("pybase64", "C")
def pybase64():
    import binascii

    import pybase64

    def call():
        pybase64.b64decode(pybase64.b64encode(b"abc" * 30), validate=True)
        with contextlib.suppress(binascii.Error):
            pybase64.b64decode(b"a!b", validate=True)
    return call


@package("cryptography", "Rust, cffi", calls=100)
def cryptography():
    from cryptography.exceptions import InvalidSignature
    from cryptography.fernet import Fernet
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = Fernet(Fernet.generate_key())

    def call():
        key.decrypt(key.encrypt(b"text"))
        private = ec.generate_private_key(ec.SECP256R1())
        signed = private.sign(b"text", ec.ECDSA(hashes.SHA256()))
        private.public_key().verify(signed, b"text", ec.ECDSA(hashes.SHA256()))
        private.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        with contextlib.suppress(InvalidSignature):
            private.public_key().verify(signed, b"other", ec.ECDSA(hashes.SHA256()))
    return call


@package("bcrypt", "Rust", calls=50)
def bcrypt():
    import bcrypt

    def call():
        assert bcrypt.checkpw(b"secret", bcrypt.hashpw(b"secret", bcrypt.gensalt(4)))
        with contextlib.suppress(ValueError):
            bcrypt.hashpw(b"secret", b"salt")
    return call


@package("PyNaCl", "C, cffi", "/nacl/")
def nacl():
    from nacl import exceptions, public, secret, signing, utils

    def call():
        box = secret.SecretBox(utils.random(32))
        box.decrypt(box.encrypt(b"text"))
        signing.SigningKey.generate().sign(b"text")
        public.PrivateKey.generate().public_key
        with contextlib.suppress(exceptions.CryptoError):
            box.decrypt(b"x" * 60)
    return call


@package("pycryptodome", "C", "/Crypto/")
def Crypto():
    from Crypto.Cipher import AES
    from Crypto.Hash import SHA256

    def call():
        made = AES.new(b"k" * 16, AES.MODE_GCM)
        sealed, tag = made.encrypt_and_digest(b"text" * 10)
        AES.new(b"k" * 16, AES.MODE_GCM, nonce=made.nonce).decrypt_and_verify(sealed, tag)
        SHA256.new(b"text").hexdigest()
        with contextlib.suppress(ValueError):
            AES.new(b"short", AES.MODE_CBC)
    return call
