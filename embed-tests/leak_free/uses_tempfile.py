import tempfile, shutil, pathlib, os, glob, zipfile, tarfile, mmap
with tempfile.TemporaryDirectory() as d:
    p = pathlib.Path(d) / 'a.txt'
    p.write_text('hi' * 5000)
    shutil.copy(p, p.with_suffix('.b'))
    print(sorted((x.name for x in p.parent.iterdir())))
    z = zipfile.ZipFile(str(p) + '.zip', 'w')
    z.write(p)
    z.close()
    t = tarfile.open(str(p) + '.tgz', 'w:gz')
    t.add(p)
    t.close()
    f = open(p, 'r+b')
    m = mmap.mmap(f.fileno(), 0)
    m[0]
    m.close()
    f.close()
