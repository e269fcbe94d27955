import duckdb

connection = duckdb.connect()
connection.execute("create table t as select range as a, range * 1.5 as b, 'x' || range as c from range(6000000)")
assert connection.execute("select count(distinct c) from t").fetchall() == [(6_000_000,)]
connection.close()
