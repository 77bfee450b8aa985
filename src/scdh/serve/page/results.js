// The grid of results, and the card of the query.
import { api } from "./api.js";
import { strip, tile } from "./bits.js";
import { byId, isByBits, labelText, make, shortName } from "./elements.js";
import { showLarge } from "./large.js";
import { addressOf } from "./state.js";

const WAITING_CARDS = 12;

// A thumbnail, or the code as a square where there is none or it cannot be loaded; the code may come later.
export class Frame {
  constructor(className, address, isLazy = true) {
    this.element = make("span", className);
    this.needsTile = !address;
    this.code = null;
    if (address) {
      const image = make("img", "pale", { alt: "", loading: isLazy ? "lazy" : null, decoding: "async" });
      image.addEventListener("load", () => image.classList.remove("pale"));
      image.addEventListener("error", () => {
        image.remove();
        this.needsTile = true;
        this.draw();
      });
      image.src = address;
      this.element.append(image);
    }
  }

  setCode(code, bits) {
    this.code = code;
    this.bits = bits;
    this.draw();
  }

  draw() {
    if (this.needsTile && this.code !== null) this.element.replaceChildren(tile(this.code, this.bits));
  }
}

export class Results {
  constructor(info) {
    this.bits = info.index.bits;
    this.isByBits = isByBits(info);
    this.hasPictures = info.pictures;
    this.cards = new Map();
  }

  showWaiting() {
    const card = () =>
      make("li", "", { "aria-hidden": "true" },
        make("div", "card waiting", {}, make("div", "frame"), make("div", "card-text", {}, make("span"), make("span", "short"))));
    byId("grid").replaceChildren(...Array.from({ length: WAITING_CARDS }, card));
  }

  // distances: as shownDistances gives them, where the items were found by a search.
  showItems(items, state, distances = []) {
    this.cards.clear();
    byId("grid").replaceChildren(...items.map((item, place) => this.card(item, state, distances[place])));
  }

  card(item, state, away = null) {
    const frame = new Frame("frame", this.hasPictures ? api.thumbnail(item.id) : null);
    const space = make("span", "strip-space");
    this.cards.set(item.id, { frame, space });
    const name = shortName(item.name) || `Item ${item.id}`;
    const labels = labelText(item.labels);
    const distance = away === null ? null
      : make("span", "distance", { title: away.title }, make("span", "only-read", {}, "distance "), make("b", "", {}, away.number), away.unit);
    const text = make("span", "card-text", {},
      make("span", "label", { title: item.labels.join(", ") || item.name }, labels || name),
      labels ? make("span", "name", { title: item.name }, name) : null, space);
    const href = addressOf({ ...state, view: "search", item: item.id, code: null });
    const link = make("a", "card", { href, "data-item": item.id }, frame.element, text, distance);
    return make("li", "", {}, link, this.hasPictures ? enlarger(name, () => ({ address: api.picture(item.id), name, id: item.id, href })) : null);
  }

  // Strips come with a second request, as an answer of a search has no codes of its hits.
  showCodes(codes, queryCode) {
    for (const [id, code] of codes) {
      const card = this.cards.get(id);
      if (!card) continue;
      card.frame.setCode(code, this.bits);
      const drawn = strip(code, this.bits, this.isByBits ? queryCode : null);
      card.space.replaceWith(drawn);
      card.space = drawn;
    }
  }

  clear() {
    byId("grid").replaceChildren();
  }
}

// A button over a picture; what() says what is shown large.
function enlarger(name, what) {
  const button = make("button", "enlarge", { type: "button", "aria-label": `Show ${name} large`, title: "Show it large" }, "⤢");
  button.addEventListener("click", () => showLarge(what()));
  return button;
}

// Distances as texts: bits are counted; others are real numbers, with three or four digits.
// meaning: what a real number is; null: bits are counted.
export function shownDistances(hits, meaning) {
  if (meaning === null) {
    return hits.map(({ distance }) => ({ number: String(distance), unit: distance === 1 ? " bit" : " bits", title: null }));
  }
  const most = Math.max(...hits.map(({ distance }) => Math.abs(distance)), 0);
  const digits = most >= 100 ? 0 : most >= 10 ? 1 : most >= 1 ? 2 : 3;
  return hits.map(({ distance }) => ({ number: distance.toFixed(digits), unit: "", title: meaning }));
}

// What is searched with: a picture of the visitor, an item, or a code. large: the address of its large picture.
export function showQuery({ kind, name, title = name, labels = [], picture, large = picture, code }, bits) {
  const frame = new Frame("query-frame", picture, false);
  if (code) frame.setCode(code, bits);
  const text = make("div", "query-text", {}, make("p", "query-kind", {}, kind), make("p", "query-name", { title }, name));
  if (labels.length) text.append(make("p", "soft", { title: labels.join(", ") }, labelText(labels)));
  if (code) {
    const copy = make("button", "button", { type: "button" }, "Copy");
    copy.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(code);
        copy.textContent = "Copied";
      } catch {
        copy.textContent = "Select it";
      }
    });
    text.append(strip(code, bits), make("div", "query-code", {}, make("code", "", { title: code }, code), copy));
  }
  byId("query").replaceChildren(frame.element, text, ...(large ? [enlarger(name, () => ({ address: large, name }))] : []));
  byId("query").hidden = false;
}
