import sqlite3
c = sqlite3.connect(':memory:')
c.execute('create table t(a)')
c.executemany('insert into t values(?)', [(i,) for i in range(1000)])
print(c.execute('select sum(a) from t').fetchone())
c.create_function('f', 1, lambda x: x + 1)
print(c.execute('select f(1)').fetchall())
c.close()
