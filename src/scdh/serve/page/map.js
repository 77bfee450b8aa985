// The map: points of items, coloured by label; zoom, hover, and click to search.
import { api } from "./api.js";
import { isDark, labelColour } from "./colours.js";
import { makeDrawing } from "./draw.js";
import { announce, byId, count, labelText, make, makeSvg, panel, shortName } from "./elements.js";
import { nothing, trouble } from "./messages.js";
import { listenForMoves } from "./moves.js";
import { Points } from "./points.js";
import { Frame } from "./results.js";
import { addressOf, START } from "./state.js";

const MOST_LEGEND = 300;
const REACH = 12; // pixels around the pointer
const RETRY_MILLISECONDS = 3000;
const DETAIL_MILLISECONDS = 90; // a pointer that rests this long wants to know more

export class CollectionMap {
  constructor(info, onChoose) {
    this.info = info;
    this.onChoose = onChoose;
    this.canvas = byId("points");
    this.view = { x: 0.5, y: 0.5, side: 1 }; // side: CSS pixels of the unit square
    this.highlighted = new Set();
    this.current = -1;
    this.marked = -1; // the point of the query
    this.details = new Map();
  }

  async show(state) {
    this.state = state;
    if (this.points) return this.showState();
    // One request, however often the map is left and visited again meanwhile.
    this.loading ??= this.load().finally(() => { this.loading = null; });
    await this.loading;
  }

  async load() {
    byId("map-message").replaceChildren(panel("Drawing the map", "The first time this takes some seconds."));
    const helps = {
      again: ["Try again", () => this.show(this.state)],
      search: ["Back to the search", () => byId("to-search").click()],
    };
    let points;
    try {
      points = new Points(await api.map());
    } catch (error) {
      if (error.passes) this.retryWhenReady();
      if (error.code !== "timeout") byId("map-message").replaceChildren(trouble(error, helps));
      return;
    }
    byId("map-message").replaceChildren(...(points.length ? [] : [nothing(START, helps)]));
    if (!points.length) return;
    this.points = points;
    this.drawing = makeDrawing(this.canvas, this.points);
    this.drawing.onRestored = () => this.redraw();
    this.colour();
    this.showLegend();
    this.fit();
    this.listen();
    await this.showState();
  }

  // The filter and the query of the search, when the map is shown.
  async showState() {
    const { labels, item, code } = this.state;
    this.highlighted = new Set(labels.map((label) => this.points.labelNames.indexOf(label)).filter((label) => label >= 0));
    this.colour();
    this.showLegend();
    this.marked = -1;
    this.resize();
    const isItem = item !== null;
    if (!isItem && code === null) return;
    const state = this.state;
    // A picture or a code has no place of its own: its nearest item is marked.
    const nearest = isItem ? null : await api.searchCode(code, { k: 1, radius: null, labels }, undefined).catch(() => null);
    if (state !== this.state) return; // something else was asked for meanwhile
    this.marked = this.points.find(isItem ? item : (nearest?.hits[0]?.id ?? null));
    byId("query-mark").setAttribute("aria-label", isItem ? "The item of the search" : "The item nearest to the search");
    this.redraw();
  }

  placeMark() {
    const mark = byId("query-mark");
    mark.hidden = this.marked < 0;
    if (mark.hidden) return;
    const [left, top] = this.onCanvas(this.marked);
    mark.style.left = `${left}px`;
    mark.style.top = `${top}px`;
  }

  // From a point to CSS pixels of the canvas.
  onCanvas(point) {
    const { clientWidth, clientHeight } = this.canvas;
    const [x, y] = this.points.place(point);
    return [clientWidth / 2 + (x - this.view.x) * this.view.side, clientHeight / 2 - (y - this.view.y) * this.view.side];
  }

  retryWhenReady() {
    clearTimeout(this.retryTimer);
    this.retryTimer = setTimeout(async () => {
      if (byId("map").hidden || this.points) return; // the next visit asks again
      if (await api.isReady()) this.show(this.state);
      else this.retryWhenReady();
    }, RETRY_MILLISECONDS);
  }

  listen() {
    new ResizeObserver(() => this.resize()).observe(byId("stage"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.colour();
      this.showLegend();
      this.redraw();
    });
    byId("zoom-in").addEventListener("click", () => this.zoom(1.6));
    byId("zoom-out").addEventListener("click", () => this.zoom(1 / 1.6));
    byId("zoom-all").addEventListener("click", () => this.fit());
    byId("tip").addEventListener("click", (event) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey) return;
      event.preventDefault();
      this.choose(this.current);
    });
    listenForMoves(this.canvas, this);
  }

  // From CSS pixels of the canvas to the unit square.
  toPlane(left, top) {
    const { clientWidth, clientHeight } = this.canvas;
    const { x, y, side } = this.view;
    return [x + (left - clientWidth / 2) / side, y - (top - clientHeight / 2) / side];
  }

  fit() {
    const { clientWidth, clientHeight } = this.canvas;
    if (!clientWidth || !clientHeight) return; // while it is not shown; resize() does it later
    this.view = { x: 0.5, y: 0.5, side: Math.max(80, Math.min(clientWidth, clientHeight) * 0.92) };
    this.least = this.view.side * 0.5;
    this.fitted = this.view.side;
    this.resize();
  }

  zoom(factor, left = this.canvas.clientWidth / 2, top = this.canvas.clientHeight / 2) {
    const before = this.toPlane(left, top);
    this.view.side = Math.min(this.fitted * 400, Math.max(this.least, this.view.side * factor));
    const after = this.toPlane(left, top);
    this.move(before[0] - after[0], before[1] - after[1]);
  }

  // By a part of the unit square; its centre stays in sight.
  move(x, y) {
    this.view.x = Math.min(1, Math.max(0, this.view.x + x));
    this.view.y = Math.min(1, Math.max(0, this.view.y + y));
    this.hideTip();
    this.redraw();
  }

  resize() {
    if (!this.canvas.clientWidth || !this.canvas.clientHeight) return; // while it is not shown
    if (!this.fitted) return this.fit();
    const ratio = Math.min(2, devicePixelRatio || 1);
    const width = Math.round(this.canvas.clientWidth * ratio);
    const height = Math.round(this.canvas.clientHeight * ratio);
    if (this.canvas.width !== width || this.canvas.height !== height) Object.assign(this.canvas, { width, height });
    this.ratio = ratio;
    this.redraw();
  }

  redraw() {
    if (!this.drawing || !this.fitted || this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      if (!this.canvas.width || !this.canvas.height) return;
      this.placeMark();
      const many = this.points.length;
      const base = many > 30000 ? 2.4 : many > 3000 ? 4 : 8;
      const size = Math.min(16, base * Math.max(1, this.view.side / this.fitted) ** 0.4);
      this.drawing.draw({ x: this.view.x, y: this.view.y, side: this.view.side * this.ratio, size: size * this.ratio });
    });
  }

  isShown = (point) => !this.highlighted.size || this.highlighted.has(this.points.labels[point]);

  colour() {
    const dark = isDark();
    const table = this.points.labelNames.map((_, label) => labelColour(label, dark));
    const none = labelColour(-1, dark);
    const bytes = new Uint8Array(4 * this.points.length);
    for (let point = 0; point < this.points.length; point++) {
      const isShown = this.isShown(point);
      bytes.set(isShown ? (table[this.points.labels[point]] ?? none) : none, 4 * point);
      bytes[4 * point + 3] = isShown ? 225 : 40;
    }
    this.drawing.setColours(bytes);
  }

  showLegend() {
    const { points } = this;
    const names = points.labelNames.slice(0, MOST_LEGEND);
    const some = points.length < points.items ? `${count(points.length, "item")} of ${points.items.toLocaleString("en")}, drawn by lot` : count(points.length, "item");
    byId("map-note").textContent = names.length ? `${some}. Choose labels to see where they are.` : `${some}, without labels.`;
    this.canvas.setAttribute("aria-label", `Map of ${count(points.length, "item")}; items with near codes lie near each other`);
    byId("legend-list").replaceChildren(...names.map((name, label) => {
      const [red, green, blue] = labelColour(label, isDark());
      const dot = makeSvg("svg", { class: "dot", viewBox: "0 0 10 10", "aria-hidden": "true" },
        makeSvg("circle", { cx: 5, cy: 5, r: 5, fill: `rgb(${red},${green},${blue})` }));
      const button = make("button", "", { type: "button", "aria-pressed": String(this.highlighted.has(label)) },
        dot, make("span", "text", { title: name }, labelText([name])), make("span", "count", {}, points.counts[label].toLocaleString("en")));
      button.addEventListener("click", () => {
        if (!this.highlighted.delete(label)) this.highlighted.add(label);
        button.setAttribute("aria-pressed", String(this.highlighted.has(label)));
        this.colour();
        this.redraw();
      });
      return make("li", "", {}, button);
    }));
  }

  // The point near a place of the canvas; −1 if there is none.
  pointAt(left, top, reach = REACH) {
    return this.points.nearest(...this.toPlane(left, top), reach / this.view.side, this.isShown);
  }

  choose(point) {
    if (point >= 0) {
      this.hideTip();
      this.onChoose(String(this.points.ids[point]));
    }
  }

  hideTip() {
    clearTimeout(this.detailTimer);
    this.current = -1;
    byId("tip").hidden = true;
    this.canvas.classList.remove("over");
  }

  // What a point is: its label at once, its name and picture when the pointer rests.
  point(point, { touchable = false, tells = false } = {}) {
    if (point === this.current) return;
    this.hideTip();
    if (point < 0) return;
    this.current = point;
    this.canvas.classList.add("over");
    const id = String(this.points.ids[point]);
    const tip = byId("tip");
    tip.className = touchable ? "tip" : "tip quiet";
    tip.tabIndex = -1;
    tip.href = addressOf({ ...this.state, view: "search", item: id, code: null });
    this.fillTip(this.details.get(id) ?? { id, name: "", labels: this.labelsOf(point) }, tells);
    this.placeTip(point);
    if (this.details.has(id)) return;
    this.detailTimer = setTimeout(async () => {
      const item = await api.item(id).catch(() => null);
      if (!item) return;
      this.details.set(id, item);
      if (this.current !== point) return;
      this.fillTip(item, tells);
      this.placeTip(point);
    }, DETAIL_MILLISECONDS);
  }

  labelsOf(point) {
    const label = this.points.labels[point];
    return label < 0 ? [] : [this.points.labelNames[label]];
  }

  fillTip(item, tells) {
    const label = labelText(item.labels);
    const name = item.name ? shortName(item.name) : `Item ${item.id}`;
    const frame = item.picture ? new Frame("frame", api.thumbnail(item.id), false).element : null;
    const text = make("span", "tip-text", {}, label ? make("span", "label", {}, label) : null, make("span", "name", {}, name));
    byId("tip").replaceChildren(...[frame, text].filter(Boolean));
    if (tells) announce(`${label} ${name}`);
  }

  placeTip(point) {
    const tip = byId("tip");
    tip.hidden = false;
    const { clientWidth, clientHeight } = this.canvas;
    const [left, top] = this.onCanvas(point);
    const isRight = left + 14 + tip.offsetWidth < clientWidth - 8;
    tip.style.left = `${Math.max(8, isRight ? left + 14 : left - 14 - tip.offsetWidth)}px`;
    tip.style.top = `${Math.max(8, Math.min(clientHeight - tip.offsetHeight - 8, top - 20))}px`;
  }
}
