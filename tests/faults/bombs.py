"""Small Parquet files that unpack to much, written byte by byte: no honest writer would make them."""

import struct
import zlib

import pyarrow as pa

I32, I64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12
"""Types of Thrift's compact protocol."""

BYTE_ARRAY, INT32, INT64 = 6, 1, 2
PLAIN, RLE_DICTIONARY, DELTA_LENGTH, DELTA_BYTES, RLE = 0, 8, 6, 7, 3
CODECS = {None: 0, "snappy": 1, "gzip": 2, "zstd": 6}


def varint(number):
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def zigzag(number):
    return varint((number << 1) ^ (number >> 63))


def value(kind, what):
    if kind in (I32, I64):
        return zigzag(what)
    if kind == BINARY:
        blob = what.encode() if isinstance(what, str) else what
        return varint(len(blob)) + blob
    if kind == STRUCT:
        return fields(what)
    inner, items, *claimed = what
    size = claimed[0] if claimed else len(items)
    head = bytes([size << 4 | inner]) if size < 15 else bytes([0xF0 | inner]) + varint(size)
    return head + b"".join(value(inner, item) for item in items)


def fields(items):
    """A struct of ``(number, type, value)``, in the order of the numbers."""
    out, last = bytearray(), 0
    for number, kind, what in items:
        step = number - last
        out += bytes([step << 4 | kind]) if 0 < step < 16 else bytes([kind]) + zigzag(number)
        out += value(kind, what)
        last = number
    return bytes(out) + b"\0"


def run(number, repeated, width=1):
    """A run of one level or index."""
    return varint(repeated << 1) + number.to_bytes((width + 7) // 8, "little")


def levels(*runs):
    blob = b"".join(run(*one) for one in runs)
    return struct.pack("<I", len(blob)) + blob


def pack(blob, codec):
    if codec is None:
        return blob
    if codec == "gzip":
        maker = zlib.compressobj(9, zlib.DEFLATED, 31)
        return maker.compress(blob) + maker.flush()
    return pa.Codec(codec).compress(blob).to_pybytes()


def data_page(blob, n_values, *, encoding=PLAIN, codec=None, size=None):
    packed = pack(blob, codec)
    told = [(1, I32, n_values), (2, I32, encoding), (3, I32, RLE), (4, I32, RLE)]
    head = [
        (1, I32, 0),
        (2, I32, len(blob) if size is None else size),
        (3, I32, len(packed)),
        (5, STRUCT, told),
    ]
    return fields(head) + packed


def dictionary_page(blob, n_values, *, codec=None):
    packed = pack(blob, codec)
    told = [(1, I32, n_values), (2, I32, PLAIN)]
    return fields([(1, I32, 2), (2, I32, len(blob)), (3, I32, len(packed)), (7, STRUCT, told)]) + packed


def strings(*texts):
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)


TEXT = [
    [(4, BINARY, "schema"), (5, I32, 1)],
    [(1, I32, BYTE_ARRAY), (3, I32, 1), (4, BINARY, "text"), (6, I32, 0)],
]
TOKENS = [
    [(4, BINARY, "schema"), (5, I32, 1)],
    [(3, I32, 0), (4, BINARY, "tokens"), (5, I32, 1), (6, I32, 3)],
    [(3, I32, 2), (4, BINARY, "list"), (5, I32, 1)],
    [(1, I32, INT32), (3, I32, 0), (4, BINARY, "element")],
]


def parquet(pages, *, schema, rows, values, codec=None, dictionary=False, path=("text",), groups=1):
    """A file of one column, whose row groups all point to the same pages."""
    body = b"".join(pages)
    physical = next(number for kind, _, number in schema[-1] if kind == 1)
    start = 4
    after = start + len(pages[0]) if dictionary else start
    column = [
        (1, I32, physical),
        (2, LIST, (I32, [PLAIN, RLE, RLE_DICTIONARY])),
        (3, LIST, (BINARY, list(path))),
        (4, I32, CODECS[codec]),
        (5, I64, values),
        (6, I64, len(body)),
        (7, I64, len(body)),
        (9, I64, after),
        *([(11, I64, start)] if dictionary else []),
    ]
    group = [
        (1, LIST, (STRUCT, [[(2, I64, start), (3, STRUCT, column)]])),
        (2, I64, len(body)),
        (3, I64, rows),
    ]
    return closed(
        body,
        fields(
            [
                (1, I32, 2),
                (2, LIST, (STRUCT, schema)),
                (3, I64, rows * groups),
                (4, LIST, (STRUCT, [group] * groups)),
            ]
        ),
    )


def closed(body, footer):
    return b"PAR1" + body + footer + struct.pack("<I", len(footer)) + b"PAR1"


def one_list(n_values, *, pages=1, codec=None):
    """One row that holds the id 0 so many times."""
    first = levels((0, 1), (1, n_values - 1)) + levels((1, n_values)) + bytes([1]) + run(0, n_values)
    more = levels((1, n_values)) + levels((1, n_values)) + bytes([1]) + run(0, n_values)
    made = [dictionary_page(struct.pack("<i", 0), 1, codec=codec)]
    made += [data_page(first, n_values, encoding=RLE_DICTIONARY, codec=codec)]
    made += [data_page(more, n_values, encoding=RLE_DICTIONARY, codec=codec)] * (pages - 1)
    return parquet(
        made,
        schema=TOKENS,
        rows=1,
        values=n_values * pages,
        codec=codec,
        dictionary=True,
        path=("tokens", "list", "element"),
    )


def repeated_text(text, rows, *, codec="zstd"):
    """So many rows of one text, which the file holds once."""
    data = levels((1, rows)) + bytes([1]) + run(0, rows)
    made = [
        dictionary_page(strings(text), 1, codec=codec),
        data_page(data, rows, encoding=RLE_DICTIONARY, codec=codec),
    ]
    return parquet(made, schema=TEXT, rows=rows, values=rows, codec=codec, dictionary=True)


def nulls(rows, *, pages=1):
    page = data_page(levels((0, rows)), rows)
    return parquet([page] * pages, schema=TEXT, rows=rows * pages, values=rows * pages)


def packed_text(size, *, codec, rows=1, pages=1):
    """Pages of zeros that pack to almost nothing."""
    page = data_page(levels((1, rows)) + strings(*[bytes(size)] * rows), rows, codec=codec)
    return parquet([page] * pages, schema=TEXT, rows=rows * pages, values=rows * pages, codec=codec)


def delta_zeros(count):
    """DELTA_BINARY_PACKED: so many zeros; every block of 128 has width 0."""
    head = varint(128) + varint(4) + varint(count) + zigzag(0)
    return head + (zigzag(0) + bytes(4)) * (-(-(count - 1) // 128))


def delta_numbers(numbers):
    """DELTA_BINARY_PACKED with whole blocks of one difference each: (first, difference, count)…"""
    first, rest = numbers
    head = varint(128) + varint(4) + varint(1 + 128 * len(rest)) + zigzag(first)
    return head + b"".join(zigzag(step) + bytes(4) for step in rest)


def same_prefix(size, rows, *, codec="zstd"):
    """DELTA_BYTE_ARRAY: one long text, and then rows that share all of it."""
    # prefixes: 0, size, size, ... : the first difference is size, the others are 0
    count = rows
    prefixes = varint(128) + varint(4) + varint(count) + zigzag(0)
    # the first block: minimum 0, its first value of the width that size needs
    width = size.bit_length()
    bits = size.to_bytes(width * 32 // 8, "little")
    prefixes += zigzag(0) + bytes([width, 0, 0, 0]) + bits
    prefixes += (zigzag(0) + bytes(4)) * (-(-(count - 1) // 128) - 1)
    lengths = varint(128) + varint(4) + varint(count) + zigzag(size)
    bits = size.to_bytes(width * 32 // 8, "little")
    # minimum -size; every value but the first is size above it
    lengths += zigzag(-size) + bytes([width, width, width, width])
    packed = 0
    for place in range(1, 128):
        packed |= size << (place * width)
    lengths += packed.to_bytes(width * 128 // 8, "little")
    lengths += (zigzag(0) + bytes(4)) * (-(-(count - 1) // 128) - 1)
    data = levels((1, rows)) + prefixes + lengths + bytes(size)
    page = data_page(data, rows, encoding=DELTA_BYTES, codec=codec)
    return parquet([page], schema=TEXT, rows=rows, values=rows, codec=codec)


def claimed_containers(size):
    """A footer whose lists say that they are long."""
    column = [(2, I64, 4), (3, STRUCT, [(1, I32, 1), (2, LIST, (I32, [0] * 20, size))])]
    group = [(1, LIST, (STRUCT, [column], size)), (2, I64, 10), (3, I64, 1)]
    return closed(
        b"", fields([(1, I32, 2), (2, LIST, (STRUCT, TEXT)), (3, I64, 1), (4, LIST, (STRUCT, [group], size))])
    )


def deep_schema(depth):
    """Groups within groups."""
    groups = [[(3, I32, 1), (4, BINARY, "g"), (5, I32, 1)]] * depth
    schema = [
        [(4, BINARY, "schema"), (5, I32, 1)],
        *groups,
        [(1, I32, BYTE_ARRAY), (3, I32, 1), (4, BINARY, "text")],
    ]
    return closed(
        b"", fields([(1, I32, 2), (2, LIST, (STRUCT, schema)), (3, I64, 0), (4, LIST, (STRUCT, []))])
    )
