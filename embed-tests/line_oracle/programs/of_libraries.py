"""Sites of libraries that allocate by C's malloc: sqlite3 and lxml."""

import json
import sqlite3

import lxml.etree

from sites import site

ROWS = [(number, "name of %d" % number, bytes(number % 300)) for number in range(2_000)]
TEXT = "<all>%s</all>" % "".join(f"<one number='{number}'>text of {number}</one>" for number in range(2_000))
JSON = json.dumps([{"number": number, "text": "x" * (number % 90)} for number in range(2_000)])


@site
def a_database():
    base = sqlite3.connect(":memory:")
    base.execute("create table rows (number integer, name text, data blob)")
    base.executemany("insert into rows values (?, ?, ?)", ROWS)
    return base


@site
def rows_of_a_database():
    base = sqlite3.connect(":memory:")
    base.execute("create table rows (number integer, name text, data blob)")
    base.executemany("insert into rows values (?, ?, ?)", ROWS)
    found = base.execute("select * from rows").fetchall()
    base.close()
    return found


@site
def an_index_of_a_database():
    base = sqlite3.connect(":memory:")
    base.execute("create table rows (number integer, name text)")
    base.executemany("insert into rows values (?, ?)", [row[:2] for row in ROWS])
    base.execute("create index by_name on rows (name)")
    return base


@site
def a_parsed_tree():
    return lxml.etree.fromstring(TEXT)


@site
def a_built_tree():
    tree = lxml.etree.Element("all")
    for number in range(1_000):
        lxml.etree.SubElement(tree, "one", number=str(number)).text = "text"
    return tree


@site
def a_written_tree():
    return lxml.etree.tostring(lxml.etree.fromstring(TEXT), pretty_print=True)


@site
def found_in_a_tree():
    return lxml.etree.fromstring(TEXT).xpath("//one/text()")


@site
def parsed_json():
    return json.loads(JSON)
