// How many results, how far, and which labels.
import { byId, isByBits, labelParts, make } from "./elements.js";

const CHOICES = [12, 24, 48, 96, 200];
const FIND_FROM = 10; // labels from which a field to find one is of use
const MOST_SHOWN = 500;
const MOST_LABELS = 16; // in one search
const RANK_HELP = {
  bits: "Every bit counts the same.",
  outputs: "Bits that the model is sure of count more.",
};

export class Controls {
  // onChange(part) gets the part of the state that has changed.
  constructor(onChange) {
    this.onChange = onChange;
    this.state = null;
    this.counts = [];
    byId("refine").addEventListener("submit", (event) => event.preventDefault());
    byId("k").addEventListener("change", (event) => onChange({ k: Number(event.target.value) }));
    byId("use-radius").addEventListener("change", (event) => {
      onChange({ radius: event.target.checked ? Number(byId("radius").value) : null });
    });
    byId("rank").addEventListener("change", (event) => onChange({ rank: event.target.value }));
    byId("radius").addEventListener("input", () => this.showRadius());
    byId("radius").addEventListener("change", (event) => onChange({ radius: Number(event.target.value) }));
    byId("label-find").addEventListener("input", () => this.showLabels());
    byId("clear-labels").addEventListener("click", () => onChange({ labels: [] }));
    // A phone shows results first; the settings unfold when they are wanted.
    if (matchMedia("(max-width: 860px)").matches) byId("refine-fold").open = false;
    matchMedia("(max-width: 860px)").addEventListener("change", (event) => {
      byId("refine-fold").open = !event.matches;
    });
  }

  setUp(info) {
    const limit = info.limits.hits;
    this.bits = info.index.bits;
    this.isByBits = isByBits(info);
    this.choices = CHOICES.filter((k) => k <= limit);
    byId("radius").max = this.bits;
    byId("radius").value = Math.round(this.bits / 8);
    this.counts = Object.entries(info.labels).sort(([a, m], [b, n]) => n - m || a.localeCompare(b));
    byId("labels").hidden = this.counts.length === 0;
    byId("label-find").hidden = this.counts.length < FIND_FROM;
    byId("search").dataset.labels = this.counts.length ? "some" : "none";
  }

  show(state) {
    this.state = state;
    const choices = [...new Set([...this.choices, state.k])].sort((a, b) => a - b);
    byId("k").replaceChildren(...choices.map((k) => make("option", "", { value: k }, String(k))));
    byId("k").value = String(state.k);
    byId("rank").value = state.rank;
    byId("rank-help").textContent = RANK_HELP[state.rank];
    byId("use-radius").checked = state.radius !== null;
    if (state.radius !== null) byId("radius").value = state.radius;
    this.showRadius();
    this.showLabels();
  }

  // Only what was uploaded has outputs; they have no radius, which counts bits. A method with a distance of its own has neither.
  showRank(hasOutputs) {
    byId("rank-control").hidden = !this.isByBits || !hasOutputs || this.state.radius !== null;
    byId("radius-control").hidden = !this.isByBits || (hasOutputs && this.state.rank === "outputs");
  }

  showRadius() {
    const number = Number(byId("radius").value);
    const isUsed = byId("use-radius").checked;
    byId("radius").disabled = !isUsed;
    byId("radius-text").textContent = isUsed ? `${number} ${number === 1 ? "bit" : "bits"}` : "any";
  }

  showLabels() {
    const wanted = byId("label-find").value.trim().toLowerCase();
    const chosen = new Set(this.state.labels);
    const all = [
      ...this.state.labels.map((label) => [label, this.counts.find(([own]) => own === label)?.[1] ?? 0]),
      ...this.counts.filter(([label]) => !chosen.has(label)),
    ];
    const shown = all.filter(([label]) => chosen.has(label) || label.toLowerCase().includes(wanted)).slice(0, MOST_SHOWN);
    const focused = document.activeElement?.closest("#label-list") ? document.activeElement.value : null;
    byId("label-list").replaceChildren(...shown.map(([label, number]) => this.labelRow(label, number, chosen)));
    byId("clear-labels").hidden = chosen.size === 0;
    if (focused !== null) {
      [...byId("label-list").querySelectorAll("input")].find((box) => box.value === focused)?.focus();
    }
  }

  labelRow(label, number, chosen) {
    const box = make("input", "", { type: "checkbox" });
    box.value = label;
    box.checked = chosen.has(label);
    box.disabled = !box.checked && chosen.size >= MOST_LABELS;
    box.addEventListener("change", () => {
      const labels = box.checked ? [...chosen, label] : [...chosen].filter((own) => own !== label);
      this.onChange({ labels: labels.sort() });
    });
    const { column, value } = labelParts(label);
    const text = make("span", "text", {}, value, column ? make("span", "column", {}, ` ${column}`) : null);
    return make("li", "", {}, make("label", "", {}, box, text, make("span", "count", {}, number.toLocaleString("en"))));
  }
}
