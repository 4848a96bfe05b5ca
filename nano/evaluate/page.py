"""One HTML file: the scores as bars between floor and ceiling, and a contact sheet of every clip. Needs pillow."""
import base64, html, io
import numpy as np

STYLE = """body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:1100px;color:#222;background:#fcfcfa}
table{border-collapse:collapse}td,th{padding:2px 10px;text-align:left}th{font-weight:600}.n{text-align:right;font-variant-numeric:tabular-nums}
.bar{position:relative;width:260px;height:12px;background:#e8e8e4}.bar i{position:absolute;top:0;bottom:0;background:#4a78b8}.bar b{position:absolute;top:-2px;bottom:-2px;width:2px}
figure{margin:1.2em 0}img{max-width:100%;display:block}.bad{color:#b03030}.dim{color:#777}"""


def sheet(v, columns=12, width=96):
    """uint8 [F, H, W, 3] -> PNG bytes: frames at even distances, left to right."""
    from PIL import Image
    f = np.linspace(0, len(v) - 1, columns).round().astype(int)
    im = Image.fromarray(np.concatenate(list(v[f]), 1))
    im = im.resize((width * columns, width * v.shape[1] // v.shape[2]), Image.BILINEAR)
    out = io.BytesIO()
    im.save(out, "PNG", optimize=True)
    return out.getvalue()


def bar(value, low, high, floor, ceiling):
    marks = "".join(f'<b style="left:{100 * x:.1f}%;background:{c}" title="{t} {x:.2f}"></b>' for x, c, t in ((floor, "#b03030", "floor"), (ceiling, "#2a8a4a", "ceiling")) if x is not None)
    return f'<div class="bar"><i style="left:0;width:{100 * value:.1f}%"></i><i style="left:{100 * low:.1f}%;width:{100 * (high - low):.1f}%;background:#1d3f70;height:4px;top:4px"></i>{marks}</div>'


def page(report, rows, what):
    e = html.escape
    o = [f"<!doctype html><meta charset=utf-8><title>H3-nano scores</title><style>{STYLE}</style><h1>H3-nano, {report['prompts']} held-out prompts</h1>",
         f"<p>{report['evaluations']} evaluations, {report['frames']} frames, plan {e(str(report['plan']))}, seed {report['seed']}, model {e(report['model'])}. "
         "Dark line: 95 % interval. Red mark: the same clips against another prompt (floor). Green mark: true clips through the model's codecs (ceiling).</p>",
         "<table><tr><th>score<th>value<th>95 %<th>n<th><th>what"]
    for k in what:
        if k in report["intervals"]:
            lo, hi = report["intervals"][k]
            o.append(f"<tr><td>{k}<td class=n>{report[k]:.3f}<td class=n>{lo:.2f} to {hi:.2f}<td class=n>{report['n'][k]}<td>{bar(report[k], lo, hi, report['floor'].get(k), report['ceiling'].get(k))}<td class=dim>{e(what[k])}")
    o.append("</table>")
    for r in rows:
        miss = ", ".join(f"{k} {g:g}/{n:g}" for k, (g, n) in r["scores"].items() if g < .5 * n)
        o.append(f"<figure><figcaption>{r['index']}: <b>{e(r['prompt'])}</b> <span class=bad>{e(miss)}</span></figcaption>"
                 f'<img src="data:image/png;base64,{base64.b64encode(r["sheet"]).decode()}" alt="{e(r["prompt"])}"></figure>')
    return "\n".join(o) + "\n"
