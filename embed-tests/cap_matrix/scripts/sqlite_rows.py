"""Native memory: databases in memory grow by rows, by blobs and by indexes; their rows are fetched, too."""

from growing import need, run

[sqlite3] = need("sqlite3")

TABLE = "create table t (a integer primary key, b)"


def database(*statements):
    connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    for statement in (TABLE, *statements):
        connection.execute(statement)
    return connection


names = {"sqlite3": sqlite3, "database": database}
many = "with n as (select 1 x union all select x + 1 from n where x < 300) insert into t (b) select printf('%0300d', x) from n"

run("sqlite_rows", [
    ("data = database()", "data.execute('insert into t (b) values (?)', (bytes(n),))"),
    ("data = database()", "data.execute('insert into t (b) values (?)', ('x' * n,))"),
    ("data = database()", "data.execute('insert into t (b) values (zeroblob(?))', (n,))"),
    ("data = database()", "data.executemany('insert into t (b) values (?)', [(bytes(n),)] * 50)"),
    ("data = database('create index by_b on t (b)')", "data.execute(%r)" % many),
    ("data = database('begin')", "data.execute(%r)" % many),
    ("data = []", "data.append(database())"),
    ("data = [database()]\ndata[0].execute(%r)" % many, "data.append(data[0].execute('select a, b from t').fetchall())"),
# A connection and the cache of its statements are a cycle (3.11).
], names=names, cyclic=True)
