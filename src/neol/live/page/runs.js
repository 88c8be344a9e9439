// The list of runs, a study's grid, and one or several runs closely.

import { Chart } from "./charts.js";
import { duration, el, known, link, number, stateOf } from "./dom.js";
import { LEGEND, NetworkView } from "./network.js";

const LISTED = 300;

export class ListPage {
  constructor() {
    this.picked = new Set();
    this.filter = el("input", { type: "search", placeholder: "Filter by name, task, rule, state", "aria-label": "Filter", oninput: () => this.draw() });
    this.compare = el("button", { onclick: () => (location.hash = link("run", ...this.picked)), disabled: true, text: "Compare" });
    this.body = el("tbody");
    this.note = el("p", { class: "muted small" });
    this.grids = el("div");
    const head = ["", "run", "state", "task", "learns by", "generation", "best fitness", "held out", "steps/s", "left"];
    const cells = head.map((h, i) => el("th", { text: h, class: (i > 4 ? "r " : "") + ([3, 4, 5, 8, 9].includes(i) ? "extra" : "") }));
    this.element = el("section", {}, this.grids,
      el("div", { class: "row spread" }, el("h1", { text: "Runs" }), el("div", { class: "row" }, this.filter, this.compare)), this.note,
      el("div", { class: "card" }, el("table", {}, el("thead", {}, el("tr", {}, ...cells)), this.body)));
    this.data = null;
  }

  update(list) {
    this.data = list;
    this.draw();
  }

  draw() {
    if (!this.data) return;
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (r) => words.every((w) => `${r.name} ${r.task} ${r.rule} ${r.outer} ${r.state}`.toLowerCase().includes(w));
    const found = this.data.runs.filter(fits);
    const order = { running: 0, "running elsewhere": 1 };
    found.sort((a, b) => (order[a.state] ?? 2) - (order[b.state] ?? 2));
    this.body.replaceChildren(...found.slice(0, LISTED).map((r) => this.row(r)));
    const more = found.length > LISTED ? ` The first ${LISTED} are listed; filter for others.` : "";
    const cut = this.data.whole ? "" : " The folder holds more than a page lists.";
    const many = `${this.data.runs.length} runs, ${this.data.runs.filter((r) => r.state.startsWith("running")).length} running.`;
    this.note.textContent = this.data.runs.length ? many + more + cut : "There is no run here yet; one that begins appears by itself.";
    this.compare.disabled = this.picked.size < 2;
    this.grids.replaceChildren(...this.data.studies.map(grid));
  }

  row(r) {
    const box = el("input", { type: "checkbox", "aria-label": `Compare ${r.name}`, onchange: () => {
      if (box.checked) this.picked.add(r.id);
      else this.picked.delete(r.id);
      if (this.picked.size > 6) this.picked.delete([...this.picked][0]);
      this.draw();
    } });
    box.checked = this.picked.has(r.id);
    const left = known(r.eta) ? duration(r.eta) : known(r.done) && r.done < 1 ? `${Math.round(100 * r.done)} % done` : "";
    const cell = (text, kind = "") => el("td", { class: kind, text });
    return el("tr", {}, el("td", {}, box), el("td", {}, el("a", { href: link("run", r.id), text: r.name })), el("td", {}, stateOf(r.state)),
      cell(r.task, "extra"), cell([r.outer, r.rule].filter(Boolean).join(", "), "extra"), cell(number(r.generation), "r extra"),
      cell(number(r.best), "r"), cell(number(r.held_out), "r"), cell(number(r.steps_per_second, 3), "r extra"), cell(left, "r extra"));
  }
}

function grid(study) {
  const rows = new Map();
  for (const c of study.cells) {
    const key = JSON.stringify([c.task, c.arm, c.point]);
    if (!rows.has(key)) rows.set(key, []);
    rows.get(key).push(c);
  }
  const kind = (c) => (c.state === "running elsewhere" ? "elsewhere" : c.state.replace(/[^a-z]/g, ""));
  const mean = (cells) => {
    const values = cells.map((c) => c.held_out).filter(known);
    return values.length ? values.reduce((a, b) => a + b, 0) / values.length : NaN;
  };
  const cell = (c) => {
    const title = `seed ${c.seed}: ${c.state}${known(c.held_out) ? `, held out ${number(c.held_out)}` : ""}`;
    return c.run ? el("a", { class: `cell ${kind(c)}`, href: link("run", c.run), title, "aria-label": title }) : el("span", { class: `cell ${kind(c)}`, title, role: "img", "aria-label": title });
  };
  const lines = [...rows.values()].map((cells) => el("tr", {}, el("td", { text: cells[0].task }), el("td", { text: cells[0].arm }),
    el("td", { class: "extra small", text: cells[0].point }), el("td", {}, el("div", { class: "matrix" }, ...cells.map(cell))), el("td", { class: "r", text: number(mean(cells)) })));
  const count = (state) => study.cells.filter((c) => c.state === state).length;
  const said = study.why || `${count("done")} of ${study.cells.length} done, ${study.running} running, ${count("failed")} failed`;
  const head = el("tr", {}, ...["task", "arm", "grid", "seeds", "held out"].map((h, i) => el("th", { text: h, class: i === 2 ? "extra" : i === 4 ? "r" : "" })));
  return el("section", { class: "card study" }, el("div", { class: "row spread" }, el("h1", { text: study.title || study.name }),
    el("span", { class: study.why ? "problem small" : "muted small", text: said })), study.cells.length ? el("table", {}, el("thead", {}, head), el("tbody", {}, ...lines)) : null);
}

const OWN = ["generation", "env_steps", "best_fitness", "mean_fitness", "median_fitness", "best_return", "mean_return", "mean_steps",
  "best_nodes", "best_connections", "mean_nodes", "mean_connections", "mean_step_size", "mean_weight_change"];

export class RunPage {
  constructor(id) {
    this.id = id;
    this.title = el("h1", { text: id });
    this.state = el("span");
    this.facts = el("dl", { class: "facts" });
    this.bar = el("i");
    this.charts = {
      fitness: new Chart("Fitness"), river: new Chart("Species, by how many belong to each"), search: new Chart("The search"),
      change: new Chart("Change of weights within lives"), step: new Chart("Step size of mutation"), size: new Chart("Size of networks"), speed: new Chart("Environment steps per second"),
    };
    this.network = el("div");
    this.note = el("p", { class: "muted small" });
    this.events = el("div");
    const life = el("a", { href: link("life", id) }, el("button", { class: "main", text: "Watch it live" }));
    this.element = el("section", {}, el("div", { class: "row spread" }, el("div", { class: "row" }, this.title, this.state), life),
      el("div", { class: "card" }, this.facts, el("div", { class: "bar" }, this.bar)),
      el("div", { class: "grid" }, this.charts.fitness.element,
        el("figure", { class: "card tall" }, el("h2", { text: "The best network so far" }), this.note, this.network, el("figcaption", { text: LEGEND })),
        ...["river", "search", "change", "step", "size", "speed"].map((k) => this.charts[k].element)), this.events);
  }

  update(run) {
    if (!run) {
      this.state.textContent = "There is no such run any more.";
      return;
    }
    this.data = run;
    this.title.textContent = run.name;
    this.state.replaceChildren(stateOf(run.state));
    const s = run.summary;
    const facts = [["task", run.task], ["learns by", [run.outer, run.rule].filter(Boolean).join(", ") || "–"], ["seed", String(run.seed ?? "–")],
      ["generation", number(run.generation)], ["best fitness", number(run.best)], ["steps/s", number(run.steps_per_second, 3)],
      ["time so far", duration(run.wall_seconds)], run.state === "finished" ? ["ended", s.status || "–"] : ["left, about", duration(run.eta)]];
    if (known(s.champion_return_mean)) {
      facts.push(["held-out return", number(s.champion_return_mean)], ["without plasticity", number(s.champion_without_plasticity_return_mean)]);
    }
    this.facts.replaceChildren(...facts.map(([k, v]) => el("div", {}, el("dt", { text: k }), el("dd", { text: v }))));
    this.bar.style.width = `${100 * (run.done ?? 0)}%`;
    this.draw(run);
    this.drawNetwork(run);
    this.drawEvents(run);
  }

  draw(run) {
    const c = run.columns, x = c.generation || [];
    const lines = (names) => names.filter((n) => c[n]).map((n, i) => ({ name: n.replaceAll("_", " "), x, y: c[n], colour: i % 7 }));
    const s = run.summary, ci = s.champion_return_ci95 || [];
    const level = known(s.champion_return_mean) ? { value: s.champion_return_mean, low: ci[0], high: ci[1], name: "champion, held out" } : null;
    this.charts.fitness.update(lines(["best_fitness", "mean_fitness", "median_fitness"]).map((l, i) => ({ ...l, colour: [0, 1, 6][i] })), { level });
    const river = run.river || { species: [] };
    const flows = river.species.map((k, i) => ({ name: `species ${k}`, x: river.generation, y: river.sizes[i], colour: i % 7 }));
    this.charts.river.update(river.generation?.length > 1 ? flows : [], { river: true });
    this.charts.search.update(lines(Object.keys(c).filter((n) => !OWN.includes(n) && !n.includes("trial"))), { zero: true });
    this.charts.change.update(lines(["mean_weight_change"]), { zero: true });
    this.charts.step.update(c.mean_step_size?.some((v) => v !== 1) ? lines(["mean_step_size"]) : [], { zero: true });
    this.charts.size.update(lines(["best_connections", "best_nodes", "mean_connections", "mean_nodes"]), { zero: true });
    this.charts.speed.update([{ name: "steps/s", x: run.timing.generation || [], y: run.timing.steps_per_second || [], colour: 2 }], { zero: true });
  }

  drawNetwork(run) {
    this.note.textContent = run.network_note || "Chosen on fresh episodes.";
    const key = JSON.stringify(run.network);
    if (key === this.drawn) return;
    this.drawn = key;
    if (!run.network) return this.network.replaceChildren();
    if (run.network.large) {
      const [nodes, edges] = run.network.counts;
      return this.network.replaceChildren(el("p", { text: `${nodes} nodes and ${edges} connections: too many for lines. neol draw makes heat maps of them.` }));
    }
    this.view = new NetworkView(run.network, "the best network");
    this.network.replaceChildren(this.view.canvas);
    this.view.draw();
  }

  drawEvents(run) {
    const counts = Object.entries(run.event_counts).map(([k, n]) => `${n} × ${k}`).join(", ");
    const rows = [...run.events].reverse().map((e) => el("tr", {}, el("td", { class: "r", text: number(e.generation) }), el("td", { text: e.kind }), el("td", { class: "small", text: e.why })));
    const table = rows.length ? el("table", {}, el("thead", {}, el("tr", {}, el("th", { class: "r", text: "generation" }), el("th", { text: "event" }), el("th", { text: "why" }))), el("tbody", {}, ...rows)) : null;
    this.events.replaceChildren(el("section", { class: "card events" }, el("h2", { text: "Events" }), el("p", { class: "muted small", text: counts || "No retries, deaths or time-outs." }), table));
  }
}

export class ComparePage {
  constructor(ids) {
    this.ids = ids;
    this.runs = new Map();
    this.charts = { best_fitness: new Chart("Best fitness"), mean_fitness: new Chart("Mean fitness"), mean_weight_change: new Chart("Change of weights within lives"), best_connections: new Chart("Connections of the best") };
    this.cards = el("div", { class: "grid" });
    this.pages = new Map();
    this.element = el("section", {}, el("h1", { text: `${ids.length} runs side by side` }), el("div", { class: "grid" }, ...Object.values(this.charts).map((c) => c.element)), this.cards);
  }

  update(run) {
    if (!run) return;
    this.runs.set(run.id, run);
    const runs = this.ids.map((id) => this.runs.get(id)).filter(Boolean);
    for (const [column, chart] of Object.entries(this.charts)) {
      chart.update(runs.filter((r) => r.columns[column]).map((r) => ({ name: r.name, x: r.columns.generation, y: r.columns[column], colour: this.ids.indexOf(r.id) % 7 })));
    }
    this.cards.replaceChildren(...runs.map((r) => this.card(r)));
    for (const view of this.pages.values()) view.view.draw();
  }

  card(run) {
    const key = JSON.stringify(run.network);
    if (run.network && !run.network.large && this.pages.get(run.id)?.key !== key) this.pages.set(run.id, { key, view: new NetworkView(run.network, run.name) });
    const facts = [["state", run.state], ["generation", number(run.generation)], ["best", number(run.best)], ["held out", number(run.held_out)], ["left", duration(run.eta)]];
    return el("figure", { class: "card" }, el("h2", {}, el("a", { href: link("run", run.id), text: run.name })),
      el("p", { class: "muted small", text: `${run.task}, ${[run.outer, run.rule].filter(Boolean).join(", ")}, seed ${run.seed ?? "–"}` }),
      el("div", { class: "numbers" }, ...facts.map(([k, v]) => el("span", { text: `${k} ${v}` }))), this.pages.get(run.id)?.view.canvas ?? null);
  }
}
