import zlib, bz2, lzma, gzip, base64, hashlib, hmac
d = b'abc' * 10000
print(all((m.decompress(m.compress(d)) == d for m in (zlib, bz2, lzma, gzip))), hashlib.sha256(d).hexdigest()[:5], hashlib.new('md5', d).hexdigest()[:5], hmac.new(b'k', d, 'sha1').hexdigest()[:5], hashlib.blake2b(d).hexdigest()[:4])
