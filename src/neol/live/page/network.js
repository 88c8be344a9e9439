// A network on a canvas: activities, weights by colour and width, and a glow where a weight is changing.

import { colours, known } from "./dom.js";

const EASE = 0.22; // of the way to the newest numbers, per redraw
const FADE = 0.9; // of a glow, per redraw

export class NetworkView {
  constructor(drawing, label = "the network") {
    this.drawing = drawing;
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", `${label}: ${drawing.edges.length} connections`);
    this.target = drawing.edges.map((e) => e.weight);
    this.weights = [...this.target];
    this.glow = this.target.map(() => 0);
    this.values = [];
    this.goal = [];
    this.top = Math.max(0.1, ...this.target.map(Math.abs));
    this.byId = new Map(drawing.nodes.map((n) => [n.id, n]));
    this.font = 12;
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  // Newest numbers; what changed glows, by how much of the largest weight it changed.
  set(weights, values) {
    weights.forEach((w, i) => {
      if (!known(w)) return;
      this.glow[i] = Math.min(1, this.glow[i] + (25 * Math.abs(w - this.target[i])) / this.top);
      this.target[i] = w;
    });
    this.top = Math.max(this.top * 0.995, 0.1, ...this.target.map(Math.abs));
    this.goal = values;
  }

  // Without a glow: another life begins.
  jump(weights, values) {
    this.target = [...weights];
    this.weights = [...weights];
    this.values = [...values];
    this.goal = values;
    this.glow.fill(0);
    this.top = Math.max(0.1, ...this.target.map(Math.abs));
  }

  // One redraw on the way to the newest numbers; whether there is more to come.
  tick() {
    let moving = false;
    const go = (now, goal, i) => {
      const step = (goal[i] ?? 0) - (now[i] ?? 0);
      now[i] = (now[i] ?? 0) + EASE * step;
      if (Math.abs(step) > 1e-3) moving = true;
    };
    this.target.forEach((_, i) => {
      go(this.weights, this.target, i);
      this.glow[i] *= FADE;
      if (this.glow[i] > 0.01) moving = true;
    });
    this.goal.forEach((_, i) => go(this.values, this.goal, i));
    this.draw();
    return moving;
  }

  draw() {
    const width = this.canvas.clientWidth;
    if (!width) return;
    const height = Math.max(180, Math.min(520, 34 + 27 * this.drawing.rows));
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.canvas.style.height = `${height}px`;
    }
    const pen = this.canvas.getContext("2d"), hue = colours();
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = `${this.font}px system-ui, sans-serif`;
    const named = (kind) => Math.max(0, ...this.drawing.nodes.filter((n) => n.kind === kind).map((n) => pen.measureText(n.name).width));
    const left = Math.min(named("input"), width * 0.3) + 26, right = Math.min(named("output"), width * 0.3) + 26;
    const at = (n) => [left + n.x * (width - left - right), 16 + n.y * (height - 32)];
    this.drawing.edges.map((_, i) => i).sort((a, b) => Math.abs(this.weights[a]) - Math.abs(this.weights[b]))
      .forEach((i) => this.edge(pen, hue, this.drawing.edges[i], i, at));
    for (const n of this.drawing.nodes) this.node(pen, hue, n, at(n));
    pen.globalAlpha = 1;
  }

  edge(pen, hue, edge, i, at) {
    const a = this.byId.get(edge.from), b = this.byId.get(edge.to);
    if (!a || !b) return;
    const [x1, y1] = at(a), [x2, y2] = at(b);
    const strength = Math.min(1, Math.abs(this.weights[i]) / this.top);
    const line = new Path2D();
    line.moveTo(x1, y1);
    if (edge.forward) {
      const bend = 0.42 * (x2 - x1);
      line.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2, y2);
    } else if (edge.from === edge.to) line.bezierCurveTo(x1 - 30, y1 - 42, x1 + 30, y1 - 42, x1, y1);
    else line.bezierCurveTo(x1 + 30, y1 - 38, x2 - 30, y2 - 38, x2, y2);
    pen.setLineDash(edge.forward ? [] : [5, 4]);
    if (this.glow[i] > 0.02) {
      pen.globalAlpha = 0.75 * this.glow[i];
      pen.strokeStyle = hue.pulse;
      pen.lineWidth = 2 + 4 * strength + 7 * this.glow[i];
      pen.stroke(line);
    }
    pen.globalAlpha = 0.25 + 0.7 * strength;
    pen.strokeStyle = this.weights[i] < 0 ? hue.negative : hue.positive;
    pen.lineWidth = 0.8 + 4.2 * strength;
    pen.stroke(line);
    pen.setLineDash([]);
  }

  node(pen, hue, n, [x, y]) {
    const value = n.value >= 0 ? this.values[n.value] ?? 0 : 0, size = Math.tanh(Math.abs(value));
    pen.globalAlpha = n.used ? 1 : 0.35;
    pen.beginPath();
    pen.arc(x, y, 8, 0, 2 * Math.PI);
    pen.fillStyle = hue.node;
    pen.fill();
    pen.globalAlpha *= size;
    pen.fillStyle = value < 0 ? hue.negative : hue.positive;
    pen.fill();
    pen.globalAlpha = n.used ? 1 : 0.35;
    pen.lineWidth = 1.3;
    pen.strokeStyle = hue.ink;
    pen.stroke();
    pen.fillStyle = hue.ink;
    pen.textBaseline = "middle";
    if (n.kind === "input" || n.kind === "output") {
      pen.textAlign = n.kind === "input" ? "right" : "left";
      pen.fillText(n.name, x + (n.kind === "input" ? -14 : 14), y, 150);
    }
  }
}

export const LEGEND = "Blue is positive, orange negative; width is the weight's size, a glow its change. A disc is filled by its activity; dashes are recurrent.";
