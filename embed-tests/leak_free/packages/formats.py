"""Formats of data: JSON, MessagePack, YAML, XML and others."""

import contextlib
import json

from . import MARKUP, ROWS, package


@package("orjson", "Rust")
def orjson():
    import orjson

    def call():
        orjson.loads(orjson.dumps(ROWS))
        with contextlib.suppress(orjson.JSONDecodeError):
            orjson.loads(b'{"a": [1, 2}')
        with contextlib.suppress(TypeError):
            orjson.dumps({"a": object()})
    return call


@package("ujson", "C, C++", "/ujson")
def ujson():
    import ujson

    def call():
        ujson.loads(ujson.dumps(ROWS))
        with contextlib.suppress(ValueError):
            ujson.loads('{"a": [1, 2}')
    return call


@package("python-rapidjson", "C++", "/rapidjson")
def rapidjson():
    import rapidjson

    def call():
        rapidjson.loads(rapidjson.dumps(ROWS))
        check = rapidjson.Validator('{"type": "object", "required": ["a"]}')
        check('{"a": 1}')
        for wrong in (lambda: check("{}"), lambda: rapidjson.loads('{"a": [1, 2}')):
            with contextlib.suppress(ValueError):
                wrong()
    return call


@package("simplejson", "C")
def simplejson():
    import simplejson

    def call():
        simplejson.loads(simplejson.dumps(ROWS, use_decimal=True))
        with contextlib.suppress(ValueError):
            simplejson.loads('{"a": [1, 2}')
    return call


@package("pysimdjson", "C++, Cython", "/csimdjson")
def simdjson():
    import simdjson

    text = json.dumps(ROWS).encode()

    def call():
        parsed = simdjson.Parser().parse(text)
        parsed.at_pointer("/3/name")
        parsed.as_list()
        del parsed
        simdjson.loads(text)
        with contextlib.suppress(ValueError):
            simdjson.loads(b'{"a": [1, 2}')
    return call


@package("jiter", "Rust")
def jiter():
    import jiter

    text = json.dumps(ROWS).encode()

    def call():
        jiter.from_json(text)
        with contextlib.suppress(ValueError):
            jiter.from_json(b'{"a": [1, 2}')
    return call


@package("msgpack", "Cython, C++")
def msgpack():
    import msgpack

    def call():
        packed = msgpack.packb(ROWS)
        msgpack.unpackb(packed)
        stream = msgpack.Unpacker()
        stream.feed(packed * 2)
        list(stream)
        with contextlib.suppress(ValueError):
            msgpack.unpackb(packed[:20])
        with contextlib.suppress(TypeError):
            msgpack.packb(object())
    return call


@package("ormsgpack", "Rust")
def ormsgpack():
    import ormsgpack

    def call():
        packed = ormsgpack.packb(ROWS)
        ormsgpack.unpackb(packed)
        with contextlib.suppress(ValueError):
            ormsgpack.unpackb(packed[:20])
    return call


@package("cbor2", "Rust")
def cbor2():
    import cbor2

    def call():
        packed = cbor2.dumps(ROWS)
        cbor2.loads(packed)
        with contextlib.suppress(cbor2.CBORDecodeError):
            cbor2.loads(packed[:20])
    return call


@package("PyYAML", "Cython, C", "/yaml/", calls=200)
def yaml():
    import yaml

    def call():
        text = yaml.dump(ROWS[:5], Dumper=yaml.CSafeDumper)
        yaml.load(text, Loader=yaml.CSafeLoader)
        with contextlib.suppress(yaml.YAMLError):
            yaml.load("a: [1, 2", Loader=yaml.CSafeLoader)
    return call


@package("srsly", "Cython, C, C++")
def srsly():
    import srsly

    def call():
        srsly.msgpack_loads(srsly.msgpack_dumps(ROWS))
        srsly.json_loads(srsly.json_dumps(ROWS))
        srsly.pickle_loads(srsly.pickle_dumps(ROWS))
    return call


@package("pymongo", "C", "/bson/")
def bson():
    import bson

    def call():
        packed = bson.encode({"rows": ROWS, "id": bson.ObjectId()})
        bson.decode(packed)
        with contextlib.suppress(bson.errors.InvalidBSON):
            bson.decode(packed[:20])
    return call


@package("protobuf", "C", "/google/_upb/")
def protobuf():
    from google.protobuf import json_format, struct_pb2

    def call():
        made = struct_pb2.Struct()
        made.update({"a": 1, "b": [1, 2, "x"], "c": {"d": None}})
        again = struct_pb2.Struct.FromString(made.SerializeToString())
        json_format.MessageToDict(again)
        made.CopyFrom(again)
        with contextlib.suppress(Exception):
            struct_pb2.Struct.FromString(b"\xff\xff\xff")
    return call


@package("lxml", "Cython, C", calls=200)
def lxml():
    from lxml import etree, html

    def call():
        root = etree.fromstring("<a><b c='d'>e</b><f/></a>")
        root.xpath("//b[@c='d']/text()")
        etree.SubElement(root, "g").text = "h"
        etree.tostring(root, pretty_print=True)
        html.fromstring(MARKUP).findall(".//a")
        etree.XSLT(etree.XML('<x:stylesheet version="1.0" xmlns:x="http://www.w3.org/1999/XSL/Transform"/>'))(root)
        with contextlib.suppress(etree.XMLSyntaxError):
            etree.fromstring("<a><b></a>")
    return call


@package("selectolax", "Cython, C")
def selectolax():
    from selectolax.lexbor import LexborHTMLParser

    def call():
        parsed = LexborHTMLParser(MARKUP)
        [node.text() for node in parsed.css("p.a, a")]
        parsed.css_first("div").decompose()
        parsed.html
    return call
