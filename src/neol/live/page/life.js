// A life, or two side by side: pictures, the network at work, and switches for its learning and its world.

import { Chart } from "./charts.js";
import { el, link, number } from "./dom.js";
import { LEGEND, NetworkView } from "./network.js";

const KEPT = 1500; // points of a curve

function unpack(buffer) {
  const view = new DataView(buffer), length = view.getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  let start = 4 + length;
  const blobs = head.blobs.map((size) => {
    const blob = new Blob([new Uint8Array(buffer, start, size)], { type: "image/jpeg" });
    start += size;
    return blob;
  });
  return { head, blobs };
}

class LifeView {
  constructor(scene, index, send) {
    this.index = index;
    this.birth = null;
    this.drift = [];
    this.returns = [];
    this.steps = [];
    this.picture = scene.pictures ? el("canvas", { class: "picture", role: "img", "aria-label": "the simulator's picture" })
      : el("div", { class: "nothing muted" }, el("p", { text: `There are no pictures here, so its state and network are shown alone. ${scene.why_no_pictures}` }));
    this.network = scene.network.large ? null : new NetworkView(scene.network, `life ${index + 1}`);
    this.numbers = { step: el("b"), reward: el("b"), total: el("b") };
    this.title = el("h2");
    this.rule = el("select", { "aria-label": "plasticity rule", onchange: () => send({ do: "rule", life: index, rule: this.rule.value }) },
      ...scene.rules.map((r) => el("option", { value: r, text: r === "none" ? "frozen (none)" : r })));
    this.rate = el("input", { type: "number", step: "0.05", min: "0", max: "1000", "aria-label": "learning rate", onchange: () => {
      if (this.rate.value !== "" && this.rate.validity.valid) send({ do: "rate", life: index, lr: Number(this.rate.value) });
    } });
    this.charts = [new Chart("Return so far", "step", 120), new Chart("How far its weights have moved", "step", 120)];
    const names = ["step", "reward", "total"], labels = ["step", "reward", "return"];
    const numbers = names.map((n, i) => el("span", {}, el("span", { class: "muted", text: `${labels[i]} ` }), this.numbers[n]));
    this.element = el("article", { class: "card life" },
      el("div", { class: "row spread wide" }, this.title, el("div", { class: "row small" }, el("label", {}, "rule ", this.rule), el("label", {}, "rate ", this.rate))),
      el("div", {}, this.picture, el("div", { class: "numbers" }, ...numbers)),
      el("div", {}, this.network?.canvas ?? el("p", { text: "The network is too large for lines." })), el("div", { class: "wide two-charts" }, ...this.charts.map((c) => c.element)));
    for (const c of this.charts) c.element.classList.remove("card");
  }

  update(life, blob, changes) {
    this.data = life;
    const time = this.steps.length ? this.steps[this.steps.length - 1] : -1;
    if (this.birth === null || life.step + life.trial * 1e6 < time) {
      this.birth = [...life.weights];
      this.drift = []; this.returns = []; this.steps = [];
      this.network?.jump(life.weights, life.values);
    } else this.network?.set(life.weights, life.values);
    if (life.step + life.trial * 1e6 !== time) {
      this.steps.push(life.step + life.trial * 1e6);
      this.returns.push(life.total);
      this.drift.push(Math.sqrt(life.weights.reduce((sum, w, i) => sum + (w - this.birth[i]) ** 2, 0)));
      if (this.steps.length > KEPT) for (const a of [this.steps, this.returns, this.drift]) a.splice(0, 1);
    }
    this.numbers.step.textContent = life.trial ? `${life.step} of trial ${life.trial + 1}` : String(life.step);
    this.numbers.reward.textContent = life.reward.toFixed(2);
    this.numbers.total.textContent = life.total.toFixed(1) + (life.over ? "  (over)" : "");
    this.title.textContent = life.rule === "none" || life.lr === 0 ? "Frozen: its weights stay" : `Plastic: learns by ${life.rule}`;
    if (document.activeElement !== this.rule) this.rule.value = life.rule;
    if (document.activeElement !== this.rate) this.rate.value = life.lr;
    if (blob && this.picture.getContext) this.paint(blob);
    const now = performance.now();
    if (now - (this.charted || 0) > 250 || life.over) { // curves need no 30 redraws a second
      this.charted = now;
      const x = this.steps.map((s) => s % 1e6);
      const marks = changes.flatMap((c) => [...c.text.matchAll(/ (?:from|to)=(\d+)/g)].map((m) => Number(m[1])));
      this.charts[0].update([{ name: "return", x, y: this.returns, colour: 0 }], { marks });
      this.charts[1].update([{ name: "distance from birth", x, y: this.drift, colour: 3 }], { marks, zero: true });
    }
  }

  async paint(blob) {
    const image = await createImageBitmap(blob);
    if (this.picture.width !== image.width) {
      this.picture.width = image.width;
      this.picture.height = image.height;
      this.picture.style.aspectRatio = `${image.width} / ${image.height}`;
    }
    this.picture.getContext("2d").drawImage(image, 0, 0);
    image.close();
  }
}

export class LifePage {
  constructor(id, base) {
    this.id = id;
    this.lives = [];
    this.frames = 0;
    this.frame = null;
    this.says = el("p", { id: "says", class: "small", role: "status", text: "Starting a player …" });
    this.buttons = {
      play: el("button", { class: "main", onclick: () => this.toggle(), text: "Pause", title: "Space" }),
      step: el("button", { onclick: () => this.send({ do: "step" }), text: "Step", title: "→" }),
      reset: el("button", { onclick: () => this.reset(), text: "Reset", title: "R" }),
      two: el("button", { onclick: () => this.two(), text: "Two lives", title: "2: plastic against frozen, the same seed" }),
    };
    this.seed = el("input", { type: "number", min: "0", max: "2000000000", value: "0", "aria-label": "seed", onchange: () => this.reset() });
    this.speed = el("select", { "aria-label": "speed", onchange: () => this.send({ do: "speed", speed: Number(this.speed.value) }) });
    this.holder = el("div", { class: "lives one" });
    this.world = el("aside", { class: "card world" });
    this.element = el("section", {}, el("div", { class: "row spread" }, el("h1", { text: `A life of ${id === "." ? "the champion" : id}` }), el("a", { href: link("run", id), text: "its training" })),
      el("div", { class: "card controls row" }, ...Object.values(this.buttons), el("label", {}, "seed ", this.seed), el("label", {}, "speed ", this.speed)),
      this.says, el("div", { class: "stage" }, this.holder, this.world));
    this.socket = new WebSocket(`${base}life?run=${encodeURIComponent(id)}`);
    this.socket.binaryType = "arraybuffer";
    this.socket.onmessage = (message) => this.hear(message.data);
    this.socket.onclose = () => { if (!this.closed) this.tell(this.refused || "The player has gone; reload the page to begin again.", true); };
  }

  close() {
    this.closed = true;
    this.socket.close();
    cancelAnimationFrame(this.loop);
  }

  send(message) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  tell(text, problem = false) {
    this.says.textContent = text;
    this.says.classList.toggle("problem", problem);
  }

  hear(data) {
    const { head, blobs } = unpack(data);
    if (head.note) this.tell(head.note);
    if (head.error) this.tell(head.error, true);
    if (head.refused) { this.refused = head.refused; this.tell(head.refused, true); }
    if (head.scene) this.begin(head.scene);
    if (head.frame && this.scene) this.show(head.frame, blobs);
  }

  begin(scene) {
    this.scene = scene;
    this.tell(scene.pictures ? "" : `No pictures: ${scene.why_no_pictures}`);
    this.speed.replaceChildren(...scene.speeds.map((s) => el("option", { value: s, text: `${s} ×` })));
    this.speed.value = "1";
    this.buildWorld(scene);
  }

  show(frame, blobs) {
    this.frame = frame;
    this.frames += 1;
    if (this.lives.length !== frame.lives.length) {
      this.lives = frame.lives.map((_, i) => new LifeView(this.scene, i, (m) => this.send(m)));
      this.holder.replaceChildren(...this.lives.map((v) => v.element));
      this.holder.classList.toggle("one", frame.lives.length === 1);
    }
    frame.lives.forEach((life, i) => this.lives[i].update(life, blobs[i], frame.changes));
    this.buttons.play.textContent = frame.playing && !frame.over ? "Pause" : "Play";
    this.buttons.two.textContent = frame.lives.length === 2 ? "One life" : "Two lives";
    if (document.activeElement !== this.seed) this.seed.value = frame.seed;
    if (document.activeElement !== this.speed) this.speed.value = String(frame.speed);
    this.showChanges(frame);
    cancelAnimationFrame(this.loop);
    this.loop = requestAnimationFrame(() => { this.send({ do: "got" }); this.redraw(); });
  }

  redraw() {
    const moving = this.lives.map((v) => v.network?.tick()).some(Boolean);
    if (moving && !this.closed) this.loop = requestAnimationFrame(() => this.redraw());
  }

  // -------------------------------------------------------------- switches

  toggle() {
    if (this.frame?.over) return this.reset();
    this.send({ do: this.frame?.playing ? "pause" : "play" });
  }

  reset(seed = Math.max(0, Math.round(Number(this.seed.value) || 0))) {
    this.send({ do: "reset", seed });
    this.send({ do: "play" });
  }

  two() {
    this.send({ do: "lives", count: this.frame?.lives.length === 2 ? 1 : 2 });
    this.send({ do: "play" });
  }

  plasticity() {
    if (this.frame) this.send({ do: "rule", life: 0, rule: this.frame.lives[0].rule === "none" ? this.scene.trained_rule : "none" });
  }

  faster(by) {
    const speeds = this.scene?.speeds || [], i = speeds.indexOf(this.frame?.speed);
    if (i >= 0 && speeds[i + by]) this.send({ do: "speed", speed: speeds[i + by] });
  }

  // A change is on where the life's list has it and it has not ended.
  placeOf(text) {
    const words = (t) => t.split(" ").filter((w) => !/^(from|to)=/.test(w)).join(" ");
    return this.frame ? this.frame.changes.findIndex((c) => c.on && words(c.text) === words(text)) : -1;
  }

  change(text) {
    const place = this.placeOf(text);
    this.tell("");
    this.send(place < 0 ? { do: "change", text } : { do: "end", place });
  }

  invert() {
    this.change(`action invert of=${this.scene.outputs.length - 1}`);
  }

  toggleButton(label, text) {
    const button = el("button", { "aria-pressed": "false", onclick: () => this.change(text), text: label, title: text, "data-change": text });
    this.switches.push([button, text]);
    return button;
  }

  buildWorld(scene) {
    this.switches = [];
    const lines = scene.outputs.map((name, i) => el("div", { class: "line" }, el("span", { text: name }), this.toggleButton("invert", `action invert of=${i}`), this.toggleButton("weaken", `action gain=0.4 of=${i}`)));
    const sensors = scene.inputs.slice(0, 40).map((name, i) => this.toggleButton(name, `observation loss of=${i}`));
    const more = [this.toggleButton("noise on sensors", "observation noise=0.1"), this.toggleButton("noise on actuators", "action noise=0.3"), this.toggleButton("reward inverted", "reward sign"),
      ...scene.offered.map((o) => this.toggleButton(o.name, o.text))];
    const text = el("input", { placeholder: "action delay=5 of=0", "aria-label": "a change of the world", maxlength: "200" });
    const form = el("form", { onsubmit: (e) => { e.preventDefault(); if (text.value.trim()) { this.change(text.value.trim()); text.value = ""; } } }, text, el("button", { text: "Add" }));
    this.list = el("ul", { class: "changes" });
    this.command = el("code");
    this.again = el("pre", {}, this.command);
    this.world.replaceChildren(el("h2", { text: "Actuators" }), ...lines, el("h2", { text: "Lose a sensor" }), el("div", { class: "sensors" }, ...sensors),
      el("h2", { text: "World" }), el("div", { class: "sensors" }, ...more), el("h2", { text: "Any other change" }), form,
      el("h2", { text: "What happened to this life" }), this.list, el("p", { class: "muted small", text: "The first life again, as long as its learning was not switched:" }), this.again, el("p", { class: "muted small", text: LEGEND }));
  }

  showChanges(frame) {
    for (const [button, text] of this.switches) button.setAttribute("aria-pressed", String(this.placeOf(text) >= 0));
    const key = JSON.stringify([frame.changes, frame.seed]);
    if (key === this.listed) return;
    this.listed = key;
    const rows = frame.changes.map((c, i) => el("li", {}, el("code", { text: c.text }), c.on ? el("button", { text: "end", onclick: () => this.send({ do: "end", place: i }) }) : null));
    this.list.replaceChildren(...(rows.length ? rows : [el("li", { class: "muted small", text: "Nothing yet." })]));
    const changes = frame.changes.length ? frame.changes.map((c) => ` --change "${c.text}"`).join("") : " --change none";
    this.command.textContent = `neol replay RUN --seed ${frame.seed}${changes}`;
  }
}
