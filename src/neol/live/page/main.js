// The page: what it shows follows its address, what it knows comes through one websocket.

import { el } from "./dom.js";
import { LifePage } from "./life.js";
import { ComparePage, ListPage, RunPage } from "./runs.js";

const base = location.href.replace(/[#?].*$/, "").replace(/^http/, "ws");
const main = document.getElementById("main"), status = document.getElementById("link");
const live = { list: null, page: null, runs: {}, connected: 0 };
globalThis.neolLive = live; // for the curious, and for tests

let socket = null, watched = [];
const list = new ListPage();

function connect() {
  socket = new WebSocket(`${base}watch`);
  socket.onopen = () => {
    live.connected += 1;
    status.className = "on";
    status.lastChild.textContent = "live";
    watch(watched);
  };
  socket.onmessage = (message) => hear(JSON.parse(message.data));
  socket.onclose = () => {
    status.className = "off";
    status.lastChild.textContent = "the server has gone";
    setTimeout(connect, 1500);
  };
}

function watch(runs) {
  watched = runs;
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ do: "watch", runs }));
}

function hear(said) {
  if (said.list) {
    live.list = said.list;
    document.getElementById("where").textContent = said.list.root;
    list.update(said.list);
    const { runs, studies } = said.list;
    if (!live.page && runs.length === 1 && !studies.length && !location.hash) location.hash = `#/run/${encodeURIComponent(runs[0].id)}`;
    if (!live.page) route();
  }
  if ("run" in said) {
    live.runs[said.id] = said.run;
    if (live.page?.update && watched.includes(said.id)) live.page.update(said.run);
  }
}

function route() {
  const [, kind, rest = ""] = location.hash.split("/");
  const ids = rest.split(",").filter(Boolean).map(decodeURIComponent).slice(0, 6);
  live.page?.close?.();
  if (kind === "run" && ids.length) live.page = ids.length > 1 ? new ComparePage(ids) : new RunPage(ids[0]);
  else if (kind === "life" && ids.length) live.page = new LifePage(ids[0], base);
  else live.page = list;
  main.replaceChildren(live.page.element);
  document.title = ids.length ? `${ids.join(", ")} – NEOL live` : "NEOL live";
  watch(live.page === list || live.page instanceof LifePage ? [] : ids);
  if (live.page === list && live.list) list.draw();
  scrollTo(0, 0);
}

const keys = document.getElementById("keys");
document.getElementById("help").addEventListener("click", () => keys.showModal());
addEventListener("hashchange", route);
addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || keys.open || /^(input|select|textarea)$/i.test(e.target.tagName)) return;
  const page = live.page, life = page instanceof LifePage ? page : null;
  const done = {
    "?": () => keys.showModal(),
    Escape: () => (location.hash = "#/"),
    l: () => { if (page?.id) location.hash = `#/${life ? "run" : "life"}/${encodeURIComponent(page.id)}`; },
    ...(life && {
      " ": () => life.toggle(), ArrowRight: () => life.send({ do: "step" }), r: () => life.reset(), n: () => life.reset((life.frame?.seed ?? 0) + 1),
      2: () => life.two(), p: () => life.plasticity(), i: () => life.invert(), "+": () => life.faster(1), "=": () => life.faster(1), "-": () => life.faster(-1),
    }),
  }[e.key.length === 1 ? e.key.toLowerCase() : e.key];
  if (!done || (e.key === " " && e.target.tagName === "BUTTON")) return;
  e.preventDefault();
  done();
});
// After a click the keyboard is the page's again: Space pauses, and does not press the same button once more.
main.addEventListener("click", (e) => { if (e.detail) e.target.closest("button")?.blur(); });
connect();
if (location.hash) route();
else main.replaceChildren(el("p", { class: "muted", text: "Reading the folder …" }));
