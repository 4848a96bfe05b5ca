"""Requests that no server should take, made from the fields of the OpenAPI document. Each is (name, body, headers, fields one of which must be
named), of raw HTTP (name, bytes, statuses that are right; 0 = closed without an answer)."""
import base64
import json
import struct
import zlib

JSON = {"Content-Type": "application/json"}
GOOD = dict(prompt="a red circle", num_frames=22, num_inference_steps=3)
# A field's wrong values are told by what the client would have meant together with it.
RELATED = {"width": ["width", "size"], "height": ["height", "size", "width"], "target": ["target"]}


def png(width, height, cut=None, lie=None):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes([200, 30, 30]) * width for _ in range(height))
    w, h = lie or (width, height)
    out = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return out[:cut]


def uri(data, kind="image/png"):
    return f"data:{kind};base64," + base64.b64encode(data).decode()


def wrong_values(schema):
    kind = schema.get("type")
    odd = [[], {}, [[]], {"a": 1}]
    if kind == "integer":
        return odd + ["", "x", "1x", True, 1.5, -5, -1e300, 1e300, 10**30, 2**63]
    if kind == "number":
        return odd + ["", "x", "1,5", "nan", "inf", "0x10", True, -5, 1e300, -1e300]
    if kind == "boolean":
        return odd + ["", "yes", "on", 1, 0, 2]
    if kind == "string":
        return odd + [1, 0, True, False, 1.5, -1]
    if kind == "array":
        return [{}, {"a": 1}, "x", 1, True, [1], ["x"], [None], [[]], [{}]]
    if kind == "object":
        return [[], "x", 1, True, [1], {"nope": 1}, {"nope": None}, {"nope": {}}]
    return [1, True, 1.5, {}, "x", "", "data:", "data:image/png", "data:image/png;base64", "data:,x", "data:image/png;base64,", "data:image/png;base64,@@@@",
            "data:image/png;base64,AAA=A", "data:image/png;base64,A", "file:///etc/passwd", "/etc/passwd", "../x.png", "ftp://example.org/x.png", "http://127.0.0.1/x.png",
            "http://[::1]/x.png", "https://example.org/x.png", "gopher://x", {"file_id": "file_1"}, {"image_url": 1}, {"image_url": {}}, {"nope": "x"},
            {"image_url": "x", "url": "y"}, uri(b"hello"), uri(png(8, 8)[:30]), uri(png(8, 8, lie=(60000, 60000))), uri(png(8, 8, lie=(0, 8))), uri(b"GIF89a"),
            uri(b"RIFF\xff\xff\xff\xffWEBPVP8X"), uri(b"#EXTM3U\nfile:///etc/passwd\n"), uri(b"\0" * 5000), uri(png(600, 100))]


SPECIFIC = {
    "prompt": ["", "\0", "a\0b", "x" * 32001, "ä" * 32001],
    "seconds": ["", "0", "-1", "1e9", "4 s", "four", "٤", 0, -1, 1e9, "NaN"],
    "size": ["", "x", "1280", "0x0", "1280×720", "-96x64", "96x64x3", "97x64", "100000x32", "32x", "x32", "9" * 50 + "x32", " 96x64"],
    "task": ["", "T2VA", "t2v", "fl2va", "ref2va"],
    "aspect_ratio": ["", "0:1", "1:0", "16", "16/9", "-1:1", "100:1", "1:100", "a:b", "1e9:1"],
    "plan": ["", "no such", "../plan.json", "/etc/passwd", "fast"],
    "model": ["", "gpt-4", "../h3-nano", "x" * 300],
    "n": [0, -1, 11, 1.5], "generate_sound": [False], "fps": [0, 1, 23.976, 30, 60], "guidance_scale": [0, 2, 7.5], "quality": ["best", ""], "negative_prompt": ["ugly"], "flow_shift": [0, 99],
    "num_frames": [0, 100001, 3000], "num_inference_steps": [0, 1, 1002], "evaluations": [0, 1001], "short_edge": [0, 31, 16385], "priority": ["high", ""],
    "deadline_seconds": [0, 10**9], "seed": [-1, 2**64, 1.5, "7"],
    "conditions": [[{}], [{"type": "image"}], [{"type": "text", "uri": "x"}], [{"type": "image", "uri": "x", "role": "hero"}],
                   [{"type": "image", "uri": "x", "role": "keyframe", "frame_index": 3}], [{"type": "video", "uri": "x", "role": "keyframe"}],
                   [{"type": "image", "uri": "x", "frame_index": 0, "role": "reference"}], [{"type": "image", "uri": uri(b"zz"), "extra": 1}],
                   [{"type": "audio", "uri": uri(png(8, 8)), "role": "reference"}], [{"type": "image", "uri": uri(png(8, 8)), "role": "keyframe"}] * 2],
    "target": [{"short_edge": "x"}, {"short_edge": 1}, {"aspect_ratio": "wide"}, {"duration_seconds": -1}, {"duration_seconds": 1e6}, {"fps": 30}, {"size": "96x64"}],
    "references": [[], [uri(png(8, 8))] * 17, [uri(png(8, 8))]],
    "extra_params": [{"extra_params": {}}, {"seed": -1}, {"num_inference_steps": 1}],
}


def bad_json(properties):
    for field, schema in properties.items():
        values = wrong_values(schema if "type" in schema else {"type": None} if field != "seconds" else {"type": "number"})
        for value in values + SPECIFIC.get(field, []):
            if (field, value) in (("references", []), ("generate_sound", True)) or (field == "seconds" and isinstance(value, str) and value == "1"):
                continue
            if field in ("extra_params", "extra_body") and value == {} or field == "seed" and value == 2**63:
                continue
            if field in ("input_references", "image_reference", "video_reference", "audio_reference", "references") and value in ([], ):
                continue
            body = {k: v for k, v in GOOD.items() if not (field in ("seconds", "duration", "duration_seconds", "frames") and k == "num_frames")
                    and not (field in ("steps", "evaluations") and k == "num_inference_steps")}
            body[field] = value
            wanted = RELATED.get(field, [field])
            if field == "size":
                wanted = ["size"]
            if field == "task" and value == "fl2va":
                wanted = ["task", "first_frame", "body"]
            if field in ("task", "references", "image_reference", "video_reference", "audio_reference", "input_references"):
                wanted = wanted + ["references", "task"]
            if field == "extra_params":
                wanted = wanted + ["num_inference_steps"]
            yield f"{field}: {str(value)[:60]}", json.dumps(body), JSON, wanted
    for key in ("colour", "Prompt", "prompt ", "", "__proto__", "num_frames\0", "ä", "x" * 5000, "first_frame.uri", "prompt[]"):
        yield f"unknown field {key[:20]!r}", json.dumps({**GOOD, key: 1}), JSON, None
    for a, b in (("size", "width"), ("seconds", "num_frames"), ("seconds", "duration"), ("num_inference_steps", "evaluations"), ("num_frames", "frames")):
        values = dict(size="96x64", width=32, height=32, seconds="4", num_frames=22, duration=5, num_inference_steps=3, evaluations=9, frames=39)
        body = {"prompt": "x", a: values[a], b: values[b], **({"height": 64} if b == "width" else {})}
        yield f"{a} and {b} disagree", json.dumps(body), JSON, [a, b]
    raw = [b"", b" ", b"{", b"}", b"[]", b"[1]", b"null", b"true", b"1", b'"x"', b"{]", b'{"prompt"}', b'{"prompt":}', b"{'prompt':'x'}", b'{"prompt":"x"', b'{"prompt":"x"}}',
           b'{"prompt":"x",}', b'{"prompt":"x"} x', b'{"prompt":"x","prompt":"y"}', b'{"prompt":"\xff\xfe"}', b'{"prompt":"\\ud800"}', b'{"prompt":"\\u12"}', b'{"prompt":"x\n"}',
           b'{"prompt":"x","seed":1e999}', b'{"prompt":"x","seed":-1e999}', b'{"prompt":"x","seed":0x10}', b'{"prompt":"x","seed":01}', b'{"prompt":"x","seed":NaN}',
           b'{"prompt":"x","seed":Infinity}', b'{"prompt":"x","seed":' + b"9" * 10000 + b"}", b'{"prompt":"x","n":' + b"[" * 100000 + b"]" * 100000 + b"}",
           b'{"target":' * 5000 + b"1" + b"}" * 5000, b'{"a":' * 63 + b"1" + b"}" * 63, b"\xef\xbb\xbf{}", b"\0", b"\x80\x04K\x01.", b"<xml/>", b"prompt=x", b"{" + b" " * 100000]
    for body in raw:
        yield f"JSON {body[:40]!r}", body, JSON, None
    good = json.dumps(GOOD).encode()
    for kind in ("text/plain", "text/xml", "application/octet-stream", "multipart/mixed; boundary=x", "multipart/form-data", "multipart/form-data; boundary=",
                 "multipart/form-data; boundary=" + "x" * 71, 'multipart/form-data; boundary="', "application/json2", "/", "application/x-www-form-urlencoded"):
        yield f"Content-Type {kind[:50]}", good, {"Content-Type": kind}, None
    for coding in ("gzip", "br", "deflate", "x"):
        yield f"Content-Encoding {coding}", good, {**JSON, "Content-Encoding": coding}, None
    yield "an empty idempotency key", good, {**JSON, "Idempotency-Key": ""}, ["Idempotency-Key"]
    yield "a long idempotency key", good, {**JSON, "Idempotency-Key": "k" * 256}, ["Idempotency-Key"]


def bad_multipart():
    form = {"Content-Type": "multipart/form-data; boundary=B"}

    def part(header, data=b"x"):
        return b"--B\r\n" + header + b"\r\n\r\n" + data + b"\r\n"
    prompt = part(b'Content-Disposition: form-data; name="prompt"')
    end = b"--B--\r\n"
    for name, body in (("no boundary at all", b"hello"), ("empty", b""), ("only the end", end), ("cut after the boundary", b"--B"), ("cut in a header", prompt[:20]),
                       ("cut in the data", prompt[:-3]), ("no end", prompt), ("an end without dashes", prompt + b"--B\r\n"), ("another boundary", prompt.replace(b"--B", b"--C") + b"--C--"),
                       ("a part without a name", prompt + part(b"Content-Disposition: form-data") + end), ("an empty name", prompt + part(b'Content-Disposition: form-data; name=""') + end),
                       ("no disposition", prompt + part(b"Content-Type: text/plain") + end), ("two dispositions", part(b'Content-Disposition: form-data; name="prompt"\r\n' * 2) + end),
                       ("two names", part(b'Content-Disposition: form-data; name="prompt"; name="size"') + end), ("attachment", part(b'Content-Disposition: attachment; name="prompt"') + end),
                       ("a quote without end", part(b'Content-Disposition: form-data; name="prompt') + end), ("a header without colon", part(b"hello") + end),
                       ("no blank line", b"--B\r\nContent-Disposition: form-data; name=\"prompt\"\r\n" + end), ("a huge header", part(b"X: " + b"y" * 9000) + end),
                       ("the prompt twice", prompt + prompt + end), ("65 parts", prompt * 65 + end), ("10,000 parts", prompt * 10000 + end),
                       ("nested multipart", prompt + part(b'Content-Disposition: form-data; name="n"\r\nContent-Type: multipart/mixed; boundary=Q') + end),
                       ("base64 transfer", part(b'Content-Disposition: form-data; name="prompt"\r\nContent-Transfer-Encoding: base64', b"eA==") + end),
                       ("a long name", prompt + part(b'Content-Disposition: form-data; name="' + b"n" * 300 + b'"') + end), ("open bracket", prompt + part(b'Content-Disposition: form-data; name="target["') + end),
                       ("only brackets", prompt + part(b'Content-Disposition: form-data; name="[]"') + end), ("deep brackets", prompt + part(b'Content-Disposition: form-data; name="a[b][c][d][e][f][g]"') + end),
                       ("value and object", prompt + part(b'Content-Disposition: form-data; name="prompt[x]"') + end), ("broken UTF-8", part(b'Content-Disposition: form-data; name="prompt"', b"\xff\xfe") + end),
                       ("a prompt as a file", part(b'Content-Disposition: form-data; name="prompt"; filename="p.txt"', b"hello") + end), ("NUL in a name", prompt + part(b'Content-Disposition: form-data; name="a\0b"') + end),
                       ("JSON part broken", prompt + part(b'Content-Disposition: form-data; name="target"\r\nContent-Type: application/json', b"{") + end)):
        yield f"multipart: {name}", body, form, None
    pictures = [b"", b"x", b"hello world" * 100, png(8, 8, cut=20), png(8, 8, cut=50), png(8, 8, lie=(65535, 65535)), png(8, 8, lie=(2**31, 2**31)), png(500, 100), b"GIF89a\xff\xff\xff\xff\0\0\0",
                b"\xff\xd8\xff", b"\xff\xd8\xff\xe0\0\x10JFIF", b"BM" + b"\xff" * 60, b"RIFF\0\0\0\0WEBP", b"\0\0\0\x18ftypmp42" + b"\0" * 40, b"OggS" + b"\0" * 100, b"ID3\4" + b"\0" * 100, b"\x1aE\xdf\xa3" + b"\xff" * 100,
                b"PK\3\4" + b"\0" * 100, b"%PDF-1.4", b"#!/bin/sh\necho", b"#EXTM3U\nhttp://127.0.0.1/\n", b"ffconcat version 1.0\nfile /etc/passwd\n", b"<svg xmlns='http://www.w3.org/2000/svg'/>"]
    for i, data in enumerate(pictures):
        for field in ("input_reference", "first_frame", "last_frame", "references"):
            name = f'Content-Disposition: form-data; name="{field}"; filename="../../../etc/x{i}.png"'.encode()
            yield f"multipart: {field} of {data[:16]!r}", prompt + part(name, data) + end, form, [field, "task", "references"]


def bad_raw():
    ok = b"Host: localhost\r\n"
    yield "no HTTP", b"hello\r\n\r\n", (400, 0)
    yield "TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 200, (400, 0)
    yield "binary", bytes(range(256)) * 4, (400, 0)
    yield "empty lines", b"\r\n" * 50, (400, 0)
    yield "no version", b"GET /healthz\r\n" + ok + b"\r\n", (400, 0)
    yield "HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (400, 0)
    yield "HTTP/9.9", b"GET /healthz HTTP/9.9\r\n" + ok + b"\r\n", (400, 0)
    yield "a header of 100 KB", b"GET /healthz HTTP/1.1\r\n" + ok + b"X: " + b"y" * 100000 + b"\r\n\r\n", (431, 0)
    yield "10,000 headers", b"GET /healthz HTTP/1.1\r\n" + ok + b"X: y\r\n" * 10000 + b"\r\n", (431, 0)
    yield "a target of 100 KB", b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n" + ok + b"\r\n", (431, 0)
    yield "a space in a header name", b"GET /healthz HTTP/1.1\r\n" + ok + b"X y: z\r\n\r\n", (400, 0)
    yield "a header without colon", b"GET /healthz HTTP/1.1\r\n" + ok + b"hello\r\n\r\n", (400, 0)
    yield "NUL in a header", b"GET /healthz HTTP/1.1\r\n" + ok + b"X: a\0b\r\n\r\n", (400, 0)
    yield "negative length", b"POST /v1/videos HTTP/1.1\r\n" + ok + b"Content-Length: -1\r\n\r\n", (400, 0)
    yield "length that is none", b"POST /v1/videos HTTP/1.1\r\n" + ok + b"Content-Length: x\r\n\r\n", (400, 0)
    yield "huge length", b"POST /v1/videos HTTP/1.1\r\n" + ok + b"Content-Length: 99999999999999\r\n\r\n", (413, 0)
    yield "length beyond 64 bits", b"POST /v1/videos HTTP/1.1\r\n" + ok + b"Content-Length: 99999999999999999999999\r\n\r\n", (400, 413, 0)
    yield "two lengths", b"POST /v1/videos HTTP/1.1\r\n" + ok + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", (400, 0)
    yield "length and chunked", b"POST /v1/videos HTTP/1.1\r\n" + ok + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", (400, 0)
    chunked = b"POST /v1/videos HTTP/1.1\r\n" + ok + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    yield "a chunk size that is none", chunked + b"zz\r\n{}\r\n0\r\n\r\n", (400, 0)
    yield "a chunk size beyond 64 bits", chunked + b"fffffffffffffffffff\r\n{}\r\n0\r\n\r\n", (400, 413, 0)
    yield "a chunk cut short", chunked + b"10\r\n{}", (400, 0)
    yield "an unknown coding", b"POST /v1/videos HTTP/1.1\r\n" + ok + b"Transfer-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}", (400, 415, 0)
    yield "an odd method", b"BREW /v1/videos HTTP/1.1\r\n" + ok + b"Connection: close\r\n\r\n", (400, 405)
    yield "CONNECT", b"CONNECT localhost:80 HTTP/1.1\r\n" + ok + b"Connection: close\r\n\r\n", (400, 404, 405)
    yield "a whole URL as target", b"GET http://localhost/healthz HTTP/1.1\r\n" + ok + b"Connection: close\r\n\r\n", (400, 404)
    yield "asterisk", b"OPTIONS * HTTP/1.1\r\n" + ok + b"Connection: close\r\n\r\n", (400, 404)
    yield "up and up", b"GET /../../../etc/passwd HTTP/1.1\r\n" + ok + b"Connection: close\r\n\r\n", (400, 404)
