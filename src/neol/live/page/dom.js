// Elements, numbers and colours: what every part of the page uses. Text from files is only ever set as text.

const SVG = "http://www.w3.org/2000/svg";

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "text") node.textContent = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((c) => c !== null && c !== undefined));
  return node;
}

export const el = (name, attributes, ...children) => filled(document.createElement(name), attributes, children);
export const svg = (name, attributes, ...children) => filled(document.createElementNS(SVG, name), attributes, children);

export const known = (x) => typeof x === "number" && Number.isFinite(x);

export function number(x, digits = 4) {
  if (!known(x)) return "–";
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size >= 1e6) return `${(x / 1e6).toFixed(2)} M`;
  if (size >= 1e4) return x.toFixed(0).replace(/\B(?=(\d{3})+$)/g, " ");
  if (size < 1e-3) return x.toExponential(1);
  return String(+x.toPrecision(digits));
}

export function duration(seconds) {
  if (!known(seconds)) return "–";
  const s = Math.round(seconds);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  return s < 172800 ? `${Math.floor(s / 3600)} h ${Math.round((s % 3600) / 60)} min` : `${Math.round(s / 86400)} days`;
}

export function stateOf(state) {
  const kind = state === "running elsewhere" ? "elsewhere" : state.replace(/[^a-z]/g, "");
  return el("span", { class: `state ${kind}` }, el("i"), state);
}

// The colours of now; canvases ask for them, and again when the reader's preference changes.
export function colours() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue(`--${name}`).trim();
  const names = ["ink", "muted", "line", "card", "soft", "positive", "negative", "pulse", "node", "good"];
  return Object.fromEntries(names.map((n) => [n, get(n)]));
}

export const link = (kind, ...ids) => `#/${kind}/${ids.map(encodeURIComponent).join(",")}`;
