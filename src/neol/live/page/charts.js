// Curves and rivers as SVG, drawn to the width that they have.

import { el, known, number, svg } from "./dom.js";

const LEFT = 46, RIGHT = 10, TOP = 8, BOTTOM = 22;

function ticks(low, high, wanted) {
  const raw = (high - low) / wanted || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw) || raw;
  const out = [];
  for (let t = Math.ceil(low / step - 1e-9) * step; t <= high + step * 1e-9; t += step) out.push(Math.abs(t) < step * 1e-6 ? 0 : t);
  return out;
}

// A value below which few lie: one terrible first generation does not flatten the rest.
function lowest(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const low = sorted[0], high = sorted[sorted.length - 1], quarter = sorted[Math.floor(sorted.length * 0.1)];
  return high - low > 6 * (high - quarter) && high > quarter ? quarter - (high - quarter) : low;
}

export class Chart {
  // series: [{name, x: [], y: [], colour: 0..6}], options: {level: {value, low, high, name}, river: bool, zero: bool, marks: [x]}
  constructor(title, xName = "generation", height = 190) {
    this.height = height;
    this.title = title;
    this.legend = el("div", { class: "legend" });
    this.holder = el("div");
    this.element = el("figure", { class: "card" }, el("h2", { text: title }), this.legend, this.holder);
    this.xName = xName;
    this.series = [];
    this.options = {};
    new ResizeObserver(() => this.draw()).observe(this.holder);
    this.holder.addEventListener("pointermove", (e) => this.point(e));
    this.holder.addEventListener("pointerleave", () => this.point(null));
  }

  update(series, options = {}) {
    this.series = series.filter((s) => s.y.some(known));
    this.options = options;
    this.element.hidden = !this.series.length;
    this.draw();
  }

  draw() {
    const width = Math.round(this.holder.clientWidth);
    if (!width || !this.series.length) return;
    this.width = width;
    const xs = this.series.flatMap((s) => s.x.filter(known)), level = this.options.level;
    const tops = this.options.river ? this.stacked() : null;
    let ys = tops ? tops[tops.length - 1] : this.series.flatMap((s) => s.y.filter(known));
    if (level) ys = ys.concat([level.value, level.low, level.high].filter(known));
    let x0 = Math.min(...xs), x1 = Math.max(...xs);
    let y0 = tops || this.options.zero ? Math.min(0, ...ys) : lowest(ys), y1 = Math.max(...ys);
    if (x1 === x0) x1 = x0 + 1;
    if (y1 === y0 && y0 === 0 && this.options.zero) y1 = 1;
    if (y1 === y0) [y0, y1] = [y0 - (Math.abs(y0) || 1) * 0.1, y1 + (Math.abs(y1) || 1) * 0.1];
    const pad = tops ? 0 : (y1 - y0) * 0.05;
    if (!this.options.zero && !tops) y0 -= pad;
    y1 += pad;
    this.toX = (x) => LEFT + ((x - x0) / (x1 - x0)) * (width - LEFT - RIGHT);
    this.toY = (y) => TOP + (1 - (Math.max(y, y0) - y0) / (y1 - y0)) * (this.height - TOP - BOTTOM);
    const root = svg("svg", { viewBox: `0 0 ${width} ${this.height}`, height: this.height, role: "img", "aria-label": this.said() });
    for (const t of ticks(y0, y1, 4)) {
      root.append(svg("line", { class: "axis", x1: LEFT, x2: width - RIGHT, y1: this.toY(t), y2: this.toY(t) }));
      root.append(svg("text", { class: "tick", x: LEFT - 6, y: this.toY(t) + 4, "text-anchor": "end", text: number(t, 3) }));
    }
    for (const t of ticks(x0, x1, Math.max(2, width / 110))) {
      if (t === Math.round(t)) root.append(svg("text", { class: "tick", x: this.toX(t), y: this.height - 6, "text-anchor": "middle", text: number(t, 4) }));
    }
    if (tops) this.river(root, tops);
    else for (const s of this.series) root.append(svg("path", { class: `curve c${s.colour}`, d: this.path(s) }), this.end(s));
    for (const m of this.options.marks || []) if (m >= x0 && m <= x1) root.append(svg("line", { class: "mark", x1: this.toX(m), x2: this.toX(m), y1: TOP, y2: this.height - BOTTOM }));
    if (level && known(level.value)) this.level(root, level, width);
    this.cross = svg("line", { class: "cross", y1: TOP, y2: this.height - BOTTOM, visibility: "hidden" });
    root.append(this.cross);
    this.holder.replaceChildren(root);
    this.point(null);
  }

  path(s) {
    let d = "", pen = "M";
    s.x.forEach((x, i) => {
      if (known(s.y[i]) && known(x)) { d += `${pen}${this.toX(x).toFixed(1)} ${this.toY(s.y[i]).toFixed(1)}`; pen = "L"; } else pen = "M";
    });
    return d;
  }

  end(s) {
    let i = s.y.length - 1;
    while (i >= 0 && !(known(s.y[i]) && known(s.x[i]))) i -= 1;
    if (i < 0) return svg("g", {});
    return svg("circle", { class: `f${s.colour}`, r: 2.6, cx: this.toX(s.x[i]), cy: this.toY(s.y[i]) });
  }

  stacked() {
    const sum = this.series[0].x.map(() => 0);
    return this.series.map((s) => s.y.map((y, i) => (sum[i] += y || 0)));
  }

  river(root, tops) {
    const x = this.series[0].x;
    this.series.forEach((s, k) => {
      const upper = tops[k].map((y, i) => `${this.toX(x[i]).toFixed(1)} ${this.toY(y).toFixed(1)}`);
      const lower = x.map((v, i) => `${this.toX(v).toFixed(1)} ${this.toY(k ? tops[k - 1][i] : 0).toFixed(1)}`).reverse();
      root.append(svg("path", { class: `layer f${s.colour}`, d: `M${[...upper, ...lower].join("L")}Z` }));
    });
  }

  level(root, level, width) {
    const y = this.toY(level.value);
    if (known(level.low)) {
      const top = this.toY(level.high);
      root.append(svg("rect", { class: "band f2", x: LEFT, width: width - LEFT - RIGHT, y: top, height: Math.max(1, this.toY(level.low) - top) }));
    }
    root.append(svg("line", { class: "level c2", x1: LEFT, x2: width - RIGHT, y1: y, y2: y }));
  }

  point(event) {
    if (!this.toX || !this.series.length) return;
    let at = -1;
    const first = this.series.reduce((a, b) => (b.x.length > a.x.length ? b : a));
    if (event) {
      const x = event.clientX - this.holder.getBoundingClientRect().left;
      at = first.x.reduce((best, v, i) => (Math.abs(this.toX(v) - x) < Math.abs(this.toX(first.x[best]) - x) ? i : best), 0);
      this.cross.setAttribute("x1", this.toX(first.x[at]));
      this.cross.setAttribute("x2", this.toX(first.x[at]));
    }
    this.cross?.setAttribute("visibility", event ? "visible" : "hidden");
    const shown = this.options.river ? this.series.slice(0, 6) : this.series;
    const items = shown.map((s) => {
      const i = event ? s.x.indexOf(first.x[at]) : s.y.length - 1;
      return el("span", {}, el("i", { class: `b${s.colour}` }), `${s.name} `, el("span", { class: "number", text: number(i < 0 ? NaN : s.y[i]) }));
    });
    if (this.options.level) items.push(el("span", {}, el("i", { class: "b2" }), `${this.options.level.name} ${number(this.options.level.value)}`));
    items.push(el("span", { text: event ? `${this.xName} ${number(first.x[at], 6)}` : "" }));
    this.legend.replaceChildren(...items);
  }

  said() {
    return `${this.title}: ${this.series.map((s) => `${s.name} ${number(s.y[s.y.length - 1])}`).join(", ")}`;
  }
}
