// The server's API as functions. Everything goes to the page's own host.
let key = sessionStorage.getItem("key") || "";
export const hasKey = () => key !== "";

export class ApiError extends Error {
  constructor(status, body) {
    super(body?.error?.message || `the server answered ${status}`);
    this.status = status;
    this.param = body?.error?.param || "";
    this.code = body?.error?.code || "";
  }
}

// Asks for the API key once, if the server wants one. Resolves to false when the person gives none.
function askForKey(wrong) {
  return new Promise((resolve) => {
    const dialog = document.createElement("dialog");
    dialog.setAttribute("aria-labelledby", "key-title");
    dialog.innerHTML = `<form method="dialog"><h2 id="key-title">API key</h2><p></p>
      <label>Key <input type="password" autocomplete="off" required></label>
      <div class="row"><button value="ok" class="primary">Use it</button><button value="" formnovalidate>Not now</button></div></form>`;
    dialog.querySelector("p").textContent = wrong ? "The server does not know that key." : "This server wants an API key. It is kept until the tab is closed.";
    dialog.addEventListener("close", () => {
      const given = dialog.querySelector("input").value.trim();
      dialog.remove();
      if (dialog.returnValue !== "ok" || !given) return resolve(false);
      key = given;
      sessionStorage.setItem("key", key);
      resolve(true);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
let asking = null;

export async function call(path, options = {}) {
  for (;;) {
    const headers = { ...options.headers };
    if (key) headers.Authorization = `Bearer ${key}`;
    const response = await fetch(path, { ...options, headers });
    if (response.ok) return response;
    if (response.status === 401) {
      asking ??= askForKey(key !== "").finally(() => { asking = null; });
      if (await asking) continue;
    }
    throw new ApiError(response.status, await response.json().catch(() => null));
  }
}

export const json = async (path, options) => (await call(path, options)).json();
export const post = (path, body) =>
  json(path, body instanceof FormData ? { method: "POST", body }
                                      : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body ?? {}) });

export const create = (fields) => post("/v1/videos", fields);
export const remix = (id, fields) => post(`/v1/videos/${id}/remix`, fields);
export const extend = (id, fields) => post("/v1/videos/extensions", { video: { id }, ...fields });
export const cancel = (id) => post(`/v1/videos/${id}/cancel`);
export const remove = (id) => json(`/v1/videos/${id}`, { method: "DELETE" });
export const video = (id) => json(`/v1/videos/${id}`);
let known = null;
export const capabilities = () => (known ??= json("/v1/capabilities").catch((e) => { known = null; throw e; }));

// An address that <img> and <video> can load. They cannot send a key; then the bytes are fetched here, as a blob.
export async function source(path) {
  return key ? URL.createObjectURL(await (await call(path)).blob()) : path;
}
export const contentPath = (id, variant) => `/v1/videos/${id}/content${variant ? `?variant=${variant}` : ""}`;

// Server-sent events at `path` until "end"; `on(name, data)`. Reconnects after a cut. Ends with `signal`.
export async function follow(path, on, signal) {
  while (!signal.aborted) {
    try {
      const reader = (await call(path, { signal })).body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        text += value;
        for (let cut; (cut = text.indexOf("\n\n")) >= 0; text = text.slice(cut + 2)) {
          const block = text.slice(0, cut);
          const name = block.match(/^event: (.*)$/m)?.[1], data = block.match(/^data: (.*)$/m)?.[1];
          if (!name || !data) continue;
          on(name, JSON.parse(data));
          if (name === "end") return;
        }
      }
    } catch (e) {
      if (signal.aborted) return;
      if (e instanceof ApiError && e.status < 500 && e.status !== 429) throw e;
    }
    await new Promise((r) => setTimeout(r, 1000));
  }
}
