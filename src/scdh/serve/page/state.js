// What is shown, as the address says it: an address can be shared, and the back button leads to the one before.

export const DEFAULT_K = 24;
export const START = Object.freeze({
  view: "search", item: null, code: null, k: DEFAULT_K, radius: null, labels: [], rank: "bits", name: "",
});

function whole(text, least, otherwise) {
  return /^\d{1,6}$/.test(text ?? "") && Number(text) >= least ? Number(text) : otherwise;
}

export function readAddress(search = location.search) {
  const query = new URLSearchParams(search);
  const item = query.get("item");
  const code = query.get("code");
  const isItem = /^-?\d{1,19}$/.test(item ?? "");
  const isCode = !isItem && /^([0-9a-f]{2})+$/i.test(code ?? "");
  const radius = whole(query.get("radius"), 0, null);
  return {
    view: query.get("view") === "map" ? "map" : "search",
    item: isItem ? item : null,
    code: isCode ? code.toLowerCase() : null,
    k: whole(query.get("k"), 1, DEFAULT_K),
    radius,
    // Items have no outputs, and a radius counts bits.
    rank: isCode && radius === null && query.get("rank") === "outputs" ? "outputs" : "bits",
    name: isItem || isCode ? "" : (query.get("name") ?? "").slice(0, 200),
    labels: [...new Set(query.getAll("label").filter(Boolean))].sort(),
  };
}

export function addressOf(state) {
  const query = new URLSearchParams();
  if (state.view === "map") query.set("view", "map");
  if (state.item !== null) query.set("item", state.item);
  else if (state.code !== null) query.set("code", state.code);
  else if (state.name) query.set("name", state.name);
  if (state.k !== DEFAULT_K) query.set("k", state.k);
  if (state.radius !== null) query.set("radius", state.radius);
  if (state.rank === "outputs" && state.item === null && state.code !== null && state.radius === null) {
    query.set("rank", state.rank);
  }
  for (const label of state.labels) query.append("label", label);
  const text = query.toString();
  return text ? `?${text}` : "./";
}

export function hasQuery(state) {
  return state.item !== null || state.code !== null;
}
