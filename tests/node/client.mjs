// OpenAI's official Node client against a running server; a line "ok NAME" or "FAIL NAME: NOTE" for each check.
// usage: node client.mjs http://127.0.0.1:PORT/v1 FOLDER_OF_NODE_MODULES
import { createRequire } from "node:module";
const require = createRequire(process.argv[3] + "/");
const { default: OpenAI, toFile } = await import(require.resolve("openai"));

const client = new OpenAI({ baseURL: process.argv[2], apiKey: "unused", maxRetries: 0 });
const brief = { num_frames: 22, num_inference_steps: 3, size: "96x64", seed: 5 };
const check = (name, ok, note) => console.log(ok ? `ok node: ${name}` : `FAIL node: ${name}: ${JSON.stringify(note)}`);

async function ended(video) {
  for (const stop = Date.now() + 60000; video.status !== "completed" && video.status !== "failed" && Date.now() < stop; ) {
    await new Promise((r) => setTimeout(r, 100));
    video = await client.videos.retrieve(video.id);
  }
  return video;
}

async function raises(name, kind, call) {
  try {
    check(`${name} raises ${kind.name}`, false, await call());
  } catch (e) {
    check(`${name} raises ${kind.name}`, e instanceof kind && e.code && e.message, String(e));
  }
}

const first = await client.videos.create({ prompt: "a red circle bounces", ...brief });
check("create gives a queued video", first.object === "video" && first.id.startsWith("video_") && ["queued", "in_progress"].includes(first.status), first);
const done = await ended(first);
check("retrieve until it is completed", done.status === "completed" && done.progress === 100 && done.size === "96x64", done);
const bytes = new Uint8Array(await (await client.videos.downloadContent(first.id)).arrayBuffer());
check("downloadContent gives the MP4", bytes.length === done.bytes && String.fromCharCode(...bytes.slice(4, 8)) === "ftyp", bytes.length);
const sheet = await client.videos.downloadContent(first.id, { variant: "spritesheet" });
check("downloadContent gives the spritesheet", sheet.headers.get("content-type") === "image/webp", [...sheet.headers]);

const thumbnail = await (await client.videos.downloadContent(first.id, { variant: "thumbnail" })).arrayBuffer();
const { size, ...rest } = brief;
const framed = await ended(await client.videos.create({ prompt: "it falls", input_reference: await toFile(new Uint8Array(thumbnail), "a.webp", { type: "image/webp" }), ...rest }));
check("create with a file is fl2va", framed.status === "completed" && framed.task === "fl2va", framed);
const remix = await client.videos.remix(first.id, { prompt: "a blue square slides" });
check("remix", remix.remixed_from_video_id === first.id, remix);
const longer = await ended(await client.videos.extend({ video: { id: first.id }, prompt: "it stops", seconds: "1" }));
check("extend by id", longer.status === "completed" && longer.extended_from_video_id === first.id && longer.frames > 22, longer);

const mine = [first.id, framed.id, remix.id, longer.id], seen = [];
for await (const v of client.videos.list({ limit: 2, order: "asc" })) if (mine.includes(v.id)) seen.push(v.id);
check("list pages through everything", JSON.stringify(seen) === JSON.stringify(mine), seen);
await ended(remix);
const gone = await client.videos.delete(first.id);
check("delete", gone.deleted && gone.object === "video.deleted" && gone.id === first.id, gone);
await raises("retrieve of a deleted one", OpenAI.NotFoundError, () => client.videos.retrieve(first.id));
await raises("an unknown model", OpenAI.BadRequestError, () => client.videos.create({ prompt: "x", model: "nope" }));
for (const id of mine.slice(1)) await client.videos.delete(id);
