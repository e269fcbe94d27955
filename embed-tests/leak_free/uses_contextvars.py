import contextvars, signal, time, locale, gettext, unicodedata, codecs
v = contextvars.ContextVar('v', default=1)
c = contextvars.copy_context()
c.run(v.set, 2)
print(v.get(), unicodedata.name('a'), 'ä'.encode('latin-1'), 'x'.encode('idna'), codecs.lookup('cp1252').name, 'a'.encode('utf-16'))
signal.signal(signal.SIGALRM, lambda *a: None)
signal.setitimer(signal.ITIMER_REAL, 0.001)
time.sleep(0.01)
