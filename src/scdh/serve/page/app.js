// The page: reads the address, asks the service, shows the answer.
import { api, ServiceError } from "./api.js";
import { Controls } from "./controls.js";
import { announce, byId, count, shortName } from "./elements.js";
import { listenForLarge } from "./large.js";
import { CollectionMap } from "./map.js";
import { nothing, trouble } from "./messages.js";
import { askForEmbeddings, listenForPictures } from "./picker.js";
import { fileToSend, preview } from "./pictures.js";
import { Results, showQuery, shownDistances } from "./results.js";
import { addressOf, hasQuery, readAddress, START } from "./state.js";
import { keepUpload, uploadOf } from "./uploads.js";

const SAMPLE = 24;
const RETRY_MILLISECONDS = 2000;

let info = null;
let isNew = false; // whether `info` was just asked for
let results = null;
let map = null;
let state = START;
let running = null; // ends what is under way when something else is asked for
let retryTimer = 0;
const controls = new Controls((change) => go({ ...state, ...change }, { keepsPicture: true }));

function begin() {
  running?.abort();
  clearTimeout(retryTimer);
  running = new AbortController();
  byId("message").replaceChildren();
  byId("results").setAttribute("aria-busy", "true");
  delete byId("results").dataset.state;
  return running.signal;
}

function showView() {
  const isMap = state.view === "map";
  byId("search").hidden = isMap;
  byId("map").hidden = !isMap;
  byId("search").dataset.mode = hasQuery(state) ? "results" : "start";
  byId("to-search").href = addressOf({ ...state, view: "search" });
  byId("to-map").href = addressOf({ ...state, view: "map" });
  for (const [id, isHere] of [["to-search", !isMap], ["to-map", isMap]]) {
    if (isHere) byId(id).setAttribute("aria-current", "page");
    else byId(id).removeAttribute("aria-current");
  }
  controls.showRank(state.code !== null && uploadOf(history.state) !== null);
  document.querySelector(".skip").href = isMap ? "#points" : "#results";
}

// To another state, with an address of its own.
function go(next, { keepsPicture = false, picture = null, focus = false } = {}) {
  history.pushState(keepsPicture ? history.state : picture, "", addressOf(next));
  show(focus);
}

// What the address says; what counts bits is left out where these do not rank.
function readState() {
  const read = readAddress();
  return results && !results.isByBits ? { ...read, radius: null, rank: "bits" } : read;
}

async function show(focus = false) {
  state = readState();
  controls.show(state);
  byId("find-text").value = state.name;
  showView();
  if (state.view === "map") {
    running?.abort();
    map ??= new CollectionMap(info, (id) => go({ ...state, view: "search", item: id, code: null }, { focus: true }));
    await map.show(state);
  } else if (hasQuery(state)) await search(focus);
  else await browse(focus);
}

async function attempt(work, again) {
  const signal = begin();
  try {
    await work(signal);
  } catch (error) {
    if (error.name === "AbortError" || signal.aborted) return;
    showError(error, again);
  } finally {
    if (!signal.aborted) byId("results").removeAttribute("aria-busy");
  }
}

function title(text, note = "") {
  byId("results-title").textContent = text;
  byId("results-note").textContent = note;
  document.title = hasQuery(state) ? `${text} · scdh` : "Search by picture · scdh";
}

function showError(error, again) {
  results?.clear();
  byId("search").hidden = false; // a picture may have been dropped on the map
  byId("map").hidden = true;
  title("No results");
  byId("results").dataset.state = "trouble"; // which has a title of its own
  showMessage(trouble(error, helps(again)));
  if (error.passes) retryWhenReady(again);
}

function showMessage(box) {
  byId("message").replaceChildren(box);
  byId("message").scrollIntoView({ block: "nearest" });
}

// Buttons of messages: name → [text, what it does], or null where it does not apply now.
function helps(again) {
  const change = (part) => () => go({ ...state, ...part }, { keepsPicture: true, focus: true });
  const isRefined = state.k !== START.k || state.radius !== null;
  const before = state.view === "map" ? "Back to the map" : hasQuery(state) ? "Back to the results" : "Back to the collection";
  return {
    again: ["Try again", () => { byId("results").focus({ preventScroll: true }); again(); }],
    picture: ["Choose another picture", () => byId("choose").click()],
    before: [before, () => (info ? show(true) : start())],
    start: ["Back to the collection", () => go(START, { focus: true })],
    distance: state.radius === null ? null : ["Search at any distance", change({ radius: null })],
    filter: state.labels.length ? ["Remove the filter", change({ labels: [] })] : null,
    settings: isRefined ? ["Use the usual settings", change({ k: START.k, radius: null })] : null,
  };
}

function retryWhenReady(again) {
  clearTimeout(retryTimer);
  const { signal } = running;
  retryTimer = setTimeout(async () => {
    const isReady = await api.isReady();
    if (signal.aborted) return; // something else was asked for meanwhile
    if (isReady) again();
    else retryWhenReady(again);
  }, RETRY_MILLISECONDS);
}

function browse(focus = false) {
  byId("query").hidden = true;
  return attempt(async (signal) => {
    const heading = state.name ? `Items with “${state.name}” in their name` : "From the collection";
    title(heading);
    results.showWaiting();
    if (!isNew) await loadInfo(signal); // items may have come and gone since
    const { items } = await api.sample(SAMPLE, state, signal);
    results.showItems(items, { ...state, name: "" });
    const some = state.name && items.length === SAMPLE ? `The first ${SAMPLE}. ` : "";
    title(heading, items.length ? `${some}Choose one to see what is of the same kind.` : "");
    if (!items.length) showMessage(nothing(state, helps(browse)));
    if (focus) focusResults();
    await showStrips(items, null, signal);
  }, browse);
}

function search(focus) {
  const again = () => search(focus);
  return attempt(async (signal) => {
    title("Searching …");
    results.showWaiting();
    if (state.item !== null) {
      const [item, found] = await Promise.all([api.item(state.item, signal), api.similar(state.item, state, signal)]);
      const name = shortName(item.name) || `Item ${item.id}`;
      const picture = item.picture ? api.thumbnail(item.id) : null;
      const large = picture && api.picture(item.id);
      showQuery({ kind: "Similar to", name, title: item.name, labels: item.labels, picture, large, code: found.code }, results.bits);
      await showFound(found, focus, signal, again);
    } else {
      const upload = state.rank === "outputs" || !results.isByBits ? uploadOf(history.state) : null;
      const found = upload ? await upload(state, signal) : await api.searchCode(state.code, { ...state, rank: "bits" }, signal);
      const { address = null, name = null } = history.state ?? {};
      showQuery({ kind: address ? "Your picture" : "Code", name: name ?? "Shared search", picture: address, code: found.code }, results.bits);
      await showFound(found, focus, signal, again, upload !== null);
    }
  }, again);
}

async function showFound(found, focus, signal, again, isByOutputs = false) {
  const { hits, total } = found;
  const meaning = isByOutputs ? "Sum of the outputs of the model over the bits that differ" : null;
  const shown = shownDistances(hits, results.isByBits ? meaning : `By ${info.model.ranking}`);
  results.showItems(hits, state, shown);
  const range = [...new Set([shown.at(0)?.number, shown.at(-1)?.number])].join(" to ");
  const isBelated = state.rank === "outputs" && !isByOutputs; // an address that was shared, or reloaded
  const within = [
    state.radius === null ? "" : `within ${count(state.radius, "bit")}`,
    !results.isByBits ? `by ${info.model.ranking}${state.code !== null && !isByOutputs ? ", from the code alone" : ""}`
      : isByOutputs ? "by outputs" : isBelated ? "by bits, as an address does not hold the picture" : "",
  ].filter(Boolean).join(" · ");
  if (hits.length) {
    const isCut = total !== null && total > hits.length;
    const heading = isCut ? `Nearest ${hits.length} of ${total.toLocaleString("en")}` : count(hits.length, "result");
    title(heading, [within, results.isByBits ? `${range}${shown.at(-1).unit} away` : `distance ${range}`].filter(Boolean).join(" · "));
  } else {
    title("Nothing found", within);
    showMessage(nothing(state, helps(again)));
  }
  announce(`${byId("results-title").textContent}. ${byId("results-note").textContent}`);
  if (focus) focusResults();
  await showStrips(hits, found.code, signal);
}

function focusResults() {
  byId("results").focus({ preventScroll: true });
  scrollTo({ top: 0 });
}

async function showStrips(items, code, signal) {
  if (items.length) results.showCodes(await api.codes(items.map((item) => item.id), signal), code);
}

// A picture has no address; its code has one, and leads to the same results where bits rank.
function searchPicture(file) {
  const again = () => searchPicture(file);
  return attempt(async (signal) => {
    byId("search").dataset.mode = "results";
    byId("search").hidden = false;
    byId("map").hidden = true;
    title("Searching …");
    if (!info) await loadInfo(signal);
    results.showWaiting();
    const { address, pixels } = await preview(file);
    signal.throwIfAborted(); // reading a picture cannot be ended, so another search may have begun
    const name = file.name || "Pasted picture";
    showQuery({ kind: "Your picture", name, picture: address, code: null }, results.bits);
    const sent = await fileToSend(file, pixels, info.limits);
    const found = await api.searchImage(sent, state, signal);
    const isByOutputs = state.rank === "outputs" || !results.isByBits;
    const upload = keepUpload((question, next) => api.searchImage(sent, question, next));
    history.pushState({ address, name, upload }, "", addressOf({ ...state, view: "search", item: null, code: found.code }));
    state = readState();
    showView();
    showQuery({ kind: "Your picture", name, picture: address, code: found.code }, results.bits);
    await showFound(found, true, signal, again, isByOutputs);
  }, again);
}

function searchVector(vector) {
  return attempt(async (signal) => {
    const found = await api.searchVector(vector, state, signal);
    const upload = keepUpload((question, next) => api.searchVector(vector, question, next));
    go({ ...state, view: "search", item: null, code: found.code }, { picture: { name: "Your embedding", upload }, focus: true });
  }, () => searchVector(vector));
}

// What is typed or pasted: a code, or an embedding where the model takes these.
function searchText(text) {
  if (!info) return "The collection is still being loaded.";
  const digits = 2 * Math.ceil(info.index.bits / 8);
  const compact = text.replace(/\s+/g, "").toLowerCase();
  if (compact.length === digits && /^[0-9a-f]+$/.test(compact)) {
    go({ ...state, view: "search", item: null, code: compact }, { focus: true });
    return "";
  }
  if (info.model.input !== "embeddings") return `A code of ${info.index.bits} bits is ${digits} hexadecimal digits.`;
  const numbers = text.replace(/[[\]]/g, " ").split(/[\s,;]+/).filter(Boolean).map(Number);
  if (!numbers.length || !numbers.every(Number.isFinite)) return "An embedding is numbers with spaces or commas between them.";
  if (info.model.width && numbers.length !== info.model.width) return `An embedding has ${info.model.width} numbers, these are ${numbers.length}.`;
  searchVector(numbers);
  return "";
}

const takesPictures = () => info?.model.input !== "embeddings";

async function loadInfo(signal) {
  info = await api.info(signal);
  results = new Results(info);
  controls.setUp(info);
  state = readState();
  controls.show(state);
  byId("facts").textContent = `${count(info.index.items, "item")} · ${info.index.bits} bits · ${info.model.method}`;
  byId("meaning").hidden = !info.model.learned_labels;
  if (!takesPictures()) askForEmbeddings();
}

// The file is not a picture, or this model does not take pictures.
function rejectPicture(message) {
  const error = takesPictures()
    ? new ServiceError("bad_image", message)
    : new ServiceError("not_pictures", "This collection is searched with embeddings or codes.");
  return attempt(() => Promise.reject(error), show);
}

function listen() {
  listenForLarge();
  byId("find-form").addEventListener("submit", (event) => {
    event.preventDefault();
    if (info) go({ ...START, labels: state.labels, name: byId("find-text").value.trim() });
  });
  listenForPictures({ isEnabled: takesPictures, onPicture: searchPicture, onText: searchText, onRejected: rejectPicture });
  byId("code-form").addEventListener("submit", (event) => {
    event.preventDefault();
    byId("code-error").textContent = searchText(byId("code-text").value);
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-item], #home, #to-search, #to-map");
    const isPlain = event.button === 0 && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey);
    if (!link || !isPlain || !info) return; // a new tab or window is the browser's work
    event.preventDefault();
    go(readAddress(new URL(link.href).search), { keepsPicture: link.id.startsWith("to-"), focus: Boolean(link.dataset.item) });
  });
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault(); // the address says what is shown, not where the focus is
    byId(state.view === "map" ? "points" : "results").focus();
  });
  addEventListener("popstate", () => { if (info) show(); });
  addEventListener("online", () => { if (byId("message").childElementCount) start(); });
}

async function start() {
  await attempt(async (signal) => {
    title("Loading …");
    await loadInfo(signal);
    isNew = true;
  }, start);
  if (info) await show();
  isNew = false;
}

listen();
start();
